// SPDX-License-Identifier: Apache-2.0

// gonvml reads a machine through go-nvml for the conformance run:
//
//	gonvml dump          every reading as one flat JSON object, the keys as read_pynvml.py has them
//	gonvml every         calls every function that go-nvml has, with zero arguments
//	gonvml events N MS   prints N events, each as a line of JSON, after a line "ready"
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "gonvml: "+format+"\n", arguments...)
	os.Exit(1)
}

func events(count int, timeout uint32) {
	set, ret := nvml.EventSetCreate()
	if ret != nvml.SUCCESS {
		fail("creating an event set: error %d", ret)
	}
	number, ret := nvml.DeviceGetCount()
	if ret != nvml.SUCCESS {
		fail("counting GPUs: error %d", ret)
	}
	for index := 0; index < number; index++ {
		device, ret := nvml.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			continue
		}
		types, ret := device.GetSupportedEventTypes()
		if ret != nvml.SUCCESS {
			continue
		}
		if ret = device.RegisterEvents(types, set); ret != nvml.SUCCESS {
			fail("registering for events of GPU %d: error %d", index, ret)
		}
	}
	fmt.Println(`{"ready": true}`)
	for ; count > 0; count-- {
		event, ret := set.Wait(timeout)
		if ret != nvml.SUCCESS {
			fail("waiting for an event: error %d", ret)
		}
		uuid, ret := event.Device.GetUUID()
		if ret != nvml.SUCCESS {
			uuid = failure(ret)
		}
		line, _ := json.Marshal(map[string]any{"uuid": uuid, "type": event.EventType,
			"data": event.EventData, "gi": event.GpuInstanceId, "ci": event.ComputeInstanceId})
		fmt.Println(string(line))
	}
	set.Free()
}

func main() {
	if len(os.Args) < 2 {
		fail("usage: gonvml dump|every|events N MS")
	}
	if ret := nvml.Init(); ret != nvml.SUCCESS {
		fail("nvmlInit: error %d", ret)
	}
	switch os.Args[1] {
	case "dump":
		text, err := json.MarshalIndent(dump(), "", " ")
		if err != nil {
			fail("%v", err)
		}
		fmt.Println(string(text))
	case "every":
		every()
	case "events":
		if len(os.Args) != 4 {
			fail("usage: gonvml events N MS")
		}
		count, first := strconv.Atoi(os.Args[2])
		timeout, second := strconv.Atoi(os.Args[3])
		if first != nil || second != nil {
			fail("'%s' and '%s' must be numbers", os.Args[2], os.Args[3])
		}
		events(count, uint32(timeout))
	default:
		fail("unknown command '%s'", os.Args[1])
	}
	nvml.Shutdown()
}
