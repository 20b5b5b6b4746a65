# SPDX-License-Identifier: Apache-2.0
"""One machine, one instant, one answer: `sluice top`, `sluice health`, the page's state and the metrics say the same, and it
is what the simulated machine is. Its clock stands still, so that all of them look at the same instant."""

import json
import os
import pathlib
import pwd
import re
import shutil
import tempfile
import urllib.request

import capture_cgroups
import pytest
from conftest import wait_until

FAULTS = [
    (["xid", "79", "--gpu", "1"], "unhealthy"),
    (["xid", "48", "--gpu", "1"], "unhealthy"),
    (["remap", "failure", "--gpu", "1"], "unhealthy"),
    (["remap", "pending", "--gpu", "1"], "degraded"),
    (["xid", "13", "--gpu", "1"], "healthy"),
]


@pytest.fixture(name="served")
def served_machine(machine):
    machine.start("dgx-a100", "--gpus", "2", "--clock", "virtual")
    machine.agent("--web-address", "127.0.0.1:0")
    wait_until(lambda: ["power_mw" in gpu["values"] for gpu in state(machine)["gpus"]] == [True, True], what="the first sample")
    return machine


def get(machine, path):
    status = machine.run("sluice", "agent", "status", "--output", "json").ok().json
    with urllib.request.urlopen(f"http://{status['web']['address']}{path}", timeout=10) as answer:
        return answer.read().decode()


def state(machine):
    return json.loads(get(machine, "/api/v1/state"))


def metrics(machine):
    """{(name, uuid, first other label's value or None): number}"""
    found = {}
    for line in get(machine, "/metrics?set=native").splitlines():
        match = re.fullmatch(r'(\w+)\{gpu="\d+",uuid="([^"]+)"(?:,\w+="([^"]*)")?\} (\S+)', line)
        if match:
            found[match[1], match[2], match[3]] = float(match[4])
    return found


def truth(machine):
    return {gpu["uuid"]: gpu for gpu in machine.show()["gpus"]}


def same(machine):
    """Compares all of them; returns what they say of the first GPU."""
    shown, told = truth(machine), metrics(machine)
    top = {gpu["uuid"]: gpu for gpu in machine.run("sluice", "top", "--output", "json").ok().json["gpus"]}
    page = {gpu["uuid"]: gpu for gpu in state(machine)["gpus"]}
    assert set(shown) == set(top) == set(page)
    for uuid, gpu in shown.items():
        values = page[uuid]["values"]
        assert top[uuid]["utilization_percent"] == values["utilization_gpu_percent"]
        assert told["sluice_gpu_utilization_ratio", uuid, None] * 100 == pytest.approx(values["utilization_gpu_percent"])
        assert top[uuid]["memory_used_bytes"] == values["memory_used_bytes"]
        assert told["sluice_gpu_memory_used_bytes", uuid, None] == values["memory_used_bytes"]
        assert top[uuid]["power_milliwatt"] == values["power_mw"]
        assert told["sluice_gpu_power_watts", uuid, None] * 1000 == pytest.approx(values["power_mw"])
        assert top[uuid]["temperature_celsius"] == values["temperature_celsius"]
        assert told["sluice_gpu_temperature_celsius", uuid, "core"] == values["temperature_celsius"]
        assert top[uuid]["throttle"] == page[uuid]["throttle"]
        assert top[uuid]["health"] == page[uuid]["health"]
        assert told["sluice_gpu_health", uuid, page[uuid]["health"]] == 1
        assert values["utilization_gpu_percent"] == gpu["utilization"]["gpu"]
        assert values["memory_used_bytes"] == gpu["memory"]["used"]
        assert values["temperature_celsius"] == gpu["temperature_c"]
        assert values["power_mw"] == pytest.approx(gpu["power_mw"], rel=0.05)  # with the noise of a sensor
    return top[min(top, key=lambda uuid: top[uuid]["index"])]


def test_readings(served):
    assert same(served)["utilization_percent"] == 0
    served.load(0, "--util", "0.8", "--mem", "4GiB")
    for seconds in ("5", "60"):
        served.sim("clock", "advance", seconds)
        wait_until(lambda: state(served)["gpus"][0]["values"]["utilization_gpu_percent"] > 60, what="the load")
        wait_until(lambda: settled(served), what="the new instant to be sampled")
        first = same(served)
        assert first["memory_used_bytes"] >= 4 << 30
        assert [use["memory_bytes"] >= 4 << 30 for use in first["processes"]] == [True]


def settled(machine):
    """Whether all has been sampled since the clock moved: two looks that say the same."""
    before, after = state(machine), state(machine)
    return before["sequence"] != after["sequence"] and [gpu["values"] for gpu in before["gpus"]] == [
        gpu["values"] for gpu in after["gpus"]
    ]


