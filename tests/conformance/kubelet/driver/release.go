// SPDX-License-Identifier: Apache-2.0

// Package driver lets a test in another process use what a kubelet has for device plugins: one JSON
// object per line in, one per line out. What answers the plugin is the upstream code of one release,
// unmodified; this is only the wire to it. The releases differ in a few signatures: struct Release
// has what is not the same in all of them.
package driver

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

// Socket is where every kubelet listens.
const Socket = api.KubeletSocket

// Server is the registration server.
type Server interface {
	Start() error
	Stop() error
}

// Stub is the plugin of upstream's own tests: somebody else's plugin here.
type Stub interface {
	Start() error
	Register(kubelet, resource, directory string) error
	Stop() error
}

// Watcher is told what the registration server and its plugin clients meet.
type Watcher interface {
	Clean(directory string) error
	Connected(resource string, from plugin.DevicePlugin) error
	Disconnected(resource string)
	List(resource string, list *api.ListAndWatchResponse)
}

// Release is one of Kubernetes.
type Release struct {
	StartManager func(manager *devicemanager.ManagerImpl, active devicemanager.ActivePodsFunc,
		sources *Sources, containers containermap.ContainerMap, running []string) error
	StopManager func(manager *devicemanager.ManagerImpl) error
	// RunOptions are for the container runtime; CDI devices are apart, older releases have none.
	RunOptions func(manager *devicemanager.ManagerImpl, pod *v1.Pod, container *v1.Container) (
		options *devicemanager.DeviceRunContainerOptions, cdi []string, err error)
	NewServer       func(socket string, watcher Watcher) (Server, error)
	NewStub         func(devices []*api.Device, socket string) Stub
	Clean           func(manager *devicemanager.ManagerImpl, directory string) error
	Disconnect      func(from plugin.DevicePlugin)
	AllocateRequest func(ids []string) *api.AllocateRequest
	CDIDevices      func(from *api.ContainerAllocateResponse) []string
}

// Sources says whether the kubelet has heard from all sources of pods.
type Sources struct {
	mutex sync.Mutex
	ready bool
}

func (s *Sources) AddSource(string) {}

func (s *Sources) AllReady() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.ready
}

func (s *Sources) set(ready bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ready = ready
}
