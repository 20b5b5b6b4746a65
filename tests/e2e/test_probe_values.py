# SPDX-License-Identifier: Apache-2.0
"""Each value that the probe samples, against the truth of the simulated machine. Its clock is virtual, so that
nothing moves between the two."""

import pytest

from conftest import ROOT
from test_probe import Watch

# name of the value: where the truth is. What is None there must be absent.
TRUTH = {
    "utilization_gpu_percent": "utilization.gpu",
    "utilization_memory_percent": "utilization.memory",
    "utilization_encoder_percent": "utilization.encoder",
    "utilization_decoder_percent": "utilization.decoder",
    "memory_total_bytes": "memory.total",
    "memory_used_bytes": "memory.used",
    "memory_free_bytes": "memory.free",
    "memory_reserved_bytes": "memory.reserved",
    "temperature_celsius": "temperature_c",
    "temperature_memory_celsius": "temperature_memory_c",
    "power_mw": "power_mw",
    "energy_mj": "energy_mj",
    "clock_sm_mhz": "clocks.sm",
    "clock_graphics_mhz": "clocks.sm",
    "clock_memory_mhz": "clocks.mem",
    "clock_video_mhz": "clocks.video",
    "performance_state": "pstate",
    "fan_percent": "fan_percent",
    "throttle_reasons": "throttle_reasons",
    "violation_power_ns": "throttle_ns.power",
    "violation_thermal_ns": "throttle_ns.thermal",
    "violation_sync_boost_ns": "throttle_ns.sync_boost",
    "violation_board_limit_ns": "throttle_ns.board",
    "violation_low_utilization_ns": "throttle_ns.low_util",
    "violation_reliability_ns": "throttle_ns.reliability",
    "violation_sw_thermal_ns": "throttle_ns.sw_thermal",
    "violation_hw_thermal_ns": "throttle_ns.hw_thermal",
    "violation_hw_power_brake_ns": "throttle_ns.hw_power_brake",
    "ecc_corrected_volatile": "ecc.corrected_volatile",
    "ecc_uncorrected_volatile": "ecc.uncorrected_volatile",
    "ecc_corrected_aggregate": "ecc.corrected_aggregate",
    "ecc_uncorrected_aggregate": "ecc.uncorrected_aggregate",
    "remapped_rows_corrected": "ecc.remapped_correctable",
    "remapped_rows_uncorrected": "ecc.remapped_uncorrectable",
    "remapped_rows_pending": "ecc.remap_pending",
    "remapped_rows_failure": "ecc.remap_failure",
    "pcie_generation": "pcie.gen",
    "pcie_width": "pcie.width",
    "pcie_generation_max": "pcie.gen_max",
    "pcie_width_max": "pcie.width_max",
    "pcie_replays": "pcie.replays",
    "pcie_tx_bytes": "pcie.tx_bytes",
    "pcie_rx_bytes": "pcie.rx_bytes",
    "recovery_action": "recovery_action",
    "power_limit_mw": "power_limit_mw",
    "power_limit_set_mw": "power_limit_mw",
    "power_limit_default_mw": "model.power_default_mw",
    "power_limit_min_mw": "model.power_min_mw",
    "power_limit_max_mw": "model.power_max_mw",
    "temperature_slowdown_celsius": "model.slowdown_c",
    "temperature_shutdown_celsius": "model.shutdown_c",
    "temperature_gpu_max_celsius": "model.gpu_max_c",
    "clock_sm_max_mhz": "clocks_max.sm",
    "clock_graphics_max_mhz": "clocks_max.sm",
    "clock_memory_max_mhz": "clocks_max.mem",
    "clock_video_max_mhz": "clocks_max.video",
    "ecc_mode": "ecc.current",
    "compute_mode": "compute_mode",
    "persistence_mode": "persistence",
    **{f"pcie_errors_{name}": f"pcie_errors.{name}" for name in (
        "correctable", "naks_received", "receiver", "bad_tlp", "naks_sent", "bad_dllp", "nonfatal", "fatal",
        "unsupported_request", "lcrc", "lane", "l0_to_recovery")},
}


def at(truth, path):
    for key in path.split("."):
        truth = truth[key]
    return truth


