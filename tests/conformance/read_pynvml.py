# SPDX-License-Identifier: Apache-2.0
"""Reads the whole machine through nvidia-ml-py and prints it as JSON: one flat object of
"gpu.0.uuid": value. A call that fails gives the string "error N", N being NVML's number.
Run inside the virtual environment, below `sluice sim exec`. Keys are explained in values.py."""

import json
import sys

import pynvml as nvml

FUNCTION_NOT_FOUND = 13


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        return f"error {error.value}"


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def pick(value, *names):
    """Fields of a structure, or the error in the place of each."""
    if isinstance(value, str):
        return [value] * len(names)
    return [getattr(value, name) for name in names]


def newest(names, handle):
    """The first of these functions that the driver has: what callers of several driver ages do."""
    for name in names:
        answer = attempt(getattr(nvml, name), handle)
        if answer != f"error {FUNCTION_NOT_FOUND}":
            return answer
    return answer


def processes(kind, handle):
    base = f"nvmlDeviceGet{kind}RunningProcesses"
    found = newest((f"{base}_v3", f"{base}_v2"), handle)
    if isinstance(found, str):
        return found
    whole = 0xFFFFFFFF
    return sorted(
        [p.pid, p.usedGpuMemory, *(None if i == whole else i for i in (p.gpuInstanceId, p.computeInstanceId))]
        for p in found
    )


