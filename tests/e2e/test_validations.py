# SPDX-License-Identifier: Apache-2.0
"""The files for which other programs of a node wait: which, when, what is in them, and whose they are."""

import json
import os
import shutil
import subprocess
import urllib.request

import pytest

from conftest import DEADLINE_S, wait_until
from kubelet import field, serve_on, small_node  # noqa: F401
from test_injection import containerd

DIRECTORY = "/run/nvidia/validations"
HOST = ("IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\nDRIVER_ROOT_CTR_PATH=/host\n"
        "NVIDIA_DEV_ROOT=/\nDEV_ROOT_CTR_PATH=/host\n")


def files(machine):
    """{name: content} of what lies there; None: there is no directory."""
    directory, found = machine.path(DIRECTORY), {}
    if not directory.is_dir():
        return None
    for path in directory.iterdir():
        try:
            found.update({} if path.name.startswith(".") else {path.name: path.read_text()})
        except FileNotFoundError:
            pass  # it has just gone
    return found


def status(machine):
    return machine.run("sluice", "agent", "status", "--output", "json").ok().json["validations"]


def have(machine, *names, deadline_s=DEADLINE_S):
    try:
        wait_until(lambda: set(files(machine) or {}) == set(names), deadline_s)
    except AssertionError as error:
        raise AssertionError(f"{names}, not {files(machine)} {status(machine)}") from error


@pytest.fixture
def waiting(small_node):  # noqa: F811
    """A node where a kubelet gives GPUs to pods; `offered` devices may be had."""
    offered = ["nvidia.com/gpu"]

    def allocatable(_request, _context):
        return b"".join(field(1, field(1, name) + field(2, "GPU-x")) for name in offered)

    small_node.others.append(serve_on(
        small_node.path("/var/lib/kubelet/pod-resources/kubelet.sock"), "v1.PodResourcesLister",
        {"List": lambda _request, _context: b"", "GetAllocatableResources": allocatable}))
    small_node.offered = offered
    return small_node


def ready(machine):
    """{what: 0 or 1} of the metrics."""
    address = machine.run("sluice", "agent", "status", "--output", "json").ok().json["web"]["address"]
    with urllib.request.urlopen(f"http://{address}/metrics?set=native", timeout=DEADLINE_S) as reply:
        lines = reply.read().decode().splitlines()
    return {line.split('"')[1]: int(line.split()[-1]) for line in lines if line.startswith("sluice_ready{")}


def test_the_metrics_say_the_same(waiting):
    waiting.agent("--web-address", "127.0.0.1:0")
    wait_until(lambda: ready(waiting).get("plugin") == 1, what="what pods may have")
    found = ready(waiting)
    assert found["service"] == found["driver"] == 1 and found["mofed"] == 0
    assert {f"{what}-ready" for what, is_so in found.items() if is_so and what != "service"} == set(files(waiting))
    waiting.sim("inject", "no-driver")
    wait_until(lambda: ready(waiting)["driver"] == ready(waiting)["service"] == 0, what="no driver")


def test_their_life(waiting):
    """Each comes with what it says, outlives the agent, and goes with it."""
    waiting.offered.clear()
    waiting.serve()
    have(waiting, "driver-ready")
    assert files(waiting)["driver-ready"] == HOST
    for name, mode in (("", 0o755), ("driver-ready", 0o644)):
        assert waiting.path(f"{DIRECTORY}/{name}").stat().st_mode & 0o777 == mode
    waiting.offered.append("nvidia.com/gpu")
    have(waiting, "driver-ready", "plugin-ready")
    assert files(waiting)["plugin-ready"] == ""
    for shell in (["dash"], ["busybox", "sh"]):
        if shutil.which(shell[0]):
            out = subprocess.run([*shell, "-c", f". {waiting.path(DIRECTORY)}/driver-ready; "
                                  "echo $IS_HOST_DRIVER $DEV_ROOT_CTR_PATH"], check=True,
                                 capture_output=True, text=True, timeout=DEADLINE_S).stdout
            assert out == "true /host\n"
    waiting.path("/sys/module/nvidia_peermem").mkdir(parents=True)
    mellanox = waiting.path("/run/mellanox/drivers")
    mellanox.mkdir(parents=True)
    (mellanox / ".driver-ready").touch()
    (waiting.path(DIRECTORY) / "nonsense").touch()  # tells that it is to look
    have(waiting, "driver-ready", "plugin-ready", "nvidia-peermem-ready", "mofed-ready", "nonsense")
    told = status(waiting)
    assert told["state"] == "kept"
    reasons = {entry["name"]: entry["reason"] for entry in told["files"] if not entry["ready"]}
    assert reasons["gdrcopy-ready"] == "the kernel module gdrdrv is not loaded"
    assert "toolkit-ready" in reasons and "cuda-ready" not in reasons
    text = waiting.run("sluice", "agent", "status").ok().out
    assert "driver-ready\n" in text and "gdrcopy-ready is not there: the kernel module" in text
    # An update of the agent makes nobody wait.
    before = files(waiting)
    waiting.service.terminate()
    assert waiting.service.wait(timeout=DEADLINE_S) == 0
    assert files(waiting) == before
    inode = waiting.path(f"{DIRECTORY}/plugin-ready").stat().st_ino
    waiting.serve()
    wait_until(lambda: any(entry["ready"] for entry in status(waiting)["files"]
                           if entry["name"] == "plugin-ready"))
    assert waiting.path(f"{DIRECTORY}/plugin-ready").stat().st_ino == inode
    # The driver is unloaded.
    waiting.path("/sys/module/nvidia/version").unlink()
    waiting.path("/proc/driver/nvidia/version").unlink()
    (waiting.path(DIRECTORY) / "nonsense").unlink()
    wait_until(lambda: "driver-ready" not in files(waiting))


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes are made by root")
def test_the_toolkit(waiting):
    """The container runtime does CDI, and the specification is right."""
    containerd(waiting, "v2.1.0", {"enableCDI": True})
    waiting.serve()
    have(waiting, "driver-ready", "plugin-ready", "toolkit-ready")
    waiting.path("/dev/nvidia0").unlink()
    have(waiting, "plugin-ready")
    reasons = {entry["name"]: entry["reason"] for entry in status(waiting)["files"]}
    assert "/dev/nvidia0" in reasons["driver-ready"] and reasons["toolkit-ready"]


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes are made by root")
def test_a_runtime_without_cdi(waiting):
    containerd(waiting, "v1.6.20", {})
    waiting.serve()
    have(waiting, "driver-ready", "plugin-ready")

    def reasons():
        return {entry["name"]: entry["reason"] for entry in status(waiting)["files"]}
    wait_until(lambda: "1.6.20 cannot do CDI" in reasons()["toolkit-ready"], what="the runtime to be judged")


