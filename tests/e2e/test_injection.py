# SPDX-License-Identifier: Apache-2.0
"""Who puts GPUs into containers: a node where nobody would says so, and one whose container runtime
can do CDI gets CDI names in its replies without being asked."""

import json
import socket

from conftest import wait_until
from kubelet import field, serve_on, small_node  # noqa: F401


def containerd(node, version, config):
    """A container runtime's answers to Version and Status."""
    def version_of(_request, _context):
        return field(1, "0.1.0") + field(2, "containerd") + field(3, version) + field(4, "v1")

    def status_of(request, _context):
        assert request == b"\x08\x01"  # verbose
        return field(2, field(1, "config") + field(2, json.dumps(config)))

    node.others.append(serve_on(node.path("/run/containerd/containerd.sock"), "runtime.v1.RuntimeService",
                                {"Version": version_of, "Status": status_of}))


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


def test_cdi_names_without_being_asked(small_node):  # noqa: F811
    containerd(small_node, "v1.7.13", {"enableCDI": True})
    provide(small_node, "sluice.sim/gpu")
    endpoint = small_node.serve()
    assert injection(small_node, "cdi") == \
        "containerd v1.7.13 does CDI, and a specification provides sluice.sim/gpu"
    uuid = small_node.show()["gpus"][0]["uuid"]
    reply = endpoint.allocate(uuid)
    assert [device.name for device in reply.cdi_devices] == [f"sluice.sim/gpu={uuid}"]
    assert [entry.value for entry in reply.annotations] == [f"sluice.sim/gpu={uuid}"]
    assert [(entry.key, entry.value) for entry in reply.envs] == [("NVIDIA_VISIBLE_DEVICES", uuid)]
    assert "injection      cdi: containerd" in small_node.run("sluice", "agent", "status").ok().out


def test_peer_says_what_the_peer_would(small_node, tmp_path):  # noqa: F811
    containerd(small_node, "v2.1.0", {})
    provide(small_node, "sluice.sim/gpu")
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nsluice: {doors: {kubelet: {inject: peer}}}\n")
    endpoint = small_node.serve("--config", config)
    injection(small_node, "cdi")
    reply = endpoint.allocate(small_node.show()["gpus"][0]["uuid"])
    assert not reply.cdi_devices and not reply.annotations


def test_nobody_would(small_node):  # noqa: F811
    containerd(small_node, "1.6.20", {})
    endpoint = small_node.serve()
    assert "containerd 1.6.20 cannot do CDI" in injection(small_node, "none")
    gpu = small_node.show()["gpus"][0]
    wait_until(lambda: endpoint.allocate(gpu["uuid"]).devices, what="device nodes in the reply")
    reply = endpoint.allocate(gpu["uuid"])
    assert not reply.cdi_devices
    nodes = [node.container_path for node in reply.devices]
    assert f"/dev/nvidia{gpu['minor']}" in nodes and "/dev/nvidiactl" in nodes
    assert len([path for path in nodes if path.removeprefix("/dev/nvidia").isdigit()]) == 1
    # once it is clear that no specification of ours is still to come
    log = small_node.directory / "agent.err"
    wait_until(lambda: "containers get no driver: containerd 1.6.20" in log.read_text(), what="the warning")


def names(endpoint, gpu):
    """What an answer names beside the environment: (CDI devices, device nodes)."""
    reply = endpoint.allocate(gpu["uuid"])
    return [device.name for device in reply.cdi_devices], [node.container_path for node in reply.devices]


def test_while_the_runtime_says_nothing(small_node):  # noqa: F811
    """A runtime that hangs, or restarts together with the service: what is admitted meanwhile begins when it is back."""
    path = small_node.path("/run/containerd/containerd.sock")
    path.parent.mkdir(parents=True, exist_ok=True)
    provide(small_node, "sluice.sim/gpu")
    gpu = small_node.show()["gpus"][0]
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen(16)
        endpoint = small_node.serve()
        devices, nodes = names(endpoint, gpu)
        assert devices == [f"sluice.sim/gpu={gpu['uuid']}"]
        assert f"/dev/nvidia{gpu['minor']}" in nodes and "/dev/nvidiactl" in nodes

    path.unlink()
    containerd(small_node, "v1.7.13", {"enableCDI": True})
    injection(small_node, "cdi")
    wait_until(lambda: names(endpoint, gpu) == ([f"sluice.sim/gpu={gpu['uuid']}"], []), what="CDI names alone")


def test_a_runtime_that_goes_is_what_it_was(small_node):  # noqa: F811
    containerd(small_node, "v1.7.13", {"enableCDI": True})
    provide(small_node, "sluice.sim/gpu")
    endpoint = small_node.serve()
    injection(small_node, "cdi")
    gpu = small_node.show()["gpus"][0]
    expected = ([f"sluice.sim/gpu={gpu['uuid']}"], [])
    wait_until(lambda: names(endpoint, gpu) == expected, what="CDI names alone")
    small_node.others.pop().stop(None).wait()
    small_node.path("/run/containerd/containerd.sock").unlink(missing_ok=True)
    provide(small_node, "somebody.else/gpu")  # what makes the service look
    small_node.run("sluice", "agent", "reload").ok()
    injection(small_node, "unknown")
    assert names(endpoint, gpu)[0] == expected[0]


def test_no_runtime(small_node):  # noqa: F811
    small_node.serve()
    assert injection(small_node, "unknown") == "no container runtime answers"
