// The oracle for Knative's autoscaler (KPA): reads one scenario a line, plays it through the decider and the scaler of
// knative.dev/serving, and writes what they decided, one line a scenario.
//
// The scaler runs in a bubble of testing/synctest, where the clock stands still until the scenario waits: it and the
// conditions that it looks at read time.Now().
//
// Version 0.42.2 is the newest of which all modules can be had. For a revision that is routed to, its decider and its
// scaler are those of 0.51; its windows round differently, so they have an oracle of their own, kpa_windows.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
)

func main() {
	everything := func(string, string) (bool, error) { return true, nil }
	// synctest wants a test to run in; nothing else is used of it.
	testing.Main(everything, []testing.InternalTest{{Name: "oracle", F: answerAll}}, nil, nil)
}

func answerAll(t *testing.T) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var scenario Scenario
		if err := json.Unmarshal(lines.Bytes(), &scenario); err != nil {
			t.Fatalf("not a scenario: %v", err)
		}
		evaluations := evaluate(scenario)
		var answer string
		synctest.Test(t, func(*testing.T) { answer = play(scenario, evaluations) })
		fmt.Fprintln(out, answer)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	// Before the verdict of the test, which would follow the answers.
	os.Exit(0)
}
