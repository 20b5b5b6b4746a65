# SPDX-License-Identifier: Apache-2.0
"""Simulated machines under load, a real Prometheus that scrapes them each second, and our rules and dashboard in it: what
its HTTP API returns is what `sluice sim show` says of that instant, every expression of the dashboards has data, and every
alert fires for the fault that it is about. Simulated time stands still but for `sluice sim clock advance`, so that both
sides speak of one instant."""

import contextlib
import json
import math
import pathlib
import re
import tempfile

import pytest

import capture_cgroups
import prometheus
from conftest import ROOT, wait_until
from containers import needs
from kubelet import field, serve_on

if not prometheus.PROGRAM:
    pytest.skip("SKIPPED: needs prometheus: tools/setup check", allow_module_level=True)

RULES = (ROOT / "packaging" / "prometheus" / "sluice.rules.yaml").read_text(encoding="utf-8")
OURS = json.loads((ROOT / "packaging" / "grafana" / "sluice-gpu.json").read_text(encoding="utf-8"))
THEIRS = json.loads((ROOT / "tests" / "prometheus" / "dashboard_12239.json").read_text(encoding="utf-8"))
MIB = 1 << 20
CONTAINER = "4f5e" * 16
WORK = """
for gpu in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do
	sluice sim load --gpu "$gpu" --pid $$ --util {util} --mem {mem} --tensor 0.5 --pcie-tx 1GiB --nvlink 2GiB || exit 1
done
exec sleep 1000
"""

