package podautoscaler

import (
	"context"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	scaleclient "k8s.io/client-go/scale"
	"k8s.io/client-go/tools/record"
	metricsclient "k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/monitor"
	"k8s.io/kubernetes/pkg/controller/util/selectors"
)

// NewOracle is a controller with the defaults of kube-controller-manager and without its queue, informers and event
// broadcaster: their goroutines would outlive the scenario.
func NewOracle(
	scales scaleclient.ScalesGetter,
	hpas autoscalingclient.HorizontalPodAutoscalersGetter,
	mapper apimeta.RESTMapper,
	metrics metricsclient.MetricsClient,
	pods corelisters.PodLister,
) *HorizontalController {
	return &HorizontalController{
		scaleNamespacer:              scales,
		hpaNamespacer:                hpas,
		mapper:                       mapper,
		tolerance:                    0.1,
		replicaCalc:                  NewReplicaCalculator(metrics, pods, 5*time.Minute, 30*time.Second),
		eventRecorder:                &record.FakeRecorder{},
		downscaleStabilisationWindow: 5 * time.Minute,
		monitor:                      monitor.New(),
		podLister:                    pods,
		recommendations:              map[string][]timestampedRecommendation{},
		scaleUpEvents:                map[string][]timestampedScaleEvent{},
		scaleDownEvents:              map[string][]timestampedScaleEvent{},
		hpaSelectors:                 selectors.NewBiMultimap(),
	}
}

// Reconcile is one whole round of the control loop.
func (a *HorizontalController) Reconcile(ctx context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler) error {
	return a.reconcileAutoscaler(ctx, hpa, hpa.Namespace+"/"+hpa.Name)
}
