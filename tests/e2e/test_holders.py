# SPDX-License-Identifier: Apache-2.0
"""Who holds which device: containers, as the kubelet's pod-resources service says, and jobs."""

from conftest import wait_until
from kubelet import Kubelet, field, serve_on, small_node  # noqa: F401


class Pods:
    """What the kubelet says of its pods."""

    def __init__(self, node):
        self.held = []  # (namespace, pod, container, resource, device)
        node.others.append(serve_on(node.path("/var/lib/kubelet/pod-resources/kubelet.sock"),
                                    "v1.PodResourcesLister", {"List": self.list}))

    def list(self, _request, _context):
        return b"".join(
            field(1, field(1, pod) + field(2, name_space) + field(3, field(1, container) + field(
                2, field(1, resource) + field(2, device))))
            for name_space, pod, container, resource, device in self.held)


def holders(node):
    return node.run("sluice", "devices", "-o", "json").ok().json["holders"]


def test_containers(small_node):  # noqa: F811
    pods = Pods(small_node)
    uuid = small_node.show()["gpus"][0]["uuid"]
    pods.held = [("ml", "train-0", "main", "nvidia.com/gpu", uuid),
                 ("ml", "train-0", "init", "nvidia.com/gpu", uuid),
                 ("ml", "net-0", "main", "example.com/nic", "nic0")]
    small_node.serve()
    wait_until(lambda: holders(small_node), what="a holder")
    told = holders(small_node)
    assert [(h["unit"], h["resource"], h["door"], h["namespace"], h["pod"], h["container"], h["job"])
            for h in told] == [
        (uuid, "nvidia.com/gpu", "kubelet", "ml", "train-0", "init", None),
        (uuid, "nvidia.com/gpu", "kubelet", "ml", "train-0", "main", None)]
    assert "ml/train-0/main" in small_node.run("sluice", "devices").ok().out

    # Since when outlives the service; who has gone is gone.
    since = told[0]["since_unix_ns"]
    assert since > 0
    small_node.service.kill()
    small_node.service.wait()
    small_node.serve()
    wait_until(lambda: holders(small_node), what="a holder again")
    assert holders(small_node)[0]["since_unix_ns"] == since
    pods.held = []
    wait_until(lambda: not holders(small_node), what="nobody")


def test_jobs(machine):
    machine.start("t4x1")
    assert holders(machine) is None  # nobody could know
    machine.agent()
    machine.run("sluice", "run", "-d", "--gpus", "1", "--", "sleep", "600").ok()
    wait_until(lambda: holders(machine), what="a holder")
    [holder] = holders(machine)
    assert (holder["unit"], holder["door"], holder["job"]) == (machine.show()["gpus"][0]["uuid"], "queue", 1)
    assert holder["since_unix_ns"] > 0
    assert "job 1" in machine.run("sluice", "devices").ok().out
    machine.run("sluice", "cancel", "1").ok()
    wait_until(lambda: not holders(machine), what="nobody")


def test_a_gpu_that_is_held_whole_gets_no_neighbours(machine):
    """The configuration begins to share it: its holder was promised all of it."""
    machine.start("t4x4")
    machine.others = []
    kubelet = Kubelet(machine.path("/var/lib/kubelet/device-plugins")).start()
    pods = Pods(machine)
    config = machine.directory / "config.yaml"
    config.write_text("version: v1\n")
    uuids = [gpu["uuid"] for gpu in machine.show()["gpus"]]
    pods.held = [("ml", "train-0", "main", "nvidia.com/gpu", uuids[1])]
    try:
        machine.agent("--config", config)
        kubelet.wait(4)
        config.write_text("version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n")
        out = {f"{uuids[1]}::0", f"{uuids[1]}::1"}
        wait_until(lambda: kept_out(kubelet) == (8, out), what="two shares that nobody gets")
        log = (machine.directory / "agent.err").read_text()
        assert "is kept out: a container holds it whole: it is shared once it is free" in log

        pods.held = [("ml", "other-0", "main", "nvidia.com/gpu", f"{uuids[0]}::1")]
        wait_until(lambda: kept_out(kubelet) == (8, set()), what="it is free")
        config.write_text("version: v1\n")
        wait_until(lambda: kept_out(kubelet) == (4, {uuids[0]}), what="one that is not given whole")
    finally:
        kubelet.die()
        for other in machine.others:
            other.stop(None)


def kept_out(kubelet):
    devices = kubelet.devices() or {}
    return len(devices), {device for device, health in devices.items() if health == "Unhealthy"}
