# SPDX-License-Identifier: Apache-2.0
"""The device plugin of `sluice agent` against the kubelet's own code, of the newest and the oldest
release that is built here: its device manager, and its registration server with a client. Nothing
of the kubelet is ours; what should come out is what the simulator says of the machine."""

import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

from kubelet_node import GPU, PEER, Node, pod, same, wait, why_no_namespace
from machine import Failure

HERE = pathlib.Path(__file__).resolve().parent
RELEASES = ("newest", "oldest")
# The newest is that of tests/cluster, built as there: what Go compiles for one it has for the other.
FLAGS = {"newest": "-mod=readonly -trimpath", "oldest": "-mod=readonly"}
BUILD = 1800  # seconds for building the kubelet's packages on a slow machine
CASES = {}
LONG = ("restarts", "health", "kills", "another plugin")  # some ten seconds and more
# What every container with a GPU opens, whichever that is.
EVERYWHERE = ["/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl"]
SHARED = PEER + """sharing:
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, replicas: 48}
"""


def case(function):
    """A case, called with an open function that makes its nodes and with its Kubernetes release."""
    CASES[function.__name__.removeprefix("case_").replace("_", " ")] = function
    return function


def version(release):
    return re.search(r"k8s.io/kubernetes v([0-9.]+)", (HERE / "kubelet" / release / "go.mod").read_text()).group(1)