# What `sluice sim show` says of a GPU: native name, labels, value; DCGM's name, value. Absent there: absent here.
SINGLE = [
    ("sluice_gpu_utilization_ratio", {}, lambda g: g["utilization"]["gpu"] / 100),
    ("sluice_gpu_memory_busy_ratio", {}, lambda g: g["utilization"]["memory"] / 100),
    ("sluice_gpu_encoder_utilization_ratio", {}, lambda g: g["utilization"]["encoder"] / 100),
    ("sluice_gpu_decoder_utilization_ratio", {}, lambda g: g["utilization"]["decoder"] / 100),
    ("sluice_gpu_memory_total_bytes", {}, lambda g: g["memory"]["total"]),
    ("sluice_gpu_memory_used_bytes", {}, lambda g: g["memory"]["used"]),
    ("sluice_gpu_memory_free_bytes", {}, lambda g: g["memory"]["free"]),
    ("sluice_gpu_memory_reserved_bytes", {}, lambda g: g["memory"]["reserved"]),
    ("sluice_gpu_temperature_celsius", {"sensor": "core"}, lambda g: g["temperature_c"]),
    ("sluice_gpu_temperature_threshold_celsius", {"threshold": "slowdown"}, lambda g: g["model"]["slowdown_c"]),
    ("sluice_gpu_temperature_threshold_celsius", {"threshold": "shutdown"}, lambda g: g["model"]["shutdown_c"]),
    ("sluice_gpu_temperature_threshold_celsius", {"threshold": "gpu_max"}, lambda g: g["model"]["gpu_max_c"]),
    ("sluice_gpu_temperature_threshold_celsius", {"threshold": "mem_max"}, lambda g: g["model"]["mem_max_c"]),
    ("sluice_gpu_power_watts", {}, lambda g: g["power_mw"] / 1000),
    ("sluice_gpu_power_limit_watts", {"kind": "enforced"}, lambda g: g["power_limit_mw"] / 1000),
    ("sluice_gpu_power_limit_watts", {"kind": "default"}, lambda g: g["model"]["power_default_mw"] / 1000),
    ("sluice_gpu_power_limit_watts", {"kind": "min"}, lambda g: g["model"]["power_min_mw"] / 1000),
    ("sluice_gpu_power_limit_watts", {"kind": "max"}, lambda g: g["model"]["power_max_mw"] / 1000),
    ("sluice_gpu_energy_joules_total", {}, lambda g: g["energy_mj"] / 1000),
    ("sluice_gpu_clock_hertz", {"domain": "sm"}, lambda g: g["clocks"]["sm"] * 1e6),
    ("sluice_gpu_clock_hertz", {"domain": "memory"}, lambda g: g["clocks"]["mem"] * 1e6),
    ("sluice_gpu_clock_max_hertz", {"domain": "sm"}, lambda g: g["clocks_max"]["sm"] * 1e6),
    ("sluice_gpu_clock_max_hertz", {"domain": "memory"}, lambda g: g["clocks_max"]["mem"] * 1e6),
    ("sluice_gpu_performance_state", {}, lambda g: g["pstate"]),
    ("sluice_gpu_pcie_link_generation", {"kind": "current"}, lambda g: g["pcie"]["gen"]),
    ("sluice_gpu_pcie_link_generation", {"kind": "max"}, lambda g: g["pcie"]["gen_max"]),
    ("sluice_gpu_pcie_link_width", {"kind": "current"}, lambda g: g["pcie"]["width"]),
    ("sluice_gpu_pcie_link_width", {"kind": "max"}, lambda g: g["pcie"]["width_max"]),
    ("sluice_gpu_pcie_replays_total", {}, lambda g: g["pcie"]["replays"]),
    ("sluice_gpu_ecc_errors_total", {"type": "corrected", "scope": "volatile"}, lambda g: g["ecc"]["corrected_volatile"]),
    ("sluice_gpu_ecc_errors_total", {"type": "uncorrected", "scope": "volatile"}, lambda g: g["ecc"]["uncorrected_volatile"]),
    ("sluice_gpu_ecc_errors_total", {"type": "corrected", "scope": "aggregate"}, lambda g: g["ecc"]["corrected_aggregate"]),
    ("sluice_gpu_ecc_errors_total", {"type": "uncorrected", "scope": "aggregate"}, lambda g: g["ecc"]["uncorrected_aggregate"]),
    ("sluice_gpu_remapped_rows", {"cause": "correctable"}, lambda g: g["ecc"]["remapped_correctable"]),
    ("sluice_gpu_remapped_rows", {"cause": "uncorrectable"}, lambda g: g["ecc"]["remapped_uncorrectable"]),
    ("sluice_gpu_row_remap_pending", {}, lambda g: g["ecc"]["remap_pending"]),
    ("sluice_gpu_row_remap_failure", {}, lambda g: g["ecc"]["remap_failure"]),
    ("sluice_gpu_recovery_action", {}, lambda g: g["recovery_action"]),
    ("sluice_gpu_nvlink_errors_total", {"type": "crc_flit"}, lambda g: sum(link["crc_flit"] for link in g["nvlink"])),
    ("sluice_gpu_nvlink_errors_total", {"type": "crc_data"}, lambda g: sum(link["crc_data"] for link in g["nvlink"])),
    ("sluice_gpu_nvlink_errors_total", {"type": "replay"}, lambda g: sum(link["replay"] for link in g["nvlink"])),
    ("sluice_gpu_nvlink_errors_total", {"type": "recovery"}, lambda g: sum(link["recovery"] for link in g["nvlink"])),
    ("DCGM_FI_DEV_GPU_UTIL", {}, lambda g: g["utilization"]["gpu"]),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", {}, lambda g: g["utilization"]["memory"]),
    ("DCGM_FI_DEV_ENC_UTIL", {}, lambda g: g["utilization"]["encoder"]),
    ("DCGM_FI_DEV_DEC_UTIL", {}, lambda g: g["utilization"]["decoder"]),
    ("DCGM_FI_DEV_FB_TOTAL", {}, lambda g: g["memory"]["total"] // MIB),
    ("DCGM_FI_DEV_FB_USED", {}, lambda g: g["memory"]["used"] // MIB),
    ("DCGM_FI_DEV_FB_FREE", {}, lambda g: g["memory"]["free"] // MIB),
    ("DCGM_FI_DEV_FB_RESERVED", {}, lambda g: g["memory"]["reserved"] // MIB),
    ("DCGM_FI_DEV_FB_USED_PERCENT", {}, lambda g: g["memory"]["used"] / (g["memory"]["total"] - g["memory"]["reserved"])),
    ("DCGM_FI_DEV_GPU_TEMP", {}, lambda g: g["temperature_c"]),
    ("DCGM_FI_DEV_POWER_USAGE", {}, lambda g: g["power_mw"] / 1000),
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", {}, lambda g: g["power_limit_mw"] / 1000),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", {}, lambda g: g["energy_mj"]),
    ("DCGM_FI_DEV_SM_CLOCK", {}, lambda g: g["clocks"]["sm"]),
    ("DCGM_FI_DEV_MEM_CLOCK", {}, lambda g: g["clocks"]["mem"]),
    ("DCGM_FI_DEV_PSTATE", {}, lambda g: g["pstate"]),
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", {}, lambda g: g["throttle_reasons"]),
    ("DCGM_FI_DEV_PCIE_LINK_GEN", {}, lambda g: g["pcie"]["gen"]),
    ("DCGM_FI_DEV_PCIE_LINK_WIDTH", {}, lambda g: g["pcie"]["width"]),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", {}, lambda g: g["pcie"]["replays"]),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", {}, lambda g: g["ecc"]["corrected_volatile"]),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", {}, lambda g: g["ecc"]["uncorrected_volatile"]),
    ("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", {}, lambda g: g["ecc"]["corrected_aggregate"]),
    ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", {}, lambda g: g["ecc"]["uncorrected_aggregate"]),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", {}, lambda g: g["ecc"]["remapped_uncorrectable"]),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", {}, lambda g: g["ecc"]["remapped_correctable"]),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", {}, lambda g: g["ecc"]["remap_failure"]),
    ("DCGM_FI_DEV_ROW_REMAP_PENDING", {}, lambda g: g["ecc"]["remap_pending"]),
    ("DCGM_FI_DEV_XID_ERRORS", {}, lambda g: g["last_xid"]),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", {}, lambda g: sum(link["crc_flit"] for link in g["nvlink"])),
    ("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", {}, lambda g: sum(link["crc_data"] for link in g["nvlink"])),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", {}, lambda g: sum(link["replay"] for link in g["nvlink"])),
    ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", {}, lambda g: sum(link["recovery"] for link in g["nvlink"])),
]
DIGITS = {"DCGM_FI_DEV_FB_USED_PERCENT": 1e-6}  # six digits, as there; all else is equal but for how a double is printed
BITS = {"gpu_idle": 0x1, "idle": 0x1, "app_clocks": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10,
        "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80, "display": 0x100}
BASE = {"__name__", "job", "instance", "gpu", "uuid"}
# Labels of DCGM's series that say which GPU it is, and whose.
OF_DCGM = BASE | {"UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION", "namespace", "pod",
                  "container", "err_code", "err_msg"}


def expected(show):
    """{(name, index, labels): value} of what `sluice sim show` knows."""
    found = {}
    for gpu in show["gpus"]:
        index = str(gpu["index"])
        for name, labels, value in SINGLE:
            found[name, index, tuple(sorted(labels.items()))] = float(value(gpu))
        for link in gpu["nvlink"]:
            found["sluice_gpu_nvlink_up", index, (("link", str(link["link"])),)] = float(link["up"])
    return found


def received(server):
    """The same of what Prometheus returns, whatever else it has."""
    found = {}
    for labels, value in server.query('{job="sluice",__name__=~"sluice_gpu_.*|DCGM_FI_DEV_.*"}'):
        name = labels["__name__"]
        rest = {key: text for key, text in labels.items() if key not in (OF_DCGM if name.startswith("DCGM") else BASE)}
        found[name, labels["gpu"], tuple(sorted(rest.items()))] = value
    return found


def differences(server, machine):
    """What Prometheus says otherwise than the machine, or not at all."""
    wanted, got = expected(machine.show()), received(server)
    return [f"{key}: {got.get(key)}, not {value}" for key, value in sorted(wanted.items())
            if key not in got or not math.isclose(got[key], value, rel_tol=1e-12, abs_tol=DIGITS.get(key[0], 1e-12))]


def agree(server, machine):
    """Until all that is sampled more rarely has been sampled after the clock stood still."""
    try:
        wait_until(lambda: not differences(server, machine), 90, "what Prometheus says is what the machine is")
    except AssertionError as error:
        raise AssertionError("\n".join(differences(server, machine)[:40])) from error


def expressions(dashboard, **choice):
    """(panel, expression) of ours with its variables chosen."""
    every = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel.get("targets", [])]
    every += [(mark["name"], mark["expr"]) for mark in dashboard["annotations"]["list"]]
    for title, text in every:
        text = text.replace("$__rate_interval", "30s")
        for name in ("job", "instance", "gpu", "namespace"):
            text = text.replace(f'"${name}"', f'"{choice.get(name, ".*")}"')
        assert "$" not in text, text
        yield title, text


