# SPDX-License-Identifier: Apache-2.0
"""The probe over time: hangs, stops, changes of the machine, and what its client is told."""

import json
import os
import signal
import subprocess
import threading
import time

import pytest

from conftest import BUILD, wait_until

PROBE_WATCH = os.environ.get("PROBE_WATCH", str(BUILD / "tests" / "e2e" / "probe_watch"))
PROBE = BUILD / "src" / "libexec" / "probe" / "sluice-probe"  # `sluice probe` is the same: test_devices.py
DEADLINE_S = 30


class Watch:
    """Runs probe_watch and keeps what it prints."""

    def __init__(self, machine, *options, call_ms=1500, period_ms=50, retry_ms=600000):
        self.events = []
        self.changed = threading.Condition()
        self.seen = 0
        self.process = machine.spawn(
            PROBE_WATCH, PROBE, call_ms, period_ms, retry_ms, *options,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.events.append(json.loads(line))
                self.changed.notify_all()

    def wait(self, kind, match=lambda event: True, deadline_s=DEADLINE_S):
        """The next event of this kind, after those that were waited for before."""
        end = time.monotonic() + deadline_s
        with self.changed:
            while True:
                for place in range(self.seen, len(self.events)):
                    event = self.events[place]
                    if event["event"] == kind and match(event):
                        self.seen = place + 1
                        return event
                left = end - time.monotonic()
                if left <= 0 or not self.changed.wait(left):
                    kinds = [event["event"] for event in self.events[self.seen:]
                             if event["event"] != "snapshot"]
                    pytest.fail(f"no {kind} within {deadline_s} s; came: {kinds}")

    def states(self, wanted):
        """Waits for a snapshot with these states."""
        return self.wait("snapshot", lambda event: [
            sample["state"] for sample in event["samples"]] == wanted)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=10) == 0


def test_samples_come_each_period(machine):
    machine.start("t4x4")
    watch = Watch(machine)
    assert len(watch.wait("inventory")["gpus"]) == 4
    for _ in range(5):
        samples = watch.wait("snapshot")["samples"]
        assert all(sample["power_mw"] > 0 for sample in samples)
    watch.end()


def test_hang_and_recovery(machine):
    machine.start("t4x4")
    watch = Watch(machine, retry_ms=1500)
    watch.states(["ok"] * 4)
    uuid = machine.show()["gpus"][2]["uuid"]
    machine.sim("inject", "hang", "any", "--gpu", "2")
    hung = watch.wait("hung")
    assert hung["uuid"] == uuid and "did not come back" in hung["text"]
    assert hung["abandoned"] == 1
    # everything else goes on, with values
    after = watch.states(["ok", "ok", "hung", "ok"])
    assert after["samples"][2]["power_mw"] is None
    after = watch.wait("snapshot", lambda event: event["samples"][3]["power_mw"] is not None)
    assert after["samples"][2]["state"] == "hung" and after["pid"] != hung["pid"]
    # and when the driver answers again, so does the GPU
    machine.sim("heal")
    watch.states(["ok"] * 4)
    watch.end()


def test_a_gpu_that_has_worked_since_is_not_left_alone_for_longer(machine):
    """Each vain try doubles the time until the next; what hung long ago no longer counts."""
    machine.start("t4x4")
    watch = Watch(machine, retry_ms=500)
    watch.states(["ok"] * 4)
    machine.sim("inject", "hang", "any", "--gpu", "2")
    for _ in range(4):
        watch.wait("hung")  # and is tried after 0.5, 1, 2 and 4 s
    machine.sim("heal")
    first = watch.states(["ok"] * 4)["time_ns"]
    watch.wait("snapshot", lambda event: event["time_ns"] > first + 8_000_000_000)
    machine.sim("inject", "hang", "any", "--gpu", "2")
    hung = watch.wait("hung")["time_ns"]
    machine.sim("heal")
    assert watch.states(["ok"] * 4)["time_ns"] < hung + 6_000_000_000, "8 s, as if it had hung on"
    watch.end()


