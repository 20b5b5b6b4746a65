# SPDX-License-Identifier: Apache-2.0
"""`sluice run --image` where docker makes the containers. dockerd is started here, with its images and containers in a
directory of the test's own, without a network, and among the files of the simulated machine, where the job's nodes are.

Debian 12's docker (20.10) knows no CDI, so the devices come to it as options of its own; where it knows CDI they go by
their names, which only the unit tests see."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

import cgroups
from conftest import SLUICE, alive, wait_until
from containers import image, needs, outside
from test_run_image import WITH_TERMINALS, sits_at_a_container

IMAGE = "localhost/sluice-test:1"


class Docker:
    """A daemon, and a directory in which nothing but its client is."""

    def __init__(self, machine, directory, driver="cgroupfs"):
        self.directory = pathlib.Path(directory)
        self.directory.chmod(0o755)
        self.socket = self.directory / "docker.sock"
        self.env = {"DOCKER_HOST": f"unix://{self.socket}", "DOCKER_CONFIG": str(self.directory / "config")}
        command = ["dockerd", "--host", f"unix://{self.socket}", "--data-root", self.directory / "data",
                   "--exec-root", self.directory / "exec", "--pidfile", self.directory / "pid", "--iptables=false",
                   "--bridge=none", "--storage-driver=vfs", "--exec-opt", f"native.cgroupdriver={driver}"]
        around = [SLUICE, "sim", "exec", "--root", machine.root, "--state", machine.state, "--mounts", "--"]
        self.log = self.directory / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(part) for part in [*around, *command]], stdout=log, stderr=log,
                                            start_new_session=True)
        try:
            wait_until(lambda: self.socket.exists() or self.process.poll() is not None, what="dockerd", deadline_s=60)
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            self.program = self.find()
        except BaseException:
            self.stop()
            raise
        (self.directory / "bin").mkdir()
        (self.directory / "bin/docker").symlink_to(self.program)
        self.path = f"{self.directory}/bin"

    def find(self):
        """A client that this daemon understands."""
        for part in os.environ["PATH"].split(":"):
            program = pathlib.Path(part, "docker")
            if program.exists() and subprocess.run([program, "version"], env={**os.environ, **self.env}, check=False,
                                                   capture_output=True).returncode == 0:
                return program
        pytest.skip("there is no docker in PATH that understands this dockerd")
        return None

    def docker(self, *arguments, **how):
        done = subprocess.run([self.program, *arguments], capture_output=True, env={**os.environ, **self.env},
                              timeout=60, check=False, **how)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def names(self):
        return self.docker("ps", "--all", "--format", "{{.Names}}").split()

    def make_image(self):
        root = image(self.directory / "root")
        (root / "work").mkdir()
        for name in ("head", "pwd", "touch", "df", "awk", "dd"):
            (root / "bin" / name).symlink_to("busybox")
        tar = subprocess.run(["tar", "-C", root, "-c", "."], capture_output=True, check=True).stdout
        self.docker("import", "--change", 'CMD ["/bin/sh","-c","echo the default of the image"]', "-", IMAGE, input=tar)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            if str(self.directory) in line.split()[4]:
                subprocess.run(["umount", "-l", line.split()[4]], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="module")
def boxed(machine_factory_module):
    """One machine, agent and daemon for all tests: starting a dockerd takes seconds."""
    machine = machine_factory_module
    needs("docker", "dockerd", "containerd", "runc")
    machine.start("dgx-a100", "--gpus", "4", "--dev-style", "nvidia")
    machine.path("/var/run/cdi").mkdir(parents=True)
    path = machine.directory / "sluice-mounted"
    path.write_text(f'#!/bin/sh\nexec "{SLUICE}" sim exec --root "{machine.root}" --state "{machine.state}" '
                    f"--mounts -- /bin/sh -c '{WITH_TERMINALS} && exec \"$0\" \"$@\"' \"{SLUICE}\" \"$@\"\n")
    path.chmod(0o755)
    docker = Docker(machine, tempfile.mkdtemp(prefix="sluice-docker-"))
    machine.docker = docker
    try:
        docker.make_image()
        machine.env.update(docker.env, PATH=f"{docker.path}:{empty_path(docker)}")
        machine.agent(program=str(path))
        yield machine
        for job in machine.run("sluice", "jobs", "--output", "json").ok().json["jobs"]:
            machine.run("sluice", "cancel", "--now", "--quiet", job["id"])
        wait_until(lambda: docker.names() == [], what="the end of all containers", deadline_s=20)
    finally:
        docker.stop()


def empty_path(docker):
    """What a job needs of PATH, without podman."""
    directory = docker.directory / "tools"
    directory.mkdir()
    for name in ("sh", "env", "cat", "sleep"):
        (directory / name).symlink_to(shutil.which(name))
    return directory


@pytest.fixture(scope="module")
def machine_factory_module():
    from conftest import Machine
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-"))
    directory.chmod(0o755)
    machine = Machine(directory)
    try:
        yield machine
    finally:
        try:
            machine.stop()
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def run_image(machine, *command, options=(), **how):
    return machine.run("sluice", "run", "--image", IMAGE, "--pull", "never", *options, "--", *command, **how)


def start_image(machine, *command, options=(), **how):
    return int(machine.run("sluice", "run", "--detach", "--image", IMAGE, "--pull", "never", *options, "--", *command,
                           **how).ok().out)


def started(machine, number):
    wait_until(lambda: "ready" in machine.run("sluice", "logs", number).out, what=f"job {number}")
    return machine.job(number)


def no_trace(machine, job):
    assert [name for name in machine.docker.names() if name.startswith(f"sluice-job-{job['id']}-")] == []
    if job["attempt"]["cgroup"]:
        group = os.path.basename(job["attempt"]["cgroup"])
        assert cgroups.named(group) == []


WAIT = "echo ready; while :; do sleep 0.05; done"


def test_exactly_its_gpus_below_the_jobs_cgroup(boxed):
    look = ("for i in 0 1 2 3; do [ -e /dev/nvidia$i ] && echo node $i; done; "
            "ls /dev/nvidiactl /dev/dri | head -1; grep -c libcuda /proc/mounts; echo $NVIDIA_VISIBLE_DEVICES; ")
    numbers = [start_image(boxed, "sh", "-c", look + WAIT, options=["--gpus", count]) for count in (1, 2)]
    jobs = [started(boxed, number) for number in numbers]
    seen = []
    for job in jobs:
        minors = [gpu["gpu_index"] for gpu in job["attempt"]["gpus"]]
        out = boxed.run("sluice", "logs", job["id"]).out.split("\n")
        assert [line for line in out if "node" in line] == [f"node {minor}" for minor in sorted(minors)]
        assert "/dev/nvidiactl" in out and "void" in out
        assert job["attempt"]["isolation"] == "container", job["attempt"]["isolation_reason"]
        # its processes are in the job's cgroup, so that rules, limits and the kill reach them
        inside = [pid for path in pathlib.Path(job["attempt"]["cgroup"]).glob("**/cgroup.procs")
                  for pid in path.read_text().split()]
        names = [pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in inside]
        assert "docker" in names and ("sh" in names or "sleep" in names), names
        [command, *_] = [pid for pid, name in zip(inside, names) if name == "sh"]
        assert outside(command, os.path.basename(job["attempt"]["cgroup"])) == []
        seen += minors
    assert len(set(seen)) == 3
    boxed.run("sluice", "cancel", "--now", *numbers).ok()
    for job in jobs:
        boxed.job_in(job["id"], "Cancelled")
        no_trace(boxed, job)


def test_output_exit_codes_and_what_is_said_of_it(boxed):
    odd = ["--privileged", "; echo no", "a\nb", "%s", "$HOME", ""]
    reply = run_image(boxed, "sh", "-c", 'for a in "$@"; do echo "<$a>"; done; echo no >&2; exit 7', "sh", *odd,
                      options=["--gpus", "0"])
    assert (reply.rc, reply.err) == (7, "no\n")
    assert reply.out == "".join(f"<{word}>\n" for word in odd)
    assert boxed.run("sluice", "run", "--image", IMAGE, "--gpus", "0").ok().out == "the default of the image\n"
    assert run_image(boxed, "no-such-program").rc == 127
    assert run_image(boxed, "/etc").rc == 126
    reply = run_image(boxed, "sh", "-c", "df -k /dev/shm /scratch | awk 'NR > 1 {print $2}'; id -u; pwd; env",
                      options=["--gpus", "0", "--shm-size", "96Mi", "--tmpfs", "/scratch:8Mi", "--user", "1234",
                               "--cwd", "/work", "--env", "GIVEN=a b"]).ok()
    assert reply.out.split("\n")[:4] == ["98304", "8192", "1234", "/work"] and "GIVEN=a b" in reply.out
    assert run_image(boxed, "-c", "echo $0 $1", "a", "b", options=["--entrypoint", "/bin/sh"]).ok().out == "a b\n"
    assert boxed.docker.names() == []


def test_cancel_time_and_signals(boxed):
    number = start_image(boxed, "sh", "-c", "trap 'echo told; exit 3' TERM; " + WAIT)
    job = started(boxed, number)
    boxed.run("sluice", "cancel", number).ok()
    assert boxed.job_in(number, "Cancelled")["exit_code"] == 3
    assert "told" in boxed.run("sluice", "logs", number).out
    no_trace(boxed, job)
    number = start_image(boxed, "sh", "-c", "trap '' TERM; " + WAIT)
    job = started(boxed, number)
    boxed.run("sluice", "cancel", "--grace", "100ms", number).ok()
    assert boxed.job_in(number, "Cancelled")["exit_code"] == 137
    no_trace(boxed, job)
    reply = run_image(boxed, "sh", "-c", "trap '' TERM; " + WAIT, options=["--time", "1s", "--grace", "100ms"])
    assert reply.rc == 124
    no_trace(boxed, boxed.job(number + 1))


def test_whoever_is_killed_leaves_no_container(boxed):
    for victim in ("docker", "sluice-supervise"):
        number = start_image(boxed, "sh", "-c", "trap '' TERM; " + WAIT, options=["--grace", "100ms"])
        job = started(boxed, number)
        group = pathlib.Path(job["attempt"]["cgroup"])
        if victim == "docker":
            inside = [int(pid) for path in group.glob("**/cgroup.procs") for pid in path.read_text().split()]
            [pid] = [pid for pid in inside if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "docker"]
        else:
            pid = job["attempt"]["supervisor_pid"]
        os.kill(pid, signal.SIGKILL)
        done = boxed.job_in(number, "Failed")
        assert done["reason"].startswith("Signal" if victim == "docker" else "SupervisorLost"), done
        wait_until(lambda: boxed.docker.names() == [], what=f"the removal of job {number}", deadline_s=20)
        no_trace(boxed, job)


def test_what_cannot_run_says_why(boxed):
    reply = boxed.run("sluice", "run", "--image", "localhost/sluice-nobody:9", "--pull", "never", "--", "true")
    assert reply.rc == 125 and "sluice-nobody" in reply.err
    reply = run_image(boxed, "true", env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert reply.rc == 125 and "docker does not answer" in reply.err
    reply = run_image(boxed, "true", env={"DOCKER_HOST": "tcp://192.0.2.1:2375"})
    assert reply.rc == 125 and "has to run on this machine" in reply.err
    reply = run_image(boxed, "true", options=["--runtime", "podman"])
    assert reply.rc == 125 and "no podman in PATH" in reply.err
    for name in ("-v", "--privileged", "a b", "debian\n--privileged"):
        assert boxed.run("sluice", "run", f"--image={name}", "--", "true").rc == 64
    assert boxed.docker.names() == []


def test_at_a_terminal(boxed):
    sits_at_a_container(boxed)
    assert boxed.docker.names() == []


def test_a_user_needs_dockers_group(boxed):
    """The job runs as the user: what docker allows him is what it has."""
    group = 61900
    os.chown(boxed.docker.socket, 0, group)
    boxed.docker.socket.chmod(0o660)
    user = {"user": 61001, "group": 61001, "cwd": "/", "options": ["--gpus", "1"]}
    reply = run_image(boxed, "id", "-u", extra_groups=[], **user)
    assert reply.rc == 125 and "is the user in the group that owns its socket?" in reply.err
    assert run_image(boxed, "id", "-u", extra_groups=[group], **user).ok().out == "0\n"
    number = start_image(boxed, "sh", "-c", WAIT, extra_groups=[group], **user)
    job = started(boxed, number)
    assert job["attempt"]["isolation"] == "container", job["attempt"]["isolation_reason"]
    boxed.run("sluice", "cancel", "--now", number, user=61001, group=61001, extra_groups=[], cwd="/").ok()
    boxed.job_in(number, "Cancelled")
    no_trace(boxed, job)


def test_a_daemon_that_is_killed(boxed):
    """Its containers run on, in the job's cgroup: there they end."""
    docker = Docker(boxed, tempfile.mkdtemp(prefix="sluice-docker-"))
    try:
        docker.make_image()
        number = start_image(boxed, "sh", "-c", "trap '' TERM; " + WAIT, options=["--grace", "100ms"],
                             env={"DOCKER_HOST": f"unix://{docker.socket}"})
        job = started(boxed, number)
        inside = [int(pid) for path in pathlib.Path(job["attempt"]["cgroup"]).glob("**/cgroup.procs")
                  for pid in path.read_text().split()]
        assert len(inside) > 1
        os.kill(int((docker.directory / "pid").read_text()), signal.SIGKILL)
        wait_until(lambda: boxed.job(number)["state"] == "Failed", what="the end of the job", deadline_s=20)
        assert not any(alive(pid) for pid in inside)
        assert "docker" in boxed.run("sluice", "logs", "--stderr", number).out.lower()
        no_trace(boxed, job)
    finally:
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if str(docker.directory).encode() in command and b"containerd" in command:
                os.kill(int(path.name), signal.SIGKILL)
        docker.stop()
