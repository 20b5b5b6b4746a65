// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type values map[string]any

func failure(ret nvml.Return) string { return fmt.Sprintf("error %d", int(ret)) }

// put stores a value, or what went wrong in its place.
func put[T any](out values, key string, value T, ret nvml.Return) {
	if ret != nvml.SUCCESS {
		out[key] = failure(ret)
		return
	}
	out[key] = value
}

// has says whether this driver exports a function. A call of one that it lacks would end the process.
func has(name string) bool { return nvml.Extensions().LookupSymbol(name) == nil }

func text(field []uint8) string {
	if end := bytes.IndexByte(field, 0); end >= 0 {
		field = field[:end]
	}
	return string(field)
}

func processList(list []nvml.ProcessInfo, ret nvml.Return) any {
	if ret != nvml.SUCCESS {
		return failure(ret)
	}
	sort.Slice(list, func(a, b int) bool { return list[a].Pid < list[b].Pid })
	out := [][4]any{}
	for _, process := range list {
		entry := [4]any{process.Pid, process.UsedGpuMemory, nil, nil}
		if process.GpuInstanceId != 0xffffffff {
			entry[2] = process.GpuInstanceId
		}
		if process.ComputeInstanceId != 0xffffffff {
			entry[3] = process.ComputeInstanceId
		}
		out = append(out, entry)
	}
	return out
}

func memory(out values, prefix string, device nvml.Device) {
	first, ret := device.GetMemoryInfo()
	put(out, prefix+".memory.total", first.Total, ret)
	put(out, prefix+".memory.used", first.Used, ret)
	put(out, prefix+".memory.free", first.Free, ret)
	if has("nvmlDeviceGetMemoryInfo_v2") {
		second, ret := device.GetMemoryInfo_v2()
		put(out, prefix+".memory2.total", second.Total, ret)
		put(out, prefix+".memory2.reserved", second.Reserved, ret)
		put(out, prefix+".memory2.used", second.Used, ret)
		put(out, prefix+".memory2.free", second.Free, ret)
	}
}

func identity(out values, prefix string, device nvml.Device) {
	uuid, ret := device.GetUUID()
	put(out, prefix+".uuid", uuid, ret)
	name, ret := device.GetName()
	put(out, prefix+".name", name, ret)
	serial, ret := device.GetSerial()
	put(out, prefix+".serial", serial, ret)
	vbios, ret := device.GetVbiosVersion()
	put(out, prefix+".vbios", vbios, ret)
	index, ret := device.GetIndex()
	put(out, prefix+".index", index, ret)
	minor, ret := device.GetMinorNumber()
	put(out, prefix+".minor", minor, ret)
	brand, ret := device.GetBrand()
	put(out, prefix+".brand", brand, ret)
	architecture, ret := device.GetArchitecture()
	put(out, prefix+".architecture", architecture, ret)
	if has("nvmlDeviceGetNumFans") {
		fans, ret := device.GetNumFans()
		put(out, prefix+".fans", fans, ret)
	}
	compute, ret := device.GetComputeMode()
	put(out, prefix+".compute_mode", compute, ret)
	persistence, ret := device.GetPersistenceMode()
	put(out, prefix+".persistence", persistence, ret)
	major, second, ret := device.GetCudaComputeCapability()
	put(out, prefix+".compute_capability", fmt.Sprintf("%d.%d", major, second), ret)
	pci, ret := device.GetPciInfo()
	put(out, prefix+".pci_bus_id", text(pci.BusId[:]), ret)
	put(out, prefix+".pci_device_id", pci.PciDeviceId, ret)
	generation, ret := device.GetCurrPcieLinkGeneration()
	put(out, prefix+".pcie.gen", generation, ret)
	width, ret := device.GetCurrPcieLinkWidth()
	put(out, prefix+".pcie.width", width, ret)
	generation, ret = device.GetMaxPcieLinkGeneration()
	put(out, prefix+".pcie.gen_max", generation, ret)
	width, ret = device.GetMaxPcieLinkWidth()
	put(out, prefix+".pcie.width_max", width, ret)
}

