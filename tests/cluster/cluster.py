# SPDX-License-Identifier: Apache-2.0
"""The whole cluster: what `run up` makes and `run down` takes away, and what scenarios ask of it."""

import json
import shutil
import subprocess

import cgroup
import images
from control import Control
from node import Node
from place import BASE, HERE, PIDS, PKI, ROOT, Failure, reap, wait
from programs import program
from space import SERVICES, SWITCH, netns_path, switch_down

CHART = ROOT / "packaging/helm/sluice"


class Cluster:
    def __init__(self):
        self.control = Control()
        count = int((BASE / "nodes").read_text()) if (BASE / "nodes").exists() else 0
        self.nodes = [Node(number + 1) for number in range(count)]

    # Up and down ------------------------------------------------------------------------------

    def up(self, count):
        BASE.mkdir(parents=True, exist_ok=True)
        (BASE / "nodes").write_text(str(count))
        for name in images.MAKERS:
            images.make(name)
        self.nodes = [Node(number + 1) for number in range(count)]
        if not self.control.pids():
            self.control.up()
        for node in self.nodes:
            node.up()
            node.route(SERVICES, self.control.address)
            self.control.route(node.pods, node.address)
            for other in self.nodes:
                if other is not node:
                    node.route(other.pods, other.address)
            self.load_images(node)
        self.wait_ready()

    def load_images(self, node):
        for name in images.MAKERS:
            node.load(images.make(name))

    def wait_ready(self):
        for node in self.nodes:
            wait(f"{node.name} is Ready", 120, lambda name=node.name: self.is_ready(name), every=0.5)

    def is_ready(self, name):
        try:
            conditions = self.get("node", name)["status"]["conditions"]
        except Failure:
            return False
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def down(self):
        """Takes everything away, and says what is left."""
        for node in self.nodes:
            node.down()
        self.control.down()
        switch_down()
        reap()
        for one in BASE.glob("node-*"):
            unmount_below(one)
            shutil.rmtree(one)
        for name in ("etcd", "nodes"):
            path = BASE / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return self.left()

    def left(self):
        spaces = [self.control, *self.nodes]
        found = [str(netns_path(one.netns)) for one in spaces if netns_path(one.netns).exists()]
        found += [str(netns_path(SWITCH))] if netns_path(SWITCH).exists() else []
        found += [one for node in self.nodes for one in cgroup.left(node.group)]
        found += [line.split()[4] for line in open("/proc/self/mountinfo", encoding="utf-8") if f" {BASE}/" in line]
        found += [str(one) for one in PIDS.glob("*")]
        return found

    # What scenarios ask -----------------------------------------------------------------------

    def kubectl(self, *arguments, **options):
        return self.control.kubectl(*arguments, **options)

    def kubectl_try(self, *arguments):
        """The exit status, and all that it says."""
        done = subprocess.run([str(one) for one in self.control.inside(program("kubectl"), f"--kubeconfig={PKI}/admin.conf", *arguments)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        return done.returncode, done.stdout

    def apply(self, manifest, namespace="default"):
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self.kubectl("apply", "-n", namespace, "-f", "-", input=text)

    def get(self, kind, name=None, namespace="default", selector=None):
        """An object, or the list of them."""
        arguments = [one for one in ("get", kind, name, "-n", namespace, "-o", "json") if one]
        found = json.loads(self.kubectl(*arguments, *(["-l", selector] if selector else [])))
        return found if name else found["items"]

    def get_with_fields(self, node):
        """A node with who has written which of its fields."""
        return json.loads(self.kubectl("get", "node", node.name, "-o", "json", "--show-managed-fields"))

    def helm(self, *arguments, **options):
        environment = {"KUBECONFIG": str(PKI / "admin.conf"), "HOME": str(BASE), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        words = [f"{key}={value}" for key, value in environment.items()]
        return self.control.run("env", *words, program("helm"), *arguments, **options)

    def install(self, *arguments):
        """The chart with this tree's image, for simulated GPUs; `arguments` are helm's."""
        return self.helm("upgrade", "--install", "sluice", CHART, "--namespace", "sluice", "--create-namespace", "--values",
                         HERE / "values-sim.yaml", *arguments, "--wait", "--timeout", "120s", timeout=180)

    def uninstall(self):
        return self.helm("uninstall", "sluice", "--namespace", "sluice", "--wait", "--ignore-not-found", "--timeout", "120s", timeout=180)

    def allocatable(self, node, resource="nvidia.com/gpu"):
        return int(self.get("node", node.name)["status"].get("allocatable", {}).get(resource, 0))

    def wait_allocatable(self, node, count, resource="nvidia.com/gpu", seconds=60):
        wait(lambda: f"{node.name} has {count} {resource}, it has {self.allocatable(node, resource)}", seconds,
             lambda: self.allocatable(node, resource) == count, every=0.5)

    def agent(self, node, *arguments, **options):
        """A command in the service's container on the node."""
        pods = self.get("pods", namespace="sluice", selector="app.kubernetes.io/name=sluice")
        name = next(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node.name)
        return self.kubectl("exec", "-n", "sluice", name, "--", *arguments, **options)

    def pod(self, name, node=None, **options):
        """Starts a pod of the box with GPUs: pod_object()'s options."""
        self.apply(pod_object(name, node, **options))

    def phase(self, name):
        return self.get("pod", name)["status"].get("phase")

    def wait_phase(self, name, *phases, seconds=60):
        wait(lambda: f"pod {name} is {' or '.join(phases)}, it is {self.phase(name)}", seconds,
             lambda: self.phase(name) in phases, every=0.3)

    def clear(self):
        """Takes away the pods of a scenario."""
        self.kubectl("delete", "pods", "-l", "scenario=yes", "--grace-period=1", "--wait=true", timeout=120)


def pod_object(name, node=None, command="exec sleep 100000", gpus=1, resource="nvidia.com/gpu", folder=None, restart="Never"):
    """A pod of the box. `folder` of the node is /folder in it."""
    container = {"name": "main", "image": "localhost/box:1", "imagePullPolicy": "Never", "command": ["sh", "-c", command],
                 "env": [{"name": "POD", "value": name}], "resources": {"limits": {resource: str(gpus)} if gpus else {}}}
    spec = {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
            "enableServiceLinks": False, "containers": [container]}
    if folder:
        container["volumeMounts"] = [{"name": "folder", "mountPath": "/folder"}]
        spec["volumes"] = [{"name": "folder", "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"}}]
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node.name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"scenario": "yes"}}, "spec": spec}


def unmount_below(folder):
    mounts = [line.split()[4] for line in open("/proc/self/mountinfo", encoding="utf-8")]
    for one in sorted((path for path in mounts if path.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", one], check=False)
