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

// OracleFlags are those of kube-controller-manager that a decision depends on.
type OracleFlags struct {
	Tolerance                                                        float64
	DownscaleStabilisation, CPUInitialisation, InitialReadinessDelay time.Duration
}

// NewOracle is a controller without its queue, informers and event broadcaster: their goroutines would outlive the
// scenario.
func NewOracle(
	scales scaleclient.ScalesGetter,
	hpas autoscalingclient.HorizontalPodAutoscalersGetter,
	mapper apimeta.RESTMapper,
	metrics metricsclient.MetricsClient,
	pods corelisters.PodLister,
	flags OracleFlags,
) *HorizontalController {
	return &HorizontalController{
		scaleNamespacer:              scales,
		hpaNamespacer:                hpas,
		mapper:                       mapper,
		tolerance:                    flags.Tolerance,
		replicaCalc:                  NewReplicaCalculator(metrics, pods, flags.CPUInitialisation, flags.InitialReadinessDelay),
		eventRecorder:                &record.FakeRecorder{},
		downscaleStabilisationWindow: flags.DownscaleStabilisation,
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
