package main

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// rawState says what is in use without saying by which claim.
type rawState struct {
	Devices          []deviceInUse `json:"devices"`
	SharedDevices    []deviceInUse `json:"sharedDevices"`
	ConsumedCapacity []deviceInUse `json:"consumedCapacity"`
}

type deviceInUse struct {
	Driver   string                                          `json:"driver"`
	Pool     string                                          `json:"pool"`
	Device   string                                          `json:"device"`
	ShareID  *types.UID                                      `json:"shareID"`
	Capacity map[resourceapi.QualifiedName]resource.Quantity `json:"capacity"`
}

func (d deviceInUse) id() structured.DeviceID {
	return structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
}

// allocatedState returns what counts as used, gathered from claims as kube-scheduler does: admin access never counts, a
// share counts as one if consumable capacity is on, everything else is exclusive.
func (s *scenario) allocatedState() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[sharedDevice](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range s.Allocated {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			s.count(&state, &result)
		}
	}
	for _, device := range s.AllocatedState.Devices {
		state.AllocatedDevices.Insert(device.id())
	}
	for _, device := range s.AllocatedState.SharedDevices {
		state.AllocatedSharedDeviceIDs.Insert(sharedDeviceOf(device.id(), device.ShareID))
	}
	for _, device := range s.AllocatedState.ConsumedCapacity {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device.id(), device.Capacity))
	}
	return state
}

func (s *scenario) count(state *structured.AllocatedState, result *resourceapi.DeviceRequestAllocationResult) {
	if result.AdminAccess != nil && *result.AdminAccess {
		return
	}
	id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
	if !s.features.ConsumableCapacity || result.ShareID == nil {
		state.AllocatedDevices.Insert(id)
		return
	}
	state.AllocatedSharedDeviceIDs.Insert(sharedDeviceOf(id, result.ShareID))
	if result.ConsumedCapacity != nil {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
	}
}
