# SPDX-License-Identifier: Apache-2.0
"""Names in a pod: a Service's is its address, a headless Service's are those of its pods, and the pods of a launcher reach
each other by theirs, across nodes. No kube-proxy runs: an address of a Service is told, and nothing answers behind it."""

import pytest

from conftest import wait

from cluster import pod_object
from names import Names

WORKERS = ("worker-0", "worker-1")


def service(name, **spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": "workers"}, "ports": [{"port": 8000}], **spec}}


def worker(name, node):
    pod = pod_object(name, node, gpus=0)
    pod["metadata"]["labels"]["app"] = "workers"
    pod["spec"].update(hostname=name, subdomain="workers")
    return pod


def within(cluster, pod, *command):
    """What a command in the pod says, by its exit status or not."""
    return cluster.kubectl_try("exec", pod, "--", *command)[1]


def addresses(cluster, pod, name):
    """What `name` is in the pod; without those of the server, which nslookup tells first."""
    answer = within(cluster, pod, "nslookup", "-type=a", name).split("Name:", 1)
    return {line.split()[-1] for line in "".join(answer[1:]).splitlines() if line.startswith("Address")}


@pytest.fixture(scope="module", autouse=True)
def names(cluster):
    found = Names(cluster)
    try:
        found.up()
        yield found
    finally:
        found.down()


@pytest.fixture
def launcher(cluster):
    """A pod beside two workers, on different nodes where there are two."""
    for one in (service("workers", clusterIP="None"), service("front")):
        cluster.apply(one)
    for number, name in enumerate(WORKERS):
        cluster.apply(worker(name, cluster.nodes[number % len(cluster.nodes)]))
    cluster.pod("launcher", cluster.nodes[0], gpus=0)
    for name in (*WORKERS, "launcher"):
        cluster.wait_phase(name, "Running")
    yield "launcher"
    cluster.clear()
    cluster.kubectl("delete", "service", "workers", "front", "--ignore-not-found")


def test_names(cluster, launcher):
    front = {cluster.get("service", "front")["spec"]["clusterIP"]}
    wait(lambda: f"front is {front}, it is {addresses(cluster, launcher, 'front.default.svc.cluster.local')}", 30,
         lambda: addresses(cluster, launcher, "front.default.svc.cluster.local") == front)

    pods = {name: cluster.get("pod", name)["status"]["podIP"] for name in WORKERS}
    wait(lambda: f"workers are {pods}, they are {addresses(cluster, launcher, 'workers.default.svc.cluster.local')}", 30,
         lambda: addresses(cluster, launcher, "workers.default.svc.cluster.local") == set(pods.values()))
    for name, address in pods.items():
        assert addresses(cluster, launcher, f"{name}.workers.default.svc.cluster.local") == {address}
        # By the C library, which appends what the pod's resolv.conf says; nslookup does not.
        for short in (f"{name}.workers", f"{name}.workers.default.svc"):
            said = within(cluster, launcher, "ping", "-c", "1", "-W", "5", short)
            assert f"({address})" in said and "1 packets received" in said, said


def test_no_such_name(cluster, launcher):
    said = within(cluster, launcher, "nslookup", "-type=a", "nobody.default.svc.cluster.local")
    assert "NXDOMAIN" in said, said


def test_a_pod_that_went(cluster, launcher):
    name = f"{WORKERS[1]}.workers.default.svc.cluster.local"
    wait("the second worker has a name", 30, lambda: addresses(cluster, launcher, name))
    cluster.kubectl("delete", "pod", WORKERS[1], "--grace-period=1")
    wait("its name went with it", 30, lambda: not addresses(cluster, launcher, name))