def without_data(server):
    return [f"{title}: {text}" for title, text in expressions(OURS) if not server.query(text)]


def label_values(server, text):
    """What Grafana's label_values() finds: the values of a label of a selector."""
    selector, label = re.fullmatch(r"label_values\((.*), *(\w+)\)", text).groups()
    selector = re.sub(r"\$\w+", ".*", selector)
    return sorted({labels[label] for labels, _ in server.query(selector) if label in labels})


@pytest.fixture
def servers(tmp_path):
    made = []

    def make(*arguments, **options):
        made.append(prometheus.Prometheus(tmp_path / f"prometheus-{len(made)}", *arguments, **options))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def serve(machine, *options):
    machine.env["SLUICE_WEB_ADDRESS"] = "127.0.0.1:0"
    machine.agent(*options)
    return prometheus.metrics_address(machine)


def work(machine, gpus, util, mem, *options):
    return machine.submit("sh", "-c", WORK.format(util=util, mem=mem), gpus=gpus, options=options)


def quick(rules=RULES):
    """The rules with short waits, evaluated each second; SluiceCollectStale after 4 s without a reading."""
    rules = re.sub(r"^    for: \w+$", "    for: 1s", rules, flags=re.M).replace("interval: 30s", "interval: 1s")
    assert rules.count("_timestamp_seconds > 60\n") == 1
    return rules.replace("_timestamp_seconds > 60\n", "_timestamp_seconds > 4\n")