def test_another_program_owns_them(waiting):
    """The operator's validator, before and after us."""
    directory = waiting.path(DIRECTORY)
    directory.mkdir(parents=True)
    (directory / "toolkit-ready").write_text("its own")
    waiting.serve()
    wait_until(lambda: status(waiting)["state"] == "foreign")
    assert status(waiting)["reason"] == "toolkit-ready"
    assert files(waiting) == {"toolkit-ready": "its own"}
    (directory / "toolkit-ready").unlink()
    have(waiting, "driver-ready", "plugin-ready")
    with open(directory / "driver-ready", "w", encoding="utf-8") as file:
        file.write("its own")
    wait_until(lambda: status(waiting)["state"] == "foreign", what="the other's file to be noticed")
    have(waiting, "driver-ready")
    assert files(waiting) == {"driver-ready": "its own"}
    record = waiting.state_dir / "validations.json"
    wait_until(lambda: json.loads(record.read_text()) == {"files": []}, what="nothing to be ours any more")


def test_a_link_in_the_place_of_the_directory(waiting, tmp_path):
    waiting.path("/run/nvidia").mkdir(parents=True)
    waiting.path(DIRECTORY).symlink_to(tmp_path)
    waiting.serve()
    wait_until(lambda: "symlink" in (status(waiting)["reason"] or ""))
    assert status(waiting) == {"state": "off", "files": [],
                               "reason": f"'{waiting.path(DIRECTORY)}' is a symlink, not writing"}
    assert not list(tmp_path.iterdir())


def test_settings(waiting, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nsluice: {validations: {write: always}}\n")
    directory = waiting.path(DIRECTORY)
    directory.mkdir(parents=True)
    (directory / "driver-ready").write_text("its own")
    waiting.serve("--config", config)
    wait_until(lambda: files(waiting)["driver-ready"] == HOST)
    config.write_text("version: v1\nsluice: {validations: {write: never}}\n")
    have(waiting)
    assert status(waiting)["reason"] == "sluice.validations.write is never"
    config.write_text("version: v1\nsluice: {validations: {write: sometimes}}\n")
    reply = waiting.run("sluice", "config", "check", config)
    assert reply.rc != 0 and "sometimes" in reply.out


def test_nothing_is_left(waiting):
    """sluice agent --cleanup, before and after the agent has ended."""
    features = waiting.path("/etc/kubernetes/node-feature-discovery/features.d")
    features.mkdir(parents=True)
    waiting.serve()
    have(waiting, "driver-ready", "plugin-ready")
    wait_until(lambda: (features / "gfd").exists() and waiting.path("/var/run/cdi").is_dir()
               and list(waiting.path("/var/run/cdi").glob("sluice*.json")))
    reply = waiting.run("sluice", "agent", "--cleanup")
    assert reply.rc == 75 and (features / "gfd").exists(), reply
    waiting.service.terminate()
    assert waiting.service.wait(timeout=DEADLINE_S) == 0
    reply = waiting.run("sluice", "agent", "--cleanup").ok()
    assert "gfd'" in reply.out and "validation files" in reply.out and "sluice.sim-gpu.json'" in reply.out
    assert files(waiting) == {} and not (features / "gfd").exists()
    assert not list(waiting.path("/var/run/cdi").glob("*"))
    assert (waiting.state_dir / "queue.db").exists()
    assert waiting.run("sluice", "agent", "--purge").rc == 64
    waiting.run("sluice", "agent", "--cleanup", "--purge").ok()
    assert not list(waiting.state_dir.iterdir())


def test_a_workstation(machine):
    """Nobody waits where no kubelet is."""
    machine.start("t4x1")
    machine.agent()
    wait_until(lambda: machine.run("sluice", "agent", "status", "-o", "json").json["gpus"] == 1)
    assert status(machine)["state"] == "off" and "no kubelet" in status(machine)["reason"]
    assert files(machine) is None
