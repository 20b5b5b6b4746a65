// SPDX-License-Identifier: Apache-2.0

// Decodes objects on standard input strictly into the types of the oldest Kubernetes that the chart is for, and
// prints a line for each problem. What Kubernetes does not define is left to `newest`.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	decode := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		serializer.SerializerOptions{Yaml: true, Strict: true})
	reader := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	count := 0
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err == nil {
			err = yaml.Unmarshal(text, &head)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if head.Kind == "" {
			continue // comments between two separators
		}
		if _, _, err := decode.Decode(text, nil, nil); runtime.IsNotRegisteredError(err) {
			continue
		} else if err != nil {
			fmt.Printf("%s %s: %v\n", head.Kind, head.Metadata.Name, err)
		}
		count++
	}
	fmt.Printf("%d objects\n", count)
}
