# SPDX-License-Identifier: Apache-2.0
"""Which container, pod or job is on which GPU: control groups of real containers, and what the service makes of them."""

import json
import os
import pathlib
import pwd
import re
import tempfile
import time
import urllib.request

import pytest

import capture_cgroups
from conftest import wait_until
from containers import needs
from kubelet import small_node  # noqa: F401
from test_holders import Pods

FIXTURE = json.loads(capture_cgroups.FIXTURE.read_text())


@pytest.fixture
def directory():
    """Runtimes put sockets there, whose paths are short."""
    with tempfile.TemporaryDirectory(prefix="sluice-") as top:
        yield pathlib.Path(top)


def form(text):
    """A text without its ids: how a runtime names its groups."""
    return re.sub(r"[0-9a-f]{8,}", "ID", text)


def holder_of(machine, pid):
    told = machine.run("sluice", "processes", "--output", "json").ok().json["processes"]
    [process] = [entry for entry in told if entry["pid"] == pid]
    return process["holder"]


def load(machine, pid, gpu=0, *options):
    machine.sim("load", "--gpu", gpu, "--pid", pid, "--util", "0.3", *options)


def test_podman_and_runc_anew(machine, directory):
    """What is installed is captured again, and found by the id that the runtime itself says."""
    needs("podman", "runc", "conmon")
    machine.start("t4x1")
    with capture_cgroups.podman(directory / "podman") as podman:
        told = podman.inspect(podman.start())
        pid = told["State"]["Pid"]
        load(machine, pid)
        holder = holder_of(machine, pid)
        assert (holder["runtime"], holder["container_id"], holder["job"]) == ("podman", told["Id"], None)
        assert f"podman {told['Id'][:12]}" in machine.run("sluice", "processes").ok().out
        [entry] = [entry for entry in FIXTURE["entries"] if entry["name"] == "podman, cgroupfs"]
        if entry["cgroups"] == capture_cgroups.cgroups():
            assert form(capture_cgroups.text_of(pid)) == form(entry["text"]), "podman names its groups anew: capture"
    for entry in capture_cgroups.capture_runc(directory / "runc", "runc"):
        assert entry["expect"]["container"] in entry["text"] and entry["expect"]["pod"] in entry["text"]


def test_names_from_the_kubelets_logs(machine, directory):
    """A pod's container, made by runc as the kubelet asks for it; its names come with the log file."""
    needs("runc")
    machine.start("t4x1")
    with capture_cgroups.runc(directory, "runc", f"/kubepods/burstable/pod{capture_cgroups.POD}/{'4f5e' * 16}") as pid:
        load(machine, pid)
        holder = holder_of(machine, pid)
        assert (holder["runtime"], holder["pod_uid"], holder["pod"]) == ("kubernetes", capture_cgroups.POD, None)
        logs = machine.path("/var/log/pods")
        (logs / f"ml_train-0_{capture_cgroups.POD}").mkdir(parents=True)
        holder = holder_of(machine, pid)
        assert (holder["namespace"], holder["pod"], holder["container"]) == ("ml", "train-0", "")
        logs = machine.path("/var/log/containers")
        logs.mkdir()
        (logs / f"train-0_ml_main-{'4f5e' * 16}.log").touch()
        holder = holder_of(machine, pid)
        assert (holder["namespace"], holder["pod"], holder["container"]) == ("ml", "train-0", "main")
        assert "ml/train-0/main" in machine.run("sluice", "processes").ok().out


# --- the service: what page and metrics show ----------------------------------------------------------------------------

SHARED = """
version: v1
sharing:
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, replicas: 4}
"""


class View:
    """What the service tells of who uses the GPUs."""

    def __init__(self, machine):
        def address():
            return machine.run("sluice", "agent", "status", "--output", "json").ok().json["web"]["address"]
        self.url = f"http://{wait_until(address, what='an address')}"
        wait_until(lambda: self.state()["gpus"], what="the GPUs")

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode()

    def state(self):
        return json.loads(self.get("/api/v1/state"))

    def holders(self, **wanted):
        return [holder for holder in self.state()["holders"]
                if all(holder.get(key) == value for key, value in wanted.items())]

    def one(self, ready=lambda holder: True, **wanted):
        """The only such holder, once it is `ready`."""
        found = []

        def there():
            found[:] = self.holders(**wanted)
            return len(found) == 1 and ready(found[0])
        wait_until(there, what=f"a holder with {wanted}, not {found}")
        return found[0]

    def metric(self, name, **labels):
        """The values of a metric with these labels."""
        values = []
        for line in self.get("/metrics?set=native").splitlines():
            if line.startswith((name + "{", name + " ")) and all(f'{key}="{value}"' in line
                                                                 for key, value in labels.items()):
                values.append(float(line.rsplit(" ", 1)[1]))
        return values


@pytest.fixture
def shown(machine):
    """A machine whose service shows something: shown.view, once shown.show() was called."""
    config = machine.directory / "config.yaml"
    config.write_text(SHARED)

    def show():
        machine.env["SLUICE_WEB_ADDRESS"] = "127.0.0.1:0"
        machine.agent("--config", config)
        machine.view = View(machine)
        return machine.view
    machine.show_view = show
    return machine


