package main

import (
	"encoding/hex"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

// value answers an expression of any type that reads no device, in the environment of selectors: its static type, its
// value, and what evaluating it cost.
func (e *expressions) value(read *expressionCase) answer {
	// A selector that compiles carries the environment it was compiled in.
	options := read.options()
	options.DisableCostEstimation = true
	env := e.compiler(read).CompileCELExpression("true", options).Environment
	ast, issues := env.Compile(read.Expression)
	if issues != nil {
		return answer{"name": read.Name, "compileError": issues.String()}
	}
	result := answer{"name": read.Name, "outputType": ast.OutputType().String()}
	program, err := env.Program(ast, celCostLimit(resourceapi.CELSelectorExpressionMaxCost))
	if err != nil {
		result["compileError"] = err.Error()
		return result
	}
	found, details, err := program.Eval(map[string]any{})
	if details != nil && details.ActualCost() != nil {
		result["actualCost"] = *details.ActualCost()
	}
	if err != nil {
		result["error"] = err.Error()
		return result
	}
	result["valueType"] = found.Type().TypeName()
	result["value"] = encoded(found)
	return result
}

// encoded returns a value as JSON in which its type is still visible.
func encoded(value celValue) any {
	switch value := value.(type) {
	case celBool:
		return bool(value)
	case celNull:
		return "null"
	case celInt:
		return fmt.Sprint(int64(value))
	case celUint:
		return fmt.Sprintf("%du", uint64(value))
	case celDouble:
		return fmt.Sprintf("d:%v", float64(value))
	case celString:
		return "s:" + string(value)
	case celBytes:
		return "b:" + hex.EncodeToString(value)
	case *celOptional:
		if !value.HasValue() {
			return answer{"optional": "none"}
		}
		return answer{"optional": encoded(value.GetValue())}
	case celMapper:
		entries := answer{}
		for keys := value.Iterator(); keys.HasNext() == celTrue; {
			key := keys.Next()
			entries[fmt.Sprint(encoded(key))] = encoded(value.Get(key))
		}
		return entries
	case celLister:
		items := []any{}
		for elements := value.Iterator(); elements.HasNext() == celTrue; {
			items = append(items, encoded(elements.Next()))
		}
		return items
	case *celType:
		return "type:" + value.TypeName()
	}
	return value.Type().TypeName() + ":" + fmt.Sprint(value.Value())
}
