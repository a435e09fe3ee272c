// Command evictions asks Kubernetes' own controller when it evicts a pod from a tainted device.
//
// It reads JSON, one object a line, from stdin: {name, taint, added, tolerations}, a DeviceTaint, when it was added in
// seconds from now, and the DeviceTolerations of the allocation. Of each it makes a device, a claim that holds it and a
// pod that uses the claim, and runs the controller on client-go's fake for a few seconds. It writes {name, evicted} in
// the same order: after how many seconds the pod was deleted, or null if it was not.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	core "k8s.io/client-go/testing"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/devicetainteviction"
	"k8s.io/kubernetes/pkg/features"
)

const (
	namespace = "default"
	driver    = "dra.example.com"
	watched   = 6 * time.Second
)

type row struct {
	Name        string                         `json:"name"`
	Taint       resourceapi.DeviceTaint        `json:"taint"`
	Added       int                            `json:"added"`
	Tolerations []resourceapi.DeviceToleration `json:"tolerations"`
}

type answer struct {
	Name    string `json:"name"`
	Evicted *int   `json:"evicted"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "evictions:", err)
		os.Exit(1)
	}
}

func run() error {
	klog.LogToStderr(false)
	if err := utilfeature.DefaultFeatureGate.(featuregate.MutableVersionedFeatureGate).SetFromMap(
		map[string]bool{string(features.DRADeviceTaints): true}); err != nil {
		return err
	}
	// The fake knows no list that is watched.
	if err := clientfeatures.FeatureGates().(interface {
		Set(clientfeatures.Feature, bool) error
	}).Set(clientfeatures.WatchListClient, false); err != nil {
		return err
	}
	rows, err := read()
	if err != nil {
		return err
	}
	// Times of the API have no parts of a second.
	start := time.Now().Truncate(time.Second).Add(time.Second)
	var objects []runtime.Object
	for _, each := range rows {
		objects = append(objects, each.objects(start)...)
	}
	time.Sleep(time.Until(start))
	evicted := watch(objects, start)
	out := json.NewEncoder(os.Stdout)
	for _, each := range rows {
		result := answer{Name: each.Name}
		if after, found := evicted[each.Name]; found {
			result.Evicted = &after
		}
		if err := out.Encode(result); err != nil {
			return err
		}
	}
	return nil
}

func read() ([]row, error) {
	var rows []row
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var each row
		if err := json.Unmarshal(lines.Bytes(), &each); err != nil {
			return nil, err
		}
		rows = append(rows, each)
	}
	return rows, lines.Err()
}

// objects returns a slice with the tainted device, the claim that holds it and the pod that uses the claim.
func (r *row) objects(start time.Time) []runtime.Object {
	meta := metav1.ObjectMeta{Name: r.Name, Namespace: namespace, UID: types.UID(r.Name)}
	node := "node"
	r.Taint.TimeAdded = &metav1.Time{Time: start.Add(time.Duration(r.Added) * time.Second)}
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   driver,
			NodeName: &node,
			Pool:     resourceapi.ResourcePool{Name: r.Name, Generation: 1, ResourceSliceCount: 1},
			Devices:  []resourceapi.Device{{Name: "device", Taints: []resourceapi.DeviceTaint{r.Taint}}},
		},
	}
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: meta,
		Status: resourceapi.ResourceClaimStatus{
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{
					Driver: driver, Pool: r.Name, Device: "device", Request: "request", Tolerations: r.Tolerations,
				}},
			}},
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: r.Name, UID: meta.UID}},
		},
	}
	pod := &v1.Pod{
		ObjectMeta: meta,
		Spec: v1.PodSpec{
			NodeName:       node,
			ResourceClaims: []v1.PodResourceClaim{{Name: "claim", ResourceClaimName: &r.Name}},
		},
	}
	return []runtime.Object{slice, claim, pod}
}

// watch runs the controller, and returns after how many seconds it deleted each pod.
func watch(objects []runtime.Object, start time.Time) map[string]int {
	var mutex sync.Mutex
	evicted := map[string]int{}
	client := fake.NewClientset(objects...)
	client.PrependReactor("delete", "pods", func(action core.Action) (bool, runtime.Object, error) {
		mutex.Lock()
		defer mutex.Unlock()
		evicted[action.(core.DeleteAction).GetName()] = int(time.Since(start).Seconds() + 0.1)
		return false, nil, nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), watched)
	defer cancel()
	factory := informers.NewSharedInformerFactory(client, 0)
	controller := devicetainteviction.New(client,
		factory.Core().V1().Pods(),
		factory.Resource().V1().ResourceClaims(),
		factory.Resource().V1().ResourceSlices(),
		factory.Resource().V1().DeviceTaintRules(),
		factory.Resource().V1().DeviceClasses(),
		"device-taint-eviction",
	)
	factory.Start(ctx.Done())
	_ = controller.Run(ctx, 10)
	mutex.Lock()
	defer mutex.Unlock()
	return evicted
}
