# SPDX-License-Identifier: Apache-2.0
"""The agent keeps the labels of its node in a feature file."""

import os
import shutil
import signal
import time

import pytest

from conftest import wait_until
from test_labels import parse

DIRECTORY = "/etc/kubernetes/node-feature-discovery/features.d"


class Node:
    """An agent on a simulated machine, and its feature file."""

    def __init__(self, machine):
        self.machine = machine
        self.directory = machine.path(DIRECTORY)
        self.path = self.directory / "gfd"
        self.config = machine.directory / "config.yaml"

    def serve(self, text="", *options, discovery=True):
        if discovery:
            self.directory.mkdir(parents=True)
        self.configure(text)
        self.machine.agent("--config", self.config, *options)

    def configure(self, text):
        new = self.config.with_suffix(".new")
        new.write_text(f"version: v1\n{text}\n")
        new.rename(self.config)

    def labels(self):
        try:
            return parse(self.path.read_text())
        except FileNotFoundError:
            return {}

    def wait(self, key, value):
        wait_until(lambda: self.labels().get(key) == value, what=f"{key}={value} in {self.labels()}")

    def status(self):
        reply = self.machine.run("sluice", "agent", "status", "--output", "json").ok().json["labels"]
        return reply["state"], reply["reason"] or ""


@pytest.fixture
def node(machine):
    return Node(machine)


FAST = "flags: {gfd: {sleepInterval: 200ms}}"


def test_the_file_is_kept(node):
    node.machine.start("t4x4")
    node.serve(FAST)
    node.wait("gpu.count", "4")
    printed = node.machine.run("sluice", "labels", "--no-timestamp", "--config-file", node.config).ok()
    with_time = node.labels()
    stamp = with_time.pop("gfd.timestamp")
    assert with_time == parse(printed.out)
    wait_until(lambda: node.status() == ("kept", f"{len(with_time) + 1} in '{node.path}'"))
    # Nothing is written while nothing changes, and what somebody spoils is mended.
    before = node.path.stat()
    node.machine.sim("inject", "lost", "--gpu", "2")
    node.wait("gpu.count", "3")
    assert node.path.stat().st_ino != before.st_ino
    node.path.write_text("nvidia.com/gpu.count=9\n")
    node.wait("gpu.count", "3")
    inode = node.path.stat().st_ino
    time.sleep(0.5)  # twice the interval: nothing happens, and that takes time
    assert node.path.stat().st_ino == inode
    # The configuration counts within a second; the time of the reload is another.
    wait_until(lambda: int(time.time()) > int(stamp) + 2)
    node.configure("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 5}]}}")
    begun = time.monotonic()
    node.wait("gpu.replicas", "5")
    assert time.monotonic() - begun < 2 and node.labels()["gfd.timestamp"] > stamp
    # It stays when the agent ends, and the next one finds it right.
    node.machine.service.terminate()
    assert node.machine.service.wait(timeout=60) == 0
    assert node.labels()["gpu.replicas"] == "5"


def test_mig_when_it_stands_still(node):
    node.machine.start("dgx-a100", "--gpus", "1", "--mig", "single")
    node.serve("flags: {migStrategy: mixed}")
    node.wait("mig-1g.5gb.count", "7")
    node.machine.sim("inject", "mig", "hetero")
    wait_until(lambda: node.labels().get("mig-3g.20gb.count"), what="labels of another layout")
    printed = node.machine.run("sluice", "labels", "--config-file", node.config).ok()
    assert set(node.labels()) == set(parse(printed.out))


def test_a_directory_that_cannot_be_written(node):
    node.machine.start("t4x1")
    named = node.machine.directory / "somewhere" / "gfd"
    node.serve(f"flags: {{gfd: {{sleepInterval: 200ms, outputFile: {named}}}}}\n"
               "sluice: {labels: {mode: file, onExit: remove}}", discovery=False)
    wait_until(lambda: node.status()[0] == "failed" and str(named.parent) in node.status()[1])
    lines = (node.machine.directory / "agent.err").read_text().splitlines()
    assert len([line for line in lines if "labels: " in line]) == 1
    named.parent.mkdir()
    wait_until(named.exists, what="the file once the directory is there")
    wait_until(lambda: node.status()[0] == "kept")
    # Another place: the old one is no second source.
    other = node.machine.directory / "elsewhere"
    node.configure(f"flags: {{gfd: {{outputFile: {other}}}}}\nsluice: {{labels: {{mode: file, onExit: remove}}}}")
    wait_until(lambda: other.exists() and not named.exists(), what="the file at its new place")
    node.machine.service.terminate()
    assert node.machine.service.wait(timeout=60) == 0
    assert not other.exists()


def test_a_driver_that_goes_away(node):
    node.machine.start("t4x1")
    node.serve(f"{FAST}\nsluice: {{labels: {{keepOnError: 1s, expiry: 10m}}}}")
    node.wait("gpu.count", "1")
    assert node.path.read_text().startswith("# +expiry-time=")
    node.machine.sim("inject", "no-driver")
    wait_until(lambda: set(node.labels()) == {"gfd.timestamp", "vgpu.present"}, what="labels of no GPU")


def test_nowhere_without_kubernetes(node):
    """No directory of node feature discovery, no cluster: nothing is done, and nothing said."""
    node.machine.start("t4x1")
    node.serve(FAST, discovery=False)
    wait_until(lambda: node.machine.run("sluice", "agent", "status", "-o", "json").ok().json["gpus"] == 1)
    assert node.status() == ("off", "")
    assert "labels" not in (node.machine.directory / "agent.err").read_text()
    node.directory.mkdir(parents=True)  # it is installed later
    node.wait("gpu.count", "1")
    shutil.rmtree(node.directory)
    wait_until(lambda: node.status()[0] == "off")
    node.machine.service.send_signal(signal.SIGHUP)
    os.kill(node.machine.service.pid, 0)


@pytest.mark.parametrize("text, at, words", [
    ("flags: {useNodeFeatureAPI: true}\nsluice:\n  labels:\n    mode: file", "4:11", "useNodeFeatureAPI"),
    ("flags: {useNodeFeatureAPI: false}\nsluice:\n  labels:\n    mode: nodefeature", "4:11", "useNodeFeatureAPI"),
    ("flags: {useNodeFeatureAPI: true}\nsluice:\n  labels:\n    mode: direct", "4:11", "useNodeFeatureAPI"),
    ("sluice:\n  labels:\n    mode: [file, direct]", "3:11", "one value"),
    ("sluice:\n  labels:\n    mode: both", "3:11", "nodefeature"),
])
def test_two_ways_at_once(node, text, at, words):
    node.config.write_text(text)
    reply = node.machine.run("sluice", "config", "check", node.config)
    assert reply.rc == 1 and f"{node.config}:{at}" in reply.err + reply.out and words in reply.err + reply.out