def test_two_jobs_share_a_gpu(shown):
    """With different loads; the GPU's own busy time is never less than what they are given of it."""
    shown.start("t4x1")
    view = shown.show_view()
    pids = {}
    for name, util in (("large", "0.6"), ("small", "0.2"), ("idle", None)):
        number = int(shown.run("sluice", "run", "--detach", "--share", "--name", name, "--", "sleep", "600").ok().out)
        wait_until(lambda number=number: shown.job(number)["attempt"].get("pid"), what=name)
        pids[name] = shown.job(number)["attempt"]["pid"]
        if util:
            shown.sim("load", "--gpu", 0, "--pid", pids[name], "--util", util, "--mem", "1GiB")
    view.one(lambda holder: holder["busy_seconds"] > 1.2, job=1)
    state = view.state()
    holders = {holder["job"]: holder for holder in state["holders"]}
    assert set(holders) == {1, 2, 3}
    assert {holder["slot"] for holder in holders.values()} <= {0, 1, 2, 3}
    for holder in holders.values():
        assert (holder["mode"], holder["allocated"], holder["user"]) == ("timeslice", True, pwd.getpwuid(os.getuid()).pw_name)
    busy = [holders[job]["busy_seconds"] for job in (1, 2, 3)]
    assert 2 < busy[0] / busy[1] < 4.5 and busy[2] == 0, busy
    assert sum(busy) <= state["gpus"][0]["values"]["busy_ns"] / 1e9
    assert holders[1]["memory_bytes"] >= 1 << 30 and holders[3]["memory_bytes"] == 0
    assert (holders[1]["processes"], holders[3]["processes"]) == (1, 0)
    processes = json.loads(view.get("/api/v1/processes"))
    assert {process["pid"]: process["job"] for process in processes["processes"]} == {pids["large"]: 1, pids["small"]: 2}
    assert view.metric("sluice_container_gpu_busy_seconds_total", job_id=3) == [0]
    assert view.metric("sluice_unattributed_processes") == [0]
    shown.run("sluice", "cancel", "--now", "2").ok()
    wait_until(lambda: not view.holders(job=2), what="the end of job 2")


def test_a_container_that_was_given_nothing(shown, directory):
    """It has a GPU by its own device option, and no pod and no job explains it."""
    needs("podman", "runc", "conmon")
    shown.start("t4x1")
    view = shown.show_view()
    with capture_cgroups.podman(directory / "podman") as podman:
        told = podman.inspect(podman.start())
        load(shown, told["State"]["Pid"], 0, "--mem", "2GiB")
        holder = view.one(lambda holder: holder.get("busy_seconds", 0) > 0, runtime="podman")
        assert (holder["id"], holder["allocated"], holder["processes"]) == (told["Id"][:12], False, 1)
        assert holder["memory_bytes"] >= 2 << 30 and 0 <= time.time() - holder["since_unix"] < 60
        other = shown.load(0)
        wait_until(lambda: view.metric("sluice_unattributed_processes") == [2], what="two processes of nobody")
        other.kill()
    wait_until(lambda: not view.holders() and view.metric("sluice_unattributed_processes") == [0], what="nobody")


def test_a_pod(small_node, shown, directory):  # noqa: F811
    """Its container is made by runc as the kubelet has it made; kubelet and log file are stand-ins."""
    needs("runc")
    node, pods = small_node, Pods(small_node)
    uuid, container = node.show()["gpus"][0]["uuid"], "4f5e" * 16
    view = node.show_view()
    node.kubelet.wait(4)
    with capture_cgroups.runc(directory, "runc", f"/kubepods/burstable/pod{capture_cgroups.POD}/{container}") as pid:
        load(node, pid, 0, "--mem", "1GiB")
        stranger = view.one(lambda holder: holder.get("busy_seconds", 0) > 0.3, runtime="kubernetes")
        assert (stranger["id"], stranger["allocated"]) == (container[:12], False)
        # The kubelet is asked at once for what it has not told yet, and its log file has the names.
        logs = node.path("/var/log/containers")
        logs.mkdir(parents=True)
        (logs / f"train-0_ml_main-{container}.log").touch()
        pods.held = [("ml", "train-0", "main", "nvidia.com/gpu", f"{uuid}::2"),
                     ("ml", "over-0", "main", "nvidia.com/gpu", f"{uuid}::1"),
                     ("ml", "net-0", "main", "example.com/nic", "nic0")]
        holder = view.one(lambda holder: holder["allocated"], pod="train-0")
        assert (holder["namespace"], holder["container"], holder["slot"]) == ("ml", "main", 2)
        assert (holder["mode"], holder["processes"]) == ("timeslice", 1)
        assert holder["busy_seconds"] >= stranger["busy_seconds"] and holder["memory_bytes"] >= 1 << 30
        # A pod that has ended and is still listed has no log.
        assert view.holders() == view.holders(pod="train-0")
        (logs / f"over-0_ml_main-{'ab12' * 16}.log").touch()
        assert view.one(pod="over-0")["busy_seconds"] == 0
        assert view.metric("sluice_unattributed_processes") == [0]
        assert view.metric("sluice_container_gpu_allocated", pod="train-0", slot=2) == [1]
