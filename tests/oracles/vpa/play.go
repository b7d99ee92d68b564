package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	vpa_types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/routines"
	controllerfetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/priority"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	vpa_api_util "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
)

const namespace = "default"

// world is a cluster with one workload, its VPA object and the parts of the autoscaler that look at them.
type world struct {
	options     Options
	cluster     model.ClusterState
	seen        map[*model.AggregateContainerState]bool
	vpa         *vpa_types.VerticalPodAutoscaler
	recommender logic.PodResourceRecommender
	capping     routines.RecommendationPostProcessor
}

func play(scenario Scenario) string {
	w := newWorld(scenario)
	var answer strings.Builder
	for _, step := range scenario.Steps {
		answer.WriteString(w.step(step))
	}
	return answer.String()
}

func newWorld(scenario Scenario) *world {
	o := scenario.Options
	model.InitializeAggregationsConfig(model.NewAggregationsConfig(
		span(o.Interval), o.Intervals, span(o.MemoryHalfLife), span(o.CPUHalfLife), o.OOMRatio, o.OOMBump))
	w := &world{
		options: o,
		cluster: model.NewClusterState(0),
		seen:    map[*model.AggregateContainerState]bool{},
		recommender: logic.CreatePodResourceRecommender(logic.RecommendationConfig{
			SafetyMarginFraction:       o.Margin,
			PodMinCPUMillicores:        o.PodMinCPU,
			PodMinMemoryMb:             o.PodMinMemory,
			LowerBoundCPUPercentile:    o.CPUPercentiles[0],
			TargetCPUPercentile:        o.CPUPercentiles[1],
			UpperBoundCPUPercentile:    o.CPUPercentiles[2],
			ConfidenceIntervalCPU:      span(o.CPUConfidence),
			LowerBoundMemoryPercentile: o.MemPercentiles[0],
			TargetMemoryPercentile:     o.MemPercentiles[1],
			UpperBoundMemoryPercentile: o.MemPercentiles[2],
			ConfidenceIntervalMemory:   span(o.MemoryConfidence),
		}),
		capping: routines.NewCappingRecommendationProcessor(nil),
	}
	w.vpa = &vpa_types.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vpa"},
		Spec: vpa_types.VerticalPodAutoscalerSpec{
			TargetRef: &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "workload"},
			ResourcePolicy: &vpa_types.PodResourcePolicy{
				ContainerPolicies: []vpa_types.ContainerResourcePolicy{{
					ContainerName: "*", MinAllowed: bounds(o.MinAllowed), MaxAllowed: bounds(o.MaxAllowed),
				}},
			},
		},
	}
	must(w.cluster.AddOrUpdateVpa(w.vpa, labels.SelectorFromSet(labels.Set{"app": "workload"})))
	return w
}

func (w *world) step(step Step) string {
	container := model.ContainerID{PodID: podID(step.Replica), ContainerName: name(0)}
	defer model.SetCreated(w.cluster, name(0), at(step.At), w.seen)
	switch step.Do {
	case "start":
		// A replica that is there already is replaced: its containers are remembered no longer.
		w.cluster.DeletePod(container.PodID)
		w.cluster.AddOrUpdatePod(container.PodID, labels.Set{"app": "workload"}, corev1.PodRunning)
		for index := range w.options.Containers {
			must(w.cluster.AddOrUpdateContainer(model.ContainerID{PodID: container.PodID, ContainerName: name(index)}, nil))
		}
		return ""
	case "cpu":
		return w.sample(container, step, model.ResourceCPU)
	case "memory":
		return w.sample(container, step, model.ResourceMemory)
	case "oom":
		return bit(w.cluster.RecordOOM(container, at(step.At), model.ResourceAmount(step.Value)) == nil)
	case "recommend":
		return w.recommend(step)
	case "update":
		return w.update(step)
	case "limit":
		return w.limit(step)
	case "budget":
		return fmt.Sprintf(" b%d", budget(w.options, w.vpa, step))
	}
	panic("no such step: " + step.Do)
}

func (w *world) sample(container model.ContainerID, step Step, resource model.ResourceName) string {
	return bit(w.cluster.AddSample(&model.ContainerUsageSampleWithKey{
		ContainerUsageSample: model.ContainerUsageSample{
			MeasureStart: at(step.At), Usage: model.ResourceAmount(step.Value), Resource: resource,
		},
		Container: container,
	}) == nil)
}

