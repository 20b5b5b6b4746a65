#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts real containers with the runtimes that are installed and writes down what their /proc/PID/cgroup says:

    tests/e2e/capture_cgroups.py [--bin DIRECTORY] [--write tests/fixtures/cgroups.json]

Each entry of the fixture names runtime, version and the machine's cgroups, and has the text and what the runtime itself
says the container is. --bin: where programs lie that are not installed (containerd, ctr, dockerd, docker: `apt-get
download` and `dpkg -x`). With --write, entries that cannot be captured here stay as they are in the file. As root."""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

from containers import BUSYBOX, Bundle, image

FIXTURE = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "cgroups.json"
IMAGE = "localhost/capture:1"
POD = "3f1c2b4a-0d9e-4c6b-8a57-91e2d3c4b5a6"
STATIC_POD = "9d1f7c40b25a4e6f8392c1d0aa55ee71"
ONLY_V1 = '! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified; exec "$@"'
ONLY_CGROUP2 = 'umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$@"'
CONTAINERS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
netns = "none"
pids_limit = 0
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
"""


def cgroups():
    """How the control groups of this machine are mounted."""
    if not os.path.ismount("/sys/fs/cgroup"):
        return "none"
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        return "v2"
    return "hybrid" if os.path.exists("/sys/fs/cgroup/unified") else "v1"


def text_of(pid):
    """The text. A group that the reader itself is in is the root to whoever reads it later."""
    own = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return "".join((line.split("/", 1)[0] + "/" if line in own else line) + "\n" for line in lines)


def version(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return (re.search(r"\d+\.\d+\.\d+\S*", done.stdout + done.stderr) or [""])[0].rstrip(",")


def check(command, **how):
    done = subprocess.run([str(part) for part in command], capture_output=True, timeout=120, check=False, **how)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout.decode()


def until(condition, what):
    end = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found


def entry(name, started_by, release, text, **expect):
    return {"name": name, "started_by": started_by, "version": release, "cgroups": cgroups(), "captured": True, "text": text,
            "expect": expect}


class Podman:
    """One with storage and state of its own."""

    def __init__(self, directory, runtime="runc", around=""):
        self.directory, self.runtime, self.around = pathlib.Path(directory), runtime, around
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "containers.conf").write_text(CONTAINERS + f'runtime = "{runtime}"\n')
        self.env = {**os.environ, "CONTAINERS_CONF": str(self.directory / "containers.conf")}
        check(["tar", "-C", image(self.directory / "box"), "-cf", self.directory / "box.tar", "."])
        check([*self.command(), "import", "--change", 'CMD ["/bin/sleep", "600"]', self.directory / "box.tar", IMAGE],
              env=self.env)

    def command(self):
        return ["podman", "--root", self.directory / "root", "--runroot", self.directory / "run", "--tmpdir",
                self.directory / "tmp", "--storage-driver", "vfs"]

    def call(self, *arguments):
        inside = ["unshare", "-m", "/bin/sh", "-c", self.around, "sh"] if self.around else []
        return check([*inside, *self.command(), *arguments], env=self.env)

    def start(self, *options):
        """The id of a container that sleeps."""
        return self.call("run", "--detach", *options, IMAGE, "/bin/sleep", "600").strip()

    def inspect(self, container):
        [told] = json.loads(self.call("inspect", container))
        return told

    def remove(self):
        self.call("rm", "--all", "--force", "--time=0")
        self.call("pod", "rm", "--all", "--force")


@contextlib.contextmanager
def podman(directory, **how):
    made = Podman(directory, **how)
    try:
        yield made
    finally:
        made.remove()


def capture_podman(directory, name="podman", **how):
    release = version("podman", "--version")
    with podman(directory, **how) as made:
        told = made.inspect(made.start())
        yield entry(f"{name}, cgroupfs", "podman", release, text_of(told["State"]["Pid"]), container=told["Id"],
                    runtime="podman")
        monitor = text_of(told["State"]["ConmonPid"])
        yield entry(f"{name}: the monitor of a container, which is no part of it", "podman", release, monitor)
        told = made.inspect(made.start("--cgroup-parent", f"/kubepods/besteffort/pod{POD}"))
        yield entry(f"{name}, below a pod's group", "podman", release, text_of(told["State"]["Pid"]),
                    container=told["Id"], runtime="podman", pod=POD)