def first(machine):
    """What a probe that begins now says of each GPU: all classes are read at once."""
    watch = Watch(machine, period_ms=1000)
    snapshot = watch.wait("snapshot")
    watch.end()
    assert snapshot["errors"] == []
    return snapshot["samples"]


def compare(sample, truth, absent=()):
    wrong = []
    for name, path in TRUTH.items():
        wanted = at(truth, path)
        have = sample["values"].get(name)
        if name in absent:
            wanted = None
        if have != wanted and not (wanted in (True, False) and have == int(wanted)):
            wrong.append(f"{name}: {have}, and {path} is {wanted}")
    assert not wrong, "\n".join(wrong)


def nvlink_sums(truth):
    links = truth["nvlink"]
    total = {key: sum(link[key] for link in links) for key in ("crc_flit", "crc_data", "replay", "recovery")}
    more = {key: sum(link["more"][key] for link in links) for key in links[0]["more"]}
    return total, more


def break_everything(machine, gpu):
    """Each fault that moves a counter, once."""
    def inject(*fault):
        machine.sim("inject", *fault, "--gpu", gpu)
    for count, name in enumerate(("correctable", "naks-received", "receiver", "bad-tlp", "naks-sent", "bad-dllp",
                                  "nonfatal", "fatal", "unsupported-request", "lcrc", "lane", "l0-to-recovery"), 3):
        inject("pcie", "errors", name, "--count", count)
    for reason in ("sync-boost", "board", "low-util", "reliability"):
        inject("throttle", reason)
    inject("pcie", "replays", "7")
    inject("pcie", "width", "8")
    inject("power-brake")
    inject("ecc", "corrected", "--count", "5")
    inject("ecc", "uncorrected")


def test_dgx_a100(machine):
    machine.start("dgx-a100", "--gpus", "2", "--clock", "virtual")
    machine.sim("load", "--gpu", "0", "--pid", "4711", "--invented", "--util", "0.7", "--mem", "3GiB", "--enc", "0.2",
                "--dec", "0.1", "--pcie-tx", "100MiB", "--pcie-rx", "50MiB", "--nvlink", "1GiB")
    break_everything(machine, "0")
    machine.sim("inject", "remap", "corrected", "--gpu", "0")
    machine.sim("inject", "nvlink", "3", "errors", "20", "--gpu", "0")
    machine.sim("inject", "nvlink", "4", "count", "ecc", "--count", "9", "--gpu", "0")
    machine.sim("inject", "nvlink", "5", "down", "--gpu", "1")
    machine.sim("inject", "thermal", "--ambient", "70", "--gpu", "1")
    machine.sim("load", "--gpu", "1", "--pid", "4712", "--invented", "--util", "1")
    machine.sim("clock", "advance", "60s")
    samples, truth = first(machine), machine.show()["gpus"]
    for sample, gpu in zip(samples, truth):
        compare(sample, gpu, absent=("fan_percent",))
        values = sample["values"]
        errors, more = nvlink_sums(gpu)
        assert {key: values[f"nvlink_errors_{key}"] for key in errors} == errors
        assert values["nvlink_errors"] == sum(errors.values())
        assert values["nvlink_errors_ecc"] == more["ecc"]
        assert "nvlink_errors_malformed" not in values, "NVLink 3 does not count them"
        up = sum(1 << link["link"] for link in gpu["nvlink"] if link["up"])
        assert (values["nvlink_links"], values["nvlink_up_links"]) == ((1 << 12) - 1, up)
        assert values["nvlink_tx_bytes"] == gpu["nvlink_bytes"]["tx"] // 1024 * 1024
        assert values["nvlink_rx_bytes"] == gpu["nvlink_bytes"]["rx"] // 1024 * 1024
        assert not any(name.startswith("activity") for name in values), "no GPM before Hopper"
        assert values["temperature_margin_celsius"] == gpu["model"]["slowdown_c"] - gpu["temperature_c"]
        assert values["bar1_used_bytes"] <= values["bar1_total_bytes"]
        assert values["busy_ns"] == 0, "nothing was counted yet"
    assert truth[0]["nvlink_bytes"]["tx"] > 0 and truth[0]["throttle_ns"]["board"] > 0
    assert truth[1]["throttle_ns"]["sw_thermal"] > 0 and truth[0]["ecc"]["uncorrected_volatile"] == 1
    banks = {key: samples[0]["values"][f"remap_banks_{key}"] for key in ("max", "high", "partial", "low", "none")}
    assert banks["high"] == 1 and sum(banks.values()) == 640
    assert [(entry["pid"], entry["util_sm"]) for entry in samples[0]["processes"]] == [(4711, 70)]
    assert samples[0]["processes"][0]["memory_bytes"] == truth[0]["processes"][0]["memory_bytes"]


