// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// life of one registration server. What its clients hear is kept; it can be made to die at the n-th
// thing that they hear.
type life struct {
	release Release
	manager *devicemanager.ManagerImpl // it knows how to clean the directory; never started
	server  Server
	at      int           // number of the call at which it is to die; -1: none
	die     chan struct{} // closed then
	dead    chan struct{} // closed when it is

	mutex      sync.Mutex
	calls      int
	plugins    map[string]plugin.DevicePlugin
	lists      map[string][]Device
	registered map[string]int
}

// pass is a point at which it may die: whoever passes stays until it has.
func (l *life) pass() {
	l.mutex.Lock()
	here := l.calls
	l.calls++
	l.mutex.Unlock()
	if l.at < 0 || here < l.at {
		return
	}
	if here == l.at {
		close(l.die)
	}
	<-l.dead
}

func (l *life) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

func (l *life) Clean(directory string) error { return l.release.Clean(l.manager, directory) }

// Connected does what the device manager does: the options are asked for before Register is answered.
func (l *life) Connected(resource string, from plugin.DevicePlugin) error {
	l.pass()
	if !l.isDead() {
		if _, err := from.API().GetDevicePluginOptions(context.Background(), &api.Empty{}); err != nil {
			return err
		}
		l.pass()
	}
	if l.isDead() { // with the process this connection would end
		l.release.Disconnect(from)
		return fmt.Errorf("the server ended")
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.plugins[resource] = from
	l.registered[resource]++
	return nil
}

// Disconnected: no device of it may be used.
func (l *life) Disconnected(resource string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.lists, resource)
}

func (l *life) List(resource string, list *api.ListAndWatchResponse) {
	l.pass()
	devices := []Device{}
	for _, device := range list.Devices {
		one := Device{ID: device.ID, Health: device.Health}
		if device.Topology != nil {
			for _, node := range device.Topology.Nodes {
				one.NUMA = append(one.NUMA, node.ID)
			}
		}
		devices = append(devices, one)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.lists[resource] = devices
}

func (l *life) stop() error {
	close(l.dead)
	return l.server.Stop()
}

type registry struct {
	release Release
	life    *life // nil: stopped
}

func newRegistry(release Release) *registry { return &registry{release: release} }

func (r *registry) start(at int) error {
	manager, err := devicemanager.NewManagerImpl(nil, topologymanager.NewFakeManager())
	if err != nil {
		return err
	}
	l := &life{release: r.release, manager: manager, at: at, die: make(chan struct{}), dead: make(chan struct{}),
		plugins: map[string]plugin.DevicePlugin{}, lists: map[string][]Device{}, registered: map[string]int{}}
	if l.server, err = r.release.NewServer(Socket, l); err != nil {
		return err
	}
	if err = l.server.Start(); err != nil {
		return err
	}
	r.life = l
	return nil
}

func (r *registry) stop() error {
	l := r.life
	r.life = nil
	return l.stop()
}

func (r *registry) plugin(resource string) (api.DevicePluginClient, error) {
	r.life.mutex.Lock()
	defer r.life.mutex.Unlock()
	if from := r.life.plugins[resource]; from != nil {
		return from.API(), nil
	}
	return nil, fmt.Errorf("nobody registered %s", resource)
}

func (r *registry) allocate(resource string, ids []string) (*Options, error) {
	from, err := r.plugin(resource)
	if err != nil {
		return nil, err
	}
	said, err := from.Allocate(context.Background(), r.release.AllocateRequest(ids))
	if err != nil {
		return nil, err
	}
	if len(said.ContainerResponses) != 1 {
		return nil, fmt.Errorf("%d container responses for one request", len(said.ContainerResponses))
	}
	one := said.ContainerResponses[0]
	out := &Options{Envs: one.Envs, Annotations: one.Annotations, CDIDevices: r.release.CDIDevices(one)}
	for _, mount := range one.Mounts {
		out.Mounts = append(out.Mounts, map[string]any{
			"container": mount.ContainerPath, "host": mount.HostPath, "read_only": mount.ReadOnly})
	}
	for _, device := range one.Devices {
		out.Devices = append(out.Devices, map[string]string{
			"container": device.ContainerPath, "host": device.HostPath, "permissions": device.Permissions})
	}
	return out, nil
}

func (r *registry) prefer(ask request) ([]string, error) {
	from, err := r.plugin(ask.Resource)
	if err != nil {
		return nil, err
	}
	said, err := from.GetPreferredAllocation(context.Background(), &api.PreferredAllocationRequest{
		ContainerRequests: []*api.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs: ask.IDs, MustIncludeDeviceIDs: ask.Must, AllocationSize: ask.Size}}})
	if err != nil {
		return nil, err
	}
	if len(said.ContainerResponses) != 1 {
		return nil, fmt.Errorf("%d container responses for one request", len(said.ContainerResponses))
	}
	return said.ContainerResponses[0].DeviceIDs, nil
}

