# SPDX-License-Identifier: Apache-2.0
"""A node loses its power and starts with what its disk has: nothing in /run, another boot id. Pods and jobs come back, with
GPUs of their own, and a job that ended is not run again.
Open: the pod that is always restarted was not running again within 120 s; and a node has the boot id of the machine, which
the simulator compares, so that another one has to be imitated in another way."""

from conftest import gpus_of, wait

from cluster import pod_object


def job(name, node, command, gpus, folder):
    pod = pod_object(name, node, command=command, gpus=gpus, folder=folder)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
        "backoffLimit": 4, "template": {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}}}


def is_done(cluster, name):
    return cluster.get("job", name)["status"].get("succeeded", 0) == 1


def running(cluster, name):
    """The name of the running pod of a job."""
    return next((pod["metadata"]["name"] for pod in cluster.get("pods", selector=f"job-name={name}")
                 if pod["status"].get("phase") == "Running"), None)


def test_pods_and_jobs_come_back(service, node):
    folder = node.base / "reboot"
    service.apply(job("early", node, "echo $HOSTNAME >>/folder/early", 2, folder))
    wait("the early job", 60, lambda: is_done(service, "early"))
    service.apply(job("long", node, "echo $HOSTNAME >>/folder/long; while [ ! -e /folder/end ]; do sleep 0.2; done", 3, folder))
    service.apply(pod_object("kept", node, gpus=4, restart="Always"))
    service.wait_phase("kept", "Running")
    wait("the long job", 60, lambda: running(service, "long"))
    boot, told = node.boot_id(), service.get("node", node.name)["status"]["nodeInfo"]["bootID"]
    assert boot == told

    node.run("touch", "/run/from-before")
    node.reboot()
    assert node.boot_id() != boot and node.run("ls", "/run").split().count("from-before") == 0
    wait("another boot id is told", 60,
         lambda: service.get("node", node.name)["status"]["nodeInfo"]["bootID"] == node.boot_id())
    service.wait_ready()
    service.wait_allocatable(node, 8, seconds=120)

    wait("the pod is started again", 120, lambda: restarted(service, "kept"))
    wait("the long job runs again", 120, lambda: running(service, "long"))
    kept, again = set(gpus_of(service, "kept")), set(gpus_of(service, running(service, "long")))
    assert (len(kept), len(again)) == (4, 3) and not kept & again
    (folder / "end").write_text("")
    wait("the end of the long job", 60, lambda: is_done(service, "long"))
    assert len((folder / "early").read_text().split()) == 1, "a job that had ended ran again"
    service.kubectl("delete", "jobs", "early", "long")


def restarted(cluster, name):
    states = cluster.get("pod", name)["status"].get("containerStatuses", [])
    return any(one["restartCount"] > 0 and "running" in one["state"] for one in states)
