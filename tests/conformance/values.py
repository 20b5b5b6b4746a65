# SPDX-License-Identifier: Apache-2.0
"""What a program must read from a machine, derived from `sluice sim show --output json`.

A reading is a key and a value: "gpu.0.memory.total": 42949672960. The facts about NVML that turn
the machine's truth into a driver's answers (which call counts reserved memory as used, what a GPU
with MIG instances refuses) are written here once, for all programs alike."""

import re

NOT_SUPPORTED = "error 3"
GPU_IS_LOST = "error 15"
# What drivers of branch 470 do not have yet: NVML's functions came with 510 and 515.
AFTER_470 = (".fans", ".memory2.total", ".memory2.reserved", ".memory2.used", ".memory2.free")


def on(flag):
    return 1 if flag else 0


def process_list(processes, kind, gi=None, ci=None, ids=True):
    """As the process calls give them: host pid, memory, instance."""
    found = []
    for process in processes:
        if process["type"] != kind:
            continue
        if gi is not None and (process["gi"], process["ci"]) != (gi, ci):
            continue
        found.append([process["host_pid"], process["memory_bytes"], *([process["gi"], process["ci"]] if ids else [None, None])])
    return sorted(found, key=lambda entry: entry[0])


def memory(prefix, truth, out):
    """The first memory call counts reserved memory as used; the second gives it apart."""
    out[f"{prefix}.memory.total"] = truth["total"]
    out[f"{prefix}.memory.used"] = truth["used"] + truth["reserved"]
    out[f"{prefix}.memory.free"] = truth["free"]
    for name in ("total", "reserved", "used", "free"):
        out[f"{prefix}.memory2.{name}"] = truth[name]


def instances(prefix, gpu, out):
    mig = gpu["mig"]
    for key in ("current", "pending"):
        out[f"{prefix}.mig.{key}"] = on(mig[key]) if gpu["model"]["mig"] else NOT_SUPPORTED
    out[f"{prefix}.mig.count"] = len(mig["instances"])
    for number, instance in enumerate(mig["instances"]):
        key = f"{prefix}.mig.{number}"
        total = instance["memory_mib"] << 20
        memory(key, {"total": total, "used": instance["memory_used"], "reserved": 0,
                     "free": total - instance["memory_used"]}, out)
        for name in ("uuid", "gi", "ci"):
            out[f"{key}.{name}"] = instance[name]
        out[f"{key}.name"] = f"{gpu['name']} MIG {instance['profile']}"
        out[f"{key}.parent"] = gpu["uuid"]
        out[f"{key}.found"] = instance["uuid"]
        for name in ("sm", "copy", "decoders", "encoders", "jpegs", "ofas", "gi_slices"):
            out[f"{key}.attributes.{name}"] = instance["attributes"][name]
        out[f"{key}.attributes.ci_slices"] = instance["slices"]
        out[f"{key}.attributes.memory_mib"] = instance["memory_mib"]
        out[f"{key}.compute"] = process_list(gpu["processes"], "compute", instance["gi"], instance["ci"])


def links(prefix, gpu, gpus, out):
    """A link leads to a GPU ("gpu3") or to a switch (its bus id)."""
    for link in gpu["nvlink"]:
        key = f"{prefix}.link.{link['link']}"
        other = gpus[int(link["peer"][3:])] if link["peer"].startswith("gpu") else None
        out[f"{key}.up"] = on(link["up"])
        out[f"{key}.remote"] = other["pci_bus_id"] if other else link["peer"]
        out[f"{key}.kind"] = 0 if other else 2


