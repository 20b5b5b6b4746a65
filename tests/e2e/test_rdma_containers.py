# SPDX-License-Identifier: Apache-2.0
"""RDMA adapters over time, and what podman makes of their specification: the slow part of test_rdma.py."""

import resource
import time

import pytest

from conftest import DEADLINE_S, wait_until
from containers import WITHOUT_UNIFIED, Bundle, image, needs, simulated
from test_cdi_podman import Podman
from test_rdma import configure, hca, node, nodes, rdma  # noqa: F401, a fixture among them

__all__ = ["node"]


def test_a_port_goes_down_and_comes_up(node):  # noqa: F811
    """Unhealthy within 11 s and healthy again within 6 s, as far as the kubelet sees."""
    configure(node, hca(healthCheck="port"), {"resourceName": "one", "devices": ["ib1"], "healthCheck": "port"})
    node.agent()
    one, whole = node.kubelet.wait(4, "rdma/one"), node.kubelet.wait(4, "rdma/hca")
    lists = len(whole.lists)
    began = time.monotonic()
    node.sim("inject", "rdma", "1", "down")
    wait_until(lambda: set(one.devices.values()) == {"Unhealthy"}, what="an unhealthy resource")
    down_s = time.monotonic() - began
    assert "uverbs1" not in nodes(whole.allocate("0")) and "uverbs2" in nodes(whole.allocate("0"))
    assert len(whole.lists) == lists  # the others go on: nothing is new for the kubelet
    assert any("(mlx5_1) is not handed out as rdma/one: no port is up" in note for note in rdma(node)["notes"])
    began = time.monotonic()
    node.sim("inject", "rdma", "1", "up")
    node.kubelet.wait(4, "rdma/one")
    up_s = time.monotonic() - began
    assert "uverbs1" in nodes(whole.allocate("0"))
    assert down_s < DEADLINE_S and up_s < DEADLINE_S
    print(f"simulated: unhealthy after {down_s:.1f} s, healthy after {up_s:.1f} s")


@pytest.fixture(scope="module")
def podman():
    needs("podman", "runc", "conmon")
    with simulated("dgx1", "--gpus", "1") as machine:
        path = machine.path("/k8s-rdma-shared-dev-plugin/config.json")
        path.parent.mkdir(parents=True)
        path.write_text('{"configList": [{"resourceName": "hca", "rdmaHcaMax": 1, "selectors": '
                        '{"ifNames": ["ib1", "ib2"]}}]}')
        made = Podman(machine)
        machine.agent()
        try:
            wait_until(lambda: machine.path("/var/run/cdi/sluice.sim-rdma.json").exists(), what="a specification")
            yield made
        finally:
            made.remove()


def seen(podman, device):  # noqa: F811
    reply = podman.run([], "stat -c '%n %a %u %g %t:%T' /dev/infiniband/*", "--device", f"sluice.sim/rdma={device}").ok()
    return reply.out.splitlines()


def test_podman_takes_an_adapter(podman):  # noqa: F811
    """Exactly its nodes, with the mode of the host's: podman makes them 0666 unless it is told."""
    assert seen(podman, "mlx5_1") == ["/dev/infiniband/issm1 600 0 0 1fb:41", "/dev/infiniband/rdma_cm 666 0 0 1fb:ff",
                                      "/dev/infiniband/umad1 600 0 0 1fb:1", "/dev/infiniband/uverbs1 666 0 0 1fb:c1"]


def test_podman_takes_a_resource(podman):  # noqa: F811
    assert [line.split()[0].rsplit("/", 1)[1] for line in seen(podman, "rdma:hca")] == [
        "issm1", "issm2", "rdma_cm", "umad1", "umad2", "uverbs1", "uverbs2"]


def test_podman_refuses_what_is_not_offered(podman):  # noqa: F811
    reply = podman.run([], "true", "--device", "sluice.sim/rdma=mlx5_0")
    assert reply.rc != 0 and "unresolvable CDI devices sluice.sim/rdma=mlx5_0" in reply.err, reply


@pytest.fixture(name="little")
def little_memory():
    """This process and what it starts may lock 64 KiB, and more if somebody raises the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if hard != resource.RLIM_INFINITY and hard < 4 << 20:
        pytest.skip(f"the hard limit of locked memory is {hard} bytes, and this test needs 4 MiB of it")
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 << 10, hard))
    yield
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_locked_memory_for_somebody_who_is_not_root(node, tmp_path, little, runtime):  # noqa: F811
    """The device that the kubelet is told brings the hook; without `memlock` nothing does."""
    needs(runtime)
    configure(node, hca(memlock="2Mi"), {"resourceName": "one", "devices": ["ib1"]})
    node.agent()
    answer = node.kubelet.wait(4, "rdma/hca").allocate("0")
    assert [device.name for device in answer.cdi_devices] == ["sluice.sim/rdma=rdma:hca"]
    assert [note.value for note in answer.annotations] == ["sluice.sim/rdma=rdma:hca"] and not answer.devices
    assert nodes(node.kubelet.wait(4, "rdma/one").allocate("0"))[0] == "issm1"
    wait_until(lambda: node.path("/var/run/cdi/sluice.sim-rdma.json").exists(), what="a specification")
    hook = node.state_dir / "bin" / "sluice-memlock"
    assert hook.stat().st_mode & 0o7777 == 0o755
    hook.write_bytes(b"#!/bin/sh\nexit 1\n")  # whatever it has become, it is brought back with the next look
    node.service.send_signal(1)

    def limit(device):
        box = Bundle(tmp_path / f"box-{device.replace(':', '-')}", image_of(tmp_path), runtime)
        box.config["process"]["user"] = {"uid": 1000, "gid": 1000}
        for kind in box.config["process"]["capabilities"]:
            box.config["process"]["capabilities"][kind] = []
        box.shell("ulimit -S -l").give(node, f"sluice.sim/rdma={device}")
        return box.run(*(WITHOUT_UNIFIED if runtime == "crun" else ())).ok().out.strip()
    wait_until(lambda: hook.stat().st_size > 1000, what="the hook")
    assert limit("rdma:hca") == "2048"
    assert limit("rdma:one") == "64"


def image_of(directory):
    root = directory / "rootfs"
    return root if root.exists() else image(root)
