# SPDX-License-Identifier: Apache-2.0
"""The agent keeps its CDI specifications right: rewritten when the machine changes, and never two of one kind."""

import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

from conftest import wait_until
from kubelet import Kubelet, small_node  # noqa: F401
from test_injection import containerd, injection

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes are made by root")

SOON_S = 1  # from the driver's word to the new file
FOREIGN = {
    "good": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: all\n  containerEdits:\n    env: [A=b]\n",
    "broken": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: none\n",
}


class Node:
    """An agent on a simulated machine, and its files."""

    def __init__(self, machine):
        self.machine = machine
        self.directory = machine.path("/var/run/cdi")
        self.ours = self.directory / "sluice.sim-gpu.json"
        self.shared = self.directory / "sluice-nvidia.com-gpu.json"
        self.config = machine.directory / "config.yaml"

    def serve(self, cdi="vendor: nvidia.com", **popen):
        self.configure(cdi)
        return self.machine.agent("--config", self.config, **popen)

    def configure(self, cdi):
        """An editor's way: complete, or not at all."""
        new = self.config.with_suffix(".new")
        new.write_text(f"version: v1\nsluice: {{cdi: {{{cdi}}}}}\n")
        new.rename(self.config)

    def names(self, path=None):
        """Of its devices; None: there is no file. Half of one is a failure."""
        try:
            spec = json.loads((path or self.ours).read_text())
        except FileNotFoundError:
            return None
        return [device["name"] for device in spec["devices"]]

    def uuids(self):
        found = set()
        for gpu in self.machine.show()["gpus"]:
            instances = gpu["mig"]["instances"] if gpu["mig"] and gpu["mig"]["current"] else []
            # With migStrategy none one in MIG mode is handed out whole, so it has a name too.
            found |= {instance["uuid"] for instance in instances} | {gpu["uuid"]}
        return found

    def is_right(self, path=None):
        names = self.names(path)
        return names is not None and {name for name in names if "-" in name} == self.uuids()

    def wait_right(self):
        wait_until(self.is_right, what=f"a specification of {self.uuids()}")

    def log(self):
        lines = (self.machine.directory / "agent.err").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def told(self, words):
        """The entries of the log that say so."""
        return [entry for entry in self.log() if words in entry["message"]]

    def wait_told(self, words):
        wait_until(lambda: self.told(words), what=f"'{words}' in the log")
        return self.told(words)

    def status(self):
        return self.machine.run("sluice", "agent", "status", "--output", "json").ok().json["cdi"]


def time_of(entry):
    return datetime.datetime.fromisoformat(entry["time"].replace("Z", "+00:00")).timestamp()


@pytest.fixture
def node(machine):
    machine.start("dgx-a100", "--gpus", "2")
    return Node(machine)


def test_kept_while_the_agent_is_there_and_after_it(node):
    agent = node.serve()
    node.wait_right()
    wait_until(lambda: node.is_right(node.shared))
    assert node.ours.stat().st_mode & 0o7777 == 0o644
    assert node.directory.stat().st_mode & 0o7777 == 0o755
    assert node.status() == {"state": "kept", "reason": None}
    assert "CDI            kept\n" in node.machine.run("sluice", "agent", "status").ok().out
    state = json.loads((node.machine.runtime_dir / "cdi.state").read_text())
    assert set(state["uuids"]) == node.uuids() and state["driver"] == "580.105.08"
    assert {file["path"] for file in state["files"]} == {str(node.ours), str(node.shared)}
    for source in state["sources"]:
        assert os.stat(source["path"]).st_mtime_ns == source["mtime_ns"]
    # Of what somebody takes away or edits nothing stays so.
    node.ours.unlink()
    node.wait_right()
    node.ours.write_text("{}")
    wait_until(lambda: node.ours.read_text() != "{}" and node.is_right())
    before = node.ours.stat()
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(timeout=20) == 0
    assert node.is_right()
    node.serve()
    wait_until(lambda: node.status()["state"] == "kept")
    assert node.ours.stat().st_ino == before.st_ino, "written again, and it is the same"