def test_pages_before_ampere(machine):
    machine.start("dgx1", "--gpus", "1", "--clock", "virtual")
    break_everything(machine, "0")
    machine.sim("inject", "retire", "sbe", "--gpu", "0")
    machine.sim("clock", "advance", "20s")
    sample, truth = first(machine)[0], machine.show()["gpus"][0]
    rows = [name for name in TRUTH if name.startswith("remapped")]
    compare(sample, truth, absent=rows + ["fan_percent"])
    assert sample["values"]["retired_pages_corrected"] == truth["ecc"]["retired_sbe"] == 1
    assert sample["values"]["retired_pages_pending"] == 1
    assert not any(name.startswith("remap") for name in sample["values"])


@pytest.mark.parametrize("driver, gone", [
    # fields 169-198 and 230, the reserved memory, the margin: only what newer drivers brought
    ("470.57.02", ["memory_reserved_bytes", "memory_used_bytes", "recovery_action", "pcie_tx_bytes", "pcie_rx_bytes",
                   "violation_sw_thermal_ns", "violation_hw_thermal_ns", "violation_hw_power_brake_ns",
                   *[name for name in TRUTH if name.startswith("pcie_errors")]]),
    ("535.230.02", ["recovery_action", "pcie_tx_bytes", "pcie_rx_bytes", "violation_sw_thermal_ns",
                    "violation_hw_thermal_ns", "violation_hw_power_brake_ns"]),
])
def test_old_drivers_lose_only_what_they_do_not_have(machine, driver, gone):
    machine.start("dgx-a100", "--gpus", "1", "--clock", "virtual", "--driver", driver)
    machine.sim("load", "--gpu", "0", "--pid", "4711", "--invented", "--util", "0.7", "--mem", "3GiB")
    machine.sim("clock", "advance", "20s")
    sample, truth = first(machine)[0], machine.show()["gpus"][0]
    if "memory_used_bytes" in gone:  # the older call: what the driver reserves counts as used
        used = sample["values"].pop("memory_used_bytes")
        assert used == truth["memory"]["used"] + truth["memory"]["reserved"]
    compare(sample, truth, absent=gone + ["fan_percent"])
    assert "temperature_margin_celsius" not in sample["values"]
    assert sample["processes"][0]["util_sm"] == 70, "by the older call"


def steps(machine, watch, count, seconds=1):
    """Lets the machine's time pass and returns a snapshot that was begun after that."""
    snapshot = None
    for _ in range(count):
        machine.sim("clock", "advance", f"{seconds}s")
        watch.wait("snapshot", lambda event: True)
        seen = len(watch.events)
        snapshot = watch.wait("snapshot", lambda event: watch.events.index(event) > seen)
    return snapshot


def test_busy_time_and_activity(machine):
    machine.start("hgx-h100", "--gpus", "2", "--clock", "virtual")
    machine.sim("load", "--gpu", "0", "--pid", "4711", "--invented", "--util", "0.6", "--tensor", "0.5",
                "--shape", "burst")
    machine.sim("load", "--gpu", "1", "--pid", "4712", "--invented", "--util", "0.8", "--tensor", "0.25")
    machine.sim("clock", "advance", "10s")
    watch = Watch(machine, period_ms=120)
    before = steps(machine, watch, 1)["samples"]
    truth_before = machine.show()["gpus"]
    after = steps(machine, watch, 6)["samples"]
    truth = machine.show()["gpus"]
    for i in range(2):
        counted = after[i]["values"]["busy_ns"] - before[i]["values"]["busy_ns"]
        really = truth[i]["busy_ns"] - truth_before[i]["busy_ns"]
        # the last sample of the driver may be 0.2 s old, and tells whole percents
        assert abs(counted - really) < 0.2e9 + 0.01 * 6e9, (counted, really)
    values = after[1]["values"]
    assert values["activity_sm_ppm"] == values["activity_gr_engine_ppm"] == truth[1]["activity"]["sm_ppm"] == 800000
    assert values["activity_tensor_ppm"] == truth[1]["activity"]["tensor_ppm"] == 200000
    assert values["activity_dram_ppm"] == truth[1]["activity"]["dram_ppm"]
    watch.end()


