package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpa_types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/restriction"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
)

var (
	client   = &fake.Clientset{}
	informer = informers.NewSharedInformerFactory(client, 0)
)

// budget evicts running pods of a replica set, one after the other, as long as the updater may.
func budget(options Options, vpa *vpa_types.VerticalPodAutoscaler, step Step) int {
	replicas := int32(step.Configured)
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "set"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas},
	}
	must(informer.Apps().V1().ReplicaSets().Informer().GetStore().Add(set))
	pods := make([]*corev1.Pod, 0, step.Running+step.Pending)
	controller := true
	for index := range step.Running + step.Pending {
		phase := corev1.PodRunning
		if index >= step.Running {
			phase = corev1.PodPending
		}
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("pod-%d", index),
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set", Controller: &controller,
				}},
			},
			Status: corev1.PodStatus{Phase: phase},
		})
	}
	factory := restriction.NewPodsRestrictionFactory(
		client, informer, options.MinReplicas, options.Tolerance, nil, false)
	stats, creators, err := factory.GetCreatorMaps(pods, vpa)
	must(err)
	eviction := factory.NewPodsEvictionRestriction(stats, creators)
	evicted := 0
	for _, pod := range pods[:step.Running] {
		if eviction.CanEvict(pod) && eviction.Evict(pod, vpa, &record.FakeRecorder{}) == nil {
			evicted++
		}
	}
	client.ClearActions()
	return evicted
}
