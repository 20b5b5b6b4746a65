# SPDX-License-Identifier: Apache-2.0
"""Two hundred pods of random sizes come and go while agent, kubelet and containerd are killed: no GPU is given to two at a
time, each pod gets as many as it asked for, all end, and nothing is left."""

import collections
import datetime
import itertools
import json
import os
import random
import shutil
import time

from conftest import Failure
from test_kills import agent, containerd, kubelet

from cluster import pod_object

PODS = int(os.environ.get("CHURN_PODS", "200"))
SEED = int(os.environ.get("CHURN_SEED", "1"))
SECONDS = 900
# Each pod tells what it got, from when to when; the clock is that of the one kernel below all nodes.
COMMAND = """now() { cut -d " " -f 1 /proc/uptime; }
echo "$POD $(now) $(ls -d /dev/nvidia[0-9]* | tr "\\n" " ")" >/folder/$POD.start
sleep %d
now >/folder/$POD.end"""
# What the kubelet makes of a pod while no plugin is registered; no container was started for it.
REFUSED = ("UnexpectedAdmissionError", "OutOfnvidia.com/gpu")
# What becomes of a container that containerd was starting, or had running, when it was killed: its own doing, and of at
# most so many pods as can be on a node at a time.
BROKEN = ("StartError", "Unknown", "ContainerStatusUnknown", "Error")
PODS_OF_A_NODE = 8
# A container whose agent was killed is started anew later and later: after these a pod is deleted instead.
AGENT_KILLS = 2


def restart_agent(cluster, node, counts):
    counts[f"agent of {node.name}"] += 1
    if counts[f"agent of {node.name}"] <= AGENT_KILLS:
        agent(node)
    else:
        cluster.kubectl("delete", "pods", "-n", "sluice", "-l", "app.kubernetes.io/name=sluice", "--grace-period=1",
                        "--wait=false", f"--field-selector=spec.nodeName={node.name}")


def kill_one(cluster, chance, counts):
    node, what = chance.choice(cluster.nodes), chance.choice(["agent", "kubelet", "containerd"])
    try:
        if what == "agent":
            restart_agent(cluster, node, counts)
        else:
            {"kubelet": kubelet, "containerd": containerd}[what](node)
            counts[f"{what} of {node.name}"] += 1
    except Failure:
        counts["not there when it was to be killed"] += 1


def pods(cluster):
    return cluster.get("pods", selector="scenario=yes")


def ended(cluster):
    return [pod for pod in pods(cluster) if pod["status"].get("phase") in ("Succeeded", "Failed")]


def terminated(pod):
    return next((one["state"].get("terminated", {}) for one in pod["status"].get("containerStatuses", [])), {})


def outcome(pod):
    """Succeeded, or why not."""
    status = pod["status"]
    return status["phase"] if status["phase"] != "Failed" else status.get("reason") or terminated(pod).get("reason", "Failed")


def uptime_of(text):
    """Seconds since boot of a moment that Kubernetes gives as a date, to the second."""
    then = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    with open("/proc/uptime", encoding="ascii") as file:
        return float(file.read().split()[0]) - (datetime.datetime.now(datetime.timezone.utc) - then).total_seconds()


def intervals(folder, found):
    """(Pod, GPUs, from, to) of each pod that ran. One that could not write its end has that of its container."""
    for start in sorted(folder.glob("*.start")):
        name, begin, *gpus = start.read_text().split()
        end = start.with_suffix(".end")
        stopped = terminated(found[name]).get("finishedAt")
        last = float(end.read_text()) if end.exists() else uptime_of(stopped) if stopped else float("inf")
        yield name, set(gpus), float(begin), last


def doubles(rows):
    return [(one, other) for one, other in itertools.combinations(rows, 2)
            if one[1] & other[1] and one[2] < other[3] and other[2] < one[3]]


def test_two_hundred_pods(service):
    chance, counts, sizes = random.Random(SEED), collections.Counter(), {}
    folders = {node.name: node.base / "churn" for node in service.nodes}
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
    objects = []
    for number in range(PODS):
        name, size = f"churn-{number}", chance.choice([1, 1, 1, 2, 2, 3, 4])
        node = chance.choice(service.nodes)
        sizes[name] = size
        objects.append(pod_object(name, node, gpus=size, folder=folders[node.name], command=COMMAND % chance.randint(1, 4)))

    start = time.monotonic()
    service.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    while len(ended(service)) < PODS:
        kill_one(service, chance, counts)
        assert time.monotonic() - start < SECONDS, f"{len(ended(service))} of {PODS} ended; killed: {dict(counts)}"
        time.sleep(chance.uniform(3, 8))

    found = {pod["metadata"]["name"]: pod for pod in pods(service)}
    ends = {name: outcome(pod) for name, pod in found.items()}
    phases = collections.Counter(ends.values())
    rows = {name: list(intervals(folder, found)) for name, folder in folders.items()}
    ran = {row[0]: row for some in rows.values() for row in some}
    print(f"churn, seed {SEED}: {PODS} pods in {time.monotonic() - start:.0f} s, {dict(phases)}; killed: {dict(counts)}")
    assert set(phases) <= {"Succeeded", *REFUSED, *BROKEN}, phases
    containerd_kills = sum(count for what, count in counts.items() if what.startswith("containerd"))
    assert sum(phases[reason] for reason in BROKEN) <= PODS_OF_A_NODE * containerd_kills, phases
    assert phases["Succeeded"] >= PODS * 0.7
    assert {name for name, end in ends.items() if end == "Succeeded"} <= set(ran)
    assert [name for name in ran if ends[name] in REFUSED] == []
    assert [row for row in ran.values() if len(row[1]) != sizes[row[0]]] == []
    assert [pair for some in rows.values() for pair in doubles(some)] == []
    for node in service.nodes:
        wait_whole(service, node)


def wait_whole(cluster, node):
    """All GPUs of the node can be had by one pod, when all others are gone; a kubelet takes them back when it gives them anew."""
    cluster.clear()
    cluster.wait_allocatable(node, 8, seconds=120)
    cluster.pod("all", node, gpus=8)
    cluster.wait_phase("all", "Running", seconds=90)
    cluster.clear()
