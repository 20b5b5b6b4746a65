// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// Container of a pod, and what it asks for.
type Container struct {
	Name   string           `json:"name"`
	Init   bool             `json:"init"`
	Limits map[string]int64 `json:"limits"`
}

// Pod as the kubelet admits it.
type Pod struct {
	UID        string      `json:"uid"`
	Containers []Container `json:"containers"`
}

// Options are what a container is given.
type Options struct {
	Envs        map[string]string   `json:"envs"`
	Mounts      []map[string]any    `json:"mounts"`
	Devices     []map[string]string `json:"devices"`
	Annotations map[string]string   `json:"annotations"`
	CDIDevices  []string            `json:"cdi_devices"`
}

// Device of a list, or of a container.
type Device struct {
	ID     string  `json:"id"`
	Health string  `json:"health"`
	NUMA   []int64 `json:"numa"`
}

// Hint of the device manager to the topology manager.
type Hint struct {
	NUMA      []int `json:"numa"`
	Preferred bool  `json:"preferred"`
}

type request struct {
	Op        string   `json:"op"`
	Pod       Pod      `json:"pod"`
	Container string   `json:"container"`
	Resource  string   `json:"resource"`
	IDs       []string `json:"ids"`
	Must      []string `json:"must"`
	Size      int32    `json:"size"`
	Count     int      `json:"count"`
	Seed      int64    `json:"seed"`

	NUMA     []int            `json:"numa"`     // nodes of the machine
	Affinity []int            `json:"affinity"` // what the topology manager decided
	Pods     []Pod            `json:"pods"`     // running already
	Ready    bool             `json:"ready"`    // all sources of pods were heard
	Expect   map[string]Wants `json:"expect"`
}

type reply struct {
	Error       string              `json:"error,omitempty"`
	Capacity    map[string]int64    `json:"capacity,omitempty"`
	Allocatable map[string]int64    `json:"allocatable,omitempty"`
	Removed     []string            `json:"removed,omitempty"`
	Options     *Options            `json:"options,omitempty"`
	Devices     map[string][]Device `json:"devices,omitempty"`
	Hints       map[string][]Hint   `json:"hints,omitempty"`
	IDs         []string            `json:"ids,omitempty"`
	Registered  map[string]int      `json:"registered,omitempty"`
	Restarts    *Restarts           `json:"restarts,omitempty"`
	Failures    []string            `json:"failures,omitempty"`
}

type answerer interface {
	answer(ask request) (reply, error)
}

func serve(from answerer) {
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(reply{}) // ready
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var ask request
		var said reply
		err := json.Unmarshal(lines.Bytes(), &ask)
		if err == nil {
			said, err = from.answer(ask)
		}
		if err != nil {
			said.Error = err.Error()
		}
		_ = out.Encode(said)
	}
}

// Main serves standard input until it ends: `manager` is the whole device manager, `registry` its
// registration server with a client that can be interrupted.
func Main(release Release) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "manager":
		serve(newKubelet(release))
	case len(os.Args) == 2 && os.Args[1] == "registry":
		serve(newRegistry(release))
	default:
		fmt.Fprintln(os.Stderr, "usage: driver manager|registry")
		os.Exit(64)
	}
}
