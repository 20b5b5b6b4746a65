# SPDX-License-Identifier: Apache-2.0
"""Who puts GPUs into containers: a node where nobody would says so, and one whose container runtime
can do CDI gets CDI names in its replies without being asked."""

import json
import time
from concurrent import futures

import pytest

from conftest import wait_until
from kubelet import Kubelet, grpc


def field(number, data):
    """A length-delimited field of protobuf."""
    def varint(value):
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
        return bytes(out)
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


class Runtime:
    """A container runtime's answers to Version and Status."""

    def __init__(self, socket, name, version, config):
        self.config = config
        socket.parent.mkdir(parents=True, exist_ok=True)
        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))

        def version_of(_request, _context):
            return field(1, "0.1.0") + field(2, name) + field(3, version) + field(4, "v1")

        def status_of(request, _context):
            assert request == b"\x08\x01"  # verbose
            return field(2, field(1, "config") + field(2, json.dumps(self.config)))

        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "runtime.v1.RuntimeService", {
                "Version": grpc.unary_unary_rpc_method_handler(version_of),
                "Status": grpc.unary_unary_rpc_method_handler(status_of)}),))
        self.server.add_insecure_port(f"unix:{socket}")
        self.server.start()

    def stop(self):
        self.server.stop(None).wait()


@pytest.fixture
def node(machine):
    """A machine of one GPU with a kubelet and, once node.serve() is called, its service."""
    machine.start("t4x1")
    machine.kubelet = Kubelet(machine.path("/var/lib/kubelet/device-plugins")).start()
    machine.runtime = None

    def serve(*options):
        machine.agent(*options)
        return machine.kubelet.wait(1)

    machine.serve = serve
    yield machine
    machine.kubelet.die()
    if machine.runtime:
        machine.runtime.stop()


def containerd(machine, version, config):
    machine.runtime = Runtime(machine.path("/run/containerd/containerd.sock"), "containerd", version, config)


def status(machine):
    return machine.run("sluice", "agent", "status", "-o", "json").ok().json["kubelet"]


def injection(machine, way):
    """Waits until the service has found this way; its reason."""
    wait_until(lambda: status(machine)["injection"] == way, what=f"injection {way}")
    return status(machine)["injection_reason"]


def provide(machine, kind):
    path = machine.path("/var/run/cdi/ours.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": kind}))


def test_cdi_names_without_being_asked(node):
    containerd(node, "v1.7.13", {"enableCDI": True})
    provide(node, "sluice.sim/gpu")
    endpoint = node.serve()
    assert injection(node, "cdi") == \
        "containerd v1.7.13 does CDI, and a specification provides sluice.sim/gpu"
    uuid = node.show()["gpus"][0]["uuid"]
    deadline = time.monotonic() + 20
    reply = endpoint.allocate(uuid)
    while not reply.cdi_devices and time.monotonic() < deadline:
        reply = endpoint.allocate(uuid)
    assert [device.name for device in reply.cdi_devices] == [f"sluice.sim/gpu={uuid}"]
    assert [entry.value for entry in reply.annotations] == [f"sluice.sim/gpu={uuid}"]
    assert [(entry.key, entry.value) for entry in reply.envs] == [("NVIDIA_VISIBLE_DEVICES", uuid)]
    assert "injection      cdi: containerd" in node.run("sluice", "agent", "status").ok().out


def test_peer_says_what_the_peer_would(node, tmp_path):
    containerd(node, "v2.1.0", {})
    provide(node, "sluice.sim/gpu")
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nsluice: {doors: {kubelet: {inject: peer}}}\n")
    endpoint = node.serve("--config", config)
    injection(node, "cdi")
    reply = endpoint.allocate(node.show()["gpus"][0]["uuid"])
    assert not reply.cdi_devices and not reply.annotations


def test_nobody_would(node):
    containerd(node, "1.6.20", {})
    endpoint = node.serve()
    assert "containerd 1.6.20 cannot do CDI" in injection(node, "none")
    assert not endpoint.allocate(node.show()["gpus"][0]["uuid"]).cdi_devices
    assert "containers get no GPU: containerd 1.6.20" in (node.directory / "agent.err").read_text()


def test_no_runtime(node):
    node.serve()
    assert injection(node, "unknown") == "no container runtime answers"
