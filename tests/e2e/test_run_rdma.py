# SPDX-License-Identifier: Apache-2.0
"""Jobs of the local queue that want RDMA adapters beside GPUs."""

import pytest

from conftest import wait_until

CONFIG = """version: v1
sluice:
  rdma:
    configList:
    - resourceName: near
      rdmaHcaMax: 2
      selectors: {ifNames: [ib2, ib3]}
    - resourceName: far
      rdmaHcaMax: 1000
      selectors: {ifNames: [ib7]}
"""


@pytest.fixture(name="service")
def running(machine):
    """GPUs 2 and 3 are behind one switch with ib2 and ib3."""
    machine.start("dgx-a100")
    config = machine.directory / "config.yaml"
    config.write_text(CONFIG)
    machine.agent("--config", config)
    wait_until(lambda: machine.run("sluice", "run", "-g", "0", "-r", "rdma/near", "--dry-run", "--", "true").rc == 0,
               what="rdma/near")
    return machine


def test_the_first_command_starts_the_service_and_waits(machine):
    """Nothing has been read of adapters when the job comes."""
    machine.start("dgx-a100")
    path = machine.path("/etc/sluice/config.yaml")
    path.parent.mkdir(parents=True)
    path.write_text(CONFIG)
    found = variables(machine.run("sluice", "run", "-r", "rdma/far", "--", "env"))
    assert found["SLUICE_RDMA"] == "mlx5_7"


def variables(reply):
    return dict(line.split("=", 1) for line in reply.ok().out.splitlines() if "=" in line)


def gpu(machine, index):
    return machine.show()["gpus"][index]["uuid"]


def test_a_job_gets_the_adapters_and_a_gpu_beside_them(service):
    found = variables(service.run("sluice", "run", "-r", "rdma/near", "--", "env"))
    assert found["SLUICE_RDMA"] == "mlx5_2,mlx5_3"
    assert found["NCCL_IB_HCA"] == "=mlx5_2,mlx5_3"
    assert found["CUDA_VISIBLE_DEVICES"] in {gpu(service, 2), gpu(service, 3)}
    both = variables(service.run("sluice", "run", "-g", "2", "-r", "rdma/near=2", "-r", "rdma/far", "-e",
                                 "NCCL_IB_HCA=mlx5_2", "--", "env"))
    assert both["SLUICE_RDMA"] == "mlx5_7,mlx5_2,mlx5_3"
    assert both["NCCL_IB_HCA"] == "mlx5_2"
    assert set(both["CUDA_VISIBLE_DEVICES"].split(",")) <= {gpu(service, n) for n in (2, 3, 6, 7)}
    none = variables(service.run("sluice", "run", "-g", "0", "--", "env"))
    assert "SLUICE_RDMA" not in none and "NCCL_IB_HCA" not in none


def test_units_are_counted_and_shown(service):
    first = service.run("sluice", "run", "-d", "-g", "0", "-r", "rdma/near=2", "--", "sleep", "600").ok().out.strip()
    wait_until(lambda: service.run("sluice", "jobs", first, "-o", "json").json["state"] == "Running", what="the first job")
    shown = service.run("sluice", "jobs", first, "-o", "json").ok().json
    assert shown["resources"] == {"rdma/near": 2}
    assert "rdma/near=2" in service.run("sluice", "jobs", first).ok().out
    reply = service.run("sluice", "run", "--no-wait", "-g", "0", "-r", "rdma/near", "--", "true")
    assert reply.rc == 75 and "WaitingForResource (rdma/near: have 0, need 1)" in reply.err
    # Over a restart of the agent the running job keeps its units.
    service.service.terminate()
    service.service.wait()
    service.agent("--config", service.directory / "config.yaml")
    wait_until(lambda: "WaitingForResource" in service.run(
        "sluice", "run", "--no-wait", "-g", "0", "-r", "rdma/near", "--", "true").err, what="the units of the running job")
    service.run("sluice", "cancel", first).ok()
    wait_until(lambda: service.run("sluice", "run", "--no-wait", "-g", "0", "-r", "rdma/near=2", "--", "true").rc == 0,
               what="the units")


@pytest.mark.parametrize("wanted, rc, text", [
    ("rdma/other", 78, "this machine has no resource 'rdma/other' for jobs: it has rdma/near, rdma/far"),
    ("rdma/near=3", 78, "needs 3 of 'rdma/near', this machine has 2"),
    ("near", 64, "--resource: 'near' is no name of a resource"),
    ("rdma/near=0", 64, "a number of 1 to 16384 is wanted"),
])
def test_what_is_refused(service, wanted, rc, text):
    reply = service.run("sluice", "run", "-g", "0", "-r", wanted, "--", "true")
    assert reply.rc == rc and text in reply.err, reply


def test_a_port_that_is_down_and_up_again(service):
    ports = [service.path(f"/sys/class/infiniband/mlx5_{n}/ports/1/state") for n in (2, 3)]
    up = ports[0].read_text()
    for port in ports:
        port.write_text("1: DOWN\n")

    def refused():
        reply = service.run("sluice", "run", "--no-wait", "-g", "0", "-r", "rdma/near", "--", "true")
        return "ResourceUnhealthy (rdma/near: " in reply.err
    wait_until(refused, what="the ports to be seen down")
    found = variables(service.run("sluice", "run", "-g", "0", "-r", "rdma/far", "--", "env"))
    assert found["SLUICE_RDMA"] == "mlx5_7"
    ports[1].write_text(up)
    wait_until(lambda: service.run("sluice", "run", "--no-wait", "-g", "0", "-r", "rdma/near", "--", "true").rc == 0,
               what="a port to be seen up")
    found = variables(service.run("sluice", "run", "-g", "0", "-r", "rdma/near", "--", "env"))
    assert found["SLUICE_RDMA"] == "mlx5_3"


def test_the_kubelets_adapters_are_not_the_queues(machine):
    machine.start("dgx-a100")
    machine.path("/var/lib/kubelet/device-plugins").mkdir(parents=True)
    config = machine.directory / "config.yaml"
    config.write_text(CONFIG)
    machine.agent("--config", config)
    reply = machine.run("sluice", "run", "-g", "0", "-r", "rdma/near", "--", "true")
    assert reply.rc == 78 and "the kubelet of this machine hands out its RDMA adapters" in reply.err
