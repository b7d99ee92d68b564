// The oracle for the Horizontal Pod Autoscaler: reads one scenario a line, plays it through whole rounds of
// kube-controller-manager's own control loop, and writes what the loop decided, one line a scenario.
//
// Each scenario runs in a bubble of testing/synctest, where the clock stands still until the scenario waits. The
// controller reads time.Now() in many places; only so do ages that lie exactly on a boundary mean the same to both sides.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
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
		gate := map[string]bool{string(features.HPAScaleToZero): scenario.Flags.ScaleToZero}
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gate); err != nil {
			t.Fatal(err)
		}
		var answer string
		synctest.Test(t, func(*testing.T) { answer = play(&scenario) })
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
