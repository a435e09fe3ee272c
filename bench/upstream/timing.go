package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// timeSelectors measures how long upstream takes to compile selectors and to evaluate each for many devices.
//
// Lines with an "expression" are the selectors, lines with a "device" the devices. The answer to each selector is
// {expression, devices, matches, errors, compileNanoseconds, evaluationNanoseconds}: the second time is that of one
// DeviceMatches, over all devices one after the other; both are medians of some rounds.
func timeSelectors(in io.Reader, out io.Writer, rounds int) error {
	var selectors []string
	var devices []dracel.Device
	err := readLines(in, func(line []byte) error {
		var read expressionCase
		if err := json.Unmarshal(line, &read); err != nil {
			return err
		}
		if read.Device == nil {
			selectors = append(selectors, read.Expression)
			return nil
		}
		input, err := read.Device.input()
		devices = append(devices, input)
		return err
	})
	if err != nil {
		return err
	}
	if len(devices) == 0 || rounds < 1 {
		return errors.New("there is nothing to measure: devices and rounds have to be at least one")
	}
	compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, selector := range selectors {
		if err := encoder.Encode(timeSelector(compiler, selector, devices, rounds)); err != nil {
			return err
		}
	}
	return nil
}

func timeSelector(compiler compiler, selector string, devices []dracel.Device, rounds int) answer {
	result := answer{"expression": selector, "devices": len(devices)}
	// The allocator does not estimate costs either.
	options := dracel.Options{DisableCostEstimation: true}
	compiled := compiler.CompileCELExpression(selector, options)
	if compiled.Error != nil {
		result["compileError"] = compiled.Error.Detail
		return result
	}
	result["compileNanoseconds"] = median(rounds, func() { compiler.CompileCELExpression(selector, options) })
	matches, failures := 0, 0
	nanoseconds := median(rounds, func() {
		matches, failures = 0, 0
		for i := range devices {
			matched, _, err := compiled.DeviceMatches(context.Background(), devices[i])
			switch {
			case err != nil:
				failures++
			case matched:
				matches++
			}
		}
	})
	result["evaluationNanoseconds"] = float64(nanoseconds) / float64(len(devices))
	result["matches"], result["errors"] = matches, failures
	return result
}

// median returns how many nanoseconds something takes, in the middle of some rounds.
func median(rounds int, run func()) int64 {
	times := make([]int64, rounds)
	for i := range times {
		started := time.Now()
		run()
		times[i] = time.Since(started).Nanoseconds()
	}
	slices.Sort(times)
	return times[len(times)/2]
}