@pytest.mark.parametrize("fault, health", FAULTS, ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else value)
def test_verdicts(served, fault, health):
    served.sim("inject", *fault)
    uuid = min(truth(served).values(), key=lambda gpu: -gpu["index"])["uuid"]

    def said():
        told = {entry["uuid"]: entry for entry in served.run("sluice", "health", "--output", "json").json["gpus"]}[uuid]
        top = {gpu["uuid"]: gpu for gpu in served.run("sluice", "top", "--output", "json").ok().json["gpus"]}[uuid]
        page = {gpu["uuid"]: gpu for gpu in state(served)["gpus"]}[uuid]
        return told, top, page

    def reasons(told, top, page):
        first = [one["reasons"][0]["text"] if one["reasons"] else None for one in (told, page)]
        return {*first, top["health_reason"]}

    def agreed():
        """The three are asked one after the other, and a second reason may come between: until all say one thing."""
        all_ = said()
        same = {entry.get("health") or entry.get("state") for entry in all_} == {health} and len(reasons(*all_)) == 1
        return all_ if same else None

    told, top, page = wait_until(agreed, what=f"{health} everywhere, for one reason")
    if health == "healthy":
        assert page["reasons"] == [] and top["health_reason"] is None
        return
    assert top["health_reason"]
    assert top["health_advice"] == page["reasons"][0]["advice"] == told["reasons"][0]["advice"]
    assert metrics(served)["sluice_gpu_health", uuid, health] == 1
    assert health in served.run("sluice", "top", "--once").ok().out


def test_whose_a_process_is(served):
    """A container that the kubelet's log files name."""
    if not shutil.which("runc") or os.geteuid() != 0:
        pytest.skip("no runc, or not root")
    container = "4f5e" * 16
    logs = served.path("/var/log/containers")
    logs.mkdir(parents=True)
    (logs / f"train-0_ml_main-{container}.log").touch()
    with tempfile.TemporaryDirectory(prefix="sluice-numbers-", dir="/dev/shm") as directory:
        cgroup = f"/kubepods/burstable/pod{capture_cgroups.POD}/{container}"
        with capture_cgroups.runc(pathlib.Path(directory), "runc", cgroup) as pid:
            served.sim("load", "--gpu", 0, "--pid", pid, "--util", "0.5", "--mem", "1GiB")
            served.sim("clock", "advance", "5")
            # Its process may be seen a moment before its container's name is known.
            holder = wait_until(lambda: [one for one in state(served)["holders"] if "namespace" in one],
                                what="the holder with its name")[0]
            assert (holder["namespace"], holder["pod"], holder["container"]) == ("ml", "train-0", "main")
            top = served.run("sluice", "top", "--output", "json").ok().json["gpus"][0]["processes"]
            assert [(use["pid"], use["holder"]) for use in top] == [(pid, "ml/train-0/main")]
            assert top[0]["memory_bytes"] == holder["memory_bytes"]
            assert "ml/train-0/main" in served.run("sluice", "top", "--once").ok().out


def test_a_gpu_in_use_outside_the_queue(served):
    """Nobody was given it, and somebody computes on it: all say so, and who, and no job starts there."""
    user = pwd.getpwuid(os.getuid()).pw_name
    stranger = served.load(0, "--util", "0.5", "--mem", "1GiB")
    served.sim("clock", "advance", "5")
    gpu = min(truth(served).values(), key=lambda gpu: gpu["index"])
    other = max(truth(served).values(), key=lambda gpu: gpu["index"])

    def told():
        jobs = served.run("sluice", "jobs", "--output", "json").ok().json
        return {
            "jobs": [(use["uuid"], use["pid"], use["user"]) for use in jobs["outside"]],
            "devices": [(use["uuid"], use["pid"], use["user"])
                        for use in served.run("sluice", "devices", "--output", "json").ok().json["outside"]],
            "top": [(one["uuid"], use["pid"], use["user"]) for one in served.run("sluice", "top", "--output", "json").ok().json["gpus"]
                    for use in one["processes"] if use["outside"]],
            "page": [(one["uuid"], use["pid"], use["user"]) for one in state(served)["gpus"] for use in one["outside"]],
            "processes": [(use["uuid"], use["pid"], user) for use in json.loads(get(served, "/api/v1/processes"))["processes"]
                          if use.get("outside")],
        }

    fact = [(gpu["uuid"], stranger.pid, user)]
    wait_until(lambda: all(one == fact for one in told().values()), what=f"{fact} everywhere")
    waits = int(served.run("sluice", "run", "--detach", "--gpus", "2", "--", "sleep", "600").ok().out)
    counted = metrics(served)
    assert [counted["sluice_gpu_outside_processes", one["uuid"], None] for one in (gpu, other)] == [1, 0]
    job = wait_until(lambda: (job := served.job(waits))["reason"] == "GPUInUseByOthers" and job, what="the reason")
    assert f"GPU {gpu['index']}, pid {stranger.pid}, {user}" in job["reason_text"]
    line = f"GPU {gpu['index']} is in use outside the queue: {user}, pid {stranger.pid} ("
    for command in ("jobs", "devices"):
        assert line in served.run("sluice", command).ok().out
    assert max(map(len, served.run("sluice", "jobs", env={"COLUMNS": "40"}).ok().out.splitlines())) <= 40
    assert re.search(rf"pid {stranger.pid} \S+ \({user}\), \d+ MiB, outside the queue\n", served.run("sluice", "top", "--once").ok().out)
    page = get(served, "/")
    assert re.search(rf"outside the queue: <bdi>{user}</bdi>, pid {stranger.pid} <bdi>", page) and page.count("free</td>") == 1
    stranger.kill()
    served.sim("clock", "advance", "5")
    wait_until(lambda: not any(told().values()), what="nobody any more")
    assert "outside the queue" not in served.run("sluice", "jobs").ok().out
    served.job_in(waits, "Running")
    assert not any(told().values())  # a job is not outside
