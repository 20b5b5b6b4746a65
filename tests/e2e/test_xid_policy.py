# SPDX-License-Identifier: Apache-2.0
"""One table says what an XID means. The configuration overrides a code, and what the kubelet is told, 'sluice health', the
label of the metric (for which the alerts ask), the event and the alert of the stream all follow."""

import contextlib
import json
import re
import socket
import urllib.request

import pytest

from conftest import DEADLINE_S, ROOT, wait_until
from kubelet import Kubelet
from test_metrics import parse

APP, FATAL = 13, 119  # a program's own fault; of the GPU
RULES = (ROOT / "packaging" / "prometheus" / "sluice.rules.yaml").read_text(encoding="utf-8")


class Node:
    """A node with a kubelet, whose configuration says `health` of XIDs."""

    def __init__(self, machine, kubelet, health):
        self.machine = machine
        config = machine.directory / "config.yaml"
        config.write_text(f"sluice: {{health: {health}}}\n")
        machine.agent("--web-address", "127.0.0.1:0", "--config", config)
        self.devices = kubelet.wait(8)
        wait_until(lambda: "sluice_gpu_power_watts" in self.get("/metrics"), what="a first reading")

    def address(self):
        return self.machine.run("sluice", "agent", "status", "--output", "json").ok().json["web"]["address"]

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.address()}{path}", timeout=DEADLINE_S) as reply:
            return reply.read().decode()

    def class_of(self, xid):
        """The label of the metric, once it has counted."""
        found = []

        def look():
            series = parse(self.get("/metrics?set=native")).get("sluice_gpu_xid_errors_total", ("", {}))[1]
            found[:] = [dict(labels)["class"] for labels in series if dict(labels)["xid"] == str(xid)]
            return found

        wait_until(look, what=f"XID {xid} in the metrics")
        assert len(found) == 1
        return found[0]

    def health(self, gpu):
        reply = self.machine.run("sluice", "health", "--output", "json").json["gpus"][gpu]
        return reply["health"], [(entry["xid"], entry["class"]) for entry in reply["xids"]]

    def event(self, xid):
        (event,) = [event for event in json.loads(self.get("/api/v1/events"))["events"] if event.get("xid") == xid]
        return event["health"], "sluice health" in event.get("advice", "")

    def sick(self):
        return {device for device, health in self.devices.devices.items() if health == "Unhealthy"}

    @contextlib.contextmanager
    def alerts(self):
        """Reads the stream: a function that gives the alert of an XID."""
        host, port = self.address().rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as peer:
            peer.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with peer.makefile("rb") as stream:
                while not stream.readline().startswith(b"event: state"):
                    pass

                def alert(xid):
                    for line in stream:
                        if line == b"event: alert\n":
                            told = json.loads(stream.readline().removeprefix(b"data: "))
                            if told.get("xid") == xid:
                                return told["health"]
                    raise AssertionError("the stream has ended")

                yield alert


@pytest.fixture(name="kubelet")
def one_kubelet(machine):
    machine.start("dgx-a100")
    directory = machine.path("/var/lib/kubelet/device-plugins")
    directory.mkdir(parents=True)
    kubelet = Kubelet(directory).start()
    yield kubelet
    kubelet.die()


def alerting_classes():
    """Those that the alert on grave XIDs asks for."""
    (classes,) = re.findall(r'xid_last_timestamp_seconds\{class=~"([a-z|]+)"\}', RULES)
    return set(classes.split("|"))


@pytest.mark.parametrize("health, app, fatal", [
    ("{}", ("app", "healthy"), ("reset", "unhealthy")),
    (f"{{fatalXids: [{APP}], ignoreXids: [{FATAL}]}}", ("reset", "unhealthy"), ("ignore", "healthy")),
])
def test_every_surface_follows(machine, kubelet, health, app, fatal):
    node = Node(machine, kubelet, health)
    uuids = [gpu["uuid"] for gpu in machine.show()["gpus"]]
    with node.alerts() as alert:
        for gpu, (xid, (class_, state)) in enumerate(((APP, app), (FATAL, fatal))):
            machine.sim("inject", "xid", xid, "--gpu", gpu)
            assert alert(xid) == state
            assert node.class_of(xid) == class_
            assert (class_ in alerting_classes()) == (state == "unhealthy")
            assert node.event(xid) == (state, class_ == "reset")
            wait_until(lambda: node.health(gpu)[0] == state, what=f"GPU {gpu} {state}")
            assert node.health(gpu)[1] == ([] if class_ == "ignore" else [(xid, class_)])
    sick = {uuids[gpu] for gpu, (_, state) in enumerate((app, fatal)) if state == "unhealthy"}
    wait_until(lambda: node.sick() == sick, what=f"{sick} unhealthy at the kubelet")