def test_hang_that_cannot_be_killed(machine):
    """As in uninterruptible sleep: the old probe stays, is counted, and nothing waits for it."""
    machine.start("t4x4")
    watch = Watch(machine, "--cannot-kill")
    first = watch.states(["ok"] * 4)["pid"]
    machine.sim("inject", "hang", "nvmlDeviceGetPowerUsage", "--gpu", "1")
    watch.wait("hung")
    after = watch.states(["ok", "hung", "ok", "ok"])
    assert after["abandoned"] == 1 and after["pid"] != first
    for _ in range(5):
        watch.wait("snapshot")
    # nobody killed it: it notices that its client has gone, ends by itself and is reaped
    watch.wait("snapshot", lambda event: event["alive"] == 0)
    watch.end()


def test_stopped_probe_is_replaced_and_no_gpu_blamed(machine):
    machine.start("t4x4")
    watch = Watch(machine)
    first = watch.states(["ok"] * 4)["pid"]
    os.kill(first, signal.SIGSTOP)
    hung = watch.wait("hung")
    assert hung["uuid"] == ""
    after = watch.wait("snapshot", lambda event: event["pid"] not in (first, -1))
    assert [sample["state"] for sample in after["samples"]] == ["ok"] * 4
    watch.end()


def test_killed_probe_is_replaced(machine):
    machine.start("t4x4")
    watch = Watch(machine)
    first = watch.states(["ok"] * 4)["pid"]
    os.kill(first, signal.SIGKILL)
    watch.wait("probe-replaced")
    watch.wait("snapshot", lambda event: event["pid"] not in (first, -1))
    watch.end()


def test_lost_gpu(machine):
    """A round of readings finds it, and so does whoever looks after the XID: whichever is first, the
    snapshot and the change are both told, the change once."""
    machine.start("t4x4")
    watch = Watch(machine)
    watch.states(["ok"] * 4)
    uuid = machine.show()["gpus"][1]["uuid"]
    before = watch.seen
    machine.sim("inject", "lost", "--gpu", "1")
    watch.states(["ok", "lost", "ok", "ok"])
    watch.seen = before
    event = watch.wait("gpu-state")
    assert event["uuid"] == uuid and event["data"] == 1
    inventory = watch.wait("inventory")
    assert inventory["gpus"][1]["state"] == "lost" and inventory["gpus"][1]["name"] == "Tesla T4"
    watch.end()
    assert [event["uuid"] for event in watch.events if event["event"] == "gpu-state"] == [uuid]


def test_xid_comes_once_from_two_sources(machine):
    machine.start("dgx-a100", "--gpus", "2")
    watch = Watch(machine)
    watch.states(["ok"] * 2)
    uuids = [gpu["uuid"] for gpu in machine.show()["gpus"]]
    machine.sim("inject", "xid", "31", "--gpu", "0")
    first = watch.wait("xid")
    assert first["uuid"] == uuids[0] and first["data"] == 31 and not first["history"]
    machine.sim("inject", "xid", "43", "--gpu", "1")
    assert watch.wait("xid")["data"] == 43  # not 31 again
    time_of_both = [event for event in watch.events if event["event"] == "xid"]
    assert len(time_of_both) == 2
    watch.end()


def test_xid_while_events_are_subscribed_to_anew(machine):
    """As when a GPU falls off the bus: for a moment an event of another one comes by two ways, and is told once."""
    for _ in range(4):
        machine.start("dgx-a100", "--gpus", "3")
        watch = Watch(machine)
        watch.states(["ok"] * 3)
        machine.sim("inject", "xid", "79", "--gpu", "1")
        watch.states(["ok", "lost", "ok"])
        machine.sim("inject", "xid", "31", "--gpu", "0")
        watch.wait("xid", lambda event: event["data"] == 31)
        machine.sim("inject", "xid", "43", "--gpu", "2")
        watch.wait("xid", lambda event: event["data"] == 43)
        watch.states(["ok", "lost", "ok"])
        told = [event["data"] for event in watch.events if event["event"] == "xid"]
        assert (told.count(31), told.count(43)) == (1, 1), told
        watch.end()
        machine.sim("stop")


def test_xid_that_nvml_misses(machine):
    machine.start("dgx-a100", "--gpus", "2")
    machine.sim("inject", "events-missed", "119")
    watch = Watch(machine)
    watch.states(["ok"] * 2)
    machine.sim("inject", "xid", "119", "--gpu", "1")
    event = watch.wait("xid")
    assert event["source"] == 1 and event["data"] == 119
    assert event["uuid"] == machine.show()["gpus"][1]["uuid"]
    watch.end()