def test_prometheus_has_what_the_machine_is(machine, servers):
    machine.start("dgx-a100", "--clock", "virtual")
    address = serve(machine)
    server = servers({"dgx": address}, rules=quick())
    jobs = [work(machine, 2, 0.9, "30GiB"), work(machine, 1, 0.4, "4GiB"), work(machine, 1, 0.05, "1GiB")]
    for job in jobs:
        machine.job_in(job, "Running")
    wait_until(lambda: sum(len(gpu["processes"]) for gpu in machine.show()["gpus"]) == 4, what="all loads")
    machine.load(6, "--util", "0.3", "--mem", "2GiB")  # of nobody
    machine.sim("inject", "ecc", "corrected", "--count", "5", "--gpu", "5")
    machine.sim("inject", "pcie", "replays", "2", "--gpu", "4")
    machine.sim("inject", "xid", "13", "--gpu", "5")
    for _ in range(5):
        machine.sim("clock", "advance", "30s")
    agree(server, machine)

    # Nothing is served of a GPU that is not compared here, or known to be told by nobody else.
    elsewhere = re.compile(
        r"sluice_gpu_(info|health|health_reason|drained|reserved|outside_processes|busy_seconds_total|bar1_(used|total)_bytes|temperature_margin_celsius|"
        r"energy_estimated|clocks_event_active|throttle_seconds_total|pcie_bytes_total|pcie_errors_total|"
        r"pcie_replay_limit_per_minute|nvlink_bytes_total|nvlink_errors_total|retired_pages|retired_pages_pending|"
        r"row_remap_banks|xid_errors_total|xid_last_timestamp_seconds|temperature_celsius|clock_hertz|clock_max_hertz|"
        r"power_limit_watts)|"
        r"DCGM_FI_DEV_(MEMORY_TEMP|POWER_MGMT_LIMIT|FAN_SPEED|\w+_VIOLATION|RETIRED_\w+)")
    wanted = expected(machine.show())
    assert not [key for key in received(server) if key not in wanted and not elsewhere.fullmatch(key[0])]
    assert len(wanted) > 600

    # What the bits of one word say, each for itself.
    show = machine.show()
    for labels, value in server.query("sluice_gpu_clocks_event_active"):
        bits = show["gpus"][int(labels["gpu"])]["throttle_reasons"]
        assert value == bool(bits & BITS[labels["reason"]]), labels
    for labels, _ in server.query("sluice_gpu_info"):
        gpu = show["gpus"][int(labels["gpu"])]
        assert (labels["uuid"], labels["name"], labels["serial"], labels["vbios"]) == (
            gpu["uuid"], gpu["name"], gpu["serial"], gpu["model"]["vbios"])
    assert server.query("sluice_gpus") == [({"__name__": "sluice_gpus", "job": "sluice", "instance": "dgx"}, 8)]
    assert [labels["simulated"] for labels, _ in server.query("sluice_build_info")] == ["true"]

    # Each job has what its processes have, and nobody's process is nobody's.
    used = {(labels["job_id"], labels["gpu"]): value
            for labels, value in server.query('sluice_container_gpu_memory_used_bytes{job_id!=""}')}
    placed = {}
    for job in jobs:
        for gpu in show["gpus"]:
            for labels, _ in server.query(f'sluice_container_gpu_allocated{{job_id="{job}",gpu="{gpu["index"]}"}}'):
                assert labels["uuid"] == gpu["uuid"]
                placed[str(job), str(gpu["index"])] = float(sum(one["memory_bytes"] for one in gpu["processes"]))
    assert len(placed) == 4 and used == placed
    assert server.query("sluice_unattributed_processes")[0][1] == 1

    # Dashboards: all of ours has data but for what only Hopper tells, and with one GPU chosen it is about that GPU.
    for title, text in expressions(OURS):
        rows = server.query(text)
        if "DCGM_FI_PROF" in text:
            assert not rows, text
        else:
            assert rows, f"{title}: {text}"
    for title, text in expressions(OURS, gpu="5", instance="dgx", job="sluice"):
        for labels, _ in server.query(text):
            assert labels.get("gpu", "5") == "5", title
    for variable in OURS["templating"]["list"][1:4]:
        assert label_values(server, variable["query"]["query"]), variable["name"]
    for text in THEIRS["expressions"]:
        rows = server.query(text.replace("${instance}", ".*").replace("${gpu}", ".*"))
        assert len(rows) == (0 if "PROF" in text else 8), text