class Kubelets:
    """The programs; made by install()."""

    def __init__(self):
        self.programs = {}  # version: program
        self.missing = []  # why some cannot be had

    def install(self, folder, step, unavailable):
        why = why_no_namespace()
        if why:
            self.missing.append(f"the kubelet's code needs user namespaces (unshare -Urm): {why}")
            return
        go = shutil.which("go")
        if not go:
            self.missing.append("Go is not installed: apt install golang-go")
            return
        for release in RELEASES:
            program = folder / f"kubelet-{release}"
            print(f"building the device manager of Kubernetes {version(release)} (minutes, the first time)", flush=True)
            try:
                step([go, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", str(program), "."],
                     HERE / "kubelet" / release,
                     f"building the device manager of Kubernetes {version(release)} (is there a network?)",
                     {**os.environ, "GOFLAGS": FLAGS[release]}, BUILD)
                self.programs[version(release)] = program
            except unavailable as error:
                self.missing.append(str(error))


# The device manager ------------------------------------------------------------------------------

@case
def case_registers(node_of):
    """Agent first or kubelet first; devices, NUMA nodes and checkpoint are those of the machine."""
    for agent_first in (True, False):
        with node_of() as node:
            if agent_first:
                node.agent()
            driver = node.manager()
            if not agent_first:
                same("before there is a plugin", driver.capacity(), ({}, {}))
                node.agent()
            driver.expect({GPU: 8})
            same("devices", driver.healthy(), {GPU: {uuid: [node.numa()[uuid]] for uuid in node.uuids()}})
            wait(lambda: node.checkpoint() == ([], {GPU: sorted(node.uuids())}),
                 lambda: f"checkpoint {node.checkpoint()}")
            same("sockets", sorted(path.name for path in node.plugins.iterdir() if path.is_socket()),
                 ["kubelet.sock", "nvidia-gpu.sock"])
    return "8 devices"


@case
def case_allocates(node_of):
    """What a container gets is what the kubelet took, in the environment and in the checkpoint."""
    with node_of() as node:
        node.agent()
        driver = node.manager()
        driver.expect({GPU: 8})
        one = pod("one", main=1)
        taken = driver.admit(one)["main"][GPU]
        options = driver.options(one)
        same("environment", options["envs"], {"NVIDIA_VISIBLE_DEVICES": "".join(taken)})
        same("rest", [options[key] for key in ("mounts", "devices", "cdi_devices")], [None, None, None])
        same("annotations", options["annotations"], {})
        several = pod("several", init=2, left=1, right=2)
        held = driver.admit(several)
        if held["left"][GPU] & held["right"][GPU] or taken & (held["left"][GPU] | held["right"][GPU]):
            raise Failure(f"one device in two containers: {taken}, {held}")
        if not held["init"][GPU] <= held["left"][GPU] | held["right"][GPU]:
            raise Failure(f"the init container's devices were not used again: {held}")
        for name in ("left", "right"):
            environment = driver.options(several, name)["envs"]["NVIDIA_VISIBLE_DEVICES"].split(",")
            same(f"environment of {name}", sorted(environment), sorted(held[name][GPU]))
        entries, registered = node.checkpoint()
        written = {(entry["PodUID"], entry["ContainerName"]): entry for entry in entries}
        for uid, name, ids in (("one", "main", taken), ("several", "left", held["left"][GPU]),
                               ("several", "right", held["right"][GPU])):
            entry = written[uid, name]
            if not entry["AllocResp"]:
                raise Failure(f"no reply in the checkpoint of {uid}/{name}")
            numa = {}
            for uuid in ids:
                numa.setdefault(str(node.numa()[uuid]), set()).add(uuid)
            same(f"checkpoint of {uid}/{name}", {key: set(value) for key, value in entry["DeviceIDs"].items()}, numa)
        same("registered in the checkpoint", registered, {GPU: sorted(node.uuids())})
        refused = driver.refused("admit", pod=pod("greedy", main=5))
        if f"requested number of devices unavailable for {GPU}. Requested: 5, Available: 4" not in refused:
            raise Failure(refused)
        driver.ask("forget", pod=several)
        driver.admit(pod("greedy", main=7))
    return "4 pods"


@case
def case_prefers(node_of):
    """Which GPUs a pod gets is ours to say: pairs on one NUMA node stay together."""
    with node_of() as node:
        node.agent()
        driver = node.manager()
        driver.expect({GPU: 8})
        uuids, numa = node.uuids(), node.numa()

        def got(uid, count):
            return sorted(uuids.index(uuid) for uuid in driver.admit(pod(uid, main=count))["main"][GPU])
        same("of all, one", got("a", 1), [0])
        same("the other of the broken pair", got("b", 1), [1])
        pair = got("c", 2)
        same("NUMA nodes of two", len({numa[uuids[i]] for i in pair}), 1)
        same("NUMA nodes of four", len({numa[uuids[i]] for i in got("d", 4)}), 2)
        driver.ask("forget", pod=pod("b"))
        driver.ask("forget", pod=pod("c"))
        same("of one and a pair, the one", got("e", 1), [1])
    return "by NUMA node"


@case
def case_aligns(node_of):
    """The topology manager is told where devices are, and what it decided is kept to."""
    with node_of() as node:
        node.agent()
        driver = node.manager()
        driver.expect({GPU: 8})
        two = pod("two", main=2)
        driver.ask("offer", pod=two)
        hints = driver.ask("hints", pod=two, container="main")["hints"][GPU]
        same("preferred hints for two", sorted(hint["numa"] for hint in hints if hint["preferred"]),
             [[1], [3], [5], [7]])
        driver.stop()
        driver = node.manager(affinity=[5])
        driver.expect({GPU: 8})
        there = {uuid for uuid in node.uuids() if node.numa()[uuid] == 5}
        same("on NUMA node 5", driver.admit(two)["main"][GPU], there)
    return "hints for 4 NUMA nodes"


@case
def case_strategies(node_of):
    """Every way to name devices, as it comes out for the container runtime."""
    cdi = "sluice.sim/gpu="  # simulated GPUs do not pass for real ones

    def plugin(text):
        return PEER + "flags: {plugin: {" + text + "}}\n"

    def envvar(options, node, ids, newest):
        same("environment", options["envs"], {"NVIDIA_VISIBLE_DEVICES": ",".join(ids)})

    def index(options, node, ids, newest):
        same("environment", options["envs"], {"NVIDIA_VISIBLE_DEVICES": str(node.uuids().index(ids[0]))})

    def mounts(options, node, ids, newest):
        same("environment", options["envs"], {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"})
        same("mounts", options["mounts"], [{"container": f"/var/run/nvidia-container-devices/{uuid}",
                                            "host": "/dev/null", "read_only": False} for uuid in ids])

    def annotations(options, node, ids, newest):
        (name, value), = options["annotations"].items()
        if not name.startswith("cdi.k8s.io/nvidia-device-plugin_"):
            raise Failure(f"annotation {name}")
        same("annotation", value, ",".join(cdi + uuid for uuid in ids))

    def cri(options, node, ids, newest):
        same("CDI devices", options["cdi_devices"], [cdi + uuid for uuid in ids] if newest else None)

    def specs(options, node, ids, newest):
        paths = [f"/dev/nvidia{node.uuids().index(uuid)}" for uuid in ids]
        paths += EVERYWHERE
        same("devices", sorted((one["container"], one["host"], one["permissions"]) for one in options["devices"]),
             sorted((path, path, "rw") for path in paths))

    def several(options, node, ids, newest):
        envvar(options, node, ids, newest)
        cri(options, node, ids, newest)
        annotations(options, node, ids, newest)

    wanted = (("envvar", plugin("deviceListStrategy: envvar"), envvar),
              ("index", plugin("deviceIDStrategy: index"), index),
              ("volume-mounts", plugin("deviceListStrategy: volume-mounts"), mounts),
              ("cdi-annotations", plugin("deviceListStrategy: [cdi-annotations]"), annotations),
              ("cdi-cri", plugin("deviceListStrategy: [cdi-cri]"), cri),
              ("device specs", plugin("passDeviceSpecs: true"), specs),
              ("several", plugin("deviceListStrategy: [envvar, cdi-annotations, cdi-cri]"), several))
    with node_of() as node:
        # Names are told only while they resolve. The agent describes no GPU whose nodes are plain files, so somebody else does.
        node.describe_gpus("sluice.sim/gpu")
        newest = not node.program.name.endswith("oldest")
        for number, (name, config, check) in enumerate(wanted):
            agent = node.agent(config)
            driver = node.manager()
            driver.expect({GPU: 8})
            one = pod(f"pod{number}", main=1)
            try:
                held = driver.admit(one)["main"][GPU]
                check(driver.options(one), node, sorted(held), newest)
            except (Failure, TypeError, ValueError, KeyError) as error:
                raise Failure(f"{name}: {error}") from error
            driver.ask("forget", pod=one)
            driver.stop()
            node.end(agent)
    return f"{len(wanted)} ways"


@case
def case_kubelet_restarts(node_of):
    """With pods that run, by a kill and by a quiet end; the socket's inode may be the same again."""
    with node_of() as node:
        node.agent()
        driver = node.manager()
        driver.expect({GPU: 8})
        pods = [pod("one", main=1), pod("two", init=2, main=2)]
        held = [driver.admit(one) for one in pods]
        before = [driver.options(one) for one in pods]
        took = []
        for times in range(6):
            if times % 2:
                driver.stop()
            else:
                driver.kill()
            driver = node.open("manager")
            begin = time.monotonic()
            driver.ask("start", ready=False, numa=[1, 3, 5, 7], pods=pods)
            driver.expect({GPU: 8})
            took.append((time.monotonic() - begin) * 1000)
            for one, had, said in zip(pods, held, before):
                same(f"{one['uid']} admitted again", driver.admit(one), had)
                same(f"options of {one['uid']}", driver.options(one), said)
            driver.ask("ready", ready=True)
            other = pod(f"other{times}", main=5)
            others = driver.admit(other)["main"][GPU]
            same("the rest", others, set(node.uuids()) - held[0]["main"][GPU] - held[1]["main"][GPU])
            driver.ask("forget", pod=other)
        # There is no plugin when the kubelet starts: known from the checkpoint, with nothing in it.
        node.end(node.agents[-1])
        driver.kill()
        driver = node.open("manager")
        driver.ask("start", ready=False, numa=[1, 3, 5, 7], pods=pods)
        same("without a plugin", [sum(counts.values()) for counts in driver.capacity()], [0, 0])
        node.agent()
        driver.expect({GPU: 8})
        same("admitted again", [driver.admit(one) for one in pods], held)
    return f"there again after at most {max(took):.0f} ms"


@case
def case_agent_restarts(node_of):
    """Killed, or told to end, with pods that run: they keep what they have."""
    with node_of() as node:
        agent = node.agent()
        driver = node.manager()
        driver.expect({GPU: 8})
        one = pod("one", main=3)
        held = driver.admit(one)
        for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            node.end(agent, how)
            driver.expect({}, {GPU: 8})
            begin = time.monotonic()
            agent = node.agent()
            driver.expect({GPU: 8})
            took = (time.monotonic() - begin) * 1000
            same("still held", driver.devices(one), held)
            other = pod("other", main=5)
            same("the rest", driver.admit(other)["main"][GPU], set(node.uuids()) - held["main"][GPU])
            driver.ask("forget", pod=other)
        entries = node.checkpoint()[0]
        same("pods in the checkpoint", {entry["PodUID"] for entry in entries} >= {"one"}, True)
    return f"there again {took:.0f} ms after its start"


@case
def case_health(node_of):
    """A GPU with a fault cannot be had, and can be had again when the fault is gone."""
    with node_of() as node:
        node.agent()
        driver = node.manager()
        driver.expect({GPU: 8})
        one = pod("one", main=2)
        held = driver.admit(one)
        gpu = next(i for i, uuid in enumerate(node.uuids()) if uuid not in held["main"][GPU])
        begin = time.monotonic()
        node.machine.sim("inject", "ecc", "uncorrected", "--uncontained", "--gpu", str(gpu))
        driver.expect({GPU: 7}, {GPU: 8})
        took = (time.monotonic() - begin) * 1000
        same("the others", set(driver.healthy()[GPU]), set(node.uuids()) - {node.uuids()[gpu]})
        same("not touched", driver.devices(one), held)
        if "requested number" not in driver.refused("admit", pod=pod("greedy", main=6)):
            raise Failure("six of five were given")
        time.sleep(11)  # a reset shows in counters that fall; they are read every 10 s
        node.machine.sim("reset-gpu", "--gpu", str(gpu))
        driver.expect({GPU: 8})
        # One that does not answer at all, and answers again.
        node.machine.sim("inject", "lost", "--gpu", str(gpu))
        driver.expect({GPU: 7}, {GPU: 8})
        driver.admit(pod("beside", main=5))
        # What a program did wrong is no fault of the GPU.
        node.machine.sim("inject", "xid", "31", "--gpu", str((gpu + 1) % 8))
        time.sleep(0.5)
        driver.expect({GPU: 7}, {GPU: 8})
    return f"told after {took:.0f} ms"


@case
def case_health_is_kept(node_of):
    """An agent that starts anew has not forgotten; a person can say that it is over."""
    with node_of() as node:
        agent = node.agent()
        driver = node.manager()
        driver.expect({GPU: 8})
        node.machine.sim("inject", "xid", "142", "--gpu", "2")
        driver.expect({GPU: 7}, {GPU: 8})
        node.end(agent, signal.SIGKILL)
        node.agent()
        driver.expect({GPU: 7}, {GPU: 8})
        driver.stop()
        driver = node.manager()
        driver.expect({GPU: 7}, {GPU: 8})
        node.command("health", "clear", "2")
        driver.expect({GPU: 8})
    return ""


@case
def case_replicas(node_of):
    """384 of them: spread over the GPUs, and all are unhealthy when their GPU is."""
    with node_of() as node:
        node.agent(SHARED)
        driver = node.manager()
        driver.expect({GPU: 384})
        same("devices", set(driver.healthy()[GPU]), {f"{uuid}::{n}" for uuid in node.uuids() for n in range(48)})
        same("NUMA", driver.healthy()[GPU][f"{node.uuids()[5]}::47"], [node.numa()[node.uuids()[5]]])
        used = []
        for number in range(16):
            one = pod(f"pod{number}", main=1)
            (replica,), uuid = driver.admit(one)["main"][GPU], driver.options(one)["envs"]["NVIDIA_VISIBLE_DEVICES"]
            same("environment", uuid, replica.partition("::")[0])
            used.append(node.uuids().index(uuid))
        same("GPUs of the first 8", sorted(used[:8]), list(range(8)))
        same("GPUs of the next 8", sorted(used[8:]), list(range(8)))
        two = pod("two", main=2)
        gpus = {replica.partition("::")[0] for replica in driver.admit(two)["main"][GPU]}
        same("environment of two", set(driver.options(two)["envs"]["NVIDIA_VISIBLE_DEVICES"].split(",")), gpus)
        same("GPUs of two", len(gpus), 2)
        node.machine.sim("inject", "xid", "79", "--gpu", "3")
        driver.expect({GPU: 336}, {GPU: 384})
        driver.kill()
        driver = node.manager()
        driver.expect({GPU: 336}, {GPU: 384})
        rest = driver.admit(pod("rest", main=336))["main"][GPU]
        same("all that is left", {replica.partition("::")[0] for replica in rest},
             set(node.uuids()) - {node.uuids()[3]})
    return "18 pods"


@case
def case_replicas_one_each(node_of):
    """failRequestsGreaterThanOne and a name of their own."""
    with node_of() as node:
        node.agent(PEER + """sharing:
  timeSlicing:
    renameByDefault: true
    failRequestsGreaterThanOne: true
    resources:
    - {name: nvidia.com/gpu, replicas: 4, devices: [0, 1]}
""")
        driver = node.manager()
        driver.expect({GPU: 6, GPU + ".shared": 8})
        refused = driver.refused("admit", pod=pod("two", main={GPU + ".shared": 2}))
        if "maximum request size for shared resources is 1; found 2" not in refused:
            raise Failure(refused)
        driver.admit(pod("one", main={GPU + ".shared": 1}))
        same("whole ones", len(driver.admit(pod("whole", main=6))["main"][GPU]), 6)
    return ""


@case
def case_mig(node_of):
    """Whole GPUs and MIG devices side by side; a new layout; a resource that is empty and returns."""
    config = PEER + "flags: {migStrategy: mixed}\n"
    with node_of(mig="mixed") as node:
        node.agent(config)
        driver = node.manager()
        there = node.mixed()
        counts = {name: len(ids) for name, ids in there.items()}
        driver.expect(counts)
        same("devices", driver.healthy(),
             {name: {uuid: [node.numa()[uuid]] for uuid in ids} for name, ids in there.items()})
        for number, name in enumerate(sorted(there)):
            one = pod(f"pod{number}", main={name: 1})
            held = driver.admit(one)["main"][name]
            same(f"environment for {name}", {driver.options(one)["envs"]["NVIDIA_VISIBLE_DEVICES"]}, held)
        # An XID of one instance is its own.
        victim = next(gpu for gpu in node.show["gpus"] if len(gpu["mig"]["instances"]) == 3)
        instance = victim["mig"]["instances"][0]
        node.machine.sim("inject", "xid", "95", "--gpu", str(victim["index"]), "--gi", str(instance["gi"]),
                         "--ci", str(instance["ci"]))
        name = "nvidia.com/mig-" + instance["profile"]
        driver.expect({**counts, name: counts[name] - 1}, counts)
        if instance["uuid"] in driver.healthy()[name]:
            raise Failure("another instance is unhealthy")
    with node_of(mig="mixed") as node:
        node.agent(config)
        driver = node.manager()
        driver.expect(counts)
        for layout in ("single", "mixed"):
            node.machine.sim("inject", "mig", layout)
            node.show = node.machine.show()
            there = node.mixed()
            driver.expect({name: len(ids) for name, ids in there.items()})
            same(f"layout {layout}", {name: set(ids) for name, ids in driver.healthy().items()},
                 {name: set(ids) for name, ids in there.items()})
    return f"{len(counts)} resources"


@case
def case_last_device(node_of):
    """The only GPU is taken out and put back: the resource is empty, its socket goes, and both return."""
    with node_of(extra=("--gpus", "1")) as node:
        node.agent()
        driver = node.manager()
        driver.expect({GPU: 1})
        node.machine.sim("inject", "hotunplug", "--gpu", "0")
        driver.expect({})
        wait(lambda: not (node.plugins / "nvidia-gpu.sock").exists(), "its socket is still there")
        node.machine.sim("inject", "hotplug", "--gpu", "0")
        driver.expect({GPU: 1})
        driver.admit(pod("one", main=1))
    return ""


@case
def case_rolling_update(node_of):
    """A new agent while the old one still serves; then the old one ends, in one way or another."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with node_of() as node:
            old = node.agent()
            driver = node.manager()
            driver.expect({GPU: 8})
            one = pod("one", main=3)
            held = driver.admit(one)
            new = node.agent(name="two")
            inode = wait(lambda: (node.plugins / "nvidia-gpu.sock").stat().st_ino, "no socket")
            node.end(old, how)
            driver.expect({GPU: 8})
            time.sleep(2.5)  # whether it stays so: a plugin that is not attached has noticed by now
            driver.expect({GPU: 8})
            same("still held", driver.devices(one), held)
            other = pod("other", main=5)
            same("the rest", driver.admit(other)["main"][GPU], set(node.uuids()) - held["main"][GPU])
            if not inode or new.poll() is not None:
                raise Failure("the new agent ended")
    return "SIGTERM and SIGKILL"


@case
def case_another_plugin(node_of):
    """Somebody else's plugin had the resource and ends after ours registered: the kubelet takes the end
    of that stream for ours, hangs up, and is registered with again."""
    with node_of() as node:
        driver = node.manager()
        driver.ask("another", resource=GPU, ids=["theirs-0", "theirs-1"])
        driver.expect({GPU: 2})
        node.agent()
        driver.expect({GPU: 8})
        driver.ask("end another")
        driver.expect({GPU: 8})
        time.sleep(2.5)
        driver.expect({GPU: 8})
        same("devices", set(driver.healthy()[GPU]), set(node.uuids()))
    return ""


# The host's devices of a container and those that every container has, in a /dev of this namespace: a
# container runtime without root mounts a container's nodes from there. The simulated nodes are files.
DEVICES = """set -e; rm -rf "$1/dev"; mkdir "$1/dev"; mount -t tmpfs none "$1/dev"
for node in null zero full random urandom tty; do touch "$1/dev/$node"; mount --bind "/dev/$node" "$1/dev/$node"; done
while read -r host inside; do
test -e "$host"; mkdir -p "$(dirname "$1$inside")"; touch "$1$inside"; mount --bind /dev/null "$1$inside"; done
mount --rbind "$1/dev" /dev; cd "$1"; exec "$2" --root "$1/runc" run sluice-conformance
"""
LOOK = """import os, stat
for folder, _, names in os.walk("/dev"):
    for name in names:
        path = os.path.join(folder, name)
        if "nvidia" in path and stat.S_ISCHR(os.stat(path).st_mode):
            os.close(os.open(path, os.O_RDWR))
            print(path)
"""


def run_container(node, options):
    """Applies the options to an OCI bundle as a container runtime does, and runs it: the NVIDIA nodes
    that the process inside can open."""
    runc = shutil.which("runc", path=os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin")
    if not runc:
        raise Failure("runc is not installed: apt install runc")
    bundle = node.directory / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    (bundle / "rootfs").mkdir(parents=True)
    null = os.stat("/dev/null").st_rdev
    numbers = {"major": os.major(null), "minor": os.minor(null)}
    mounts = [{"destination": "/proc", "type": "proc", "source": "proc"},
              {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}]
    mounts += [{"destination": f"/{name}", "type": "bind", "source": f"/{name}", "options": ["rbind", "ro"]}
               for name in ("usr", "lib", "lib64", "bin") if os.path.isdir(f"/{name}")]
    environment = [f"{name}={value}" for name, value in options["envs"].items()]
    (bundle / "config.json").write_text(json.dumps({
        "ociVersion": "1.0.2", "root": {"path": "rootfs"}, "mounts": mounts,
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/usr/bin:/bin", *environment],
                    "args": ["python3", "-c", LOOK]},
        "linux": {"namespaces": [{"type": name} for name in ("pid", "mount", "ipc", "uts")],
                  "devices": [{"path": one["container"], "type": "c", "fileMode": 0o666, **numbers}
                              for one in options["devices"]]}}))
    asked = "".join(f"{one['host']} {one['container']}\n" for one in options["devices"])
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", DEVICES, "sh", str(bundle), runc], input=asked, text=True,
                          capture_output=True, timeout=60, check=False)
    if done.returncode:
        raise Failure(f"the container: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout.split()


@case
def case_containers(node_of):
    """A process in a container made from the reply opens its GPU's nodes, and no other."""
    with node_of(mig="mixed", extra=("--minors", "7,6,5,4,3,2,1,0")) as node:
        host = os.path.join("/tmp", node.directory.name.replace(" ", "-"))  # its lines have no blanks
        os.symlink(node.directory / "root", host)
        try:
            node.agent(PEER + "flags: {migStrategy: mixed, plugin: {passDeviceSpecs: true}, "
                              "nvidiaDevRoot: " + host + "}\n")
            driver = node.manager()
            driver.expect({name: len(ids) for name, ids in node.mixed().items()})
            capabilities = dict(line.split() for line in
                                (node.directory / "root/proc/driver/nvidia-caps/mig-minors").read_text().splitlines())
            for number, name in enumerate((GPU, "nvidia.com/mig-3g.20gb", "nvidia.com/mig-1g.5gb")):
                one = pod(f"pod{number}", main={name: 1})
                (uuid,) = driver.admit(one)["main"][name]
                gpu = next(gpu for gpu in node.show["gpus"]
                           if uuid in (gpu["uuid"], *(instance["uuid"] for instance in gpu["mig"]["instances"])))
                wanted = [*EVERYWHERE, f"/dev/nvidia{gpu['minor']}"]
                for instance in gpu["mig"]["instances"]:
                    if instance["uuid"] == uuid:
                        gi = f"gpu{gpu['minor']}/gi{instance['gi']}"
                        wanted += [f"/dev/nvidia-caps/nvidia-cap{capabilities[key]}"
                                   for key in (f"{gi}/access", f"{gi}/ci{instance['ci']}/access")]
                opened = run_container(node, driver.options(one))
                same(f"nodes in a container with {name}", sorted(opened), sorted(wanted))
        finally:
            os.unlink(host)
    return "a GPU, two MIG devices"


# The registration server and its client ----------------------------------------------------------

def lists(driver):
    return {name: {device["id"]: device["health"] for device in devices}
            for name, devices in driver.ask("lists").get("devices", {}).items()}


def listed(driver, name=GPU):
    """The first list of a resource."""
    return wait(lambda: lists(driver).get(name), f"no list of {name}")


@case
def case_bad_requests(node_of):
    """Refused in the words that people search for, and everybody else is served as before."""
    with node_of() as node:
        agent = node.agent(SHARED.replace("timeSlicing:", "timeSlicing:\n    failRequestsGreaterThanOne: true"))
        driver = node.registry()
        ids = sorted(listed(driver))
        shared = f'invalid allocation request for "{GPU}": invalid request: '
        for what, asked, text in (
                ("unknown", ["GPU-nobody"], shared + "unknown device: GPU-nobody"),
                ("known and unknown", [ids[0], "GPU-nobody::0"], shared + "unknown device: GPU-nobody::0"),
                ("no replica", [ids[0].partition("::")[0]], shared + "unknown device: " + ids[0].partition("::")[0]),
                ("replica 48", [ids[0].partition("::")[0] + "::48"], shared + "unknown device"),
                ("two", ids[:2], shared + "maximum request size for shared resources is 1; found 2"),
                ("all", ids, shared + "maximum request size for shared resources is 1; found 384"),
                ("long", ["x" * 100000], "unknown device")):
            refused = driver.refused("allocate", resource=GPU, ids=asked)
            if text not in refused or "code = Unknown" not in refused:
                raise Failure(f"{what}: {refused[:300]}")
        too_many = driver.refused("allocate", resource=GPU, ids=[f"{'x' * 60}{n}" for n in range(100000)])
        if "code = ResourceExhausted" not in too_many:
            raise Failure(f"6 MB of ids: {too_many[:300]}")
        same("among 1000", driver.ask("hammer", resource=GPU, ids=ids[:40], count=1000).get("failures"), None)
        same("registered", driver.ask("lists")["registered"], {GPU: 1})
        same("the agent", agent.poll(), None)
    return "8 refused, 1000 at a time served"


@case
def case_preferences(node_of):
    """GetPreferredAllocation with what made other plugins crash or answer nothing."""
    with node_of() as node:
        node.agent()
        driver = node.registry()
        listed(driver)
        uuids = node.uuids()

        def prefer(available, must, size):
            said = driver.ask("prefer", resource=GPU, ids=[uuids[i] if isinstance(i, int) else i for i in available],
                              must=[uuids[i] for i in must], size=size).get("ids") or []
            return [uuids.index(uuid) if uuid in uuids else uuid for uuid in said]
        everything = list(range(8))
        for available, must, size, wanted in (
                ([7, 3, 0, 6, 4], [], 3, None), (everything, [5], 1, [5]), (everything, [5], 2, [4, 5]),
                (everything, [], 0, []), (everything, [], 8, everything), ([3, 2, 1], [], 5, [1, 2, 3]),
                (everything, [1, 2, 3], 2, []), ([1, "GPU-gone", 0], [], 2, [0, 1]), (everything, [0, 7], 2, [0, 7])):
            said = prefer(available, must, size)
            if wanted is None:
                same("number", len(set(said)), size)
            else:
                same(f"{size} of {available} with {must}", said, wanted)
            shuffled = random.Random(1).sample(available, len(available))
            same("in another order", prefer(shuffled, must, size), said)
    return "9 requests"


@case
def case_adapters(node_of):
    """RDMA adapters: units beside GPUs, NUMA hints, nodes for each container, and ports that go away."""
    config = """sluice:
  rdma:
    configList:
    - {resourceName: hca, rdmaHcaMax: 1000, healthCheck: "off", selectors: {vendors: ["15b3"]}}
    - {resourceName: one, rdmaHcaMax: 3, selectors: {ifNames: [ib1]}}
  doors: {kubelet: {inject: peer}}
"""
    with node_of(profile="dgx1") as node:
        node.agent(config)
        driver = node.manager()
        every = {GPU: 8, "rdma/hca": 1000, "rdma/one": 3}
        driver.expect(every)
        healthy = driver.healthy()
        same("units", (len(healthy["rdma/hca"]), sorted(healthy["rdma/one"])), (1000, ["0", "1", "2"]))
        same("hints of a pool on several nodes", {tuple(numa) for numa in healthy["rdma/hca"].values()}, {()})
        [hint] = {tuple(numa) for numa in healthy["rdma/one"].values()}
        same("hints of one adapter", (len(hint), hint[0] in set(node.numa().values())), (1, True))
        one = pod("one", init={"rdma/one": 1}, main={GPU: 1, "rdma/one": 2})
        held = driver.admit(one)
        same("units of the containers", [len(held[name]["rdma/one"]) for name in ("init", "main")], [1, 2])
        given = sorted((spec["container"], spec["host"], spec["permissions"])
                       for spec in driver.options(one)["devices"])
        same("nodes", given, [(f"/dev/infiniband/{name}",) * 2 + ("rwm",) for name in ("rdma_cm", "uverbs1")])
        node.machine.sim("inject", "rdma", "1", "gone")
        driver.expect({GPU: 8, "rdma/hca": 1000}, every)
        refused = driver.refused("admit", pod=pod("two", main={"rdma/one": 1}))
        if "rdma/one" not in refused:
            raise Failure(f"refused for another reason: {refused}")
        node.machine.sim("inject", "rdma", "1", "back")
        driver.expect(every)
    return "1003 units"


@case
def case_restarts(node_of, run):
    """The registration server ends at random points, also between two calls: its lists are right in
    the end. While it restarts, devices fail and become well."""
    count = run.options.restarts
    configs = (("none", PEER), ("mixed", PEER + "flags: {migStrategy: mixed}\n"))
    settled, interrupted, most, medians = 0, 0, 0, []
    for mig, config in configs:
        with node_of(mig=mig) as node:
            node.agent(config)
            driver = node.open("registry")
            done, share, marked = 0, count // len(configs), False
            while done < share:
                batch = min(25 if share <= 1000 else 250, share - done)
                expect = {name: {"healthy": list(ids), "unhealthy": []} for name, ids in node.mixed().items()}
                marked = not marked
                if marked:
                    node.machine.sim("inject", "xid", "142", "--gpu", "1")
                    expect[GPU]["healthy"].remove(node.uuids()[1])
                    expect[GPU]["unhealthy"].append(node.uuids()[1])
                else:
                    node.command("health", "clear", "1")
                said = driver.ask("restarts", seconds=batch * 11 + 60, count=batch, seed=done + len(mig),
                                  expect=expect)["restarts"]
                if said["wrong"]:
                    raise Failure(f"after {done} of {count}, MIG {mig}: {'; '.join(said['wrong'])}")
                done += batch
                settled += said["settled"]
                interrupted += sum((said["interrupted"] or {}).values())
                most = max(most, said["most_ms"])
                medians.append(said["median_ms"])
                for slow in said["slow"] or []:
                    print(f"     slow, MIG {mig}: {slow}", flush=True)
    median = sorted(medians)[len(medians) // 2]
    if median > 1000:  # milliseconds; with a new socket that is noticed some ten even on a busy machine
        raise Failure(f"the lists were right only after {median:.0f} ms, at most {most:.0f} ms")
    return (f"{count} restarts, {interrupted} at a call, {settled} left alone: "
            f"right after {median:.1f} ms, at most {most:.0f} ms")


@case
def case_kills(node_of, run):
    """The same by kill -9 of the whole device manager, at any time: what it has in the end is right."""
    chance = random.Random(7)
    count = max(1, run.options.restarts // 10)
    with node_of() as node:
        node.agent()
        for number in range(count):
            driver = node.open("manager")
            driver.send("start", ready=True, numa=[1, 3, 5, 7])
            if number % 5 == 4 or number == count - 1:
                driver.read(30)
                driver.expect({GPU: 8})
            else:
                time.sleep(chance.expovariate(1 / 0.02))
            if number < count - 1:
                driver.kill()
                node.drivers.remove(driver)
        time.sleep(2.5)
        driver.expect({GPU: 8})
    return f"{count} times"


def check(run, kubelets):
    """All cases that were asked for, on each release. Much of their time is waiting: several at once, the longest first."""
    longest_first = sorted(CASES.items(), key=lambda item: item[0] not in LONG)
    with concurrent.futures.ThreadPoolExecutor(min(run.options.jobs, 3)) as pool:
        for done in [pool.submit(run.check, f"kubelet {release} {name}", one, function, run, program)
                     for name, function in longest_first for release, program in kubelets.programs.items()]:
            done.result()


def one(function, run, program):
    """A case; what agent and kubelet said last goes with its failure."""
    nodes = []

    def node_of(**how):
        nodes.append(Node(run.build, program, **how))
        return nodes[-1]

    try:
        arguments = (node_of, run) if function.__code__.co_argcount == 2 else (node_of,)
        return [], function(*arguments)
    except (Failure, subprocess.TimeoutExpired, json.JSONDecodeError, BrokenPipeError) as error:
        return [*str(error).splitlines(), *(nodes[-1].last if nodes else [])], ""
