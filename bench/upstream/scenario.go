package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// scenario is a cluster and the claims that are to be allocated in it.
type scenario struct {
	Name             string                         `json:"name"`
	Mode             string                         `json:"mode"`
	Features         map[string]bool                `json:"features"`
	NoDefaults       bool                           `json:"noDefaults"`
	Node             *corev1.Node                   `json:"node"`
	Nodes            []*corev1.Node                 `json:"nodes"`
	DeviceClasses    []*resourceapi.DeviceClass     `json:"deviceClasses"`
	ResourceSlices   []*resourceapi.ResourceSlice   `json:"resourceSlices"`
	DeviceTaintRules []*resourceapi.DeviceTaintRule `json:"deviceTaintRules"`
	Allocated        []*resourceapi.ResourceClaim   `json:"allocated"`
	AllocatedState   rawState                       `json:"allocatedState"`
	Claims           []*resourceapi.ResourceClaim   `json:"claims"`

	features structured.Features
	slices   []*allocatorSlice
}

// readScenario returns a scenario as the allocator gets to see it: nodes in name order, API defaults applied, taints of
// rules merged into the slices.
func readScenario(line []byte) (*scenario, error) {
	var read scenario
	if err := json.Unmarshal(line, &read); err != nil {
		return nil, err
	}
	if read.Mode != "" && read.Mode != "firstNodeThatFits" {
		return nil, fmt.Errorf("mode %q is not known", read.Mode)
	}
	features, err := featuresNamed(read.Features)
	if err != nil {
		return nil, err
	}
	read.features = features
	if read.Node != nil {
		read.Nodes = []*corev1.Node{read.Node}
	}
	slices.SortStableFunc(read.Nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	if !read.NoDefaults {
		for _, claim := range slices.Concat(read.Claims, read.Allocated) {
			applyDefaults(claim)
		}
	}
	mergeTaints(read.ResourceSlices, read.DeviceTaintRules)
	read.slices, err = forAllocator(read.ResourceSlices)
	return &read, err
}

// featuresNamed returns the features with the given ones switched; what is not named is on.
func featuresNamed(switches map[string]bool) (structured.Features, error) {
	features := structured.Features{
		AdminAccess:             true,
		CompatibilityGroups:     true,
		ConsumableCapacity:      true,
		DerivedAttributes:       true,
		DeviceBindingAndStatus:  true,
		DeviceTaints:            true,
		FractionalCapacityRange: true,
		ListTypeAttributes:      true,
		OptionalNodeOperations:  true,
		PartitionableDevices:    true,
		PrioritizedList:         true,
	}
	fields := map[string]*bool{
		"AdminAccess":             &features.AdminAccess,
		"CompatibilityGroups":     &features.CompatibilityGroups,
		"ConsumableCapacity":      &features.ConsumableCapacity,
		"DerivedAttributes":       &features.DerivedAttributes,
		"DeviceBindingAndStatus":  &features.DeviceBindingAndStatus,
		"DeviceTaints":            &features.DeviceTaints,
		"FractionalCapacityRange": &features.FractionalCapacityRange,
		"ListTypeAttributes":      &features.ListTypeAttributes,
		"OptionalNodeOperations":  &features.OptionalNodeOperations,
		"PartitionableDevices":    &features.PartitionableDevices,
		"PrioritizedList":         &features.PrioritizedList,
	}
	for name, on := range switches {
		field, known := fields[name]
		if !known {
			return features, fmt.Errorf("unknown feature %q", name)
		}
		*field = on
	}
	return features, nil
}

// applyDefaults does what the API server does when a claim is created.
func applyDefaults(claim *resourceapi.ResourceClaim) {
	requests := claim.Spec.Devices.Requests
	for i := range requests {
		if exactly := requests[i].Exactly; exactly != nil {
			defaultCount(&exactly.AllocationMode, &exactly.Count)
			defaultOperators(exactly.Tolerations)
		}
		for j := range requests[i].FirstAvailable {
			alternative := &requests[i].FirstAvailable[j]
			defaultCount(&alternative.AllocationMode, &alternative.Count)
			defaultOperators(alternative.Tolerations)
		}
	}
}

func defaultCount(mode *resourceapi.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourceapi.DeviceAllocationModeExactCount
	}
	if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func defaultOperators(tolerations []resourceapi.DeviceToleration) {
	for i := range tolerations {
		if tolerations[i].Operator == "" {
			tolerations[i].Operator = resourceapi.DeviceTolerationOpEqual
		}
	}
}

// mergeTaints appends the taints of rules to the devices they select, rule by rule in name order, as the slice tracker
// does. The tracker itself needs an API server; what it decides is documented: a selector's fields are compared exactly and
// must all hold, an absent field is not compared, and a rule without a selector selects nothing.
func mergeTaints(published []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule) {
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b *resourceapi.DeviceTaintRule) int { return strings.Compare(a.Name, b.Name) })
	for _, slice := range published {
		for _, rule := range rules {
			selector := rule.Spec.DeviceSelector
			if selector == nil || !selects(selector.Driver, slice.Spec.Driver) || !selects(selector.Pool, slice.Spec.Pool.Name) {
				continue
			}
			for i := range slice.Spec.Devices {
				device := &slice.Spec.Devices[i]
				if selects(selector.Device, device.Name) {
					device.Taints = append(device.Taints, resourceapi.DeviceTaint{
						Key:       rule.Spec.Taint.Key,
						Value:     rule.Spec.Taint.Value,
						Effect:    rule.Spec.Taint.Effect,
						TimeAdded: rule.Spec.Taint.TimeAdded,
					})
				}
			}
		}
	}
}

func selects(wanted *string, name string) bool {
	return wanted == nil || *wanted == name
}
