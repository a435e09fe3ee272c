package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const celCacheSize = 1000

// caches holds the compiled selectors, apart for each combination of gates that CEL knows: upstream keeps one compiler only,
// and making another takes long.
var caches = map[dracel.Features]*dracel.Cache{}

func cacheFor(features structured.Features) *dracel.Cache {
	key := dracel.Features{
		EnableConsumableCapacity: features.ConsumableCapacity,
		EnableListTypeAttributes: features.ListTypeAttributes,
	}
	if caches[key] == nil {
		caches[key] = dracel.NewCache(celCacheSize, key)
	}
	return caches[key]
}

// classes finds device classes by name.
type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: resourceapi.GroupName, Resource: "deviceclasses"}, name)
}

// allocate answers a scenario: the first node by name on which all claims fit, with the results; or that there is none;
// or the error that ended the attempt, which is "aborted" at the deadline.
//
// Each node gets an allocator of its own, because counter totals that one allocator keeps from node to node are a known
// defect and would hide everything else.
func allocate(line []byte, deadline time.Duration) answer {
	read, err := readScenario(line)
	if err != nil {
		return inputError(line, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	cache := cacheFor(read.features)
	for _, node := range read.Nodes {
		allocator, err := structured.NewAllocator(
			ctx, read.features, read.allocatedState(), classes(read.DeviceClasses), read.slices, cache,
		)
		if err != nil {
			return failure(ctx, read.Name, err)
		}
		results, err := allocator.Allocate(ctx, node, read.Claims)
		if errors.Is(err, structured.ErrFailedAllocationOnNode) {
			continue
		}
		if err != nil {
			return failure(ctx, read.Name, fmt.Errorf("node %s: %w", node.Name, err))
		}
		if results != nil {
			return answer{"name": read.Name, "node": node.Name, "results": results}
		}
	}
	return answer{"name": read.Name, "unsatisfiable": true}
}

func failure(ctx context.Context, name string, err error) answer {
	kind := "fatal"
	if ctx.Err() != nil {
		kind = "aborted"
	}
	return answer{"name": name, "error": err.Error(), "errorKind": kind}
}