def test_mig_instances_change(node):
    """Within a second of the driver's word, every time."""
    node.machine.stop()
    node.machine.start("dgx-a100", "--gpus", "1", "--mig", "single")
    node.serve()
    node.wait_right()
    assert {"0:0", "0"} <= set(node.names())
    for layout in ("hetero", "single", "hetero"):
        before = len(node.told("mig-changed"))
        node.machine.sim("inject", "mig", layout)
        node.wait_right()
        word = wait_until(lambda: node.told("mig-changed")[before:], what="the driver's word")[0]
        took = node.ours.stat().st_mtime - time_of(word)
        print(f"{layout}: {took * 1000:.0f} ms after the driver's word")
        assert took <= SOON_S


def test_a_gpu_is_taken_out(node):
    node.serve()
    node.wait_right()
    gone = node.machine.show()["gpus"][1]["uuid"]
    node.machine.sim("inject", "hotunplug", "--gpu", "1")
    wait_until(lambda: gone not in node.names(), what="a specification without it")


def test_the_driver_goes_and_comes(node):
    node.serve()
    node.wait_right()
    text = node.ours.read_text()
    node.machine.sim("inject", "no-driver")
    node.wait_told("CDI: the specifications stay as they were until the driver is back")
    assert node.ours.read_text() == text
    wait_until(lambda: node.status()["state"] == "waiting")
    node.machine.sim("heal")
    wait_until(lambda: node.status()["state"] == "kept")
    assert node.ours.read_text() == text


def test_libraries_of_another_driver(node):
    """Containers would fail strangely: there are none of ours until it is right again."""
    node.serve()
    node.wait_right()
    version = node.machine.path("/sys/module/nvidia/version")
    old = version.read_text()
    libraries = node.machine.path("/usr/lib/x86_64-linux-gnu")
    before = time.time()
    aside = libraries.with_name("aside")
    libraries.rename(aside)
    libraries.mkdir()
    for path in aside.iterdir():
        new = path.name.replace(old.strip(), "999.1")
        if not path.is_symlink() and path.is_file():
            shutil.copy(path, libraries / new)
    node.machine.path("/etc/ld.so.cache").touch()  # as packages do at the end of an update
    wait_until(lambda: node.names() is None, what="no specification")
    assert time.time() - before < 20, "noticed without waiting for the next look"
    entry = node.wait_told("ours are removed")[0]
    assert entry["level"] == "error" and old.strip() in entry["message"]
    status = node.status()
    assert status["state"] == "failed" and old.strip() in status["reason"]
    assert not node.shared.exists()
    shutil.rmtree(libraries)
    aside.rename(libraries)
    node.machine.path("/etc/ld.so.cache").touch()
    node.wait_right()
    node.wait_told("CDI: the specifications are kept again")
    assert len(node.told("ours are removed")) == 1


@pytest.mark.parametrize("text", FOREIGN)
@pytest.mark.parametrize("place", ["/etc/cdi", "/var/run/cdi"])
def test_a_foreign_file(node, place, text):
    """Of the kinds that we share somebody else's comes first, whenever it comes; it is never touched."""
    path = node.machine.path(place) / "nvidia.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(FOREIGN[text])
    before = path.stat()
    node.serve()
    node.wait_right()
    wait_until(lambda: str(path) in (node.status()["reason"] or ""))
    assert not node.shared.exists()
    assert node.told("ours of nvidia.com/gpu is not written")
    kept = path.read_text(), path.stat()
    path.unlink()
    wait_until(lambda: node.is_right(node.shared), what="ours, when theirs is gone")
    own = node.ours.stat()
    # After ours: the directory may be another, the file is written by and by.
    if place == "/etc/cdi":
        path.parent.rmdir()
        path.parent.mkdir()
    with open(path, "w", encoding="utf-8") as file:
        file.write(FOREIGN[text][:30])
        file.flush()
        file.write(FOREIGN[text][30:])
    after = path.stat()
    wait_until(lambda: not node.shared.exists(), what="ours to be withdrawn")
    node.wait_told("ours of nvidia.com/gpu is withdrawn")
    assert node.ours.stat().st_ino == own.st_ino and node.is_right()
    assert path.read_text() == FOREIGN[text]
    for was, stat in ((before, kept[1]), (after, path.stat())):
        assert (was.st_ino, was.st_mtime_ns, was.st_mode) == (stat.st_ino, stat.st_mtime_ns, stat.st_mode)
    assert kept[0] == FOREIGN[text]


