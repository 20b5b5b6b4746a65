# SPDX-License-Identifier: Apache-2.0
"""A node for the kubelet's code: a simulated machine with our agent, and the program (kubelet/) that
has the unmodified device manager of one release of Kubernetes in it. The kubelet's socket has a fixed
path, so that program runs in a mount namespace in which the simulated machine's /var/lib/kubelet is
the real one's."""

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import time

from machine import Failure, Machine

ENTER = """mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet &&
mount --bind "$1" /var/lib/kubelet && shift && exec "$@" """
START = 30  # seconds until an agent serves
ANSWER = 60  # seconds for an answer of the kubelet's code
SOON = 30  # seconds for what happens by itself
GPU = "nvidia.com/gpu"
# Only the NVIDIA plugin's own replies, so that each strategy is seen alone; no long wait for what is well again.
PEER = "sluice: {doors: {kubelet: {inject: peer}}, health: {pollInterval: 100ms}}\n"


def why_no_namespace():
    """None, or why the kubelet's code cannot have its fixed path here."""
    try:
        done = subprocess.run(["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/var/lib"], text=True,
                              capture_output=True, timeout=30, check=False)
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else None


def wait(condition, what, seconds=SOON):
    """The first true value of condition(), which may also be a pair (true value, what is there)."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"not in {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.005)


def same(what, have, want):
    if have != want:
        raise Failure(f"{what}: {have!r} instead of {want!r}")


def pod(uid, **containers):
    """pod("a", main=2, init1={"nvidia.com/mig-1g.5gb": 1}): "init..." are init containers."""
    return {"uid": uid, "containers": [
        {"name": name, "init": name.startswith("init"), "limits": limits if isinstance(limits, dict) else {GPU: limits}}
        for name, limits in containers.items()]}


class Driver:
    """The kubelet's code: one process."""

    def __init__(self, program, mode, directory, log):
        self.program = program
        self.log = open(log, "ab")
        self.child = subprocess.Popen(
            ["unshare", "-Urm", "sh", "-c", ENTER, "sh", str(directory), str(program), mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        self.rest = b""
        try:
            self.read(ANSWER)  # it is ready
        except BaseException:
            self.kill()
            raise

    def read(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.child.stdout], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise Failure(f"the kubelet's code does not answer in {seconds} s")
            more = os.read(self.child.stdout.fileno(), 1 << 20)
            if not more:
                raise Failure("the kubelet's code ended")
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def send(self, op, **rest):
        self.child.stdin.write(json.dumps({"op": op, **rest}).encode() + b"\n")
        self.child.stdin.flush()

    def ask(self, op, seconds=ANSWER, **rest):
        self.send(op, **rest)
        reply = self.read(seconds)
        if reply.get("error"):
            raise Failure(f"{op}: {reply['error']}")
        return reply

    def refused(self, op, **rest):
        """The text of an error that must come."""
        self.send(op, **rest)
        reply = self.read(ANSWER)
        if not reply.get("error"):
            raise Failure(f"{op} was not refused: {reply}")
        return reply["error"]

    def capacity(self):
        reply = self.ask("capacity")
        return reply.get("capacity", {}), reply.get("allocatable", {})

    def healthy(self):
        """{resource: {id: NUMA nodes}} of what may be used."""
        return {name: {device["id"]: device["numa"] or [] for device in devices}
                for name, devices in self.ask("healthy").get("devices", {}).items() if devices}

    def expect(self, allocatable, capacity=None, seconds=SOON):
        """Waits until this is what the node has; resources of which there is nothing do not count."""
        capacity = capacity or allocatable

        def there():
            return [{name: count for name, count in counts.items() if count} for counts in self.capacity()]
        wait(lambda: there() == [capacity, allocatable],
             lambda: f"capacity and allocatable {[capacity, allocatable]}; there is {there()}", seconds)

    def admit(self, one):
        """{container: {resource: set of ids}} of a pod that was admitted."""
        self.ask("admit", pod=one)
        return self.devices(one)

    def devices(self, one):
        return {container["name"]: {name: {device["id"] for device in devices} for name, devices in self.ask(
            "devices", pod=one, container=container["name"]).get("devices", {}).items()}
            for container in one["containers"]}

    def options(self, one, container="main"):
        return self.ask("options", pod=one, container=container)["options"]

    def stop(self):
        """As a kubelet ends that is told to."""
        self.ask("stop")
        self.child.stdin.close()
        self.child.wait(timeout=ANSWER)
        self.kill()

    def kill(self):
        self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout, self.log):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Node:
    """Use with `with`. Its agent is not started."""

    def __init__(self, build, program, profile="dgx-a100", mig="none", nodes="file", extra=()):
        self.machine = Machine(build, profile, "580.105.08", mig=mig, clock="real", nodes=nodes, extra=extra)
        self.directory = pathlib.Path(self.machine.directory)
        self.kubelet = self.directory / "root/var/lib/kubelet"
        self.plugins = self.kubelet / "device-plugins"
        self.plugins.mkdir(parents=True)
        self.program = program
        self.drivers, self.agents, self.last = [], [], []
        self.show = self.machine.show()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.last = self.said() if kind else []
        for driver in self.drivers:
            driver.kill()
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
                agent.wait()
        self.machine.__exit__()

    def agent(self, config=PEER, name="one"):
        """Starts an agent with this configuration; its Popen once it serves."""
        file = self.directory / f"{name}.yaml"
        file.write_text("version: v1\n" + config)
        ready, writer = os.pipe()
        with open(self.directory / "agent.log", "ab") as log:
            agent = subprocess.Popen(
                [self.machine.sluice, "sim", "exec", "--", self.machine.sluice, "agent", "--config", str(file),
                 "--period", "100ms", "--ready-fd", str(writer), "--runtime-dir", str(self.directory / name / "run"),
                 "--state-dir", str(self.directory / name / "state")],
                env=self.machine.environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, pass_fds=(writer,), start_new_session=True)
        os.close(writer)
        self.agents.append(agent)
        with os.fdopen(ready, "rb") as pipe:
            if not select.select([pipe], [], [], START)[0] or not pipe.read(1):
                raise Failure("the agent does not serve")
        return agent

    def describe_gpus(self, kind):
        """A CDI specification of another program's, with each GPU by its UUID."""
        devices = [{"name": uuid, "containerEdits": {"env": [f"SEEN={uuid}"]}} for uuid in self.uuids()]
        path = self.directory / "root/etc/cdi/other.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": devices}))

    @staticmethod
    def end(agent, how=signal.SIGTERM):
        agent.send_signal(how)
        agent.wait(timeout=START)

    def command(self, *arguments, name="one"):
        """`sluice ARGUMENTS` of its agent."""
        return self.machine.program("env", f"SLUICE_RUNTIME_DIR={self.directory / name / 'run'}",
                                    self.machine.sluice, *arguments)

    def open(self, mode):
        driver = Driver(self.program, mode, self.kubelet, self.directory / "kubelet.log")
        self.drivers.append(driver)
        return driver

    def manager(self, **how):
        """A device manager that runs."""
        driver = self.open("manager")
        driver.ask("start", **{"ready": True, "numa": sorted(set(self.numa().values())), **how})
        return driver

    def registry(self):
        """A registration server that runs."""
        driver = self.open("registry")
        driver.ask("start")
        return driver

    def said(self):
        """The last that agent and kubelet wrote."""
        lines = []
        for name in ("agent.log", "kubelet.log"):
            with contextlib.suppress(OSError):
                text = (self.directory / name).read_text(errors="replace").splitlines()
                lines += [f"{name}: {line[:300]}" for line in text[-6:]]
        return lines

    def checkpoint(self):
        """Pod entries and registered devices, as the kubelet wrote them; it does so a little later."""
        file = self.plugins / "kubelet_internal_checkpoint"
        data = json.loads(wait(lambda: file.exists() and file.read_text(), "no checkpoint"))["Data"]
        return data["PodDeviceEntries"] or [], {
            name: sorted(ids) for name, ids in data["RegisteredDevices"].items() if ids}

    # What should be there, from what the simulator says.

    def uuids(self):
        return [gpu["uuid"] for gpu in self.show["gpus"]]

    def numa(self):
        """{id: NUMA node} of every GPU and MIG device."""
        return {one["uuid"]: gpu["numa_node"] for gpu in self.show["gpus"]
                for one in (gpu, *gpu["mig"]["instances"])}

    def mixed(self):
        """{resource: ids} with the MIG strategy mixed."""
        there = {}
        for gpu in self.show["gpus"]:
            if not gpu["mig"]["current"]:
                there.setdefault(GPU, []).append(gpu["uuid"])
            for instance in gpu["mig"]["instances"]:
                name = "nvidia.com/mig-" + instance["profile"].replace("+", ".")
                there.setdefault(name, []).append(instance["uuid"])
        return there
