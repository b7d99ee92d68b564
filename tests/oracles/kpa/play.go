package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	netv1alpha1 "knative.dev/networking/pkg/apis/networking/v1alpha1"
	"knative.dev/pkg/logging"
	"knative.dev/serving/pkg/apis/autoscaling"
	autoscalingv1alpha1 "knative.dev/serving/pkg/apis/autoscaling/v1alpha1"
	"knative.dev/serving/pkg/autoscaler/config/autoscalerconfig"
	"knative.dev/serving/pkg/autoscaler/metrics"
	"knative.dev/serving/pkg/autoscaler/scaling"
	"knative.dev/serving/pkg/deployment"
	"knative.dev/serving/pkg/reconciler/autoscaling/config"
	"knative.dev/serving/pkg/reconciler/autoscaling/kpa"
	kparesources "knative.dev/serving/pkg/reconciler/autoscaling/kpa/resources"
	aresources "knative.dev/serving/pkg/reconciler/autoscaling/resources"
)

var (
	logger = zap.NewNop().Sugar()
	// When the clock of a bubble starts.
	start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Scenario is the life of one revision. Times are milliseconds.
type Scenario struct {
	Options Options `json:"options"`
	// Ready pods when the autoscaler starts, of a revision that is active; none for a new revision.
	Resume *int   `json:"resume"`
	Ticks  []Tick `json:"ticks"`
}

// Options are the settings of the autoscaler.
type Options struct {
	TotalValue       float64  `json:"total_value"`
	Utilisation      float64  `json:"utilisation"`
	MaxUpRate        float64  `json:"max_up_rate"`
	MaxDownRate      float64  `json:"max_down_rate"`
	StableWindow     int64    `json:"stable_window"`
	PanicWindow      float64  `json:"panic_window"`
	PanicThreshold   float64  `json:"panic_threshold"`
	BurstCapacity    *float64 `json:"burst_capacity"`
	ScaleDownDelay   int64    `json:"scale_down_delay"`
	Grace            int64    `json:"grace"`
	Retention        int64    `json:"retention"`
	ProgressDeadline int64    `json:"progress_deadline"`
	ScaleToZero      bool     `json:"scale_to_zero"`
	InitialScale     int32    `json:"initial_scale"`
	MinScale         int32    `json:"min_scale"`
	MaxScale         int32    `json:"max_scale"`
	ActivationScale  int32    `json:"activation_scale"`
}

// Tick is one evaluation: how long after the one before, which pods are ready, and the averages, if there are any.
type Tick struct {
	After    int64       `json:"after"`
	Ready    int         `json:"ready"`
	Averages *[2]float64 `json:"averages"`
}

// observed is the metric client and the pod counter.
type observed struct{ Tick }

func (o *observed) StableAndPanicConcurrency(types.NamespacedName, time.Time) (float64, float64, error) {
	if o.Averages == nil {
		return 0, 0, metrics.ErrNoData
	}
	return o.Averages[0], o.Averages[1], nil
}

func (o *observed) StableAndPanicRPS(key types.NamespacedName, now time.Time) (float64, float64, error) {
	return o.StableAndPanicConcurrency(key, now)
}

func (o *observed) ReadyCount() (int, error) { return o.Ready, nil }

func (o *observed) NotReadyCount() (int, error) { return 0, nil }

// evaluation is what the decider says at one tick, or said last while it has no data.
type evaluation struct {
	desired, excess int32
	panicking       bool
}

// evaluate asks the decider at every tick. It runs outside the bubble: the decider is told the time, and reports what
// it does to goroutines that are not of the bubble.
func evaluate(scenario Scenario) []evaluation {
	settings := settingsOf(scenario.Options)
	now := start
	seen := &observed{}
	if scenario.Resume != nil {
		seen.Ready = *scenario.Resume
	}
	decider := kparesources.MakeDecider(podAutoscaler(scenario.Options), settings.Autoscaler)
	scaler := scaling.New(context.Background(), decider.Namespace, decider.Name, seen, seen, &decider.Spec)
	scaling.StartAt(scaler, now)
	// As the multi-scaler does before the first evaluation.
	latest := evaluation{desired: -1}
	switch capacity := decider.Spec.TargetBurstCapacity; capacity {
	case -1, 0:
		latest.excess = int32(capacity)
	default:
		latest.excess = int32(float64(decider.Spec.InitialScale)*decider.Spec.TotalValue - capacity)
	}
	evaluations := make([]evaluation, 0, len(scenario.Ticks))
	for _, tick := range scenario.Ticks {
		now = now.Add(time.Duration(tick.After) * time.Millisecond)
		seen.Tick = tick
		if result := scaler.Scale(logger, now); result.ScaleValid {
			latest.desired, latest.excess = result.DesiredPodCount, result.ExcessBurstCapacity
		}
		latest.panicking = scaling.Panicking(scaler)
		evaluations = append(evaluations, latest)
	}
	return evaluations
}

// play reconciles the revision at every tick. It runs in the bubble: the scaler and the conditions read the clock.
func play(scenario Scenario, evaluations []evaluation) string {
	settings := settingsOf(scenario.Options)
	ctx := config.ToContext(context.Background(), settings)
	ctx = logging.WithLogger(ctx, logger)
	pa := podAutoscaler(scenario.Options)
	sks := &netv1alpha1.ServerlessService{}
	replicas := settings.Autoscaler.InitialScale
	// A new revision begins at its first tick.
	begin := func() {
		pa.Status.InitializeConditions()
		sks.Status.MarkActivatorEndpointsPopulated()
	}
	if scenario.Resume != nil {
		begin()
		begin = func() {}
		replicas = int32(*scenario.Resume)
		pa.Status.MarkScaleTargetInitialized()
		if *scenario.Resume > 0 {
			pa.Status.MarkActive()
		} else {
			pa.Status.MarkInactive("NoTraffic", "The target is not receiving traffic.")
		}
	}

	var answer strings.Builder
	metric := aresources.MakeMetric(pa, "", settings.Autoscaler)
	fmt.Fprintf(&answer, "%d %d", int(metric.Spec.StableWindow.Seconds()), int(metric.Spec.PanicWindow.Seconds()))
	for index, tick := range scenario.Ticks {
		time.Sleep(time.Duration(tick.After) * time.Millisecond)
		if index == 0 {
			begin()
		}
		evaluation := evaluations[index]
		want, applied := kpa.Scale(ctx, pa, sks, evaluation.desired)
		if applied {
			replicas = want
		}
		// As the reconciler does between scaling and the conditions.
		if want > 0 && evaluation.excess >= 0 {
			sks.Status.MarkActivatorEndpointsRemoved()
		} else {
			sks.Status.MarkActivatorEndpointsPopulated()
		}
		kpa.SetActive(ctx, pa, want, tick.Ready)
		mode := ""
		if evaluation.panicking {
			mode = "!"
		}
		fmt.Fprintf(&answer, " %d%s", replicas, mode)
	}
	return answer.String()
}

func settingsOf(o Options) *config.Config {
	milliseconds := func(count int64) time.Duration { return time.Duration(count) * time.Millisecond }
	capacity := -1.0
	if o.BurstCapacity != nil {
		capacity = *o.BurstCapacity
	}
	return &config.Config{
		Autoscaler: &autoscalerconfig.Config{
			EnableScaleToZero:                  o.ScaleToZero,
			ContainerConcurrencyTargetFraction: o.Utilisation,
			ContainerConcurrencyTargetDefault:  o.TotalValue,
			TargetBurstCapacity:                capacity,
			ActivatorCapacity:                  100,
			AllowZeroInitialScale:              true,
			InitialScale:                       o.InitialScale,
			MinScale:                           o.MinScale,
			MaxScale:                           o.MaxScale,
			MaxScaleUpRate:                     o.MaxUpRate,
			MaxScaleDownRate:                   o.MaxDownRate,
			StableWindow:                       milliseconds(o.StableWindow),
			PanicWindowPercentage:              o.PanicWindow,
			PanicThresholdPercentage:           o.PanicThreshold,
			ScaleToZeroGracePeriod:             milliseconds(o.Grace),
			ScaleToZeroPodRetentionPeriod:      milliseconds(o.Retention),
			ScaleDownDelay:                     milliseconds(o.ScaleDownDelay),
			PodAutoscalerClass:                 autoscaling.KPA,
		},
		Deployment: &deployment.Config{ProgressDeadline: milliseconds(o.ProgressDeadline)},
	}
}

func podAutoscaler(o Options) *autoscalingv1alpha1.PodAutoscaler {
	pa := &autoscalingv1alpha1.PodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "revision", Annotations: map[string]string{}},
		Spec: autoscalingv1alpha1.PodAutoscalerSpec{
			ScaleTargetRef: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "revision"},
			Reachability:   autoscalingv1alpha1.ReachabilityReachable,
		},
	}
	if o.ActivationScale > 0 {
		pa.Annotations[autoscaling.ActivationScaleKey] = fmt.Sprint(o.ActivationScale)
	}
	pa.Status.ServiceName = "revision"
	return pa
}
