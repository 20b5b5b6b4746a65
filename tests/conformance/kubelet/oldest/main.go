// SPDX-License-Identifier: Apache-2.0

// The device manager of the oldest kubelet that is built here.
package main

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"sluice.dev/sluice/tests/conformance/kubelet/driver"
)

type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

type kubelet struct {
	manager *devicemanager.ManagerImpl
	mutex   sync.Mutex
	pods    map[string]*v1.Pod
}

func (k *kubelet) active() []*v1.Pod {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	var pods []*v1.Pod
	for _, pod := range k.pods {
		pods = append(pods, pod)
	}
	return pods
}

func makePod(from driver.Pod) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: from.UID, Namespace: "default", UID: types.UID(from.UID)}}
	for _, container := range from.Containers {
		limits := v1.ResourceList{}
		for name, count := range container.Limits {
			limits[v1.ResourceName(name)] = *resource.NewQuantity(count, resource.DecimalSI)
		}
		one := v1.Container{Name: container.Name, Resources: v1.ResourceRequirements{Limits: limits, Requests: limits}}
		if container.Init {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, one)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, one)
		}
	}
	return pod
}

func (k *kubelet) Start() error {
	manager, err := devicemanager.NewManagerImpl(nil, topologymanager.NewFakeManager())
	if err != nil {
		return err
	}
	k.manager = manager
	return manager.Start(k.active, ready{}, containermap.NewContainerMap(), sets.NewString())
}

func plain(list v1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, quantity := range list {
		out[string(name)] = quantity.Value()
	}
	return out
}

func (k *kubelet) Capacity() (map[string]int64, map[string]int64, []string) {
	capacity, allocatable, removed := k.manager.GetCapacity()
	return plain(capacity), plain(allocatable), removed
}

func (k *kubelet) Admit(from driver.Pod) error {
	pod := makePod(from)
	k.mutex.Lock()
	k.pods[from.UID] = pod
	k.mutex.Unlock()
	for i := range pod.Spec.InitContainers {
		if err := k.manager.Allocate(pod, &pod.Spec.InitContainers[i]); err != nil {
			k.Forget(from.UID)
			return err
		}
	}
	for i := range pod.Spec.Containers {
		if err := k.manager.Allocate(pod, &pod.Spec.Containers[i]); err != nil {
			k.Forget(from.UID)
			return err
		}
	}
	return nil
}

func (k *kubelet) Forget(uid string) {
	k.mutex.Lock()
	delete(k.pods, uid)
	k.mutex.Unlock()
	k.manager.UpdateAllocatedDevices()
}

func (k *kubelet) RunOptions(from driver.Pod, container string) (*driver.Options, error) {
	pod := makePod(from)
	var found *v1.Container
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == container {
			found = &pod.Spec.Containers[i]
		}
	}
	got, err := k.manager.GetDeviceRunContainerOptions(pod, found)
	if err != nil || got == nil {
		return nil, err
	}
	out := &driver.Options{Envs: map[string]string{}, Annotations: map[string]string{}}
	for _, env := range got.Envs {
		out.Envs[env.Name] = env.Value
	}
	for _, mount := range got.Mounts {
		out.Mounts = append(out.Mounts, map[string]string{"container": mount.ContainerPath, "host": mount.HostPath})
	}
	for _, device := range got.Devices {
		out.Devices = append(out.Devices, map[string]string{
			"container": device.PathInContainer, "host": device.PathOnHost, "permissions": device.Permissions})
	}
	for _, annotation := range got.Annotations {
		out.Annotations[annotation.Name] = annotation.Value
	}
	return out, nil
}

func (k *kubelet) Devices(uid, container string) map[string][]string {
	out := map[string][]string{}
	for resource, devices := range k.manager.GetDevices(uid, container) {
		for id := range devices {
			out[resource] = append(out[resource], id)
		}
	}
	return out
}

func (k *kubelet) Stop() error { return k.manager.Stop() }

func main() { driver.Main(&kubelet{pods: map[string]*v1.Pod{}}) }