@contextlib.contextmanager
def runc(directory, runtime, path):
    """The pid of a container that sleeps, with this path of control groups."""
    directory = pathlib.Path(directory)
    bundle = Bundle(directory / "bundle", image(directory / "rootfs"), runtime).shell("exec /bin/sleep 600")
    bundle.config["linux"]["cgroupsPath"] = path
    bundle.write()
    name = f"capture-{os.getpid()}-{directory.name}"
    state = [runtime, "--root", str(directory / "state")]
    subprocess.run([*state, "run", "--detach", "--bundle", str(directory / "bundle"), name], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    try:
        yield json.loads(check([*state, "state", name]))["pid"]
    finally:
        subprocess.run([*state, "delete", "--force", name], check=False, capture_output=True, timeout=60)
        remove_groups(path)


def remove_groups(path):
    """What runtimes leave above a container's own group, in each hierarchy, where it is empty."""
    for part in (pathlib.PurePath(path), *pathlib.PurePath(path).parents):
        for group in (top / part.relative_to("/") for top in pathlib.Path("/sys/fs/cgroup").glob("*")):
            if part.name:
                with contextlib.suppress(OSError):
                    group.rmdir()


# A reader whose group is not the root of its namespace sees others' groups relative to its own.
PRIVATE = """
for c in /sys/fs/cgroup/*/; do mkdir -p $c/capture/reader; echo $$ > $c/capture/reader/cgroup.procs; done
exec unshare -C cat /proc/%d/cgroup
"""


def capture_runc(directory, runtime):
    """What the kubelet's cgroupfs driver asks of a runtime: the path is theirs, the group and its text are real."""
    release = version(runtime, "--version")
    one, two = "4f5e" * 16, "0a1b" * 16
    for number, (path, told, what) in enumerate([
            (f"/kubepods/burstable/pod{POD}/{one}", "kubernetes", "a burstable pod"),
            (f"/kubepods/pod{POD}/{one}", "kubernetes", "a guaranteed pod"),
            (f"/kubepods/besteffort/pod{POD}/crio-{one}", "cri-o", "CRI-O"),
            (f"/kubepods/burstable/pod{STATIC_POD}/{one}", "kubernetes", "a static pod"),
            (f"/docker/{two}/kubelet/kubepods/burstable/pod{POD}/{one}", "kubernetes", "kind")]):
        expect = {"container": one, "pod": STATIC_POD if STATIC_POD in path else POD, "runtime": told}
        with runc(directory / f"box{number}", runtime, path) as pid:
            yield entry(f"{runtime}, the cgroupfs path of {what}", runtime, release, text_of(pid), **expect)
            if what != "a burstable pod":
                continue
            text = check(["/bin/sh", "-c", PRIVATE % pid])
            remove_groups("/capture/reader")
            assert "/../../kubepods" in text, text
            yield entry(f"{runtime}, seen from a private cgroup namespace", runtime, release, text, **expect)


@contextlib.contextmanager
def daemon(command, log, ready):
    with open(log, "wb") as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=output,
                                   start_new_session=True)
    try:
        until(lambda: ready() or process.poll() is not None, f"{command[0]}: {log}")
        assert process.poll() is None, pathlib.Path(log).read_text()[-2000:]
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def capture_docker(directory, programs):
    directory.mkdir()
    socket = directory / "docker.sock"
    docker = [shutil.which("docker", path=programs), "--host", f"unix://{socket}"]
    command = [shutil.which("dockerd", path=programs), "--host", f"unix://{socket}", "--data-root", directory / "data",
               "--exec-root", directory / "exec", "--pidfile", directory / "pid", "--iptables=false", "--bridge=none",
               "--storage-driver=vfs", "--exec-opt", "native.cgroupdriver=cgroupfs"]
    with daemon(command, directory / "log", socket.exists):
        check(["tar", "-C", image(directory / "box"), "-cf", directory / "box.tar", "."])
        until(lambda: subprocess.run([*docker, "version"], check=False, capture_output=True).returncode == 0, "dockerd")
        check([*docker, "import", directory / "box.tar", IMAGE])
        release = check([*docker, "version", "--format", "{{.Server.Version}}"]).strip()
        for options, expect in (([], {"runtime": "docker"}),
                                (["--cgroup-parent", f"/kubepods/burstable/pod{POD}"],
                                 {"runtime": "kubernetes", "pod": POD})):
            container = check([*docker, "run", "--detach", "--network=none", *options, IMAGE, "/bin/sleep", "600"])
            try:
                [told] = json.loads(check([*docker, "inspect", container.strip()]))
                yield entry("docker, cgroupfs" + (", below a pod's group as cri-dockerd does" if options else ""),
                            "docker", release, text_of(told["State"]["Pid"]), container=told["Id"], **expect)
            finally:
                check([*docker, "rm", "--force", container.strip()])


