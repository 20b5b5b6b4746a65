# SPDX-License-Identifier: Apache-2.0
"""Two pods on one T4 shared by time, a third that waits: the service, a kubelet, and loads in the simulated driver."""

import json
import os
import pathlib
import subprocess

import pytest

from kubelet import Kubelet, grpc

LIBRARY = pathlib.Path(os.environ["MESON_BUILD_ROOT"]) / "sim/cuda/libcuda.so.1"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"no simulated driver library: {LIBRARY}")

SHARED = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"
SECONDS = 20


class Cluster:
    """What a scheduler and a kubelet do with pods that ask for one nvidia.com/gpu each."""

    def __init__(self, endpoint):
        self.endpoint, self.given = endpoint, {}

    def place(self, pod):
        """The environment of its container; None while it is Pending for want of a device."""
        free = sorted(set(self.endpoint.devices) - set(self.given.values()))
        if not free:
            return None
        self.given[pod] = free[0]
        return {env.key: env.value for env in self.endpoint.allocate(free[0]).envs}

    def delete(self, pod):
        del self.given[pod]


@pytest.fixture(name="cluster")
def fixture_cluster(machine, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(SHARED)
    machine.start("t4x1")
    directory = machine.path("/var/lib/kubelet/device-plugins")
    directory.mkdir(parents=True, exist_ok=True)
    kubelet = Kubelet(directory)
    kubelet.start()
    machine.agent("--config", config)
    yield Cluster(kubelet.wait(2))
    kubelet.die()


def load(machine, environment, *options):
    uuid, = {value for value in environment.values() if value.startswith("GPU-")}
    return machine.spawn("sluice", "bench", "gpu", "gemm", "--json", "--quiet", "--device", uuid, "--seconds", SECONDS,
                         *options, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def rate(program):
    out, err = program.communicate(timeout=60)
    assert program.returncode == 0, (out, err)
    return json.loads(out.splitlines()[-1])["tflops"]


def test_two_have_half_each_and_a_third_waits(machine, cluster, tmp_path):
    first = cluster.place("one")
    alone = rate(load(machine, first))
    second = cluster.place("two")
    assert cluster.place("three") is None
    with pytest.raises(grpc.RpcError) as refused:
        cluster.endpoint.allocate(f"{cluster.given['one'].split('::')[0]}::2")
    assert "unknown device" in refused.value.details()
    together = ("--barrier", tmp_path / "barrier", "--tenants", "2")
    rates = [rate(one) for one in [load(machine, first, *together), load(machine, second, *together)]]
    assert [f"{100 * one / alone:.1f}" for one in rates] == ["47.6", "47.6"]
    # A pod ends, and the one that waited takes its place.
    cluster.delete("one")
    assert rate(load(machine, cluster.place("three"))) == alone