func readings(out values, prefix string, device nvml.Device) {
	utilization, ret := device.GetUtilizationRates()
	put(out, prefix+".utilization.gpu", utilization.Gpu, ret)
	put(out, prefix+".utilization.memory", utilization.Memory, ret)
	encoder, _, ret := device.GetEncoderUtilization()
	put(out, prefix+".utilization.encoder", encoder, ret)
	decoder, _, ret := device.GetDecoderUtilization()
	put(out, prefix+".utilization.decoder", decoder, ret)
	temperature, ret := device.GetTemperature(nvml.TEMPERATURE_GPU)
	put(out, prefix+".temperature_c", temperature, ret)
	power, ret := device.GetPowerUsage()
	put(out, prefix+".power_mw", power, ret)
	power, ret = device.GetPowerManagementLimit()
	put(out, prefix+".power_limit_mw", power, ret)
	power, ret = device.GetEnforcedPowerLimit()
	put(out, prefix+".enforced_limit_mw", power, ret)
	power, ret = device.GetPowerManagementDefaultLimit()
	put(out, prefix+".power_default_mw", power, ret)
	least, most, ret := device.GetPowerManagementLimitConstraints()
	put(out, prefix+".power_min_mw", least, ret)
	put(out, prefix+".power_max_mw", most, ret)
	energy, ret := device.GetTotalEnergyConsumption()
	put(out, prefix+".energy_mj", energy, ret)
	state, ret := device.GetPerformanceState()
	put(out, prefix+".pstate", state, ret)
	fan, ret := device.GetFanSpeed()
	put(out, prefix+".fan_percent", fan, ret)
	replays, ret := device.GetPcieReplayCounter()
	put(out, prefix+".replays", replays, ret)
	reasons, ret := device.GetCurrentClocksThrottleReasons()
	put(out, prefix+".throttle_reasons", reasons, ret)
	for domain, key := range []string{"graphics", "sm", "mem"} {
		clock, ret := device.GetClockInfo(nvml.ClockType(domain))
		put(out, prefix+".clocks."+key, clock, ret)
		clock, ret = device.GetMaxClockInfo(nvml.ClockType(domain))
		put(out, prefix+".clocks_max."+key, clock, ret)
	}
	for threshold, key := range map[int]string{0: "shutdown_c", 1: "slowdown_c", 3: "gpu_max_c"} {
		limit, ret := device.GetTemperatureThreshold(nvml.TemperatureThresholds(threshold))
		put(out, prefix+"."+key, limit, ret)
	}
	current, pending, ret := device.GetEccMode()
	put(out, prefix+".ecc.current", current, ret)
	put(out, prefix+".ecc.pending", pending, ret)
	for kind, name := range []string{"corrected", "uncorrected"} {
		for since, counter := range []string{"volatile", "aggregate"} {
			count, ret := device.GetTotalEccErrors(nvml.MemoryErrorType(kind), nvml.EccCounterType(since))
			put(out, prefix+".ecc."+name+"_"+counter, count, ret)
		}
	}
}

