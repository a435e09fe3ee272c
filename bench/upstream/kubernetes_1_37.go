//go:build !kubernetes_1_38

package main

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// What Kubernetes 1.37 has in another form than 1.38 (kubernetes_1_38.go).

type (
	allocatorSlice = resourceapi.ResourceSlice
	sharedDevice   = structured.SharedDeviceID

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

var sharedDeviceOf = structured.MakeSharedDeviceID

// forAllocator returns slices in the form that the allocator takes.
func forAllocator(slices []*resourceapi.ResourceSlice) ([]*allocatorSlice, error) {
	return slices, nil
}

// input returns a device in the form that CEL takes.
func (d *device) input() (dracel.Device, error) {
	return dracel.Device{
		Driver:                   d.Driver,
		AllowMultipleAllocations: d.AllowMultipleAllocations,
		Attributes:               d.Attributes,
		Capacity:                 d.Capacity,
	}, nil
}
