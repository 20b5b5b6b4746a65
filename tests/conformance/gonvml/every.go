// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// caller calls the functions of go-nvml's interface with zero arguments: 0, "", a pointer to a zero
// value, a slice of one zero value; and the handles of `known` where one is asked for.
type caller struct {
	known   map[reflect.Type]reflect.Value
	calls   int
	codes   map[int]int
	missing []string // functions that this driver does not export
	gaveUp  []string // where go-nvml itself refuses a handle that nothing but a real vGPU gives
}

func (c *caller) argument(wanted reflect.Type) reflect.Value {
	if value, there := c.known[wanted]; there {
		return value
	}
	switch wanted.Kind() {
	case reflect.Ptr:
		value := reflect.New(wanted.Elem())
		c.fill(value.Elem())
		return value
	case reflect.Slice:
		return reflect.MakeSlice(wanted, 1, 1)
	}
	return reflect.Zero(wanted)
}

// fill gives a structure what go-nvml itself needs to get as far as the driver: room for a list,
// and samples to compare.
func (c *caller) fill(value reflect.Value) {
	if value.Kind() != reflect.Struct {
		return
	}
	if room := value.FieldByName("InstanceCount"); room.IsValid() && room.CanUint() {
		room.SetUint(8)
	}
	sample := c.known[typeOf[nvml.GpmSample]()]
	for _, name := range []string{"Sample1", "Sample2"} {
		if field := value.FieldByName(name); field.IsValid() && sample.IsValid() {
			field.Set(sample)
		}
	}
}

// one calls a single function and, where that answers with a handler, each version the handler has.
func (c *caller) one(name string, function reflect.Value) {
	defer func() {
		if problem := recover(); problem != nil {
			c.gaveUp = append(c.gaveUp, name)
		}
	}()
	var arguments []reflect.Value
	count := function.Type().NumIn()
	if function.Type().IsVariadic() {
		count--
	}
	for i := 0; i < count; i++ {
		arguments = append(arguments, c.argument(function.Type().In(i)))
	}
	results := function.Call(arguments)
	c.calls++
	for _, result := range results {
		if ret, is := result.Interface().(nvml.Return); is {
			c.codes[int(ret)]++
			_ = ret.Error()
		}
		for method := 0; method < result.NumMethod(); method++ {
			version := result.Type().Method(method).Name
			if result.Kind() == reflect.Struct && isVersion(version) && exports(name, version) {
				c.one(name+"."+version, result.Method(method))
			}
		}
	}
}

// isHandler says whether a function only answers with something that has a method per version of the
// driver's function, V1 and so on. It calls nothing itself.
func isHandler(function reflect.Type) bool {
	if function.NumOut() != 1 || function.Out(0).Kind() != reflect.Struct {
		return false
	}
	for i := 0; i < function.Out(0).NumMethod(); i++ {
		if isVersion(function.Out(0).Method(i).Name) {
			return true
		}
	}
	return false
}

func isVersion(method string) bool { return len(method) == 2 && method[0] == 'V' }

// exports says whether the driver has what a function of go-nvml calls: "nvml" and the function's
// name. Version 1 of a handler goes through the function without the V where there is one; that of
// DeviceGetTemperatureV does not.
func exports(name, version string) bool {
	_, older := typeOf[nvml.Interface]().MethodByName(strings.TrimSuffix(name, "V"))
	if version == "V1" && older && name != "DeviceGetTemperatureV" {
		return has("nvml" + strings.TrimSuffix(name, "V"))
	}
	return has("nvml" + name)
}

func (c *caller) all(library reflect.Value) {
	functions := typeOf[nvml.Interface]()
	for i := 0; i < functions.NumMethod(); i++ {
		name := functions.Method(i).Name
		switch name {
		case "Shutdown", "Extensions": // called at the end; no function of NVML
			continue
		}
		if !isHandler(functions.Method(i).Type) && !exports(name, "") {
			c.missing = append(c.missing, name)
			continue
		}
		c.one(name, library.MethodByName(name))
	}
}

func typeOf[T any]() reflect.Type { return reflect.TypeOf((*T)(nil)).Elem() }

func every() {
	library := nvml.New()
	if ret := library.Init(); ret != nvml.SUCCESS {
		fail("nvmlInit: error %d", ret)
	}
	first, _ := library.DeviceGetHandleByIndex(0)
	none, _ := library.DeviceGetHandleByIndex(9999)
	devices := []nvml.Device{first, none}
	if instance, ret := first.GetMigDeviceHandleByIndex(0); ret == nvml.SUCCESS {
		devices = append(devices, instance)
	}
	instance, _ := first.GetGpuInstanceById(9999)
	compute, _ := instance.GetComputeInstanceById(9999)
	unit, _ := library.UnitGetHandleByIndex(9999)
	c := caller{codes: map[int]int{}}
	for _, device := range devices {
		set, _ := library.EventSetCreate()
		c.known = map[reflect.Type]reflect.Value{
			typeOf[nvml.Device]():          reflect.ValueOf(device),
			typeOf[nvml.GpuInstance]():     reflect.ValueOf(instance),
			typeOf[nvml.ComputeInstance](): reflect.ValueOf(compute),
			typeOf[nvml.Unit]():            reflect.ValueOf(unit),
			typeOf[nvml.EventSet]():        reflect.ValueOf(set),
		}
		if has("nvmlGpmSampleAlloc") {
			sample, _ := library.GpmSampleAlloc()
			c.known[typeOf[nvml.GpmSample]()] = reflect.ValueOf(sample)
		}
		c.missing, c.gaveUp = nil, nil
		c.all(reflect.ValueOf(library))
	}
	library.Shutdown()
	sort.Strings(c.gaveUp)
	fmt.Fprintf(os.Stderr, "not exported by this driver: %s\n", strings.Join(c.missing, " "))
	fmt.Fprintf(os.Stderr, "not callable without a vGPU: %s\n", strings.Join(c.gaveUp, " "))
	fmt.Printf("{\"functions\": %d, \"calls\": %d, \"missing\": %d, \"not_callable\": %d}\n",
		typeOf[nvml.Interface]().NumMethod(), c.calls, len(c.missing), len(c.gaveUp))
}
