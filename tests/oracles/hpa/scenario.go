package main

import (
	"fmt"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	defaults "k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
)

// Scenario is rounds of the control loop of one autoscaler.
type Scenario struct {
	Flags Flags
	Steps []Step
}

// Flags are those of kube-controller-manager, the tolerance in thousandths and times in milliseconds.
type Flags struct {
	ScaleToZero bool `json:"scale_to_zero"`
	Tolerance   int64
	Downscale   int64
	CPU         int64
	Delay       int64
}

func (f *Flags) ours() podautoscaler.OracleFlags {
	return podautoscaler.OracleFlags{
		Tolerance:              float64(f.Tolerance) / 1000,
		DownscaleStabilisation: milliseconds(f.Downscale),
		CPUInitialisation:      milliseconds(f.CPU),
		InitialReadinessDelay:  milliseconds(f.Delay),
	}
}

// Step is what one round sees.
type Step struct {
	// Wait is the milliseconds that pass before the round.
	Wait int64
	// Spec is set when it is new.
	Spec *Spec
	// Replicas are what somebody else set the target to; null means what the last round left.
	Replicas *int32
	// Observed are the replicas that the target has; null means those that it was asked for.
	Observed *int32
	// Refuse makes the update of the target fail.
	Refuse bool
	Pods   []Pod
	// Readings are parallel to the metrics of the spec; null means that the metrics API fails.
	Readings []*Reading
}

type Spec struct {
	Min, Max int32
	Metrics  []Metric
	Behavior *Behavior
}

type Metric struct {
	Kind      string
	Resource  string
	Container string
	Average   bool
	Target    int64
}

type Behavior struct{ Up, Down *Rules }

type Rules struct {
	Window    *int32
	Select    *string
	Policies  []Policy
	Tolerance *int64
}

type Policy struct {
	Type   string
	Value  int32
	Period int32
}

// Pod has ages instead of times.
type Pod struct {
	Phase   string
	Deleted bool
	Ready   *Condition
	Started *int64
	// Requests are in thousandths, CPU and memory of one container after the other; null means none.
	Requests [2][2]*int64
}

type Condition struct {
	Status string
	Since  int64
}

type Reading struct {
	// Samples are parallel to the pods.
	Samples []*Sample
	// Strays are samples of pods that are no longer listed.
	Strays []int64
	// Values are those of an object (one) or of an external metric.
	Values []int64
}

// Sample is a value, its age and its window.
type Sample [3]int64

const (
	namespace = "space"
	name      = "scaled"
)

var labelled = map[string]string{"app": name}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

func podName(index int) string { return fmt.Sprintf("pod-%d", index) }

// object is the autoscaler as the API server would store it, with its own defaults filled in.
func (s *Spec) object() *autoscaling.HorizontalPodAutoscaler {
	hpa := &autoscaling.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: autoscaling.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MinReplicas:    &s.Min,
			MaxReplicas:    s.Max,
		},
	}
	for index, metric := range s.Metrics {
		hpa.Spec.Metrics = append(hpa.Spec.Metrics, metric.object(index))
	}
	if s.Behavior != nil {
		hpa.Spec.Behavior = &autoscaling.HorizontalPodAutoscalerBehavior{
			ScaleUp: s.Behavior.Up.object(), ScaleDown: s.Behavior.Down.object(),
		}
	}
	defaults.SetDefaults_HorizontalPodAutoscaler(hpa)
	return hpa
}

func (m *Metric) object(index int) autoscaling.MetricSpec {
	identifier := autoscaling.MetricIdentifier{Name: fmt.Sprintf("metric-%d", index)}
	quantity := resource.NewMilliQuantity(m.Target, resource.DecimalSI)
	target := autoscaling.MetricTarget{Type: autoscaling.ValueMetricType, Value: quantity}
	if m.Average {
		target = autoscaling.MetricTarget{Type: autoscaling.AverageValueMetricType, AverageValue: quantity}
	}
	if m.Kind == "utilisation" {
		percent := int32(m.Target)
		target = autoscaling.MetricTarget{Type: autoscaling.UtilizationMetricType, AverageUtilization: &percent}
	}
	switch m.Kind {
	case "utilisation", "use":
		if m.Container != "" {
			return autoscaling.MetricSpec{
				Type: autoscaling.ContainerResourceMetricSourceType,
				ContainerResource: &autoscaling.ContainerResourceMetricSource{
					Name: v1.ResourceName(m.Resource), Container: m.Container, Target: target,
				},
			}
		}
		return autoscaling.MetricSpec{
			Type:     autoscaling.ResourceMetricSourceType,
			Resource: &autoscaling.ResourceMetricSource{Name: v1.ResourceName(m.Resource), Target: target},
		}
	case "pods":
		return autoscaling.MetricSpec{
			Type: autoscaling.PodsMetricSourceType,
			Pods: &autoscaling.PodsMetricSource{Metric: identifier, Target: target},
		}
	case "object":
		return autoscaling.MetricSpec{
			Type: autoscaling.ObjectMetricSourceType,
			Object: &autoscaling.ObjectMetricSource{
				DescribedObject: autoscaling.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: name},
				Metric:          identifier,
				Target:          target,
			},
		}
	case "external":
		return autoscaling.MetricSpec{
			Type:     autoscaling.ExternalMetricSourceType,
			External: &autoscaling.ExternalMetricSource{Metric: identifier, Target: target},
		}
	}
	panic("unknown kind of metric " + m.Kind)
}

func (r *Rules) object() *autoscaling.HPAScalingRules {
	if r == nil {
		return nil
	}
	rules := &autoscaling.HPAScalingRules{StabilizationWindowSeconds: r.Window}
	if r.Select != nil {
		choice := autoscaling.ScalingPolicySelect(*r.Select)
		rules.SelectPolicy = &choice
	}
	for _, policy := range r.Policies {
		rules.Policies = append(rules.Policies, autoscaling.HPAScalingPolicy{
			Type: autoscaling.HPAScalingPolicyType(policy.Type), Value: policy.Value, PeriodSeconds: policy.Period,
		})
	}
	if r.Tolerance != nil {
		// As the API server hands it out: a quantity in its canonical form.
		tolerance := resource.MustParse(resource.NewMilliQuantity(*r.Tolerance, resource.DecimalSI).String())
		rules.Tolerance = &tolerance
	}
	return rules
}

func (p *Pod) object(index int, now time.Time) *v1.Pod {
	ago := func(age int64) *metav1.Time { return &metav1.Time{Time: now.Add(-milliseconds(age))} }
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName(index), Labels: labelled},
		Status:     v1.PodStatus{Phase: v1.PodPhase(p.Phase)},
	}
	if p.Deleted {
		pod.DeletionTimestamp = ago(1000)
	}
	if p.Started != nil {
		pod.Status.StartTime = ago(*p.Started)
	}
	if p.Ready != nil {
		pod.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodReady, Status: v1.ConditionStatus(p.Ready.Status), LastTransitionTime: *ago(p.Ready.Since),
		}}
	}
	for index, name := range []string{"app", "side"} {
		container := v1.Container{Name: name}
		container.Resources.Requests = v1.ResourceList{}
		for kind, amount := range p.Requests[index] {
			if amount != nil {
				name := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}[kind]
				container.Resources.Requests[name] = *resource.NewMilliQuantity(*amount, resource.DecimalSI)
			}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	return pod
}
