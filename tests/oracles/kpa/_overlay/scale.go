package kpa

import (
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	netv1alpha1 "knative.dev/networking/pkg/apis/networking/v1alpha1"
	autoscalingv1alpha1 "knative.dev/serving/pkg/apis/autoscaling/v1alpha1"
)

// Scale says what the scaler wants, and whether it went on to apply that to the deployment.
//
// The deployment cannot be found, so that applying fails: the only error that there can be here.
func Scale(
	ctx context.Context, pa *autoscalingv1alpha1.PodAutoscaler, sks *netv1alpha1.ServerlessService, desired int32,
) (want int32, applied bool) {
	ks := &scaler{
		listerFactory: func(schema.GroupVersionResource) (cache.GenericLister, error) {
			return nil, errors.New("there is no deployment")
		},
		activatorProbe: func(*autoscalingv1alpha1.PodAutoscaler, http.RoundTripper) (bool, error) { return true, nil },
		enqueueCB:      func(interface{}, time.Duration) {},
	}
	want, err := ks.scale(ctx, pa, sks, desired)
	return want, err != nil
}

// SetActive updates the condition that says whether the revision is active.
func SetActive(ctx context.Context, pa *autoscalingv1alpha1.PodAutoscaler, want int32, ready int) {
	computeActiveCondition(ctx, pa, podCounts{want: int(want), ready: ready})
}
