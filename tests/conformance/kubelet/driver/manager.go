// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"sort"
	"sync"

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

// kubelet does with the device manager what a kubelet does with it.
type kubelet struct {
	release Release
	manager *devicemanager.ManagerImpl // nil: stopped
	sources *Sources
	mutex   sync.Mutex
	pods    map[types.UID]*v1.Pod // that are active
	foreign Stub
}

func newKubelet(release Release) *kubelet {
	return &kubelet{release: release, pods: map[types.UID]*v1.Pod{}}
}

func makePod(from Pod) *v1.Pod {
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

func containers(pod *v1.Pod) []*v1.Container {
	var all []*v1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
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

func (k *kubelet) start(ask request) error {
	var nodes []cadvisor.Node
	for _, id := range ask.NUMA {
		nodes = append(nodes, cadvisor.Node{Id: id})
	}
	store := topologymanager.NewFakeManager()
	if len(ask.Affinity) > 0 {
		mask, err := bitmask.NewBitMask(ask.Affinity...)
		if err != nil {
			return err
		}
		store = topologymanager.NewFakeManagerWithHint(&topologymanager.TopologyHint{NUMANodeAffinity: mask, Preferred: true})
	}
	manager, err := devicemanager.NewManagerImpl(nodes, store)
	if err != nil {
		return err
	}
	// What the container runtime says is running.
	all, running := containermap.NewContainerMap(), []string(nil)
	for _, from := range ask.Pods {
		pod := makePod(from)
		k.pods[pod.UID] = pod
		for _, container := range pod.Spec.Containers {
			id := from.UID + "-" + container.Name
			all.Add(from.UID, container.Name, id)
			running = append(running, id)
		}
	}
	k.manager, k.sources = manager, &Sources{ready: ask.Ready}
	return k.release.StartManager(manager, k.active, k.sources, all, running)
}

func plain(list v1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, quantity := range list {
		out[string(name)] = quantity.Value()
	}
	return out
}

func (k *kubelet) forget(uid string) {
	k.mutex.Lock()
	delete(k.pods, types.UID(uid))
	k.mutex.Unlock()
	k.manager.UpdateAllocatedDevices()
}

// admit allocates for every container, init containers first, as admission does.
func (k *kubelet) admit(from Pod) error {
	pod := makePod(from)
	k.mutex.Lock()
	k.pods[pod.UID] = pod
	k.mutex.Unlock()
	for _, container := range containers(pod) {
		if err := k.manager.Allocate(pod, container); err != nil {
			k.forget(from.UID)
			return err
		}
	}
	return nil
}

func (k *kubelet) find(uid, name string) (*v1.Pod, *v1.Container, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if pod := k.pods[types.UID(uid)]; pod != nil {
		for _, container := range containers(pod) {
			if container.Name == name {
				return pod, container, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("no container %s in pod %s", name, uid)
}

func (k *kubelet) options(uid, name string) (*Options, error) {
	pod, container, err := k.find(uid, name)
	if err != nil {
		return nil, err
	}
	got, cdi, err := k.release.RunOptions(k.manager, pod, container)
	if err != nil || got == nil {
		return nil, err
	}
	out := &Options{Envs: map[string]string{}, Annotations: map[string]string{}, CDIDevices: cdi}
	for _, env := range got.Envs {
		out.Envs[env.Name] = env.Value
	}
	for _, mount := range got.Mounts {
		out.Mounts = append(out.Mounts, map[string]any{
			"container": mount.ContainerPath, "host": mount.HostPath, "read_only": mount.ReadOnly})
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

func listed(from devicemanager.ResourceDeviceInstances) map[string][]Device {
	out := map[string][]Device{}
	for name, devices := range from {
		all := []Device{}
		for id, device := range devices {
			one := Device{ID: id, Health: device.Health}
			if device.Topology != nil {
				for _, node := range device.Topology.Nodes {
					one.NUMA = append(one.NUMA, node.ID)
				}
			}
			all = append(all, one)
		}
		sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
		out[name] = all
	}
	return out
}

func (k *kubelet) hints(uid, name string) (map[string][]Hint, error) {
	pod, container, err := k.find(uid, name)
	if err != nil {
		return nil, err
	}
	out := map[string][]Hint{}
	for name, hints := range k.manager.GetTopologyHints(pod, container) {
		out[name] = []Hint{}
		for _, hint := range hints {
			out[name] = append(out[name], Hint{NUMA: hint.NUMANodeAffinity.GetBits(), Preferred: hint.Preferred})
		}
	}
	return out, nil
}

// another plugin of the same resource, at a socket of its own, registers.
func (k *kubelet) another(ask request) error {
	var devices []*api.Device
	for _, id := range ask.IDs {
		devices = append(devices, &api.Device{ID: id, Health: api.Healthy})
	}
	k.foreign = k.release.NewStub(devices, api.DevicePluginPath+"another.sock")
	if err := k.foreign.Start(); err != nil {
		return err
	}
	return k.foreign.Register(api.KubeletSocket, ask.Resource, "")
}

func (k *kubelet) answer(ask request) (out reply, err error) {
	if k.manager == nil && ask.Op != "start" {
		return out, fmt.Errorf("the device manager is not started")
	}
	switch ask.Op {
	case "start":
		err = k.start(ask)
	case "stop":
		err = k.release.StopManager(k.manager)
		k.manager = nil
	case "ready":
		k.sources.set(ask.Ready)
	case "capacity":
		capacity, allocatable, removed := k.manager.GetCapacity()
		out.Capacity, out.Allocatable, out.Removed = plain(capacity), plain(allocatable), removed
	case "healthy":
		out.Devices = listed(k.manager.GetAllocatableDevices())
	case "admit":
		err = k.admit(ask.Pod)
	case "offer": // to see its hints before it is admitted
		pod := makePod(ask.Pod)
		k.pods[pod.UID] = pod
	case "forget":
		k.forget(ask.Pod.UID)
	case "another":
		err = k.another(ask)
	case "end another":
		err = k.foreign.Stop()
	case "hints":
		out.Hints, err = k.hints(ask.Pod.UID, ask.Container)
	case "options":
		out.Options, err = k.options(ask.Pod.UID, ask.Container)
	case "devices":
		out.Devices = listed(k.manager.GetDevices(ask.Pod.UID, ask.Container))
	default:
		err = fmt.Errorf("unknown op %q", ask.Op)
	}
	return out, err
}
