// SPDX-License-Identifier: Apache-2.0

// Reads a configuration as containerd 1.7 or 2.0 does, with its own code, and
// prints what it says about CDI: "true", "false", "default", or "disabled" when the CRI plugin is.
//
// usage: runtimes containerd-1|containerd-2 FILE
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	containerd1 "github.com/containerd/containerd/services/server/config"
	containerd2 "github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/log"
)

// The CRI plugin's own section, by the version of the file.
func section(version int) string {
	switch {
	case version >= 3:
		return "io.containerd.cri.v1.runtime"
	case version == 2:
		return "io.containerd.grpc.v1.cri"
	}
	return "cri"
}

func isDisabled(plugins []string, version int) bool {
	return slices.Contains(plugins, section(version)) || slices.Contains(plugins, "io.containerd.grpc.v1.cri")
}

func ofContainerd1(file string) (any, error) {
	var found containerd1.Config
	if err := containerd1.LoadConfig(file, &found); err != nil {
		return nil, err
	}
	if isDisabled(found.DisabledPlugins, found.GetVersion()) {
		return "disabled", nil
	}
	tree := found.Plugins[section(found.GetVersion())]
	return (&tree).Get("enable_cdi"), nil
}

func ofContainerd2(file string) (any, error) {
	var found containerd2.Config
	if err := containerd2.LoadConfig(context.Background(), file, &found); err != nil {
		return nil, err
	}
	if isDisabled(found.DisabledPlugins, found.Version) {
		return "disabled", nil
	}
	plugin, _ := found.Plugins[section(found.Version)].(map[string]any)
	return plugin["enable_cdi"], nil
}

func main() {
	readers := map[string]func(string) (any, error){
		"containerd-1": ofContainerd1, "containerd-2": ofContainerd2,
	}
	log.L.Logger.SetOutput(io.Discard)
	if len(os.Args) != 3 || readers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: runtimes containerd-1|containerd-2 FILE")
		os.Exit(64)
	}
	value, err := readers[os.Args[1]](os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if value == nil {
		value = "default"
	}
	fmt.Println(value)
}