def test_kinds_that_are_not_wanted_any_more(node):
    node.directory.mkdir(parents=True)
    stale = node.directory / "sluice-acme.com-gpu.json"  # of an agent with other settings
    stale.write_text("{}")
    foreign = node.directory / "acme.json"
    foreign.write_text("{}")
    node.serve()
    node.wait_right()
    wait_until(lambda: not stale.exists() and node.shared.exists())
    node.configure("vendor: acme.com")
    wait_until(lambda: node.is_right(stale) and not node.shared.exists())
    node.configure("vendor: acme.com, write: false")
    wait_until(lambda: not stale.exists() and not node.ours.exists())
    wait_until(lambda: node.status()["state"] == "off")
    node.configure("vendor: nvidia.com")
    node.wait_right()
    assert foreign.read_text() == "{}"


def test_something_else_in_the_place_of_the_directory(node):
    node.directory.parent.mkdir(parents=True)
    node.directory.write_text("")
    node.serve()
    entry = node.wait_told("CDI: ")[0]
    assert entry["level"] == "error" and str(node.directory) in entry["message"]
    assert node.status()["state"] == "failed"
    assert node.machine.run("sluice", "run", "--gpus", "1", "--", "true").rc == 0, "the rest goes on"
    elsewhere = node.machine.directory / "elsewhere"
    elsewhere.mkdir()
    node.directory.unlink()
    node.directory.symlink_to(elsewhere)
    node.wait_told("it is a link")
    assert not list(elsewhere.iterdir())
    node.directory.unlink()
    node.wait_right()
    node.wait_told("CDI: the specifications are kept again")


@pytest.mark.parametrize("options, words", [("ro", "Read-only file system"), ("size=4k", "No space left")])
def test_a_file_system_that_takes_nothing(node, options, words):
    node.directory.mkdir(parents=True)
    script = node.machine.directory / "agent.sh"
    script.write_text(f"#!/bin/sh\nmount -t tmpfs -o {options} none '{node.directory}' || exit 77\n"
                      "exec sluice \"$@\"\n")
    script.chmod(0o755)
    wrapper = node.machine.directory / "mounted"
    wrapper.write_text(f"#!/bin/sh\nexec unshare -m '{script}' \"$@\"\n")
    wrapper.chmod(0o755)
    probe = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True)
    if probe.returncode != 0:
        pytest.skip(f"no mount namespace of its own: {probe.stderr}")
    node.serve(program=str(wrapper))
    entry = node.wait_told("CDI: ")[0]
    assert words in entry["message"] and str(node.directory) in entry["message"]
    node.machine.sim("inject", "lost", "--gpu", "1")  # another look
    node.wait_told("of GPU-")
    assert len(node.told(words)) == 1, "once"
    assert node.machine.run("sluice", "run", "--gpus", "1", "--", "true").rc == 0, "the rest goes on"


