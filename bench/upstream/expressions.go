package main

import (
	"context"
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// expressionCase is a CEL expression, with the device it is evaluated for or alone.
type expressionCase struct {
	Name       string          `json:"name"`
	Expression string          `json:"expression"`
	Env        string          `json:"env"`
	Features   map[string]bool `json:"features"`
	Device     *device         `json:"device"`
	MaxCost    json.RawMessage `json:"maxCost"`
}

// device is what a selector sees of one.
type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

// compiler is what GetCompiler returns.
type compiler interface {
	CompileCELExpression(expression string, options dracel.Options) dracel.CompilationResult
}

// expressions answers CEL cases; it keeps the environments, which take long to make.
type expressions struct {
	compilers map[dracel.Features]compiler
}

func newExpressions() *expressions {
	return &expressions{compilers: map[dracel.Features]compiler{}}
}

func (e *expressions) answer(line []byte) answer {
	var read expressionCase
	if err := json.Unmarshal(line, &read); err != nil {
		return inputError(line, err)
	}
	if read.Device == nil {
		return e.value(&read)
	}
	return e.selector(&read)
}

// selector answers whether a device matches; that evaluating fails; or that the expression does not compile.
func (e *expressions) selector(read *expressionCase) answer {
	options := read.options()
	compiled := e.compiler(read).CompileCELExpression(read.Expression, options)
	if compiled.Error != nil {
		return answer{"name": read.Name, "compileError": compiled.Error.Detail}
	}
	result := answer{"name": read.Name}
	if !options.DisableCostEstimation {
		result["maxCost"] = compiled.MaxCost
	}
	input, err := read.Device.input()
	if err != nil {
		return answer{"name": read.Name, "error": err.Error(), "errorKind": "input"}
	}
	matches, _, err := compiled.DeviceMatches(context.Background(), input)
	if err != nil {
		result["error"] = err.Error()
	} else {
		result["match"] = matches
	}
	return result
}

func (c *expressionCase) options() dracel.Options {
	kind := environment.StoredExpressions
	if c.Env == "new" {
		kind = environment.NewExpressions
	}
	return dracel.Options{EnvType: &kind, DisableCostEstimation: c.MaxCost == nil}
}

func (e *expressions) compiler(read *expressionCase) compiler {
	features := dracel.Features{
		EnableConsumableCapacity: isOn(read.Features, "ConsumableCapacity"),
		EnableListTypeAttributes: isOn(read.Features, "ListTypeAttributes"),
	}
	known, found := e.compilers[features]
	if !found {
		known = dracel.GetCompiler(features)
		e.compilers[features] = known
	}
	return known
}

func isOn(features map[string]bool, name string) bool {
	on, named := features[name]
	return on || !named
}
