// SPDX-License-Identifier: Apache-2.0

// What the oldest kubelet that is built here has for device plugins.
package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
	"sluice.dev/sluice/tests/conformance/kubelet/driver"
)

// handler has this release's signatures.
type handler struct{ driver.Watcher }

func (h handler) CleanupPluginDirectory(directory string) error { return h.Clean(directory) }

func (h handler) PluginConnected(resource string, from plugin.DevicePlugin) error {
	return h.Connected(resource, from)
}

func (h handler) PluginDisconnected(resource string) { h.Disconnected(resource) }

func (h handler) PluginListAndWatchReceiver(resource string, list *api.ListAndWatchResponse) {
	h.List(resource, list)
}

func main() {
	driver.Main(driver.Release{
		StartManager: func(manager *devicemanager.ManagerImpl, active devicemanager.ActivePodsFunc,
			sources *driver.Sources, containers containermap.ContainerMap, running []string) error {
			return manager.Start(active, sources, containers, sets.NewString(running...))
		},
		StopManager: (*devicemanager.ManagerImpl).Stop,
		RunOptions: func(manager *devicemanager.ManagerImpl, pod *v1.Pod, container *v1.Container) (
			*devicemanager.DeviceRunContainerOptions, []string, error) {
			options, err := manager.GetDeviceRunContainerOptions(pod, container)
			return options, nil, err
		},
		NewServer: func(socket string, watcher driver.Watcher) (driver.Server, error) {
			return plugin.NewServer(socket, handler{watcher}, handler{watcher})
		},
		NewStub: func(devices []*api.Device, socket string) driver.Stub {
			return plugin.NewDevicePluginStub(devices, socket, "another", false, false)
		},
		Clean:      (*devicemanager.ManagerImpl).CleanupPluginDirectory,
		Disconnect: func(from plugin.DevicePlugin) { _ = from.(plugin.Client).Disconnect() },
		AllocateRequest: func(ids []string) *api.AllocateRequest {
			return &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIDs: ids}}}
		},
		CDIDevices: func(*api.ContainerAllocateResponse) []string { return nil },
	})
}
