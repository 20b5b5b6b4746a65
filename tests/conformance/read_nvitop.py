# SPDX-License-Identifier: Apache-2.0
"""Reads the whole machine through nvitop's own classes and prints it as JSON, the keys as
read_pynvml.py has them. What nvitop calls N/A is null."""

import json
import sys

import nvitop


def plain(value):
    return None if value is nvitop.NA or isinstance(value, nvitop.NaType) else value


def memory(out, prefix, device):
    info = device.memory_info()
    # nvitop takes the second memory call where the driver has it
    call = "memory" if plain(info.reserved) is None else "memory2"
    for name in ("total", "used", "free"):
        out[f"{prefix}.{call}.{name}"] = plain(getattr(info, name))
    if call == "memory2":
        out[f"{prefix}.memory2.reserved"] = info.reserved


def processes(device, kind):
    whole = 0xFFFFFFFF
    found = []
    for pid, process in device.processes().items():
        if kind not in process.type:
            continue
        ids = [process.gpu_instance_id(), process.compute_instance_id()]
        found.append([pid, plain(process.gpu_memory()), *(None if plain(i) in (None, whole) else i for i in ids)])
    return sorted(found)


def physical(out, prefix, device):
    memory(out, prefix, device)
    out[f"{prefix}.index"] = device.index
    for key, method in (
        ("uuid", device.uuid), ("name", device.name), ("serial", device.serial), ("pci_bus_id", device.bus_id),
        ("utilization.gpu", device.gpu_utilization), ("utilization.memory", device.memory_utilization),
        ("utilization.encoder", device.encoder_utilization), ("utilization.decoder", device.decoder_utilization),
        ("clocks.graphics", device.graphics_clock), ("clocks.sm", device.sm_clock),
        ("clocks.mem", device.memory_clock),
        ("clocks_max.graphics", device.max_graphics_clock), ("clocks_max.sm", device.max_sm_clock),
        ("clocks_max.mem", device.max_memory_clock),
        ("fan_percent", device.fan_speed), ("temperature_c", device.temperature),
        ("power_mw", device.power_usage), ("power_limit_mw", device.power_limit),
        ("ecc.uncorrected_volatile", device.total_volatile_uncorrected_ecc_errors),
    ):
        out[f"{prefix}.{key}"] = plain(method())
    state = plain(device.performance_state())
    out[f"{prefix}.pstate"] = None if state is None else int(state.removeprefix("P"))
    out[f"{prefix}.compute_capability"] = "%d.%d" % device.cuda_compute_capability()
    out[f"{prefix}.mig.current"] = {"Enabled": 1, "Disabled": 0}.get(device.mig_mode())
    out[f"{prefix}.mig.count"] = len(device.mig_devices())
    out[f"{prefix}.compute"] = processes(device, "C")
    out[f"{prefix}.graphics"] = processes(device, "G")
    for number, instance in enumerate(device.mig_devices()):
        mig = f"{prefix}.mig.{number}"
        memory(out, mig, instance)
        out[f"{mig}.uuid"] = plain(instance.uuid())
        out[f"{mig}.name"] = plain(instance.name())
        out[f"{mig}.gi"] = plain(instance.gpu_instance_id())
        out[f"{mig}.ci"] = plain(instance.compute_instance_id())
        out[f"{mig}.parent"] = plain(instance.parent.uuid())
        out[f"{mig}.compute"] = processes(instance, "C")


def main():
    major, minor = nvitop.Device.cuda_driver_version().split(".")
    out = {
        "machine.driver_version": nvitop.Device.driver_version(),
        "machine.cuda_version": int(major) * 1000 + int(minor) * 10,
        "machine.count": nvitop.Device.count(),
    }
    for device in nvitop.Device.all():
        prefix = f"gpu.{device.physical_index}"
        out[f"{prefix}.handle"] = 0 if device.handle else None
        if not device.handle:
            continue
        physical(out, prefix, device)
    json.dump(out, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
