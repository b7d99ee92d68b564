// The oracle for the windows over which Knative's autoscaler averages load: reads one scenario a line, plays it through
// the buckets of knative.dev/serving, and writes the averages, one line a scenario.
//
// It is apart from the oracle for the decisions because it can use a newer version: this package needs no others.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"knative.dev/serving/pkg/autoscaler/aggregation"
)

// Scenario is what one window sees. Times are milliseconds since 1970, the window's length is in seconds.
type Scenario struct {
	Seconds  int64  `json:"seconds"`
	Weighted bool   `json:"weighted"`
	Steps    []Step `json:"steps"`
}

// Step records a value, or asks for the average.
type Step struct {
	At    int64    `json:"at"`
	Value *float64 `json:"value"`
}

type window interface {
	Record(time.Time, float64)
	WindowAverage(time.Time) float64
	IsEmpty(time.Time) bool
}

func main() {
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

func play(scenario Scenario) string {
	length := time.Duration(scenario.Seconds) * time.Second
	var buckets window = aggregation.NewTimedFloat64Buckets(length, time.Second)
	if scenario.Weighted {
		buckets = aggregation.NewWeightedFloat64Buckets(length, time.Second)
	}
	var answers []string
	for _, step := range scenario.Steps {
		at := time.UnixMilli(step.At).UTC()
		if step.Value != nil {
			buckets.Record(at, *step.Value)
		} else if buckets.IsEmpty(at) {
			answers = append(answers, "-")
		} else if scenario.Weighted {
			// The weights come from math.Exp, whose last bits depend on whether the processor fuses multiply and add.
			answers = append(answers, fmt.Sprintf("%.6f", buckets.WindowAverage(at)))
		} else {
			answers = append(answers, fmt.Sprintf("%x", math.Float64bits(buckets.WindowAverage(at))))
		}
	}
	return strings.Join(answers, " ")
}
