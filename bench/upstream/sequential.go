package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// sequential allocates the claims of a scenario one after the other, the state carried on, and measures each. Each is
// alone, but claims in a row that the same pod owns are allocated together and share the time.
//
// A claim costs what it costs kube-scheduler: a copy of the allocated state, an allocator made from it, the nodes in name
// order until one fits, and the state brought up to date. Expressions are compiled before, through the same cache, and
// timed apart. The answer is {name, compileMilliseconds, claims: [{claim, milliseconds, node, result} or {..., error}]}.
//
// The rehearsal is decided before the first claim, since reading and compiling have pushed what decides out of the
// processor's cache.
func sequential(line []byte, deadline time.Duration, rehearsal string) answer {
	read, err := readScenario(line)
	if err != nil {
		return inputError(line, err)
	}
	// The environment that expressions are compiled in is made for the first one.
	started := time.Now()
	cache := cacheFor(read.features)
	compileAll(read, cache)
	compiling := milliseconds(started)
	state := read.allocatedState()
	claims := make([]answer, 0, len(read.Claims))
	if err := rehearse(rehearsal, deadline); err != nil {
		return answer{"name": read.Name, "error": err.Error(), "errorKind": "rehearsal"}
	}
	// A collection of what was read would take several times as long as a claim, and fall on some of them by chance.
	runtime.GC()
	for _, together := range byPod(read.Claims) {
		started := time.Now()
		node, results, err := allocateTogether(read, state, together, cache, deadline)
		for _, result := range results {
			for i := range result.Devices.Results {
				read.count(&state, &result.Devices.Results[i])
			}
		}
		spent := milliseconds(started) / float64(len(together))
		for i, claim := range together {
			one := answer{"claim": claim.Name, "milliseconds": spent, "node": nil, "result": nil}
			switch {
			case err != nil:
				one["error"], one["errorKind"] = err.Error(), "fatal"
				if errors.Is(err, context.DeadlineExceeded) {
					one["errorKind"] = "aborted"
				}
			case results != nil:
				one["node"], one["result"] = node, &results[i]
			}
			claims = append(claims, one)
		}
	}
	return answer{"name": read.Name, "compileMilliseconds": compiling, "claims": claims}
}

// rehearse decides the scenarios of a file and forgets the answers: what a process does only once, for its first expression
// and its first objects, is done before anything is measured. Without a name there is no rehearsal.
func rehearse(file string, deadline time.Duration) error {
	if file == "" {
		return nil
	}
	lines, err := os.Open(file)
	if err != nil {
		return err
	}
	defer lines.Close()
	return readLines(lines, func(line []byte) error {
		if decided := sequential(line, deadline, ""); decided["error"] != nil {
			return fmt.Errorf("%s: %v", file, decided["error"])
		}
		return nil
	})
}

// byPod returns the claims: those in a row that the same pod owns together, others each alone.
func byPod(claims []*resourceapi.ResourceClaim) [][]*resourceapi.ResourceClaim {
	var found [][]*resourceapi.ResourceClaim
	var before types.UID
	for _, claim := range claims {
		var pod types.UID
		for _, owner := range claim.OwnerReferences {
			if owner.Kind == "Pod" {
				pod = owner.UID
				break
			}
		}
		if pod != "" && pod == before {
			found[len(found)-1] = append(found[len(found)-1], claim)
		} else {
			found = append(found, []*resourceapi.ResourceClaim{claim})
		}
		before = pod
	}
	return found
}

// allocateTogether returns the first node by name on which some claims fit and their allocations there, or none.
func allocateTogether(
	read *scenario, state structured.AllocatedState, claims []*resourceapi.ResourceClaim, cache *dracel.Cache, deadline time.Duration,
) (string, []resourceapi.AllocationResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	allocator, err := structured.NewAllocator(
		ctx, read.features, copyOf(state), classes(read.DeviceClasses), read.slices, cache,
	)
	if err != nil {
		return "", nil, err
	}
	for _, node := range read.Nodes {
		results, err := allocator.Allocate(ctx, node, claims)
		if errors.Is(err, structured.ErrFailedAllocationOnNode) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		if results != nil {
			return node.Name, results, nil
		}
	}
	return "", nil, nil
}

func copyOf(state structured.AllocatedState) structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         state.AllocatedDevices.Clone(),
		AllocatedSharedDeviceIDs: state.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity:       state.AggregatedCapacity.Clone(),
	}
}

// compileAll puts what the claims and the classes select by into the cache. What does not compile is met again later.
func compileAll(read *scenario, cache *dracel.Cache) {
	compile := func(selectors []resourceapi.DeviceSelector) {
		for _, selector := range selectors {
			if selector.CEL != nil {
				cache.GetOrCompile(selector.CEL.Expression)
			}
		}
	}
	for _, class := range read.DeviceClasses {
		compile(class.Spec.Selectors)
	}
	for _, claim := range read.Claims {
		for _, request := range claim.Spec.Devices.Requests {
			if request.Exactly != nil {
				compile(request.Exactly.Selectors)
			}
			for _, alternative := range request.FirstAvailable {
				compile(alternative.Selectors)
			}
		}
	}
}

func milliseconds(started time.Time) float64 {
	return float64(time.Since(started).Nanoseconds()) / 1e6
}
