//go:build kubernetes_1_38

package main

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	kubetypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	draapi "k8s.io/dynamic-resource-allocation/api"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// What Kubernetes 1.38 has in another form than 1.37 (kubernetes_1_37.go).

type (
	allocatorSlice = draapi.ResourceSlice
	sharedDevice   = structured.DeviceID

	celBool     = types.Bool
	celBytes    = types.Bytes
	celDouble   = types.Double
	celInt      = types.Int
	celLister   = traits.Lister
	celMapper   = traits.Mapper
	celNull     = types.Null
	celOptional = types.Optional
	celString   = types.String
	celType     = types.Type
	celUint     = types.Uint
	celValue    = ref.Val
)

const celTrue = types.True

var celCostLimit = cel.CostLimit

func init() {
	// It would print each version that is none.
	runtime.ErrorHandlers = nil
}

func sharedDeviceOf(id structured.DeviceID, _ *kubetypes.UID) sharedDevice { return id }

// forAllocator returns slices in the form that the allocator takes.
func forAllocator(slices []*resourceapi.ResourceSlice) ([]*allocatorSlice, error) {
	converted := make([]*allocatorSlice, len(slices))
	for i, slice := range slices {
		converted[i] = &allocatorSlice{}
		if err := draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(slice, converted[i], nil); err != nil {
			return nil, err
		}
	}
	return converted, nil
}

// input returns a device in the form that CEL takes, which it has only as part of a slice.
func (d *device) input() (dracel.Device, error) {
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver:  d.Driver,
		Devices: []resourceapi.Device{{Attributes: d.Attributes, Capacity: d.Capacity}},
	}}
	converted, err := forAllocator([]*resourceapi.ResourceSlice{slice})
	if err != nil {
		return dracel.Device{}, err
	}
	return dracel.Device{
		Driver:                   d.Driver,
		AllowMultipleAllocations: d.AllowMultipleAllocations,
		Attributes:               converted[0].Spec.Devices[0].Attributes,
		Capacity:                 converted[0].Spec.Devices[0].Capacity,
		LookupUniqueString:       converted[0].LookupUniqueString,
	}, nil
}