def test_hopper_has_all_of_the_dashboards(machine, servers):
    """With a pod: a stand-in for the kubelet says what it has, and runc has made its container."""
    needs("runc")
    machine.start("hgx-h100", "--gpus", "2", "--clock", "virtual")
    uuid = machine.show()["gpus"][0]["uuid"]
    listed = field(1, field(1, "train-0") + field(2, "ml") + field(3, field(1, "main") + field(
        2, field(1, "nvidia.com/gpu") + field(2, uuid))))
    for path in ("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/pod-resources", "/var/log/containers"):
        machine.path(path).mkdir(parents=True, exist_ok=True)
    (machine.path("/var/log/containers") / f"train-0_ml_main-{CONTAINER}.log").touch()
    with contextlib.ExitStack() as stack:
        kubelet = serve_on(machine.path("/var/lib/kubelet/pod-resources/kubelet.sock"), "v1.PodResourcesLister",
                           {"List": lambda _request, _context: listed})
        stack.callback(kubelet.stop, 0)
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-"))
        pid = stack.enter_context(capture_cgroups.runc(
            pathlib.Path(directory), "runc", f"/kubepods/burstable/pod{capture_cgroups.POD}/{CONTAINER}"))
        server = servers({"hgx": serve(machine)}, rules=quick())
        machine.sim("load", "--gpu", 0, "--pid", pid, "--util", "0.7", "--tensor", "0.5", "--mem", "8GiB")
        machine.load(1, "--util", "0.2", "--mem", "1GiB")
        machine.sim("inject", "xid", "31", "--gpu", "1")
        for _ in range(3):
            machine.sim("clock", "advance", "30s")
        agree(server, machine)

        def moves(condition):
            """What engines did needs two readings with time between them."""
            def tick():
                machine.sim("clock", "advance", "1s")
                return condition()
            return wait_until(tick, what=f"{without_data(server)}: data")

        moves(lambda: not without_data(server))
        assert label_values(server, OURS["templating"]["list"][4]["query"]["query"]) == ["ml"]
        for text in THEIRS["variables"]:
            assert label_values(server, text)
        for text in THEIRS["expressions"]:
            moves(lambda one=text.replace("${instance}", "hgx").replace("${gpu}", ".*"): len(server.query(one)) == 2)
        tensor = {labels["gpu"]: value
                  for labels, value in server.query("max_over_time(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE[1m])")}
        assert 0.2 < tensor["0"] < 0.6 and tensor["1"] < 0.1
        [(labels, value)] = server.query('sluice_container_gpu_memory_used_bytes{pod="train-0"}')
        assert (labels["namespace"], labels["container"], labels["gpu"], labels["mode"]) == ("ml", "main", "0", "exclusive")
        assert value == sum(one["memory_bytes"] for one in machine.show()["gpus"][0]["processes"])
        [(labels, _)] = server.query('DCGM_FI_DEV_GPU_UTIL{pod="train-0"}')  # honor_labels
        assert labels["gpu"] == "0"


