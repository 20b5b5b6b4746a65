# SPDX-License-Identifier: Apache-2.0
"""A node loses its power and starts with what its disk has: nothing in /run, another boot id. Pods and jobs come back, with
GPUs of their own, and a job that ended is not run again."""

import json
import shutil

from conftest import gpus_of, wait

from cluster import pod_object


def template(pod):
    return {"metadata": {"labels": {**pod["metadata"]["labels"], "app": pod["metadata"]["name"]}}, "spec": pod["spec"]}


def job(name, node, command, gpus, folder):
    pod = pod_object(name, node, command=command, gpus=gpus, folder=folder)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"backoffLimit": 4, "template": template(pod)}}


def deployment(name, node, gpus):
    pod = pod_object(name, node, gpus=gpus, restart="Always")
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template(pod)}}


def is_done(cluster, name):
    return cluster.get("job", name)["status"].get("succeeded", 0) == 1


def is_running(pod):
    states = pod["status"].get("containerStatuses", [])
    return not pod["metadata"].get("deletionTimestamp") and any("running" in one["state"] for one in states)


def running(cluster, app, beside=""):
    """The name of a pod of a job or a deployment that runs, and is not `beside`."""
    names = [pod["metadata"]["name"] for pod in cluster.get("pods", selector=f"app={app}") if is_running(pod)]
    return next((name for name in names if name != beside), None)


def test_pods_and_jobs_come_back(service, node):
    folder = node.base / "reboot"
    shutil.rmtree(folder, ignore_errors=True)
    service.apply(job("early", node, "echo $HOSTNAME >>/folder/early", 2, folder))
    wait("the early job", 60, lambda: is_done(service, "early"))
    service.apply(job("long", node, "while [ ! -e /folder/end ]; do sleep 0.2; done", 2, folder))
    service.apply(deployment("kept", node, 4))
    service.pod("lone", node, gpus=1, restart="Always")
    service.wait_phase("lone", "Running")
    before = {name: wait(f"{name} runs", 60, lambda name=name: running(service, name)) for name in ("kept", "long")}
    boot, told = node.boot_id(), service.get("node", node.name)["status"]["nodeInfo"]["bootID"]
    assert boot == told

    try:
        node.run("touch", "/run/from-before")
        node.reboot()
        assert node.boot_id() != boot and "from-before" not in node.run("ls", "/run").split()
        wait("another boot id is told", 180,
             lambda: service.get("node", node.name)["status"]["nodeInfo"]["bootID"] == node.boot_id())
        service.wait_ready()
        service.wait_allocatable(node, 8, seconds=120)

        # The kubelet admits the pods that it had before the service's own pod runs, so those with a GPU end. What a controller
        # keeps is made anew; a pod of nobody is not, with any device plugin.
        wait(lambda: f"lone was refused: {service.get('pod', 'lone')['status']}", 60, lambda: was_refused(service, "lone"))
        names = {name: wait(lambda name=name: f"{name} runs again: {pods_of(service, name)}", 180,
                            lambda name=name: running(service, name, beside=before[name])) for name in before}
        kept, again = (set(gpus_of(service, names[name])) for name in ("kept", "long"))
        assert (len(kept), len(again)) == (4, 2) and not kept & again
        (folder / "end").write_text("")
        wait("the end of the long job", 60, lambda: is_done(service, "long"))
        assert len((folder / "early").read_text().splitlines()) == 1, "a job that had ended ran again"
    finally:
        service.kubectl("delete", "deployment/kept", "job/early", "job/long", "--ignore-not-found")


def was_refused(cluster, name):
    status = cluster.get("pod", name)["status"]
    return status["phase"] == "Failed" and status.get("reason") == "UnexpectedAdmissionError"


def pods_of(cluster, app):
    return json.dumps([{one["metadata"]["name"]: one["status"]} for one in cluster.get("pods", selector=f"app={app}")])[-1500:]