def test_killed_at_any_moment(node):
    """Nobody reads half a file, and nothing is left behind for ever."""
    odds = random.Random(7)
    node.machine.stop()
    node.machine.start("dgx-a100", "--gpus", "1", "--mig", "single")
    for turn in range(6):
        agent = node.serve()
        node.machine.sim("inject", "mig", ("hetero", "single")[turn % 2])
        deadline = time.monotonic() + odds.random() * 0.3
        while time.monotonic() < deadline:
            node.names()
            node.names(node.shared)
        agent.kill()
        agent.wait()
        node.names()
    temporary = node.directory / ".sluice-0123456789abcdef.tmp"
    temporary.write_text("half a")
    for path in node.directory.glob(".sluice-*.tmp"):
        os.utime(path, (1, 1))
    node.serve()
    node.wait_right()
    wait_until(lambda: not list(node.directory.glob(".sluice-*.tmp")))


def test_the_kubelet_is_told_at_once(small_node):  # noqa: F811
    """Who injects is asked each minute, and again as soon as there is a specification."""
    containerd(small_node, "v1.7.13", {"enableCDI": True})
    before = time.monotonic()
    endpoint = small_node.serve()
    assert "provides sluice.sim/gpu" in injection(small_node, "cdi")
    uuid = small_node.show()["gpus"][0]["uuid"]
    wait_until(lambda: endpoint.allocate(uuid).cdi_devices, what="CDI names")
    assert time.monotonic() - before < 30
    # At a first start ours are on their way: that is no reason to say that nobody gets a GPU.
    assert "containers get no driver" not in (small_node.directory / "agent.err").read_text()


def test_what_else_is_there(small_node):  # noqa: F811
    """NVIDIA's other kinds are named where somebody provides them, and only then."""
    config = pathlib.Path(small_node.directory) / "gds.yaml"
    config.write_text("version: v1\nflags: {gdsEnabled: true, gdrcopyEnabled: true, "
                      "plugin: {deviceListStrategy: cdi-cri}}\n")
    endpoint = small_node.serve("--config", config)
    uuid = small_node.show()["gpus"][0]["uuid"]
    names = lambda: [device.name for device in endpoint.allocate(uuid).cdi_devices]
    assert names() == [f"sluice.sim/gpu={uuid}"]
    spec = small_node.path("/etc/cdi/gds.yaml")
    spec.parent.mkdir(parents=True)
    spec.write_text(FOREIGN["good"].replace("nvidia.com/gpu", "sluice.sim/gds"))
    wait_until(lambda: names() == [f"sluice.sim/gpu={uuid}", "sluice.sim/gds=all"], what="the other kind")
    spec.unlink()
    wait_until(lambda: names() == [f"sluice.sim/gpu={uuid}"], what="ours alone")


@pytest.mark.parametrize("what", ["channel", "whole"])
def test_the_kubelet_is_told_names_that_resolve(machine, what):
    """The IMEX channel, and a GPU in MIG mode that is handed out whole."""
    machine.start("dgx-a100", "--gpus", "2",
                  *(["--imex-channels", "1"] if what == "channel" else ["--mig", "single"]))
    kubelet = Kubelet(machine.path("/var/lib/kubelet/device-plugins")).start()
    config = machine.directory / "config.yaml"
    config.write_text("flags: {migStrategy: none, plugin: {deviceListStrategy: [cdi-cri]}}\n" +
                      ("imex: {channelIDs: [0], required: true}\n" if what == "channel" else ""))
    try:
        machine.agent("--config", config)
        endpoint = kubelet.wait(2)
        names = [[device.name for device in endpoint.allocate(gpu).cdi_devices]
                 for gpu in endpoint.devices]
        wanted = 2 if what == "channel" else 1
        assert [len(told) for told in names] == [wanted, wanted], names
        # The files are written while the kubelet is told, not before: on a busy machine a moment later.
        wait_until(lambda: machine.run("sluice", "cdi", "check", *sum(names, [])).rc == 0, what="all names resolve")
        # A name that nothing provides any more: nobody gets the GPU, instead of a pod that cannot start.
        gone = machine.path(f"/dev/nvidia{machine.show()['gpus'][1]['minor']}")
        gone.unlink()
        wait_until(lambda: list(endpoint.devices.values()).count("Unhealthy") == 1,
                   what="the GPU without its node is unhealthy")
    finally:
        kubelet.die()
