package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	scaleclient "k8s.io/client-go/scale"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	metricsclient "k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
)

// cluster stands for everything that the controller talks to, at one step of a scenario.
type cluster struct {
	step *Step
	now  time.Time
	// replicas are those that the target is asked for.
	replicas int32
	// pods of this step.
	pods []*v1.Pod
	// next is the metric that the controller asks for: it asks for each once a round, in the spec's order.
	next int
	// wanted is what the controller asked the target to become, if it did.
	wanted *int32
	// status is what the controller last wrote.
	status autoscaling.HorizontalPodAutoscalerStatus
}

// play gives the decisions of one scenario, one word a step.
func play(scenario *Scenario) string {
	c := &cluster{}
	controller := podautoscaler.NewOracle(scales{c}, hpas{nil, c}, mapper{}, metrics{c}, pods{c}, scenario.Flags.ours())
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	var hpa *autoscaling.HorizontalPodAutoscaler
	var words []string
	for index := range scenario.Steps {
		step := &scenario.Steps[index]
		time.Sleep(milliseconds(step.Wait))
		*c = cluster{step: step, now: time.Now(), replicas: c.after(), status: c.status}
		if step.Replicas != nil {
			c.replicas = *step.Replicas
		}
		for index := range step.Pods {
			c.pods = append(c.pods, step.Pods[index].object(index, c.now))
		}
		if step.Spec != nil {
			hpa = step.Spec.object()
		}
		// Reasons of earlier rounds would hide what this round says. Only whether it scaled to zero is the loop's own memory.
		c.status.Conditions = kept(c.status.Conditions)
		hpa.Status = c.status
		// Its error repeats the conditions.
		_ = controller.Reconcile(ctx, hpa)
		words = append(words, c.word())
	}
	return strings.Join(words, " ")
}

// after is the replicas that a round leaves.
func (c *cluster) after() int32 {
	if c.wanted != nil && !c.step.Refuse {
		return *c.wanted
	}
	return c.replicas
}

func kept(conditions []autoscaling.HorizontalPodAutoscalerCondition) (kept []autoscaling.HorizontalPodAutoscalerCondition) {
	for _, condition := range conditions {
		if condition.Type == autoscaling.ScaledToZero {
			kept = append(kept, condition)
		}
	}
	return kept
}

// letters shorten the reasons of the conditions.
var letters = map[string]string{
	"SucceededGetScale": "g", "ReadyForNewScale": "r", "ScaleUpStabilized": "u", "ScaleDownStabilized": "d",
	"SucceededRescale": "s", "FailedUpdateScale": "f",
	"ValidMetricFound": "v", "ScalingDisabled": "x",
	"FailedGetResourceMetric": "R", "FailedGetContainerResourceMetric": "C", "FailedGetPodsMetric": "P",
	"FailedGetObjectMetric": "O", "FailedGetExternalMetric": "E",
	"DesiredWithinRange": "w", "ScaleUpLimit": "U", "ScaleDownLimit": "D", "TooManyReplicas": "M", "TooFewReplicas": "m",
}

var metricNumber = regexp.MustCompile(`metric-(\d+)`)

// word is the replicas, why the loop was able to scale, which metric it followed, and what limited it.
func (c *cluster) word() string {
	replicas := c.replicas
	if c.wanted != nil {
		replicas = *c.wanted
	}
	reason := map[autoscaling.HorizontalPodAutoscalerConditionType]string{}
	followed := ""
	for _, condition := range c.status.Conditions {
		letter, known := letters[condition.Reason]
		if !known && condition.Type != autoscaling.ScaledToZero {
			panic("unknown reason " + condition.Reason)
		}
		reason[condition.Type] = letter
		if condition.Reason == "ValidMetricFound" {
			followed = "*"
			if found := metricNumber.FindStringSubmatch(condition.Message); found != nil {
				followed = found[1]
			}
		}
	}
	or := func(letter string) string {
		if letter == "" {
			return "-"
		}
		return letter
	}
	return fmt.Sprintf("%d%s%s%s%s", replicas, or(reason[autoscaling.AbleToScale]),
		or(reason[autoscaling.ScalingActive]), followed, or(reason[autoscaling.ScalingLimited]))
}

