package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// decode answers whether an object is one of Kubernetes 1.37: {kind, ok} or {kind, error}. Unknown and repeated fields are
// errors.
func decode(line []byte) answer {
	var named struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(line, &named); err != nil {
		return inputError(line, err)
	}
	codecs := serializer.NewCodecFactory(clientscheme.Scheme, serializer.EnableStrict)
	result := answer{"kind": named.Kind, "name": named.Metadata.Name}
	if _, _, err := codecs.UniversalDeserializer().Decode(line, nil, nil); err != nil {
		result["error"] = err.Error()
	} else {
		result["ok"] = true
	}
	return result
}
