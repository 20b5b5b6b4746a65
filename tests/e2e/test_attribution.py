# SPDX-License-Identifier: Apache-2.0
"""Which container, pod or job is on which GPU: control groups of real containers, and what the service makes of them."""

import json
import pathlib
import re
import tempfile

import pytest

import capture_cgroups
from containers import needs

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