// hammer asks for one device each, `count` at a time; each answer must be the one that it was alone.
func (r *registry) hammer(ask request) []string {
	alone := map[string]*Options{}
	for _, id := range ask.IDs {
		said, err := r.allocate(ask.Resource, []string{id})
		if err != nil {
			return []string{fmt.Sprintf("%s alone: %v", id, err)}
		}
		said.Annotations = nil // their names are random
		alone[id] = said
	}
	var group sync.WaitGroup
	var mutex sync.Mutex
	var failures []string
	begin := make(chan struct{})
	for i := 0; i < ask.Count; i++ {
		group.Add(1)
		go func(id string) {
			defer group.Done()
			<-begin
			said, err := r.allocate(ask.Resource, []string{id})
			if err == nil {
				said.Annotations = nil
				if !reflect.DeepEqual(said, alone[id]) {
					err = fmt.Errorf("%v is not %v", said, alone[id])
				}
			}
			if err != nil {
				mutex.Lock()
				failures = append(failures, fmt.Sprintf("%s among many: %v", id, err))
				mutex.Unlock()
			}
		}(ask.IDs[i%len(ask.IDs)])
	}
	close(begin)
	group.Wait()
	return failures
}

// Wants is how a resource's list is to be.
type Wants struct {
	Healthy   []string `json:"healthy"`
	Unhealthy []string `json:"unhealthy"`
}

// wrong says what of the lists is not as expected; "": they are right.
func (l *life) wrong(expect map[string]Wants) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var said []string
	for name, wants := range expect {
		want := map[string]string{}
		for _, id := range wants.Healthy {
			want[id] = api.Healthy
		}
		for _, id := range wants.Unhealthy {
			want[id] = api.Unhealthy
		}
		list, known := l.lists[name]
		if !known {
			said = append(said, fmt.Sprintf("%s: no list (registered %d times)", name, l.registered[name]))
			continue
		}
		have := map[string]string{}
		for _, device := range list {
			have[device.ID] = device.Health
		}
		if len(have) != len(list) {
			said = append(said, name+": an id is listed twice")
		}
		if !reflect.DeepEqual(have, want) {
			said = append(said, fmt.Sprintf("%s: %d devices, %d expected, or their health differs", name, len(have), len(want)))
		}
	}
	for name, list := range l.lists {
		if _, known := expect[name]; !known && len(list) > 0 {
			said = append(said, fmt.Sprintf("%s: a resource that should not be there", name))
		}
	}
	sort.Strings(said)
	return strings.Join(said, "; ")
}

// settle waits until the lists are right. It returns what is wrong after the deadline.
func (l *life) settle(expect map[string]Wants, deadline time.Duration) string {
	for end := time.Now().Add(deadline); ; time.Sleep(200 * time.Microsecond) {
		wrong := l.wrong(expect)
		if wrong == "" || time.Now().After(end) {
			return wrong
		}
	}
}

func (r *registry) answer(ask request) (out reply, err error) {
	if r.life == nil && ask.Op != "start" && ask.Op != "restarts" {
		return out, fmt.Errorf("the registration server is not started")
	}
	switch ask.Op {
	case "start":
		err = r.start(-1)
	case "stop":
		err = r.stop()
	case "lists":
		r.life.mutex.Lock()
		out.Devices, out.Registered = map[string][]Device{}, map[string]int{}
		for name, list := range r.life.lists {
			out.Devices[name] = list
		}
		for name, times := range r.life.registered {
			out.Registered[name] = times
		}
		r.life.mutex.Unlock()
	case "allocate":
		out.Options, err = r.allocate(ask.Resource, ask.IDs)
	case "prefer":
		out.IDs, err = r.prefer(ask)
	case "hammer":
		out.Failures = r.hammer(ask)
	case "restarts":
		out.Restarts, err = r.restarts(ask)
	default:
		err = fmt.Errorf("unknown op %q", ask.Op)
	}
	return out, err
}