type scales struct{ *cluster }

func (s scales) Scales(string) scaleclient.ScaleInterface { return target{nil, s.cluster} }

type target struct {
	scaleclient.ScaleInterface
	*cluster
}

func (t target) Get(context.Context, schema.GroupResource, string, metav1.GetOptions) (*autoscalingv1.Scale, error) {
	observed := t.replicas
	if t.step.Observed != nil {
		observed = *t.step.Observed
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       autoscalingv1.ScaleSpec{Replicas: t.replicas},
		Status:     autoscalingv1.ScaleStatus{Replicas: observed, Selector: labels.FormatLabels(labelled)},
	}, nil
}

func (t target) Update(_ context.Context, _ schema.GroupResource, scale *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	replicas := scale.Spec.Replicas
	t.wanted = &replicas
	if t.step.Refuse {
		return nil, errors.New("refused")
	}
	return scale, nil
}

type hpas struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	*cluster
}

func (h hpas) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return h
}

func (h hpas) UpdateStatus(_ context.Context, hpa *autoscaling.HorizontalPodAutoscaler, _ metav1.UpdateOptions) (*autoscaling.HorizontalPodAutoscaler, error) {
	h.status = *hpa.Status.DeepCopy()
	return hpa, nil
}

type mapper struct{ meta.RESTMapper }

func (mapper) RESTMappings(kind schema.GroupKind, _ ...string) ([]*meta.RESTMapping, error) {
	resource := schema.GroupVersionResource{Group: kind.Group, Version: "v1", Resource: "deployments"}
	return []*meta.RESTMapping{{Resource: resource}}, nil
}

type pods struct{ *cluster }

func (p pods) List(labels.Selector) ([]*v1.Pod, error) { return p.cluster.pods, nil }

func (p pods) Pods(string) corelisters.PodNamespaceLister { return p }

func (p pods) Get(string) (*v1.Pod, error) { return nil, errors.New("not asked for") }

type metrics struct{ *cluster }

func (m metrics) reading() (*Reading, error) {
	reading := m.step.Readings[m.next]
	m.next++
	if reading == nil {
		return nil, errors.New("unavailable")
	}
	return reading, nil
}

func (m metrics) perPod() (metricsclient.PodMetricsInfo, time.Time, error) {
	reading, err := m.reading()
	if err != nil {
		return nil, time.Time{}, err
	}
	info := metricsclient.PodMetricsInfo{}
	for index, sample := range reading.Samples {
		if sample != nil {
			info[podName(index)] = metricsclient.PodMetric{
				Value: sample[0], Timestamp: m.now.Add(-milliseconds(sample[1])), Window: milliseconds(sample[2]),
			}
		}
	}
	for index, value := range reading.Strays {
		info[fmt.Sprintf("stray-%d", index)] = metricsclient.PodMetric{Timestamp: m.now, Window: time.Minute, Value: value}
	}
	return info, m.now, nil
}

func (m metrics) GetResourceMetric(context.Context, v1.ResourceName, string, labels.Selector, string) (metricsclient.PodMetricsInfo, time.Time, error) {
	return m.perPod()
}

func (m metrics) GetRawMetric(string, string, labels.Selector, labels.Selector) (metricsclient.PodMetricsInfo, time.Time, error) {
	return m.perPod()
}

func (m metrics) GetObjectMetric(string, string, *autoscaling.CrossVersionObjectReference, labels.Selector) (int64, time.Time, error) {
	reading, err := m.reading()
	if err != nil {
		return 0, time.Time{}, err
	}
	return reading.Values[0], m.now, nil
}

func (m metrics) GetExternalMetric(string, string, labels.Selector) ([]int64, time.Time, error) {
	reading, err := m.reading()
	if err != nil {
		return nil, time.Time{}, err
	}
	return reading.Values, m.now, nil
}
