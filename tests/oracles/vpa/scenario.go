package main

import (
	"math"
	"time"
)

// Scenario is one workload's history. Times are milliseconds since 1970, CPU is in millicores, memory in bytes.
type Scenario struct {
	Options Options `json:"options"`
	Steps   []Step  `json:"steps"`
}

// Options are the recommender's flags and the policy of the VPA object.
type Options struct {
	CPUHalfLife      int64      `json:"cpu_half_life"`
	MemoryHalfLife   int64      `json:"memory_half_life"`
	Interval         int64      `json:"interval"`
	Intervals        int64      `json:"intervals"`
	OOMRatio         float64    `json:"oom_ratio"`
	OOMBump          float64    `json:"oom_bump"`
	Margin           float64    `json:"margin"`
	PodMinCPU        float64    `json:"pod_min_cpu"`
	PodMinMemory     float64    `json:"pod_min_memory"` // mebibytes
	CPUPercentiles   [3]float64 `json:"cpu_percentiles"`
	MemPercentiles   [3]float64 `json:"memory_percentiles"`
	CPUConfidence    int64      `json:"cpu_confidence"`
	MemoryConfidence int64      `json:"memory_confidence"`
	Containers       int        `json:"containers"`
	Replicas         int        `json:"replicas"`
	RoundCPU         int        `json:"round_cpu"`
	RoundMemory      int        `json:"round_memory"`
	MinAllowed       [2]int64   `json:"min_allowed"`
	MaxAllowed       [2]int64   `json:"max_allowed"`
	MinChange        float64    `json:"min_change"`
	MinAge           int64      `json:"min_age"`
	QuickOOM         int64      `json:"quick_oom"`
	MinReplicas      int        `json:"min_replicas"`
	Tolerance        float64    `json:"tolerance"`
}

// Step is one thing that happens; which fields count depends on what it is.
type Step struct {
	Do      string `json:"do"`
	At      int64  `json:"at"`
	Replica int    `json:"replica"`
	Value   int64  `json:"value"`

	Started *int64    `json:"started"`
	Request [2]Near   `json:"request"`
	Other   [2]*int64 `json:"other"`
	Limit   [2]int64  `json:"limit"` // in halves of the request
	OOM     *[2]int64 `json:"oom"`

	Configured int `json:"configured"`
	Running    int `json:"running"`
	Pending    int `json:"pending"`
}

// Near is a request that is told by where it lies; how is the kind.
type Near struct {
	Kind      int     `json:"kind"`
	By        float64 `json:"by"`
	Otherwise int64   `json:"otherwise"`
}

// request is the request, given the lower bound, the target and the upper bound, if there are any.
func (n Near) request(recommended *[3]int64) *int64 {
	value := n.Otherwise
	if n.Kind == 8 {
		return nil
	}
	if recommended != nil {
		lower, target, upper := recommended[0], recommended[1], recommended[2]
		value = [...]int64{
			max(lower-1, 0), lower, upper, upper + 1, target,
			int64(float64(target) * math.Sqrt(math.Sqrt(n.By))),
			int64(float64(target) * n.By),
			lower + n.Otherwise%(upper-lower+1),
		}[n.Kind]
	}
	return &value
}

func at(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

func span(milliseconds int64) time.Duration { return time.Duration(milliseconds) * time.Millisecond }
