package main

import "time"

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
	Request [2]*int64 `json:"request"`
	Other   [2]*int64 `json:"other"`
	Limit   [2]int64  `json:"limit"`
	OOM     *[2]int64 `json:"oom"`

	Configured int `json:"configured"`
	Running    int `json:"running"`
	Pending    int `json:"pending"`
}

func at(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

func span(milliseconds int64) time.Duration { return time.Duration(milliseconds) * time.Millisecond }
