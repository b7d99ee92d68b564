// The oracle for the Vertical Pod Autoscaler: reads one scenario a line, plays it through the recommender's and the
// updater's own code, and writes what they decided, one line a scenario.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"k8s.io/klog/v2"
)

func main() {
	quiet := flag.NewFlagSet("klog", flag.ExitOnError)
	klog.InitFlags(quiet)
	_ = quiet.Set("logtostderr", "false")
	_ = quiet.Set("stderrthreshold", "FATAL")
	klog.SetOutput(discard{})

	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var scenario Scenario
		if err := json.Unmarshal(lines.Bytes(), &scenario); err != nil {
			fmt.Fprintf(os.Stderr, "not a scenario: %v\n", err)
			os.Exit(1)
		}
		fmt.Fprintln(out, play(scenario))
	}
}

type discard struct{}

func (discard) Write(text []byte) (int, error) { return len(text), nil }
