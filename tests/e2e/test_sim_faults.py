# SPDX-License-Identifier: Apache-2.0
"""Each injected fault, on every surface on which it shows: NVML, its events, kernel log, files."""

import json
import os
import pathlib
import re
import stat
import subprocess
import time

import pytest

from conftest import wait_until

OBSERVER = pathlib.Path(__file__).with_name("nvml_observer.py")
XID, RECOVERY = 0x8, 0x8000
LOST, RESET_REQUIRED = 15, 16


class Observer:
    """nvml_observer.py as an object: every answer comes from another process."""

    def __init__(self, machine):
        self.child = machine.spawn("/usr/bin/python3", str(OBSERVER), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)

    def ask(self, **request):
        self.child.stdin.write(json.dumps(request) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def read(self, gpu=0):
        return self.ask(do="read", gpu=gpu)

    def field(self, number, gpu=0):
        return self.ask(do="fields", gpu=gpu, ids=[number])[str(number)]

    def events(self, timeout_ms=0):
        return [(event["gpu"], event["type"], event["data"])
                for event in self.ask(do="events", timeout_ms=timeout_ms)]


class Drill:
    def __init__(self, machine, profile, *options):
        self.machine = machine
        machine.start(profile, "--clock", "virtual", "--dev-style", "file", *options)
        self.observer = Observer(machine)
        assert self.observer.ask(do="init")["code"] == 0

    def inject(self, *arguments, rc=0):
        return self.machine.sim("inject", *arguments, rc=rc)

    def advance(self, text):
        self.machine.sim("clock", "advance", text)

    def log(self):
        """Texts of the records of facility 0; sequence and time never go back."""
        texts, last = [], (-1, -1)
        for line in self.machine.read("kmsg").splitlines():
            if line.startswith(" "):
                continue
            head, text = line.split(";", 1)
            priority, sequence, usec, flags = head.split(",")
            assert (int(sequence), int(usec)) > last and flags == "-"
            last = (int(sequence), int(usec))
            if int(priority) >> 3 == 0:
                texts.append(text)
        return texts

    def xids(self):
        return [int(found.group(1)) for text in self.log()
                if (found := re.match(r"NVRM: Xid \(PCI:[0-9a-f:]+[^)]*\): (\d+), ", text))]

    def gpu(self, index=0):
        return self.machine.show()["gpus"][index]


@pytest.fixture
def drill(machine):
    return lambda profile="dgx-a100", *options: Drill(machine, profile, *options)


@pytest.mark.parametrize("code", [13, 31, 43, 45, 61, 62, 92, 94, 95, 119, 120, 172])
def test_xid(drill, code):
    d = drill()
    d.inject("xid", str(code), "--gpu", "3", "--pid", str(os.getpid()))
    assert d.observer.events() == [(3, XID, code)]
    assert d.observer.events() == []
    text, = d.log()
    assert text.startswith(f"NVRM: Xid (PCI:0000:4e:00): {code}, pid={os.getpid()}, name=")
    assert d.gpu(3)["last_xid"] == code and d.gpu(0)["last_xid"] == 0


def test_xid_without_a_number(drill):
    d = drill()
    d.inject("xid", "999", "--gpu", "0")
    assert d.observer.events() == [(0, XID, 999)] and d.log() == []


def test_xid_of_a_mig_instance(drill):
    d = drill("a100-mig")
    instance = d.gpu()["mig"]["instances"][1]
    d.inject("xid", "13", "--gpu", "0", "--mig", f"{instance['gi']}/{instance['ci']}")
    event, = d.observer.ask(do="events")
    assert (event["data"], event["gi"], event["ci"]) == (13, instance["gi"], instance["ci"])
    assert f" GPU-I:{instance['gi']:02d}): 13, pid='<unknown>', name=<unknown>, " in d.log()[0]


@pytest.mark.parametrize("form, expected", [
    ("new", ["NVRM: Xid (PCI:0000:07:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off "
             "the bus.", "NVRM: GPU 0000:07:00.0: GPU has fallen off the bus."]),
    ("old", ["NVRM: GPU 07:00.0: GPU has fallen off the bus."]),
    ("threeline", ["NVRM: The NVIDIA GPU 0000:07:00.0",
                   "NVRM: (PCI ID: 10de:20b0) installed in this system has",
                   "NVRM: fallen off the bus and is not responding to commands."])])
def test_lost(drill, form, expected):
    d = drill()
    d.inject("lost", "--gpu", "0", "--form", form)
    assert d.log() == expected
    assert d.observer.events() == [(0, XID, 79)]
    reading = d.observer.read(0)
    assert set(reading["codes"].values()) == {LOST} and reading["links"] == []
    assert set(d.observer.read(1)["codes"].values()) == {0}
    assert d.machine.path("/sys/bus/pci/devices/0000:07:00.0/config").read_bytes() == b"\xff" * 256
    assert d.gpu(0)["health"] == "lost"
    assert Observer(d.machine).ask(do="init")["count"] == 8
    d.machine.sim("reset-gpu", "--gpu", "0", rc=1)
    d.machine.sim("heal", "--gpu", "0")
    assert d.observer.read(0)["codes"]["power_mw"] == 0


def test_old_form(drill):
    d = drill("dgx1")
    d.inject("xid", "13", "--gpu", "0", "--form", "old")
    assert d.log()[0].startswith("NVRM: Xid (0000:06:00): 13, Graphics")


@pytest.mark.parametrize("fault", [["ecc", "uncorrected"], ["xid", "48"]])
@pytest.mark.parametrize("option, follow, action", [
    (None, [], 0), ("--contained", [63, 94], 0), ("--uncontained", [95], 1)])
def test_ecc_uncorrected(drill, fault, option, follow, action):
    d = drill()
    d.inject(*fault, "--gpu", "1", *([option] if option else []))
    assert d.observer.ask(do="fields", gpu=1, ids=[3, 4, 5, 6, 230]) == \
        {"3": 0, "4": 1, "5": 0, "6": 1, "230": action}
    events = d.observer.events()
    assert (1, 0x2, 0) in events
    assert [data for _, kind, data in events if kind == XID] == [48] + follow == d.xids()
    assert d.gpu(1)["ecc"]["remap_pending"] == (option == "--contained")
    d.machine.sim("reset-gpu", "--gpu", "1")
    assert d.observer.ask(do="fields", gpu=1, ids=[4, 6, 230]) == {"4": 0, "6": 1, "230": 0}


def test_ecc_corrected(drill):
    d = drill()
    d.inject("ecc", "corrected", "--gpu", "2", "--count", "5", "--storm")
    assert d.observer.ask(do="fields", gpu=2, ids=[3, 4, 5, 6]) == {"3": 5, "4": 0, "5": 5, "6": 0}
    assert [kind for _, kind, _ in d.observer.events()] == [0x1, 0x200]
    assert d.log() == []


def test_remap(drill):
    d = drill()
    d.inject("remap", "pending", "--gpu", "0")
    assert d.observer.read()["remapped"] == [0, 1, 1, 0]
    assert d.observer.ask(do="fields", gpu=0, ids=[142, 143, 144, 145]) == \
        {"142": 0, "143": 1, "144": 1, "145": 0}
    d.inject("remap", "failure", "--gpu", "0")
    assert d.observer.read()["remapped"] == [0, 1, 1, 1]
    assert [kind for _, kind, _ in d.observer.events()] == [XID, 0x400, XID, 0x800]
    assert d.xids() == [63, 64]
    d.machine.sim("reset-gpu", "--gpu", "0")
    assert d.observer.read()["remapped"] == [0, 1, 0, 1], "a reset applies the remapping"


def test_retired_pages(drill):
    d = drill("dgx1")
    d.inject("retire", "--gpu", "0")
    d.inject("retire", "sbe", "--gpu", "0")
    assert d.observer.ask(do="fields", gpu=0, ids=[29, 30, 31]) == {"29": 1, "30": 1, "31": 1}
    assert d.xids() == [63, 63]
    d.machine.sim("reset-gpu", "--gpu", "0")
    assert d.observer.field(31) == 0 and d.observer.field(30) == 1


def test_thermal(drill):
    d = drill()
    d.machine.sim("load", "--gpu", "0", "--pid", "7", "--invented", "--util", "1")
    d.advance("2m")
    cool = d.observer.read()
    # as hot as makes it slow down and no hotter
    d.inject("thermal", "--ambient", "46", "--gpu", "0")
    d.advance("2m")
    hot = d.observer.read()
    assert hot["temperature_c"] > cool["temperature_c"] + 10
    assert hot["reasons"] & (0x20 | 0x40) and not cool["reasons"] & (0x20 | 0x40)
    assert hot["sm_mhz"] < cool["sm_mhz"]
    assert d.observer.field(75) > 0
    d.machine.sim("heal", "--gpu", "0")
    d.advance("5m")
    assert not d.observer.read()["reasons"] & (0x20 | 0x40) and d.log() == []


def test_overheated_gpu_is_lost_everywhere(drill):
    d = drill()
    d.machine.sim("load", "--gpu", "0", "--pid", "7", "--invented", "--util", "1")
    d.inject("thermal", "--ambient", "120", "--gpu", "0")
    d.advance("5m")
    assert set(d.observer.read()["codes"].values()) == {LOST}
    assert (0, XID, 79) in d.observer.events()
    assert d.xids() == [79]
    assert d.machine.path("/sys/bus/pci/devices/0000:07:00.0/config").read_bytes() == b"\xff" * 256
    d.advance("1s")
    assert d.xids() == [79], "logged once"


def test_stuck_fan(drill):
    d = drill("workstation")
    d.machine.sim("load", "--gpu", "0", "--pid", "7", "--invented", "--util", "1")
    d.advance("3m")
    before = d.gpu()
    d.inject("thermal", "--fan-stuck", "--gpu", "0")
    d.advance("1m")
    assert d.gpu()["fan_percent"] < before["fan_percent"]
    assert d.gpu()["temperature_c"] > before["temperature_c"]


def test_power_brake(drill):
    d = drill()
    d.machine.sim("load", "--gpu", "0", "--pid", "7", "--invented", "--util", "1")
    d.advance("10s")
    before = d.observer.read()
    d.inject("power-brake", "--gpu", "0")
    d.advance("10s")
    braked = d.observer.read()
    assert braked["reasons"] & 0x80 and d.observer.field(271) > 0
    assert braked["sm_mhz"] <= before["sm_mhz"] // 2 + 1


def test_nvlink_down_at_both_ends(drill):
    d = drill("dgx1")
    links = d.gpu(0)["nvlink"]
    peer = int(links[0]["peer"][3:])
    d.inject("nvlink", "0", "down", "--gpu", "0")
    assert d.observer.read(0)["links"] == [0, 1, 1, 1, 1, 1]
    assert d.observer.read(peer)["links"].count(0) == 1
    assert d.observer.read(3 if peer != 3 else 4)["links"].count(0) == 0
    assert d.observer.events() == [(0, XID, 74)] and d.xids() == [74]
    d.machine.sim("heal", "--gpu", "0")
    assert d.observer.read(0)["links"] == [1] * 6 == d.observer.read(peer)["links"]


def test_nvlink_errors(drill):
    d = drill("dgx1")
    totals = [38, 45, 52, 59, 160]
    before = d.observer.ask(do="fields", gpu=0, ids=totals)
    d.inject("nvlink", "2", "errors", "50", "--gpu", "0")
    d.advance("10s")
    after = d.observer.ask(do="fields", gpu=0, ids=totals)
    assert sum(value or 0 for value in after.values()) > sum(value or 0 for value in before.values())
    assert d.xids() == [74]
    link = d.gpu(0)["nvlink"][2]
    assert link["crc_flit"] + link["crc_data"] + link["replay"] + link["recovery"] >= 400


@pytest.mark.parametrize("code", range(144, 151))
def test_nvlink5_form(drill, code):
    d = drill("hgx-h100")
    d.inject("xid", str(code), "--gpu", "0", "--contained")
    assert re.match(rf"NVRM: Xid \(PCI:0000:1b:00\): {code}, \w+ +Nonfatal XC0 i0 Link -1 \(0x",
                    d.log()[0])
    assert d.observer.events() == [(0, XID, code)]


def test_pcie(drill):
    d = drill()
    d.inject("pcie", "replays", "20", "--gpu", "0")
    d.advance("10s")
    assert d.observer.field(94) == 200
    d.inject("pcie", "width", "8", "--gpu", "0")
    d.inject("pcie", "gen", "1", "--gpu", "0")
    reading = d.observer.read()
    assert (reading["pcie_width"], reading["pcie_gen"]) == (8, 1)
    function = d.machine.path("/sys/bus/pci/devices/0000:07:00.0")
    assert (function / "current_link_width").read_text() == "8\n"
    assert (function / "current_link_speed").read_text() == "2.5 GT/s PCIe\n"
    assert (function / "max_link_speed").read_text() == "16.0 GT/s PCIe\n"
    assert (function / "max_link_width").read_text() == "16\n"
    types = ["correctable", "naks-received", "receiver", "bad-tlp", "naks-sent", "bad-dllp",
             "nonfatal", "fatal", "unsupported-request", "lcrc", "lane"]
    for index, name in enumerate(types):
        d.inject("pcie", "errors", name, "--gpu", "0", "--count", str(index + 1))
    fields = d.observer.ask(do="fields", gpu=0, ids=list(range(173, 184)))
    assert list(fields.values()) == list(range(1, 12))
    d.machine.sim("heal")
    assert (function / "current_link_width").read_text() == "16\n"
    assert d.observer.read()["pcie_width"] == 16


def test_reset_required(drill):
    d = drill()
    d.inject("reset-required", "--gpu", "4")
    codes = d.observer.read(4)["codes"]
    assert codes["power_mw"] == RESET_REQUIRED
    assert d.gpu(4)["recovery_action"] == 1 and d.xids() == [154]
    assert [kind for _, kind, _ in d.observer.events()] == [XID, RECOVERY]
    d.machine.sim("reset-gpu", "--gpu", "4")
    assert d.observer.read(4)["codes"]["power_mw"] == 0 and d.observer.field(230, 4) == 0


def test_recovery_action(drill):
    d = drill()
    d.inject("recovery", "2", "--gpu", "0")
    d.inject("recovery", "4", "--gpu", "0")
    assert d.observer.field(230) == 4
    assert [event for event in d.observer.events() if event[1] == RECOVERY] == \
        [(0, RECOVERY, 2), (0, RECOVERY, 4)]
    assert "GPU recovery action changed from 0x0 (" in d.log()[0]
    assert re.search(r"changed from 0x2 \(.*\) to 0x4 \(", d.log()[1])


def test_unavailable(drill):
    d = drill()
    d.inject("unavailable", "--gpu", "1")
    assert d.observer.events() == [(1, 0x4000, 0)] and d.log() == []


def test_hang_ends_when_healed(drill):
    d = drill()
    d.inject("hang", "nvmlDeviceGetPowerUsage", "--gpu", "1")
    assert d.observer.read(0)["codes"]["power_mw"] == 0
    request = json.dumps({"do": "read", "gpu": 1}) + "\n"
    d.observer.child.stdin.write(request)
    d.observer.child.stdin.flush()
    other = Observer(d.machine)
    assert other.ask(do="init")["code"] == 0 and other.read(0)["codes"]["power_mw"] == 0
    assert d.observer.child.poll() is None
    os.set_blocking(d.observer.child.stdout.fileno(), False)
    assert d.observer.child.stdout.read(1) in (None, ""), "the call should hang"
    os.set_blocking(d.observer.child.stdout.fileno(), True)
    d.machine.sim("heal")
    assert json.loads(d.observer.child.stdout.readline())["codes"]["power_mw"] == 0


def test_slow(drill):
    d = drill()
    d.inject("slow", "nvmlDeviceGetPowerUsage", "--ms", "300", "--gpu", "0")
    begin = time.monotonic()
    assert d.observer.read(0)["codes"]["power_mw"] == 0
    assert time.monotonic() - begin >= 0.3


def test_hang_for_a_time(drill):
    d = drill()
    d.inject("hang", "nvmlDeviceGetPowerUsage", "--ms", "200", "--gpu", "0")
    begin = time.monotonic()
    d.observer.read(0)
    assert time.monotonic() - begin >= 0.2


def test_fault_returns_any_code(drill):
    d = drill()
    d.machine.sim("fault", "nvmlDeviceGetPowerUsage", "ret=999", "gpu=0", "after=1", "count=2")
    assert [d.observer.read(0)["codes"]["power_mw"] for _ in range(4)] == [0, 999, 999, 0]
    assert d.observer.read(1)["codes"]["power_mw"] == 0
    d.machine.sim("heal")
    d.machine.sim("fault", "nvmlInit", "ret=9")
    assert Observer(d.machine).ask(do="init") == {"code": 9}


@pytest.mark.parametrize("kind, code", [
    ("no-driver", 9), ("no-permission", 4), ("version-mismatch", 18)])
def test_driver_faults(drill, kind, code):
    d = drill()
    version = d.machine.path("/proc/driver/nvidia/version")
    d.inject(kind)
    assert Observer(d.machine).ask(do="init") == {"code": code}
    if kind == "no-driver":
        assert not version.exists() and not d.machine.path("/dev/nvidia0").exists()
        assert not d.machine.path("/sys/module/nvidia").exists()
        assert not d.machine.path("/sys/bus/pci/devices/0000:07:00.0/driver").exists()
        assert d.machine.path("/sys/bus/pci/devices/0000:07:00.0/vendor").exists()
    elif kind == "no-permission":
        for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
            assert stat.S_IMODE(d.machine.path(f"/dev/{name}").stat().st_mode) == 0o600
    else:
        loaded = d.machine.read("/sys/module/nvidia/version").strip()
        assert loaded != d.machine.show()["machine"]["driver_version"]
        assert f"  {loaded}  " in version.read_text()
        assert d.machine.path("/usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08").exists()
    d.machine.sim("heal")
    assert Observer(d.machine).ask(do="init")["code"] == 0
    assert "580.105.08" in version.read_text()


def test_missed_events_are_still_logged(drill):
    d = drill()
    d.inject("events-missed", "79,119")
    d.inject("xid", "119", "--gpu", "0")
    d.inject("xid", "120", "--gpu", "0")
    d.inject("lost", "--gpu", "1")
    assert d.observer.events() == [(0, XID, 120)]
    assert d.xids() == [119, 120, 79]


def test_hot_unplug_and_plug(drill):
    d = drill()
    d.inject("hotunplug", "--gpu", "3")
    assert Observer(d.machine).ask(do="init")["count"] == 7
    assert not d.machine.path("/dev/nvidia3").exists()
    assert not d.machine.path("/sys/bus/pci/devices/0000:4e:00.0").is_symlink()
    d.inject("hotunplug", "--gpu", "3", rc=2)
    d.inject("hotplug", "--gpu", "3")
    assert Observer(d.machine).ask(do="init")["count"] == 8
    records = d.machine.path("uevent").read_bytes().split(b"\0\0")
    assert records[-1] == b"" and len(records) == 3
    for record, action in zip(records, ("remove", "add")):
        head, *pairs = record.decode().split("\0")
        values = dict(pair.split("=", 1) for pair in pairs)
        assert head == f"{action}@{values['DEVPATH']}" and values["ACTION"] == action
        assert values["SUBSYSTEM"] == "pci" and values["PCI_ID"].startswith("10DE:")
        assert values["PCI_SLOT_NAME"] == "0000:4e:00.0"
        assert d.machine.path("/sys" + values["DEVPATH"]).is_dir()
    assert any("0000:4e:00.0" in text for text in d.log())
    assert " DEVICE=+pci:0000:4e:00.0\n" in d.machine.read("kmsg")


def test_new_mig_layout(drill):
    d = drill("dgx-a100", "--mig", "single")
    before = {instance["uuid"] for instance in d.gpu()["mig"]["instances"]}
    d.inject("mig", "hetero")
    assert {(gpu, kind) for gpu, kind, _ in d.observer.events()} == {(i, 0x100) for i in range(8)}
    after = {instance["uuid"] for instance in d.gpu()["mig"]["instances"]}
    assert len(before) == 7 and len(after) == 3


@pytest.mark.parametrize("mode", ["ecc", "mig"])
def test_pending_mode(drill, mode):
    d = drill()
    now, later = d.observer.read()[f"{mode}_mode"]
    assert now == later
    d.inject("mode", mode, "pending", "--gpu", "0")
    assert d.observer.read()[f"{mode}_mode"] == [now, 1 - now]
    d.machine.sim("reset-gpu", "--gpu", "0")
    assert d.observer.read()[f"{mode}_mode"] == [1 - now, 1 - now]


def test_reload_driver(drill):
    d = drill()
    d.advance("10s")
    d.inject("pcie", "replays", "20", "--gpu", "0")
    d.advance("10s")
    assert d.observer.read()["energy_mj"] > 0
    loads = d.machine.show()["machine"]["driver_loads"]
    d.machine.sim("reload-driver")
    assert d.observer.read()["energy_mj"] == 0 and d.observer.field(94) == 0
    assert d.machine.show()["machine"]["driver_loads"] == loads + 1


def test_reset_is_refused_while_in_use(drill):
    d = drill()
    d.machine.sim("load", "--gpu", "0", "--pid", "4711", "--invented", "--util", "1")
    assert "4711" in d.machine.sim("reset-gpu", "--gpu", "0", rc=1).err
    assert "4711" in d.machine.sim("reload-driver", rc=1).err
    d.machine.sim("reset-gpu", "--gpu", "1")


def test_forged_record_changes_nothing(drill):
    d = drill()
    d.inject("xid", "79", "--gpu", "0", "--forge")
    assert d.log() == [] and "12," in d.machine.read("kmsg")[:3]
    assert d.observer.events() == [] and d.gpu()["health"] == "ok"


def test_flood_and_overwrite(drill):
    d = drill()
    d.inject("kmsg", "flood", "5000")
    assert len(d.log()) == 5000
    d.inject("kmsg", "overwrite", "70")
    lines = d.machine.read("kmsg").splitlines()
    assert len(lines) == 1 and int(lines[0].split(",")[1]) == 5070
    d.inject("xid", "13", "--gpu", "0")
    assert d.xids() == [13]


def test_text_cannot_break_a_record(drill):
    d = drill()
    d.inject("xid", "13", "--gpu", "0", "--text", "a\n6,1,1,-;NVRM: Xid (PCI:0000:0f:00): 79, b\x01")
    assert len(d.machine.read("kmsg").splitlines()) == 1 and "\\x0a" in d.log()[0]


def test_fault_that_ends_by_itself(machine):
    machine.start("t4x1", "--dev-style", "file")
    child = machine.spawn("sluice", "sim", "inject", "power-brake", "--gpu", "0", "--for", "500ms",
                          stdout=subprocess.DEVNULL)
    assert child.wait(timeout=30) == 0
    wait_until(lambda: not machine.show()["gpus"][0]["throttle_reasons"] & 0x80)


def test_interrupted_fault_is_taken_back(machine):
    machine.start("t4x1", "--dev-style", "file")
    child = machine.spawn("sluice", "sim", "inject", "lost", "--gpu", "0", "--for", "1h",
                          stdout=subprocess.DEVNULL)
    wait_until(lambda: machine.show()["gpus"][0]["health"] == "lost")
    child.terminate()
    assert child.wait(timeout=30) == 0
    assert machine.show()["gpus"][0]["health"] == "ok"


@pytest.mark.parametrize("profile, arguments, text", [
    ("dgx-a100", ["xit", "79", "--gpu", "0"], "did you mean 'xid'"),
    ("dgx-a100", ["xid", "x", "--gpu", "0"], "not an XID"),
    ("dgx-a100", ["xid", "13"], "needs --gpu"),
    ("dgx-a100", ["xid", "--gpu", "0"], "inject xid CODE"),
    ("dgx-a100", ["xid", "13", "--gpu", "8"], "no GPU 8"),
    ("dgx-a100", ["xid", "13", "--gpu", "0", "--mig", "7/0"], "no MIG instance"),
    ("dgx-a100", ["xid", "13", "--gpu", "0", "--form", "threeline"], "threeline"),
    ("dgx-a100", ["xid", "13", "--gpu", "0", "--form", "nvlink5"], "nvlink5"),
    ("dgx-a100", ["nvlink", "12", "down", "--gpu", "0"], "no NVLink '12'"),
    ("t4x1", ["nvlink", "0", "down", "--gpu", "0"], "no NVLink"),
    ("workstation", ["ecc", "corrected", "--gpu", "0"], "no ECC"),
    ("dgx1", ["remap", "pending", "--gpu", "0"], "retire"),
    ("dgx-a100", ["retire", "--gpu", "0"], "remap"),
    ("dgx1", ["mig", "single"], "partitioned"),
    ("dgx1", ["mode", "mig", "pending", "--gpu", "0"], "MIG"),
    ("dgx-a100", ["thermal", "--fan-stuck", "--gpu", "0"], "no fan"),
    ("dgx-a100", ["thermal", "--gpu", "0"], "--ambient"),
    ("dgx-a100", ["pcie", "width", "32", "--gpu", "0"], "width"),
    ("dgx-a100", ["pcie", "errors", "bad-tlb", "--gpu", "0"], "bad-tlp"),
    ("dgx-a100", ["hang", "nvmlDeviceGetPowerUsag"], "nvmlDeviceGetPowerUsage"),
    ("dgx-a100", ["slow", "any"], "--ms"),
    ("dgx-a100", ["hotplug", "--gpu", "0"], "plugged in"),
    ("dgx-a100", ["events-missed", "79,,"], "list"),
])
def test_refusals(machine, profile, arguments, text):
    machine.start(profile, "--clock", "virtual", "--dev-style", "file")
    before = machine.sim("show", "--output", "json").out
    reply = machine.sim("inject", *arguments, rc=2)
    assert text in reply.err and len(reply.err.splitlines()) == 1, reply
    assert machine.sim("show", "--output", "json").out == before
    assert machine.read("kmsg") == ""


def test_every_kind_is_listed(machine):
    machine.start("t4x1", "--dev-style", "file")
    out = machine.sim("inject").out
    for kind in ("xid", "ecc", "remap", "retire", "thermal", "power-brake", "nvlink", "pcie", "lost",
                 "reset-required", "recovery", "unavailable", "hang", "slow", "version-mismatch",
                 "no-driver", "no-permission", "events-missed", "hotplug", "hotunplug", "mig",
                 "mode"):
        assert re.search(rf"^{kind} ", out, re.MULTILINE), kind