def readings(prefix, gpu, out):
    for name in ("gpu", "memory", "encoder", "decoder"):
        # with MIG on, there is no utilisation of the whole GPU
        out[f"{prefix}.utilization.{name}"] = NOT_SUPPORTED if gpu["mig"]["current"] else gpu["utilization"][name]
    for name in ("temperature_c", "power_mw", "power_limit_mw", "energy_mj", "pstate", "throttle_reasons"):
        out[f"{prefix}.{name}"] = gpu[name]
    out[f"{prefix}.enforced_limit_mw"] = gpu["power_limit_mw"]
    out[f"{prefix}.fan_percent"] = NOT_SUPPORTED if gpu["fan_percent"] is None else gpu["fan_percent"]
    out[f"{prefix}.replays"] = gpu["pcie"]["replays"]
    for clocks in ("clocks", "clocks_max"):
        out.update({f"{prefix}.{clocks}.{name}": gpu[clocks][name] for name in ("sm", "mem")})
        out[f"{prefix}.{clocks}.graphics"] = gpu[clocks]["sm"]
    for name in ("current", "pending", "corrected_volatile", "uncorrected_volatile",
                 "corrected_aggregate", "uncorrected_aggregate"):
        out[f"{prefix}.ecc.{name}"] = int(gpu["ecc"][name]) if gpu["model"]["ecc"] else NOT_SUPPORTED


def identity(prefix, gpu, out):
    for name in ("uuid", "name", "index", "minor", "pci_bus_id", "compute_mode"):
        out[f"{prefix}.{name}"] = gpu[name]
    out[f"{prefix}.serial"] = gpu["serial"] or NOT_SUPPORTED
    for name in ("vbios", "brand", "architecture", "compute_capability", "pci_device_id", "power_min_mw",
                 "power_max_mw", "power_default_mw", "shutdown_c", "slowdown_c", "gpu_max_c"):
        out[f"{prefix}.{name}"] = gpu["model"][name]
    out[f"{prefix}.fans"] = gpu["model"]["fans"] or NOT_SUPPORTED
    out[f"{prefix}.persistence"] = on(gpu["persistence"])
    for name in ("gen", "width", "gen_max", "width_max"):
        out[f"{prefix}.pcie.{name}"] = gpu["pcie"][name]


def expected(show):
    """Every reading that the machine's driver has to offer, whoever takes it."""
    machine = show["machine"]
    out = {
        "machine.driver_version": machine["driver_version"],
        "machine.cuda_version": machine["cuda_version"],
        "machine.count": len(show["gpus"]),
    }
    lost = {gpu["index"] for gpu in show["gpus"] if gpu["health"] == "lost"}
    for gpu in show["gpus"]:
        prefix = f"gpu.{gpu['index']}"
        out[f"{prefix}.handle"] = GPU_IS_LOST if gpu["index"] in lost else 0
        if gpu["index"] in lost:
            continue
        memory(prefix, gpu["memory"], out)
        identity(prefix, gpu, out)
        readings(prefix, gpu, out)
        instances(prefix, gpu, out)
        links(prefix, gpu, show["gpus"], out)
        for kind in ("compute", "graphics", "mps"):
            out[f"{prefix}.{kind}"] = process_list(gpu["processes"], kind)
        for other, level in enumerate(machine["levels"][gpu["index"]]):
            if other != gpu["index"] and other not in lost:
                out[f"{prefix}.level.{other}"] = level
    if machine["driver_version"].startswith("470."):
        out = {key: value for key, value in out.items() if not key.endswith(AFTER_470)}
    return out


def kind_of(key):
    """"gpu.3.mig.0.uuid" -> "gpu.*.mig.*.uuid"."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", key)


def differences(wanted, read, kinds=None):
    """What is wrong with `read`, as lines of text. A program answers for `kinds` of keys (those that
    it reads at all), and for each of these on every GPU and instance."""
    found = []
    kinds = {kind_of(key) for key in read} if kinds is None else kinds
    for key in sorted(wanted.keys() | read.keys()):
        if kind_of(key) not in kinds:
            continue
        if key not in read:
            found.append(f"{key}: not read, should be {wanted[key]!r}")
        elif key not in wanted:
            found.append(f"{key}: read {read[key]!r}, should not be there")
        elif read[key] != wanted[key]:
            found.append(f"{key}: read {read[key]!r}, should be {wanted[key]!r}")
    return found
