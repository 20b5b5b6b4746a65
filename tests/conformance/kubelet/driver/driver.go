// SPDX-License-Identifier: Apache-2.0

// Package driver lets a test in another process use a kubelet's device manager: one JSON object per
// line in, one per line out. What is behind the interface Kubelet is the upstream code of one
// release, unmodified; this is only the wire to it.
package driver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
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

// Options are what the device manager hands to the container runtime.
type Options struct {
	Envs        map[string]string   `json:"envs"`
	Mounts      []map[string]string `json:"mounts"`
	Devices     []map[string]string `json:"devices"`
	Annotations map[string]string   `json:"annotations"`
	CDIDevices  []string            `json:"cdi_devices"`
}

// Kubelet is the device manager of one release.
type Kubelet interface {
	Start() error
	Capacity() (capacity, allocatable map[string]int64, removed []string)
	// Admit allocates for every container, init containers first, as admission does.
	Admit(pod Pod) error
	// Forget says that the pod is gone.
	Forget(uid string)
	RunOptions(pod Pod, container string) (*Options, error)
	// Devices are the ids that a container has, by resource.
	Devices(uid, container string) map[string][]string
	Stop() error
}

type request struct {
	Op        string `json:"op"`
	Pod       Pod    `json:"pod"`
	Container string `json:"container"`
}

type reply struct {
	Error       string              `json:"error,omitempty"`
	Capacity    map[string]int64    `json:"capacity,omitempty"`
	Allocatable map[string]int64    `json:"allocatable,omitempty"`
	Removed     []string            `json:"removed,omitempty"`
	Options     *Options            `json:"options,omitempty"`
	Devices     map[string][]string `json:"devices,omitempty"`
}

func answer(kubelet Kubelet, pods map[string]Pod, ask request) (out reply) {
	var err error
	switch ask.Op {
	case "capacity":
		out.Capacity, out.Allocatable, out.Removed = kubelet.Capacity()
		sort.Strings(out.Removed)
	case "admit":
		if err = kubelet.Admit(ask.Pod); err == nil {
			pods[ask.Pod.UID] = ask.Pod
		}
	case "forget":
		delete(pods, ask.Pod.UID)
		kubelet.Forget(ask.Pod.UID)
	case "options":
		out.Options, err = kubelet.RunOptions(pods[ask.Pod.UID], ask.Container)
	case "devices":
		out.Devices = kubelet.Devices(ask.Pod.UID, ask.Container)
		for _, ids := range out.Devices {
			sort.Strings(ids)
		}
	case "stop":
		err = kubelet.Stop()
	default:
		err = fmt.Errorf("unknown op %q", ask.Op)
	}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// Main serves standard input until it ends.
func Main(kubelet Kubelet) {
	out := json.NewEncoder(os.Stdout)
	if err := kubelet.Start(); err != nil {
		_ = out.Encode(reply{Error: err.Error()})
		os.Exit(1)
	}
	_ = out.Encode(reply{}) // ready
	pods := map[string]Pod{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var ask request
		if err := json.Unmarshal(lines.Bytes(), &ask); err != nil {
			_ = out.Encode(reply{Error: err.Error()})
			continue
		}
		_ = out.Encode(answer(kubelet, pods, ask))
	}
}
