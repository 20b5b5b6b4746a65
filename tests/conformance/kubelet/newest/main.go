// SPDX-License-Identifier: Apache-2.0

// What the newest kubelet that is built here has for device plugins.
package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
	"sluice.dev/sluice/tests/conformance/kubelet/driver"
)

// handler has this release's signatures.
type handler struct{ driver.Watcher }

func (h handler) CleanupPluginDirectory(_ klog.Logger, directory string) error {
	return h.Clean(directory)
}

func (h handler) PluginConnected(_ context.Context, resource string, from plugin.DevicePlugin) error {
	return h.Connected(resource, from)
}

func (h handler) PluginDisconnected(_ klog.Logger, resource string) { h.Disconnected(resource) }

func (h handler) PluginListAndWatchReceiver(_ klog.Logger, resource string, list *api.ListAndWatchResponse) {
	h.List(resource, list)
}

type server struct{ plugin.Server }

func (s server) Start() error { return s.Server.Start(klog.TODO()) }
func (s server) Stop() error  { return s.Server.Stop(klog.TODO()) }

type stub struct{ *plugin.Stub }

func (s stub) Start() error { return s.Stub.Start(context.Background()) }
func (s stub) Stop() error  { return s.Stub.Stop(klog.TODO()) }
func (s stub) Register(kubelet, resource, directory string) error {
	return s.Stub.Register(context.Background(), kubelet, resource, directory)
}

func main() {
	driver.Main(driver.Release{
		StartManager: func(manager *devicemanager.ManagerImpl, active devicemanager.ActivePodsFunc,
			sources *driver.Sources, containers containermap.ContainerMap, running []string) error {
			return manager.Start(klog.TODO(), active, sources, containers, sets.New(running...))
		},
		StopManager: func(manager *devicemanager.ManagerImpl) error { return manager.Stop(klog.TODO()) },
		RunOptions: func(manager *devicemanager.ManagerImpl, pod *v1.Pod, container *v1.Container) (
			*devicemanager.DeviceRunContainerOptions, []string, error) {
			options, err := manager.GetDeviceRunContainerOptions(context.Background(), pod, container)
			var cdi []string
			if options != nil {
				for _, device := range options.CDIDevices {
					cdi = append(cdi, device.Name)
				}
			}
			return options, cdi, err
		},
		NewServer: func(socket string, watcher driver.Watcher) (driver.Server, error) {
			made, err := plugin.NewServer(klog.TODO(), socket, handler{watcher}, handler{watcher})
			return server{made}, err
		},
		NewStub: func(devices []*api.Device, socket string) driver.Stub {
			return stub{plugin.NewDevicePluginStub(klog.TODO(), devices, socket, "another", false, false)}
		},
		Clean: func(manager *devicemanager.ManagerImpl, directory string) error {
			return manager.CleanupPluginDirectory(klog.TODO(), directory)
		},
		Disconnect: func(from plugin.DevicePlugin) { _ = from.(plugin.Client).Disconnect(klog.TODO()) },
		AllocateRequest: func(ids []string) *api.AllocateRequest {
			return &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: ids}}}
		},
		CDIDevices: func(from *api.ContainerAllocateResponse) (names []string) {
			for _, device := range from.CdiDevices {
				names = append(names, device.Name)
			}
			return names
		},
	})
}