def test_mig_instances(machine):
    machine.start("hgx-h100", "--gpus", "1", "--clock", "virtual", "--mig", "half")
    truth = machine.show()["gpus"][0]["mig"]["instances"]
    for number, entry in enumerate(truth):
        machine.sim("load", "--gpu", "0", "--mig", f"{entry['gi']}/{entry['ci']}", "--pid", 5000 + number,
                    "--invented", "--util", f"0.{number + 3}", "--mem", f"{number + 1}GiB", "--tensor", "0.5")
    machine.sim("clock", "advance", "10s")
    watch = Watch(machine, period_ms=120)
    watch.wait("snapshot")
    sample = steps(machine, watch, 3)["samples"][0]
    truth = machine.show()["gpus"][0]["mig"]["instances"]
    assert [mig["uuid"] for mig in sample["mig"]] == [entry["uuid"] for entry in truth]
    for mig, entry in zip(sample["mig"], truth):
        assert mig["memory_used"] == entry["memory_used"]
        assert mig["memory_total"] == entry["memory_mib"] << 20
        assert abs(mig["activity"]["sm"] - entry["sm_ppm"]) <= 1000
        assert abs(mig["activity"]["tensor"] - entry["sm_ppm"] / 2) <= 1000
    assert all(entry["util_sm"] is None and entry["gi"] is not None for entry in sample["processes"])
    values = sample["values"]
    assert not {"busy_ns", "utilization_gpu_percent"} & set(values), "nobody knows them of a divided GPU"
    assert "activity_sm_ppm" in values
    watch.end()


def family(directory, architecture, **changes):
    """The T4's profile as one of another family."""
    text = (ROOT / "sim" / "profiles" / "t4x1.profile").read_text(encoding="utf-8")
    settings = {"architecture": architecture, "name": f"Some {architecture}", **changes}
    lines = []
    model = False
    for line in text.splitlines():
        model |= line.startswith("[model")
        key = line.split("=")[0].strip()
        lines.append(f"{key} = {settings.pop(key)}" if model and key in settings else line)
    lines += [f"{key} = {value}" for key, value in settings.items()]
    path = directory / f"{architecture}.profile"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("architecture", ["kepler", "maxwell", "pascal", "volta", "turing", "ada"])
def test_each_family(machine, tmp_path, architecture):
    machine.start(family(tmp_path, architecture), "--clock", "virtual")
    machine.sim("load", "--gpu", "0", "--pid", "4711", "--invented", "--util", "0.7", "--mem", "3GiB")
    machine.sim("clock", "advance", "10s")
    sample, truth = first(machine)[0], machine.show()["gpus"][0]
    rows = [name for name in TRUTH if name.startswith("remapped")]
    if architecture in ("kepler", "maxwell", "pascal"):
        rows.append("energy_mj")
    compare(sample, truth, absent=rows + ["fan_percent"])
    share = sample["processes"][0]["util_sm"]
    assert share == (None if architecture == "kepler" else 70)
    assert not any(name.startswith(("activity", "nvlink")) for name in sample["values"])


