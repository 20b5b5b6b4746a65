// SPDX-License-Identifier: Apache-2.0

// library reads directories of CDI specifications with the CDI project's own package, as container runtimes do:
//
//	library list DIR...                        what it resolves and refuses, as one JSON object
//	library inject CONFIG DIR... -- DEVICE...  the OCI configuration with the devices injected
//
// A later directory has a higher priority.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "library: "+format+"\n", arguments...)
	os.Exit(1)
}

func cacheOf(dirs []string) *cdi.Cache {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		fail("%v", err)
	}
	return cache
}

func print(value any) {
	text, err := json.Marshal(value)
	if err != nil {
		fail("%v", err)
	}
	fmt.Println(string(text))
}

func list(dirs []string) {
	cache := cacheOf(dirs)
	devices := map[string]string{}
	for _, name := range cache.ListDevices() {
		devices[name] = cache.GetDevice(name).GetSpec().GetPath()
	}
	errors := map[string][]string{}
	for path, found := range cache.GetErrors() {
		for _, err := range found {
			errors[path] = append(errors[path], err.Error())
		}
	}
	print(map[string]any{"devices": devices, "errors": errors})
}

func inject(config string, dirs []string, devices []string) {
	text, err := os.ReadFile(config)
	if err != nil {
		fail("%v", err)
	}
	spec := oci.Spec{}
	if err = json.Unmarshal(text, &spec); err != nil {
		fail("%v", err)
	}
	if unresolved, err := cacheOf(dirs).InjectDevices(&spec, devices...); err != nil {
		fail("%v: %v", unresolved, err)
	}
	print(spec)
}

func main() {
	rest := os.Args[min(len(os.Args), 2):]
	split := slices.Index(rest, "--")
	switch {
	case len(rest) > 0 && os.Args[1] == "list":
		list(rest)
	case len(rest) > 0 && os.Args[1] == "inject" && split > 1:
		inject(rest[0], rest[1:split], rest[split+1:])
	default:
		fail("usage: library list DIR... | library inject CONFIG DIR... -- DEVICE...")
	}
}