class Alarms:
    """What fires, and for which GPU."""

    def __init__(self, server, machine):
        self.server, self.machine, self.seen = server, machine, set()
        self.uuids = [gpu["uuid"] for gpu in machine.show()["gpus"]]

    def comes(self, name, gpu=None):
        def firing():
            return [alert for alert in self.server.firing().get(name, [])
                    if gpu is None or alert["labels"].get("gpu") == str(gpu)]
        [alert, *_] = wait_until(firing, what=f"{name} of GPU {gpu}")
        labels, notes = alert["labels"], alert["annotations"]
        if gpu is not None:
            assert labels.get("uuid", labels.get("UUID")) == self.uuids[gpu]
            assert f"GPU {gpu}" in notes["summary"]
        assert labels["instance"] == "dgx" and "dgx" in notes["summary"] and "dgx" in notes["description"]
        assert not re.search("<(no value|error)", str(notes)), notes
        self.seen.add(name)


def test_each_alert_fires_for_its_fault(machine, servers):
    machine.start("dgx-a100", "--clock", "virtual")
    address = serve(machine)
    server = servers({"dgx": address}, rules=quick())
    alarms = Alarms(server, machine)
    wait_until(lambda: len(server.query("sluice_gpu_ecc_errors_total")) == 32 and server.query("sluice:gpu_memory_used_ratio"),
               what="readings")
    wait_until(lambda: len(server.query("count_over_time(sluice_gpus[1m]) > 5")) == 1, what="a few readings")
    assert server.firing() == {}

    idle = machine.submit("sleep", "1000", gpus=1)
    machine.job_in(idle, "Running")
    alarms.comes("GpuAllocatedIdle")

    machine.sim("inject", "xid", "62", "--gpu", "1")
    alarms.comes("GpuXidFatal", 1)
    machine.sim("inject", "xid", "13", "--gpu", "1")
    wait_until(lambda: server.query('sluice_gpu_xid_errors_total{gpu="1",xid="13"}'), what="the first Xid 13")
    for _ in range(8):
        machine.sim("inject", "xid", "13", "--gpu", "1")
    alarms.comes("GpuXidAppBurst", 1)

    machine.sim("inject", "ecc", "uncorrected", "--contained", "--gpu", "2")
    alarms.comes("GpuEccUncorrectable", 2)
    machine.sim("inject", "remap", "pending", "--gpu", "3")
    alarms.comes("GpuRowRemapOrPagePending", 3)
    machine.sim("inject", "remap", "failure", "--gpu", "3")
    alarms.comes("GpuRowRemapFailure", 3)
    machine.sim("inject", "recovery", "1", "--gpu", "3")
    alarms.comes("GpuRecoveryActionNeeded", 3)

    machine.load(4, "--util", "1", "--mem", "39GiB")
    alarms.comes("GpuMemoryAlmostFull", 4)
    machine.sim("inject", "thermal", "--ambient", "75", "--gpu", "4")
    machine.sim("inject", "power-brake", "--gpu", "5")
    machine.sim("inject", "pcie", "replays", "10", "--gpu", "5")
    machine.sim("inject", "nvlink", "0", "errors", "5", "--gpu", "6")
    for _ in range(6):
        machine.sim("clock", "advance", "60s")
        count = server.query("count_over_time(sluice_gpus[1h])")[0][1]
        wait_until(lambda before=count: server.query("count_over_time(sluice_gpus[1h])")[0][1] > before + 1,
                   what="two more readings")
    for name, gpu in (("GpuTemperatureHigh", 4), ("GpuTemperatureAbsolute", 4), ("GpuThermalThrottling", 4),
                      ("GpuPowerBrake", 5), ("GpuPcieReplayRate", 5), ("GpuNvlinkErrors", 6)):
        alarms.comes(name, gpu)

    machine.sim("inject", "lost", "--gpu", "7")
    alarms.comes("GpuLost")
    machine.sim("inject", "hang", "any")
    alarms.comes("SluiceCollectStale")
    machine.sim("heal")
    machine.service.kill()
    machine.service.wait()
    alarms.comes("SluiceDown")
    machine.sim("inject", "no-driver")
    machine.agent("--web-address", address)
    alarms.comes("SluiceNeverRead")
    assert alarms.seen == set(re.findall(r"^  - alert: (\w+)$", RULES, re.M))