def memory(out, prefix, handle):
    out[f"{prefix}.memory.total"], out[f"{prefix}.memory.used"], out[f"{prefix}.memory.free"] = pick(
        attempt(nvml.nvmlDeviceGetMemoryInfo, handle), "total", "used", "free")
    second = attempt(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
    if second != f"error {FUNCTION_NOT_FOUND}":
        names = ("total", "reserved", "used", "free")
        for name, value in zip(names, pick(second, *names)):
            out[f"{prefix}.memory2.{name}"] = value


def identity(out, prefix, handle):
    for key, function in (
        ("uuid", nvml.nvmlDeviceGetUUID), ("name", nvml.nvmlDeviceGetName),
        ("serial", nvml.nvmlDeviceGetSerial), ("vbios", nvml.nvmlDeviceGetVbiosVersion),
        ("index", nvml.nvmlDeviceGetIndex), ("minor", nvml.nvmlDeviceGetMinorNumber),
        ("brand", nvml.nvmlDeviceGetBrand), ("architecture", nvml.nvmlDeviceGetArchitecture),
        ("compute_mode", nvml.nvmlDeviceGetComputeMode), ("persistence", nvml.nvmlDeviceGetPersistenceMode),
    ):
        out[f"{prefix}.{key}"] = text(attempt(function, handle))
    fans = attempt(nvml.nvmlDeviceGetNumFans, handle)
    if fans != f"error {FUNCTION_NOT_FOUND}":
        out[f"{prefix}.fans"] = fans
    capability = attempt(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    out[f"{prefix}.compute_capability"] = capability if isinstance(capability, str) else "%d.%d" % tuple(capability)
    pci = attempt(nvml.nvmlDeviceGetPciInfo, handle)
    out[f"{prefix}.pci_bus_id"], out[f"{prefix}.pci_device_id"] = pick(pci, "busId", "pciDeviceId")
    out[f"{prefix}.pci_bus_id"] = text(out[f"{prefix}.pci_bus_id"])
    for key, function in (
        ("gen", nvml.nvmlDeviceGetCurrPcieLinkGeneration), ("width", nvml.nvmlDeviceGetCurrPcieLinkWidth),
        ("gen_max", nvml.nvmlDeviceGetMaxPcieLinkGeneration), ("width_max", nvml.nvmlDeviceGetMaxPcieLinkWidth),
    ):
        out[f"{prefix}.pcie.{key}"] = attempt(function, handle)


def readings(out, prefix, handle):
    out[f"{prefix}.utilization.gpu"], out[f"{prefix}.utilization.memory"] = pick(
        attempt(nvml.nvmlDeviceGetUtilizationRates, handle), "gpu", "memory")
    for key, function in (
        ("encoder", nvml.nvmlDeviceGetEncoderUtilization), ("decoder", nvml.nvmlDeviceGetDecoderUtilization),
    ):
        answer = attempt(function, handle)
        out[f"{prefix}.utilization.{key}"] = answer if isinstance(answer, str) else answer[0]
    out[f"{prefix}.temperature_c"] = attempt(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
    for key, function in (
        ("power_mw", nvml.nvmlDeviceGetPowerUsage), ("power_limit_mw", nvml.nvmlDeviceGetPowerManagementLimit),
        ("enforced_limit_mw", nvml.nvmlDeviceGetEnforcedPowerLimit),
        ("power_default_mw", nvml.nvmlDeviceGetPowerManagementDefaultLimit),
        ("energy_mj", nvml.nvmlDeviceGetTotalEnergyConsumption), ("pstate", nvml.nvmlDeviceGetPerformanceState),
        ("fan_percent", nvml.nvmlDeviceGetFanSpeed), ("replays", nvml.nvmlDeviceGetPcieReplayCounter),
        ("throttle_reasons", nvml.nvmlDeviceGetCurrentClocksThrottleReasons),
    ):
        out[f"{prefix}.{key}"] = attempt(function, handle)
    limits = attempt(nvml.nvmlDeviceGetPowerManagementLimitConstraints, handle)
    out[f"{prefix}.power_min_mw"], out[f"{prefix}.power_max_mw"] = [limits] * 2 if isinstance(limits, str) else limits
    for key, domain in (("graphics", 0), ("sm", 1), ("mem", 2)):
        out[f"{prefix}.clocks.{key}"] = attempt(nvml.nvmlDeviceGetClockInfo, handle, domain)
        out[f"{prefix}.clocks_max.{key}"] = attempt(nvml.nvmlDeviceGetMaxClockInfo, handle, domain)
    for key, threshold in (("shutdown_c", 0), ("slowdown_c", 1), ("gpu_max_c", 3)):
        out[f"{prefix}.{key}"] = attempt(nvml.nvmlDeviceGetTemperatureThreshold, handle, threshold)
    mode = attempt(nvml.nvmlDeviceGetEccMode, handle)
    out[f"{prefix}.ecc.current"], out[f"{prefix}.ecc.pending"] = [mode] * 2 if isinstance(mode, str) else mode
    for kind, error in (("corrected", 0), ("uncorrected", 1)):
        for since, counter in (("volatile", 0), ("aggregate", 1)):
            out[f"{prefix}.ecc.{kind}_{since}"] = attempt(nvml.nvmlDeviceGetTotalEccErrors, handle, error, counter)


def instances(out, prefix, handle):
    mode = attempt(nvml.nvmlDeviceGetMigMode, handle)
    out[f"{prefix}.mig.current"], out[f"{prefix}.mig.pending"] = [mode] * 2 if isinstance(mode, str) else mode
    maximum = attempt(nvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    number = 0
    for slot in range(maximum if isinstance(maximum, int) else 0):
        instance = attempt(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot)
        if isinstance(instance, str):
            continue
        mig = f"{prefix}.mig.{number}"
        number += 1
        out[f"{mig}.uuid"] = text(attempt(nvml.nvmlDeviceGetUUID, instance))
        out[f"{mig}.name"] = text(attempt(nvml.nvmlDeviceGetName, instance))
        out[f"{mig}.gi"] = attempt(nvml.nvmlDeviceGetGpuInstanceId, instance)
        out[f"{mig}.ci"] = attempt(nvml.nvmlDeviceGetComputeInstanceId, instance)
        memory(out, mig, instance)
        fields = {"sm": "multiprocessorCount", "copy": "sharedCopyEngineCount", "decoders": "sharedDecoderCount",
                  "encoders": "sharedEncoderCount", "jpegs": "sharedJpegCount", "ofas": "sharedOfaCount",
                  "gi_slices": "gpuInstanceSliceCount", "ci_slices": "computeInstanceSliceCount",
                  "memory_mib": "memorySizeMB"}
        values = pick(attempt(nvml.nvmlDeviceGetAttributes_v2, instance), *fields.values())
        out.update({f"{mig}.attributes.{key}": value for key, value in zip(fields, values)})
        out[f"{mig}.compute"] = processes("Compute", instance)
        parent = attempt(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, instance)
        out[f"{mig}.parent"] = parent if isinstance(parent, str) else text(attempt(nvml.nvmlDeviceGetUUID, parent))
        again = attempt(nvml.nvmlDeviceGetHandleByUUID, out[f"{mig}.uuid"].encode())
        out[f"{mig}.found"] = again if isinstance(again, str) else text(attempt(nvml.nvmlDeviceGetUUID, again))
    out[f"{prefix}.mig.count"] = number


def links(out, prefix, handle):
    for link in range(18):
        state = attempt(nvml.nvmlDeviceGetNvLinkState, handle, link)
        if isinstance(state, str):
            continue
        out[f"{prefix}.link.{link}.up"] = state
        remote = attempt(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        out[f"{prefix}.link.{link}.remote"] = text(pick(remote, "busId")[0])
        kind = attempt(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        if kind != f"error {FUNCTION_NOT_FOUND}":
            out[f"{prefix}.link.{link}.kind"] = kind


def main():
    out = {}
    nvml.nvmlInit()
    out["machine.driver_version"] = text(nvml.nvmlSystemGetDriverVersion())
    out["machine.cuda_version"] = nvml.nvmlSystemGetCudaDriverVersion_v2()
    out["machine.count"] = count = nvml.nvmlDeviceGetCount()
    handles = [attempt(nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    for index, handle in enumerate(handles):
        prefix = f"gpu.{index}"
        out[f"{prefix}.handle"] = handle if isinstance(handle, str) else 0
        if isinstance(handle, str):
            continue
        memory(out, prefix, handle)
        identity(out, prefix, handle)
        readings(out, prefix, handle)
        instances(out, prefix, handle)
        links(out, prefix, handle)
        for key, kind in (("compute", "Compute"), ("graphics", "Graphics"), ("mps", "MPSCompute")):
            out[f"{prefix}.{key}"] = processes(kind, handle)
        for other, peer in enumerate(handles):
            if other != index and not isinstance(peer, str):
                out[f"{prefix}.level.{other}"] = attempt(nvml.nvmlDeviceGetTopologyCommonAncestor, handle, peer)
    nvml.nvmlShutdown()
    json.dump(out, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