def test_nvlink_5(machine, tmp_path):
    text = (ROOT / "sim" / "profiles" / "hgx-h100.profile").read_text(encoding="utf-8")
    text = text.replace("nvlink_version = 4", "nvlink_version = 5").replace("= hopper", "= blackwell")
    path = tmp_path / "b200.profile"
    path.write_text(text, encoding="utf-8")
    machine.start(path, "--gpus", "1", "--clock", "virtual")
    machine.sim("load", "--gpu", "0", "--pid", "4711", "--invented", "--util", "0.7", "--nvlink", "18GiB")
    kinds = ("malformed", "buffer-overrun", "rcv", "rcv-remote", "rcv-general", "link-integrity", "xmit-discard",
             "recovery-failed", "effective", "symbol")
    for count, kind in enumerate(kinds, 2):
        machine.sim("inject", "nvlink", count, "count", kind, "--count", count, "--gpu", "0")
    machine.sim("inject", "nvlink", "1", "errors", "300", "--gpu", "0")
    machine.sim("clock", "advance", "10s")
    sample, truth = first(machine)[0], machine.show()["gpus"][0]
    errors, more = nvlink_sums(truth)
    values = sample["values"]
    assert errors["recovery"] > 0
    wanted = {**more, "rcv": more["rcv"] + errors["crc_flit"], "rcv_remote": more["rcv_remote"] + errors["crc_data"],
              "link_integrity": more["link_integrity"] + errors["replay"],
              "recovery_all": more["recovery_failed"] + errors["recovery"]}
    assert {key: values[f"nvlink_errors_{key}"] for key in wanted} == wanted
    assert values["nvlink_tx_bytes"] == truth["nvlink_bytes"]["tx"] // 18 * 18 > 0


@pytest.mark.parametrize("code", ["3", "4", "21"])
def test_what_is_not_given_is_absent(machine, code):
    machine.start("t4x1", "--clock", "virtual")
    functions = ["nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetFieldValues",
                 "nvmlDeviceGetSamples", "nvmlDeviceGetProcessesUtilizationInfo", "nvmlDeviceGetProcessUtilization",
                 "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetBAR1MemoryInfo", "nvmlDeviceGetTotalEccErrors"]
    for function in functions:
        machine.sim("fault", function, f"ret={code}")
    machine.sim("load", "--gpu", "0", "--pid", "4711", "--invented", "--util", "0.7")
    sample = first(machine)[0]  # and nothing counts as an error
    gone = {"utilization_gpu_percent", "power_mw", "pcie_errors_lane", "busy_ns", "memory_used_bytes",
            "memory_reserved_bytes", "bar1_used_bytes", "ecc_corrected_volatile"}
    assert not gone & set(sample["values"])
    assert sample["processes"][0]["util_sm"] is None
    assert {"temperature_celsius", "clock_sm_mhz", "pcie_replays", "violation_power_ns"} <= set(sample["values"])


def test_failed_calls_are_counted_by_name_and_code(machine):
    machine.start("t4x4")
    machine.sim("fault", "nvmlDeviceGetPowerUsage", "ret=999")
    machine.sim("fault", "nvmlDeviceGetFanSpeed", "ret=20", "gpu=1")
    watch = Watch(machine)
    watch.wait("snapshot")
    snapshot = watch.wait("snapshot")
    counts = {(entry["call"], entry["code"]): entry["count"] for entry in snapshot["errors"]}
    assert counts[("nvmlDeviceGetPowerUsage", 999)] >= 8 and counts[("nvmlDeviceGetFanSpeed", 20)] >= 2
    assert set(counts) == {("nvmlDeviceGetPowerUsage", 999), ("nvmlDeviceGetFanSpeed", 20)}
    assert snapshot["round_ns"]["fast"] > 0
    watch.end()


@pytest.mark.parametrize("quirk", ["procsize=100", "procsize=4000", "util>100", "oldts", "memunknown", "nodata",
                                   "v1only", "unsorted"])
def test_odd_drivers(machine, quirk):
    machine.start("t4x1", "--clock", "virtual", "--quirk", quirk)
    for pid in range(4711, 4714):
        machine.sim("load", "--gpu", "0", "--pid", pid, "--invented", "--util", "0.3", "--mem", "1GiB")
    machine.sim("clock", "advance", "10s")
    watch = Watch(machine, period_ms=120)
    sample = steps(machine, watch, 3)["samples"][0]
    watch.end()
    assert sorted(entry["pid"] for entry in sample["processes"]) == [4711, 4712, 4713]
    assert all(entry["util_sm"] in (None, 30) for entry in sample["processes"])
    assert sample["values"].get("utilization_gpu_percent", 90) == 90, "not 147"
    if quirk == "memunknown":
        assert all(entry["memory_bytes"] is None for entry in sample["processes"])
    else:
        assert all(entry["memory_bytes"] > 1 << 30 for entry in sample["processes"])