def test_old_records_are_history_and_told_once(machine):
    machine.start("dgx-a100", "--gpus", "2")
    machine.sim("inject", "xid", "43", "--gpu", "0")
    watch = Watch(machine)
    event = watch.wait("xid")
    assert event["history"] and event["data"] == 43
    first = watch.states(["ok"] * 2)["pid"]
    os.kill(first, signal.SIGKILL)
    machine.sim("inject", "xid", "45", "--gpu", "1")  # while no probe is looking
    event = watch.wait("xid")
    assert event["data"] == 45 and not event["history"]
    watch.end()


def test_mig_layout(machine):
    machine.start("dgx-a100", "--gpus", "1", "--mig", "single")
    watch = Watch(machine)
    watch.wait("snapshot")
    before = {mig["uuid"] for mig in machine.run(
        "sluice", "devices", "-o", "json").ok().json["gpus"][0]["mig"]["devices"]}
    assert len(before) == 7
    machine.sim("inject", "mig", "hetero", "--gpu", "0")
    event = watch.wait("mig-changed")
    assert event["uuid"] == machine.show()["gpus"][0]["uuid"]
    after = {mig["uuid"] for mig in machine.run(
        "sluice", "devices", "-o", "json").ok().json["gpus"][0]["mig"]["devices"]}
    assert len(after) == 3 and not after & before
    watch.end()


def test_hot_unplug_and_plug(machine):
    machine.start("t4x4")
    watch = Watch(machine)
    watch.states(["ok"] * 4)
    uuid = machine.show()["gpus"][3]["uuid"]
    machine.sim("inject", "hotunplug", "--gpu", "3")
    assert watch.wait("gpu-removed")["uuid"] == uuid
    watch.states(["ok"] * 3)
    machine.sim("inject", "hotplug", "--gpu", "3")
    assert watch.wait("gpu-added")["uuid"] == uuid
    watch.states(["ok"] * 4)
    watch.end()


def test_driver_reload(machine):
    machine.start("t4x1")
    load = machine.load("0", "--util", "1")
    watch = Watch(machine)
    watch.wait("snapshot")
    for _ in range(10):  # some energy is used
        watch.wait("snapshot")
    load.kill()
    load.wait()
    # refused until the machine has noticed that the process has gone
    wait_until(lambda: machine.sim("reload-driver", rc=None).rc == 0)
    watch.wait("driver-restarted")
    watch.wait("snapshot")
    watch.end()


def test_driver_goes_and_comes_back(machine):
    machine.start("t4x1")
    watch = Watch(machine)
    first = watch.wait("snapshot")["pid"]
    machine.sim("inject", "no-driver")
    os.kill(first, signal.SIGKILL)
    down = watch.wait("driver-down")
    assert "sluice sim" in down["text"]
    machine.sim("heal")
    watch.wait("snapshot", lambda event: event["pid"] > 0)
    watch.end()


def test_the_probe_ends_with_its_client(machine):
    machine.start("t4x1")
    watch = Watch(machine)
    pid = watch.wait("snapshot")["pid"]
    watch.process.kill()
    watch.process.wait()
    end = time.monotonic() + DEADLINE_S
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                break
        time.sleep(0.02)
    else:
        assert not os.path.exists(f"/proc/{pid}")


def test_by_hand(machine):
    reply = machine.run("sluice", "probe", "--fd", "3", "--marks-fd", "4")
    assert reply.rc == 64 and "sluice devices" in reply.err


@pytest.mark.parametrize("arguments", [
    [], ["probe"], ["devices", "--fd=0"], ["probe", "--fd=99999"], ["probe", "--fd=x", "--marks-fd=0"],
    ["probe", "--period-ns=1"], ["probe", "--skip=0"], ["probe", "--skip=/0000:07:00.0"], ["probe", "--fd", "0"],
    ["probe", "--skip=0/" + "0" * 64], ["probe", "--sequence=-1"], ["probe", "--onc"]])
def test_the_program_by_hand(arguments):
    """What only the service starts takes no argument that the service does not give."""
    reply = subprocess.run([PROBE, *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert reply.returncode == 64 and "sluice devices" in reply.stderr