CONTAINERD = """
version = 2
root = "{0}/root"
state = "{0}/state"
[grpc]
address = "{0}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{1}"
enable_unprivileged_ports = false
disable_cgroup = false
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


class Cri:
    """The CRI of a containerd, by the numbers of its protocol alone: runtime/v1, api.proto of Kubernetes 1.26."""

    def __init__(self, socket):
        import grpc  # pylint: disable=import-outside-toplevel
        self.channel = grpc.insecure_channel(f"unix:{socket}")

    def call(self, service, method, request):
        return self.channel.unary_unary(f"/runtime.v1.{service}/{method}")(request, timeout=60)

    @staticmethod
    def first(reply):
        """Its field 1, a text."""
        assert reply[0] == 0x0a, reply
        return reply[2:2 + reply[1]].decode()


def capture_cri(directory, containerd, release):
    from kubelet import field  # pylint: disable=import-outside-toplevel
    cri = Cri(directory / "containerd.sock")
    metadata = field(1, "train-0") + field(2, POD) + field(3, "ml")
    # the node's network: no plugin for it is needed
    security = field(1, bytes([1 << 3, 2]))
    parent = f"/kubepods/burstable/pod{POD}"
    # no host name: with the node's network it is the node's
    config = field(1, metadata) + field(3, str(directory / "logs")) + field(
        8, field(1, parent) + field(2, security))
    sandbox = cri.first(cri.call("RuntimeService", "RunPodSandbox", field(1, config)))
    container = field(1, field(1, "main")) + field(2, field(1, IMAGE)) + field(3, "/bin/sleep") + field(
        4, "600") + field(11, "main/0.log")
    try:
        identity = cri.first(cri.call("RuntimeService", "CreateContainer",
                                      field(1, sandbox) + field(2, container) + field(3, config)))
        cri.call("RuntimeService", "StartContainer", field(1, identity))
        tasks = check([*containerd, "--namespace", "k8s.io", "tasks", "list"])
        for what, name in (("a container of a pod", identity), ("the sandbox of a pod", sandbox)):
            pid = re.search(rf"^{name}\s+(\d+)", tasks, re.MULTILINE)[1]
            yield entry(f"containerd's CRI, cgroupfs, {what}", "containerd", release, text_of(pid), container=name,
                        pod=POD, runtime="kubernetes")
    finally:
        cri.call("RuntimeService", "RemovePodSandbox", field(1, sandbox))
        cri.channel.close()


def capture_containerd(directory, programs):
    directory.mkdir()
    socket = directory / "containerd.sock"
    (directory / "config.toml").write_text(CONTAINERD.format(directory, IMAGE))
    ctr = [shutil.which("ctr", path=programs), "--address", str(socket)]
    environment = {**os.environ, "PATH": programs}
    with daemon(["env", f"PATH={programs}", shutil.which("containerd", path=programs), "--config",
                 directory / "config.toml"], directory / "log", socket.exists):
        until(lambda: subprocess.run([*ctr, "version"], check=False, capture_output=True).returncode == 0, "containerd")
        release = version(*ctr, "version")
        with podman(directory / "podman") as made:
            made.call("save", "--output", str(directory / "image.tar"), IMAGE)
        for space in ("default", "k8s.io"):
            check([*ctr, "--namespace", space, "images", "import", "--snapshotter", "native", directory / "image.tar"])
        name = "c0de" * 16
        check([*ctr, "run", "--snapshotter", "native", "--detach", IMAGE, name, "/bin/sleep", "600"], env=environment)
        try:
            pid = re.search(rf"^{name}\s+(\d+)", check([*ctr, "tasks", "list"]), re.MULTILINE)[1]
            yield entry("containerd's ctr", "containerd", release, text_of(pid), container=name, runtime="container")
        finally:
            check([*ctr, "tasks", "kill", "--signal", "9", name])
            until(lambda: subprocess.run([*ctr, "tasks", "delete", name], check=False,
                                         capture_output=True).returncode == 0, "the end of the task")
        yield from capture_cri(directory, ctr, release)


def capture_jobs(directory):
    """Jobs of `sluice run`, as they are and in a container."""
    from conftest import Machine, wait_until  # pylint: disable=import-outside-toplevel
    from test_run_image import IMAGE as BOX, Storage, box  # pylint: disable=import-outside-toplevel
    for part in (directory, directory / "machine", directory / "storage"):
        part.mkdir(mode=0o755)
    storage, machine = Storage(directory / "storage"), Machine(directory / "machine")
    storage.make_image()
    try:
        box(machine, storage)
        release = machine.run("sluice", "--version").out.split()[1]
        for number, options in ((1, []), (2, ["--image", BOX, "--pull", "never"])):
            machine.run("sluice", "run", "-d", *options, "--", "/bin/sleep", "600").ok()
            wait_until(lambda number=number: machine.job(number)["attempt"].get("pid"), what="the job")
            attempt = machine.job(number)["attempt"]
            expect = {"job": number, "job_instance": attempt["cgroup"].rsplit("-", 1)[-1], "runtime": "sluice"}
            pid = attempt["pid"]
            if options:
                wait_until(storage.names, what="the container", deadline_s=30)
                [name] = storage.names()
                told = until(lambda name=name: next((each for each in json.loads(storage.podman("inspect", name))
                                                     if each["State"]["Pid"]), None), "the container")
                pid = told["State"]["Pid"]
                expect.update(container=told["Id"], runtime="podman")
            yield entry("sluice run" + (" --image" if options else ""), "sluice", release, text_of(pid), **expect)
    finally:
        for job in machine.run("sluice", "jobs", "--output", "json").ok().json["jobs"]:
            machine.run("sluice", "cancel", "--now", "--quiet", job["id"])
        wait_until(lambda: storage.names() == [], what="the end of all containers")
        machine.stop()


def capture(programs):
    """Everything that can be captured here: (entries, what could not be and why)."""
    entries, missing = [], {}
    with tempfile.TemporaryDirectory(prefix="sluice-capture-") as top:
        top = pathlib.Path(top)
        top.chmod(0o755)
        for name, needs, work in [
                ("podman with runc", ["podman", "runc"], lambda: capture_podman(top / "podman")),
                ("podman where only cgroup v2 is mounted", ["podman", "runc"],
                 lambda: capture_podman(top / "podman2", "podman with runc, only cgroup v2 mounted",
                                        around=ONLY_CGROUP2)),
                ("podman with crun", ["podman", "crun"],
                 lambda: capture_podman(top / "podman3", "podman with crun, only cgroup v1 mounted", runtime="crun",
                                        around=ONLY_V1)),
                ("runc", ["runc"], lambda: capture_runc(top / "runc", "runc")),
                ("docker", ["dockerd", "containerd"], lambda: capture_docker(top / "docker", programs)),
                ("containerd", ["containerd", "ctr"], lambda: capture_containerd(top / "containerd", programs)),
                ("jobs", ["podman", "runc"], lambda: capture_jobs(top / "jobs"))]:
            absent = [program for program in needs if not shutil.which(program, path=programs)]
            if absent:
                missing[name] = f"{', '.join(absent)} not installed"
                continue
            try:
                entries.extend(work())
            except Exception as why:  # pylint: disable=broad-except
                missing[name] = f"{type(why).__name__}: {why}"
    for path in (f"/kubepods/besteffort/pod{POD}", f"/kubepods/burstable/pod{POD}", "/default", "/docker", "/k8s.io"):
        remove_groups(path)
    return entries, missing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", action="append", default=[], help="a directory with programs, before those of $PATH")
    parser.add_argument("--write", nargs="?", const=FIXTURE, type=pathlib.Path, help="puts what was captured in there")
    options = parser.parse_args()
    if os.geteuid() != 0 or not os.path.exists(BUSYBOX):
        sys.exit("needs root and busybox")
    os.environ["PATH"] = ":".join([*options.bin, os.environ["PATH"]])
    entries, missing = capture(os.environ["PATH"])
    for name, why in missing.items():
        print(f"not captured: {name}: {why}", file=sys.stderr)
    if options.write:
        old = json.loads(options.write.read_text())["entries"] if options.write.exists() else []
        names = {told["name"] for told in entries}
        entries += [told for told in old if told["name"] not in names]
        text = json.dumps({"captured_on": f"Linux {platform.release()}", "entries": entries}, indent=1)
        options.write.write_text(text + "\n")
    else:
        print(json.dumps(entries, indent=1))
    print(f"{sum(told['captured'] for told in entries)} captured", file=sys.stderr)


if __name__ == "__main__":
    main()