// recommend does what the recommender's loop does for one VPA object, and then collects expired aggregations.
func (w *world) recommend(step Step) string {
	vpa := w.cluster.VPAs()[model.VpaID{Namespace: namespace, VpaName: "vpa"}]
	resources := w.recommender.GetRecommendedPodResources(routines.GetContainerNameToAggregateStateMap(vpa))
	recommendation := logic.MapToListOfRecommendedContainerResources(resources, logic.RecommendationFormat{
		RoundCPUMillicores: w.options.RoundCPU, RoundMemoryBytes: w.options.RoundMemory,
	})
	recommendation = w.capping.Process(w.vpa, recommendation)
	vpa.UpdateRecommendation(recommendation)
	w.vpa.Status.Recommendation = recommendation
	w.cluster.RateLimitedGarbageCollectAggregateCollectionStates(context.Background(), at(step.At), deployment{})

	of := vpa_api_util.GetRecommendationForContainer(name(0), recommendation)
	if of == nil {
		return " r-"
	}
	return fmt.Sprintf(" r%s,%s,%s", amounts(of.LowerBound), amounts(of.Target), amounts(of.UpperBound))
}

func (w *world) update(step Step) string {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod"}}
	for index := range w.options.Containers {
		request := w.request(step)
		if index > 0 {
			request = step.Other
		}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name(index), Resources: corev1.ResourceRequirements{Requests: optional(request)},
		})
	}
	if step.Started != nil {
		pod.Status.StartTime = &metav1.Time{Time: at(*step.Started)}
	}
	status := corev1.ContainerStatus{Name: name(0)}
	if step.OOM != nil {
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason:    "OOMKilled",
			StartedAt: metav1.Time{Time: at(step.OOM[0])}, FinishedAt: metav1.Time{Time: at(step.OOM[1])},
		}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}

	calculator := priority.NewUpdatePriorityCalculator(w.vpa, priority.UpdateConfig{
		MinChangePriority:          w.options.MinChange,
		PodLifetimeUpdateThreshold: span(w.options.MinAge),
		EvictAfterOOMThreshold:     span(w.options.QuickOOM),
	}, processor, priority.NewProcessor())
	calculator.AddPod(pod, at(step.At), nil)
	if len(calculator.GetSortedPods(priority.NewDefaultPodEvictionAdmission())) == 0 {
		return " u-"
	}
	recommendation, _, err := processor.Apply(w.vpa, pod)
	must(err)
	urgency := priority.NewProcessor().GetUpdatePriority(pod, w.vpa, recommendation)
	return fmt.Sprintf(" u%s%x", bit(urgency.ScaleUp), math.Float64bits(urgency.ResourceDiff))
}

// request are the requests of a step, which lie near what is recommended.
func (w *world) request(step Step) [2]*int64 {
	of := vpa_api_util.GetRecommendationForContainer(name(0), w.vpa.Status.Recommendation)
	if of == nil {
		return [2]*int64{step.Request[0].request(nil), step.Request[1].request(nil)}
	}
	var cpu, memory [3]int64
	for index, list := range []corev1.ResourceList{of.LowerBound, of.Target, of.UpperBound} {
		cpu[index], memory[index] = list.Cpu().MilliValue(), list.Memory().Value()
	}
	return [2]*int64{step.Request[0].request(&cpu), step.Request[1].request(&memory)}
}

func (w *world) limit(step Step) string {
	of := vpa_api_util.GetRecommendationForContainer(name(0), w.vpa.Status.Recommendation)
	if of == nil {
		return " l-"
	}
	request := w.request(step)
	original := step.Limit
	for resource := range original {
		if request[resource] == nil {
			original[resource] *= 7
		} else {
			original[resource] *= max(*request[resource], 7)
		}
		original[resource] /= 2
	}
	limits, _ := vpa_api_util.GetProportionalLimit(bounds(original), optional(request), of.Target, nil)
	return " l" + amounts(limits)
}

var processor = vpa_api_util.NewCappingRecommendationProcessor(limitrange.NewNoopLimitsCalculator())

// deployment stands for a cluster in which the workload's controller exists.
type deployment struct{}

func (deployment) FindTopMostWellKnownOrScalable(
	_ context.Context, controller *controllerfetcher.ControllerKeyWithAPIVersion,
) (*controllerfetcher.ControllerKeyWithAPIVersion, error) {
	return controller, nil
}

func podID(replica int) model.PodID {
	return model.PodID{Namespace: namespace, PodName: fmt.Sprintf("pod-%d", replica)}
}

func name(container int) string { return fmt.Sprintf("container-%d", container) }

// bounds are CPU and memory where 0 is unset.
func bounds(of [2]int64) corev1.ResourceList {
	return optional([2]*int64{&of[0], &of[1]})
}

func optional(of [2]*int64) corev1.ResourceList {
	list := corev1.ResourceList{}
	if of[0] != nil {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(*of[0], resource.DecimalSI)
	}
	if of[1] != nil {
		list[corev1.ResourceMemory] = *resource.NewQuantity(*of[1], resource.BinarySI)
	}
	return list
}

func amounts(list corev1.ResourceList) string {
	cpu, memory := "-", "-"
	if of, found := list[corev1.ResourceCPU]; found {
		cpu = fmt.Sprint(of.MilliValue())
	}
	if of, found := list[corev1.ResourceMemory]; found {
		memory = fmt.Sprint(of.Value())
	}
	return cpu + "," + memory
}

func bit(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