func instance(out values, mig string, device nvml.Device) {
	uuid, ret := device.GetUUID()
	put(out, mig+".uuid", uuid, ret)
	name, ret := device.GetName()
	put(out, mig+".name", name, ret)
	number, ret := device.GetGpuInstanceId()
	put(out, mig+".gi", number, ret)
	number, ret = device.GetComputeInstanceId()
	put(out, mig+".ci", number, ret)
	memory(out, mig, device)
	a, ret := device.GetAttributes()
	put(out, mig+".attributes.sm", a.MultiprocessorCount, ret)
	put(out, mig+".attributes.copy", a.SharedCopyEngineCount, ret)
	put(out, mig+".attributes.decoders", a.SharedDecoderCount, ret)
	put(out, mig+".attributes.encoders", a.SharedEncoderCount, ret)
	put(out, mig+".attributes.jpegs", a.SharedJpegCount, ret)
	put(out, mig+".attributes.ofas", a.SharedOfaCount, ret)
	put(out, mig+".attributes.gi_slices", a.GpuInstanceSliceCount, ret)
	put(out, mig+".attributes.ci_slices", a.ComputeInstanceSliceCount, ret)
	put(out, mig+".attributes.memory_mib", a.MemorySizeMB, ret)
	out[mig+".compute"] = processList(device.GetComputeRunningProcesses())
	parent, ret := device.GetDeviceHandleFromMigDeviceHandle()
	above := ""
	if ret == nvml.SUCCESS {
		above, ret = parent.GetUUID()
	}
	put(out, mig+".parent", above, ret)
	again, ret := nvml.DeviceGetHandleByUUID(uuid)
	found := ""
	if ret == nvml.SUCCESS {
		found, ret = again.GetUUID()
	}
	put(out, mig+".found", found, ret)
}

func instances(out values, prefix string, device nvml.Device) {
	current, pending, ret := device.GetMigMode()
	put(out, prefix+".mig.current", current, ret)
	put(out, prefix+".mig.pending", pending, ret)
	maximum, ret := device.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		maximum = 0
	}
	number := 0
	for slot := 0; slot < maximum; slot++ {
		if found, ret := device.GetMigDeviceHandleByIndex(slot); ret == nvml.SUCCESS {
			instance(out, fmt.Sprintf("%s.mig.%d", prefix, number), found)
			number++
		}
	}
	out[prefix+".mig.count"] = number
}

func links(out values, prefix string, device nvml.Device) {
	for link := 0; link < 18; link++ {
		state, ret := device.GetNvLinkState(link)
		if ret != nvml.SUCCESS {
			continue
		}
		key := fmt.Sprintf("%s.link.%d", prefix, link)
		out[key+".up"] = state
		remote, ret := device.GetNvLinkRemotePciInfo(link)
		put(out, key+".remote", text(remote.BusId[:]), ret)
		if has("nvmlDeviceGetNvLinkRemoteDeviceType") {
			kind, ret := device.GetNvLinkRemoteDeviceType(link)
			put(out, key+".kind", kind, ret)
		}
	}
}

func dump() values {
	out := values{}
	driver, ret := nvml.SystemGetDriverVersion()
	put(out, "machine.driver_version", driver, ret)
	cuda, ret := nvml.SystemGetCudaDriverVersion_v2()
	put(out, "machine.cuda_version", cuda, ret)
	count, ret := nvml.DeviceGetCount()
	put(out, "machine.count", count, ret)
	device := make([]nvml.Device, count)
	for index := range device {
		prefix := fmt.Sprintf("gpu.%d", index)
		device[index], ret = nvml.DeviceGetHandleByIndex(index)
		put(out, prefix+".handle", 0, ret)
		if ret != nvml.SUCCESS {
			device[index] = nil
		}
	}
	for index, found := range device {
		if found == nil {
			continue
		}
		prefix := fmt.Sprintf("gpu.%d", index)
		memory(out, prefix, found)
		identity(out, prefix, found)
		readings(out, prefix, found)
		instances(out, prefix, found)
		links(out, prefix, found)
		out[prefix+".compute"] = processList(found.GetComputeRunningProcesses())
		out[prefix+".graphics"] = processList(found.GetGraphicsRunningProcesses())
		out[prefix+".mps"] = processList(found.GetMPSComputeRunningProcesses())
		for other, peer := range device {
			if peer != nil && other != index {
				level, ret := found.GetTopologyCommonAncestor(peer)
				put(out, fmt.Sprintf("%s.level.%d", prefix, other), level, ret)
			}
		}
	}
	return out
}
