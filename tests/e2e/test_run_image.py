# SPDX-License-Identifier: Apache-2.0
"""`sluice run --image`: jobs in containers of podman, each with its own simulated GPUs and no other.

The image is made here, of a static busybox, in a storage of the tests' own; nothing is fetched.
"""

import errno
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

import cgroups
from conftest import SLUICE, alive, wait_until
from containers import image, needs, outside, specify
from test_attach_pty import Seat

IMAGE = "localhost/sluice-test:1"
TOOLS = ("head", "pwd", "touch")  # beside those of every test's image


class Storage:
    """podman's images and containers, apart from the machine's."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        storage, containers = self.directory / "storage.conf", self.directory / "containers.conf"
        storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{directory}/graph"\n'
                           f'runroot = "{directory}/run"\n')
        containers.write_text('[containers]\nnetns = "none"\npids_limit = 0\n[engine]\n'
                              f'events_logger = "none"\ntmp_dir = "{directory}/tmp"\n')
        self.env = {"CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(containers)}

    def podman(self, *arguments, **how):
        done = subprocess.run(["podman", "--log-level=error", *arguments], capture_output=True,
                              env={**os.environ, **self.env}, timeout=120, check=False, **how)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def make_image(self):
        root = image(self.directory / "root")
        (root / "work").mkdir()
        for name in TOOLS:
            (root / "bin" / name).symlink_to("busybox")
        tar = subprocess.run(["tar", "-C", root, "-c", "."], capture_output=True, check=True).stdout
        self.podman("import", "--change", 'CMD ["/bin/sh","-c","echo the default of the image"]',
                    "-", IMAGE, input=tar)

    def names(self):
        return self.podman("ps", "--all", "--format", "{{.Names}}").split()


@pytest.fixture(scope="module")
def storage():
    needs("podman", "runc", "conmon")
    directory = tempfile.mkdtemp(prefix="sluice-podman-")
    made = Storage(directory)
    made.make_image()
    yield made
    left = made.names()
    if left:
        made.podman("rm", "--force", "--time=0", *left)
    shutil.rmtree(directory, ignore_errors=True)
    assert left == []


def mounted(machine, first="true", around=""):
    """A program that is `sluice` where the simulated machine's files stand in place of the real. `first`: a shell
    command that changes the same mounts before. `around`: a command line before all of it."""
    path = machine.directory / "sluice-mounted"
    path.write_text(f'#!/bin/sh\nexec {around} "{SLUICE}" sim exec --root "{machine.root}" --state "{machine.state}" '
                    f"--mounts -- /bin/sh -c '{first} && exec \"$0\" \"$@\"' \"{SLUICE}\" \"$@\"\n")
    path.chmod(0o755)
    return str(path)


def box(machine, storage, first="true", around=""):
    machine.start("dgx-a100", "--gpus", "4", "--dev-style", "nvidia")
    machine.env.update(storage.env)
    machine.storage = storage
    machine.path("/var/run/cdi").mkdir(parents=True)  # the agent fills it
    machine.agent(program=mounted(machine, first, around))
    return machine


@pytest.fixture
def boxed(machine_factory, storage):
    machine = box(machine_factory(opens_nodes=True), storage)
    yield machine
    for job in machine.run("sluice", "jobs", "--output", "json").ok().json["jobs"]:
        machine.run("sluice", "cancel", "--now", "--quiet", job["id"])
    wait_until(lambda: storage.names() == [], what="the end of all containers",
               deadline_s=10)


def run_image(machine, *command, options=(), **how):
    return machine.run("sluice", "run", "--image", IMAGE, "--pull", "never", *options, "--", *command, **how)


def start_image(machine, *command, options=(), **how):
    reply = machine.run("sluice", "run", "--detach", "--image", IMAGE, "--pull", "never", *options,
                        "--", *command, **how).ok()
    return int(reply.out)


def started(machine, number):
    """The job, once its command has printed "ready"."""
    wait_until(lambda: "ready" in machine.run("sluice", "logs", number).out, what=f"job {number}")
    return machine.job(number)


def groups_of(job):
    """Directories of the job's cgroup in whatever hierarchy."""
    return cgroups.named(os.path.basename(job["attempt"]["cgroup"]))


def no_trace(machine, job):
    group = os.path.basename(job["attempt"]["cgroup"] or f"job-{job['id']}-")
    assert [name for name in machine.storage.names() if f"sluice-{group}" in name] == []
    if job["attempt"]["cgroup"]:
        assert groups_of(job) == []


LOOK = """
for i in 0 1 2 3; do
  [ -e /dev/nvidia$i ] && echo "node $i"
  (head -c 1 /dev/nvidia$i) 2>&1 | grep -q 'No such device or address' && echo "opens $i"
  mknod /tmp/made$i c 195 $i 2>/dev/null && echo "makes $i"
  [ -e /tmp/made$i ] && { (head -c 1 /tmp/made$i) 2>&1 | grep -q 'No such device or address' && echo "opens made $i"; }
  [ -e /dev/dri/card$i ] && echo "card $i"
done
echo ready
touch /meet/$SLUICE_JOB_ID
while [ ! -e /meet/go ]; do sleep 0.05; done
exit 0
""".replace("grep -q", "/bin/busybox grep -q")


def errno_in(group, path):
    """errno of opening a node in a cgroup; 0."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            pathlib.Path(group, "cgroup.procs").write_text("0")
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
            code = 0
        except OSError as error:
            code = error.errno
        finally:
            os.write(theirs, bytes([code]))
            os._exit(0)
    os.waitpid(pid, 0)
    code = os.read(ours, 1)[0]
    os.close(ours)
    os.close(theirs)
    return code


def test_two_jobs_see_exactly_their_gpus(boxed):
    meet = boxed.directory / "meet"
    meet.mkdir()
    options = ["--gpus", "1", "--volume", f"{meet}:/meet"]
    numbers = [start_image(boxed, "sh", "-c", LOOK, options=options) for _ in range(2)]
    jobs = [started(boxed, number) for number in numbers]
    minors = [job["attempt"]["gpus"][0]["gpu_index"] for job in jobs]
    assert len(set(minors)) == 2
    for job, minor in zip(jobs, minors):
        out = boxed.run("sluice", "logs", job["id"]).out.splitlines()
        # its own node is there and there is nothing behind it: it is simulated
        assert out == [f"node {minor}", f"opens {minor}", f"makes {minor}", f"opens made {minor}",
                       f"card {minor}", "ready"] or \
               out == [f"node {minor}", f"opens {minor}", f"card {minor}", "ready"]
        assert job["image"] == IMAGE and job["simulated"]
        assert job["attempt"]["isolation"] == "container", job["attempt"]["isolation_reason"]
        # the rules around it hold for whatever is in the job's cgroup, without the runtime's
        group = pathlib.Path(job["attempt"]["cgroup"]) / "launcher"
        for other in range(4):
            expected = errno.ENXIO if other == minor else errno.EPERM
            assert errno_in(group, boxed.path(f"dev/nvidia{other}")) == expected
            assert (errno_in(group, boxed.path(f"dev/dri/card{other}")) == errno.EPERM) == (other != minor)
        assert errno_in(group, boxed.path("dev/nvidiactl")) == errno.ENXIO
        assert errno_in(group, boxed.path("dev/nvidia-caps/nvidia-cap1")) == errno.EPERM
        assert errno_in(group, "/dev/null") == 0
        [command, *_] = processes_of(job, "sh")
        assert outside(command, group.parent.name) == []  # limits are in whatever hierarchy there is
    (meet / "go").touch()
    for job in jobs:
        done = boxed.job_in(job["id"], "Succeeded")
        assert done["attempt"]["isolation"] == "container"
        no_trace(boxed, job)


def test_where_cgroup_v2_is_alone(machine_factory, storage):
    machine = box(machine_factory(opens_nodes=True), storage,
                  "umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup")
    number = start_image(machine, "sh", "-c", "ls /dev/nvidia[0-9]; echo ready; while :; do sleep 0.05; done",
                         options=["--gpus", "1"])
    job = started(machine, number)
    minor = job["attempt"]["gpus"][0]["gpu_index"]
    assert machine.run("sluice", "logs", "-o", number).out == f"/dev/nvidia{minor}\nready\n"
    assert job["attempt"]["isolation"] == "container", job["attempt"]["isolation_reason"]
    # the same hierarchy, as it is seen here
    unified = pathlib.Path("/sys/fs/cgroup/unified")
    top = unified if unified.is_dir() else unified.parent
    group = top / pathlib.Path(job["attempt"]["cgroup"]).relative_to("/sys/fs/cgroup")
    assert [path.name for path in group.glob("libpod-*")] != []
    for other in range(4):
        assert errno_in(group / "launcher", machine.path(f"dev/nvidia{other}")) == (
            errno.ENXIO if other == minor else errno.EPERM)
    machine.run("sluice", "cancel", "--grace", "100ms", number).ok()
    machine.job_in(number, "Cancelled")
    no_trace(machine, job)
    assert not group.exists()


def test_command_environment_and_exit_code(boxed):
    odd = ["--privileged", "; echo no", "a\nb", "%s", "$HOME", ""]
    reply = run_image(boxed, "sh", "-c", 'for a in "$@"; do echo "<$a>"; done; exit 7', "sh", *odd,
                      options=["--gpus", "0"])
    assert reply.rc == 7 and reply.err == ""
    assert reply.out == "".join(f"<{word}>\n" for word in odd)
    assert boxed.job(1)["command"][-6:] == odd

    boxed.env["FROM_OUTSIDE"] = "secret"
    reply = run_image(boxed, "env", options=["--gpus", "2", "--env", "GIVEN=a b", "--name", "enviro"]).ok()
    variables = dict(line.split("=", 1) for line in reply.out.splitlines())
    uuids = [gpu["uuid"] for gpu in boxed.job(2)["attempt"]["gpus"]]
    assert variables["CUDA_VISIBLE_DEVICES"] == variables["SLUICE_GPUS"] == ",".join(uuids)
    assert variables["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert variables["TRITON_LIBCUDA_PATH"] == "/usr/lib64"
    assert variables["GIVEN"] == "a b" and variables["SLUICE_JOB_NAME"] == "enviro"
    assert not {"FROM_OUTSIDE", "SLUICE_ROOT", "SLUICE_SIM_STATE", "CONTAINERS_CONF"} & set(variables)

    reply = boxed.run("sluice", "run", "--image", IMAGE, "--gpus", "0").ok()
    assert reply.out == "the default of the image\n"
    assert boxed.job(3)["name"] == "sluice-test-1" and boxed.job(3)["command"] is None
    assert run_image(boxed, "pwd", options=["--gpus", "0", "--cwd", "/work"]).ok().out == "/work\n"
    shared = boxed.directory / "shared"
    shared.mkdir()
    reply = run_image(boxed, "sh", "-c", "touch /s/a; echo $?", options=["--volume", f"{shared}:/s:ro"])
    assert reply.out == "1\n" and "Read-only" in reply.err
    assert run_image(boxed, "no-such-program").rc == 127
    assert run_image(boxed, "/etc").rc == 126
    assert boxed.storage.names() == []


def test_a_signal_before_the_limit_reaches_its_program(boxed):
    """The limit is brought near when the container runs, however long that took."""
    begun = time.monotonic()
    script = "trap 'echo told; exit 3' USR1; echo ready; while :; do sleep 0.05; done"
    number = start_image(boxed, "sh", "-c", script, options=["--gpus", "0", "--time", "1h", "--signal", "USR1@60"])
    assert started(boxed, number)["state"] == "Running"
    boxed.run("sluice", "jobs", "set", "--time", int(time.monotonic() - begun) + 63, number).ok()
    job = boxed.job_in(number, "Failed")
    assert (job["exit_code"], job["reason"]) == (3, "ExitCode"), job
    assert boxed.run("sluice", "logs", "-o", number).ok().out == "ready\ntold\n"


def test_what_is_said_of_the_container(boxed):
    def out(*command, options=()):
        reply = run_image(boxed, *command, options=["--gpus", "0", *options]).ok()
        return reply.out.split()

    free = "busybox df -k /dev/shm /scratch | busybox awk 'NR > 1 {print $2, $NF}'; stat -c %a /scratch; ls /scratch"
    assert out("sh", "-c", free, options=["--shm-size", "96Mi", "--tmpfs", "/scratch:8Mi"]) == \
        ["98304", "/dev/shm", "8192", "/scratch", "777"]
    [size, _] = out("sh", "-c", "busybox df -k /dev/shm | busybox awk 'NR > 1 {print $2, $NF}'",
                    options=["--tmpfs", "/dev/shm"])
    assert int(size) > 65536  # half of the memory
    # a program in it runs; the image's own files are not copied there
    assert out("sh", "-c", "cp /bin/busybox pwd; ./pwd; ls", options=["--tmpfs", "/work", "--cwd", "/work"]) == \
        ["/work", "pwd"]
    assert out("id", "-u", options=["--user", "1234"]) == ["1234"]
    assert out("sh", "-c", "id -u; id -g", options=["--user", "1234:77"]) == ["1234", "77"]
    assert out("-c", "echo $0 $1", "a", "b", options=["--entrypoint", "/bin/sh"]) == ["a", "b"]
    assert out(options=["--entrypoint", "/bin/pwd"]) == ["/"]  # and not what the image says
    odd = '["/bin/sh"]'
    assert run_image(boxed, options=["--entrypoint", odd]).rc == 127
    assert out("env", options=["--cuda-compat"])[-1] != ""
    variables = out("env", options=["--cuda-compat", "--env", "LD_LIBRARY_PATH=/x"])
    assert "LD_LIBRARY_PATH=/usr/local/cuda/compat:/x" in variables
    assert out("true", options=["--selinux", "off"]) == []
    for bad in (["--user", "root"], ["--user", "-1"], ["--tmpfs", "a"], ["--shm-size", "0"]):
        assert run_image(boxed, "true", options=bad).rc == 64, bad

    number = len(boxed.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"]) + 1
    caps = "busybox grep CapEff /proc/self/status"
    plain, all_caps = (run_image(boxed, "sh", "-c", caps, options=["--gpus", "1", *more]).ok().out.split()[1]
                       for more in ([], ["--privileged"]))
    assert int(plain, 16) < int(all_caps, 16)
    jobs = [boxed.job(number), boxed.job(number + 1)]
    assert [job["attempt"]["isolation"] for job in jobs] == ["container", "none"]


def test_cancel_deadline_and_what_stays_behind(boxed):
    deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    number = start_image(boxed, "sh", "-c", "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    job = started(boxed, number)
    boxed.run("sluice", "cancel", number).ok()
    assert boxed.job_in(number, "Cancelled")["exit_code"] == 3
    assert "told" in boxed.run("sluice", "logs", number).out
    no_trace(boxed, job)
    number = start_image(boxed, "sh", "-c", deaf)
    job = started(boxed, number)
    boxed.run("sluice", "cancel", "--grace", "100ms", number).ok()
    done = boxed.job_in(number, "Cancelled")
    assert (done["exit_code"], done["signal"]) == (137, 9)
    no_trace(boxed, job)
    reply = run_image(boxed, "sh", "-c", deaf, options=["--time", "1s", "--grace", "100ms"])
    assert reply.rc == 124
    no_trace(boxed, boxed.job(number + 1))
    # what the command leaves ends with its first process: that is what a container is
    assert run_image(boxed, "sh", "-c", "sleep 1000 & echo started").ok().out == "started\n"
    assert boxed.storage.names() == []


def test_cancelled_while_it_starts(boxed):
    """By a podman that is told to end when it has made the container, and has not started it."""
    directory = boxed.directory / "own"
    directory.mkdir()
    podman = directory / "podman"
    podman.write_text('#!/bin/sh\nfor word; do shift; [ "$word" = run ] && { run=1; word=create; }\n'
                      '[ "$word" = --rm ] || set -- "$@" "$word"; done\n'
                      f'[ "$run" ] || exec {shutil.which("podman")} "$@"\n'
                      f'{shutil.which("podman")} "$@" >/dev/null && echo ready\n'
                      'trap "exit 0" TERM; while :; do sleep 0.05; done\n')
    podman.chmod(0o755)
    number = start_image(boxed, "true", env={"PATH": f"{directory}:/usr/bin:/bin"})
    job = started(boxed, number)
    assert len(boxed.storage.names()) == 1
    boxed.run("sluice", "cancel", number).ok()
    boxed.job_in(number, "Cancelled")
    no_trace(boxed, job)


def processes_of(job, name):
    """Of the job, by the name of their program."""
    found = []
    for path in pathlib.Path(job["attempt"]["cgroup"]).glob("**/cgroup.procs"):
        for pid in path.read_text().split():
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
                    found.append(int(pid))
            except OSError:
                pass
    return found


@pytest.mark.parametrize("victim", ["podman", "conmon", "supervisor", "agent and supervisor"])
def test_whoever_is_killed_no_container_stays(boxed, victim):
    number = start_image(boxed, "sh", "-c", "echo ready; while :; do sleep 0.05; done",
                         options=["--gpus", "1", "--grace", "200ms"])
    job = started(boxed, number)
    inside = processes_of(job, "sh")
    assert inside and processes_of(job, "conmon")
    if victim == "agent and supervisor":
        boxed.service.kill()
        boxed.service.wait()
    if "supervisor" in victim:
        os.kill(job["attempt"]["supervisor_pid"], signal.SIGKILL)
    else:
        for pid in processes_of(job, victim):
            os.kill(pid, signal.SIGKILL)
    if victim == "agent and supervisor":
        boxed.agent(program=mounted(boxed))
    wait_until(lambda: boxed.job(number)["state"] in ("Failed", "Succeeded"), what="the end of the job")
    done = boxed.job(number)
    assert done["state"] == "Failed"
    if "supervisor" in victim:
        assert done["reason"] == "SupervisorLost"
    assert not any(alive(pid) for pid in inside)
    no_trace(boxed, job)
    # and its GPU is free again
    assert run_image(boxed, "true", options=["--gpus", "4", "--no-wait"]).rc == 0


# AGENT=root: with a service of root's, whose control groups the user's podman has to find its way through.
ROOTLESS = """set -e
umount /proc/driver /proc/devices; umount -l /sys  # a user namespace gets none of its own beside them
for name in passwd group subuid subgid; do mount --bind "$ETC/$name" "/etc/$name"; done
user="setpriv --reuid 4242 --regid 4242 --clear-groups --inh-caps=-all"
test "$AGENT" = root || exec $user /bin/sh -c "$SCRIPT"
chown -R root "$SLUICE_RUNTIME_DIR" "$SLUICE_STATE_DIR"
mkfifo "$HOME/ready"
sluice agent --ready-fd 3 3>"$HOME/ready" 2>/dev/null </dev/null & agent=$!
head -c 1 "$HOME/ready" >/dev/null
code=0; $user /bin/sh -c "$SCRIPT" || code=$?
kill $agent; wait $agent || true
exit $code
"""
BY_USER = """set -e
podman --log-level=error --runtime runc import "$TAR" "$IMAGE" >/dev/null 2>&1
podman --runtime runc system migrate 2>/dev/null  # ends what keeps the user namespace: the job starts it again
sluice run --image "$IMAGE" --pull never --gpus 1 -- sh -c 'id; ls /dev/nvidia[0-9]; head /dev/nvidia0; exit 5' || echo "code $?"
sluice run --image "$IMAGE" --pull never --gpus 1 --time 2s --grace 100ms -- sh -c \
  "trap '' TERM; while :; do sleep 0.05; done" || echo "code $?"
sluice jobs --output json 1
podman --runtime runc ps --all --quiet
"""


UNDER_ROOT = """set -e
podman --log-level=error --runtime runc import "$TAR" "$IMAGE" >/dev/null 2>&1
podman --runtime runc system migrate 2>/dev/null
for limit in "--mem 64M" "--mem 64M --cpus 1 --pids 100"; do
  sluice run --image "$IMAGE" --pull never --gpus 0 $limit -- sh -c 'cat /proc/self/cgroup; exit 7' || echo "code $?"
done
"""


def test_limits_of_a_user_without_root_under_roots_agent(machine_factory, storage):
    """runc looks at the groups that the supervisor has made, of cgroup v1 too."""
    reply = rootless(machine_factory, storage, UNDER_ROOT, AGENT="root").ok()
    first, second = reply.out.split("code 7\n")[:2]
    assert reply.out.endswith("code 7\n") and "/job-1-" in first and "/job-2-" in second, reply


def test_without_root(machine_factory, storage):
    """A user's own agent and podman: the container alone keeps it to its GPU, and that is said."""
    reply = rootless(machine_factory, storage, BY_USER)
    text, _, rest = reply.ok().out.partition("{")
    assert text == "uid=0 gid=0\n/dev/nvidia0\ncode 5\ncode 124\n", reply
    assert "No such device or address" in reply.err
    job, end = json.JSONDecoder().raw_decode("{" + rest)
    assert job["attempt"]["isolation"] == "container, no device cgroup around it"
    assert job["attempt"]["killed_leftovers"] == 0
    assert ("{" + rest)[end:].strip() == ""  # no container is left


def rootless(machine_factory, storage, script, **variables):
    """Runs the script as an ordinary user with podman and a machine of their own."""
    needs("podman", "runc", "conmon", "newuidmap", "setpriv")
    machine = machine_factory(opens_nodes=True)
    machine.start("dgx-a100", "--gpus", "2", "--dev-style", "nvidia")
    specify(machine)  # the user's agent may not write it
    etc, home = machine.directory / "etc", machine.directory / "home"
    etc.mkdir()
    for name, line in (("passwd", f"box:x:4242:4242::{home}:/bin/sh"), ("group", "box:x:4242:")):
        (etc / name).write_text(pathlib.Path("/etc", name).read_text() + line + "\n")
    for name in ("subuid", "subgid"):
        (etc / name).write_text("box:200000:65536\n")
    for name in ("run", "state", "xdg"):
        (home / name).mkdir(parents=True)
    tar = machine.directory / "box.tar"
    subprocess.run(["tar", "-C", storage.directory / "root", "-cf", tar, "."], check=True, timeout=60)
    (home / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{home}/graph"\n'
                                       f'rootless_storage_path = "{home}/graph"\nrunroot = "{home}/run/podman"\n')
    (home / "containers.conf").write_text('[containers]\nnetns = "none"\n[engine]\nevents_logger = "none"\n')
    for path in (home, *home.rglob("*")):
        os.chown(path, 4242, 4242)
    if subprocess.run(["setpriv", "--reuid", "4242", "--clear-groups", SLUICE, "--version"],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip(f"other users cannot execute {SLUICE}")
    env = {**variables, "SCRIPT": script, "ETC": str(etc), "TAR": str(tar), "IMAGE": IMAGE, "HOME": str(home),
           "XDG_RUNTIME_DIR": f"{home}/xdg", "SLUICE_RUNTIME_DIR": f"{home}/run",
           "SLUICE_STATE_DIR": machine.own["SLUICE_STATE_DIR"],
           "CONTAINERS_CONF": f"{home}/containers.conf", "CONTAINERS_STORAGE_CONF": f"{home}/storage.conf"}
    pathlib.Path(env["SLUICE_STATE_DIR"]).mkdir(exist_ok=True)
    os.chown(env["SLUICE_STATE_DIR"], 4242, 4242)
    around = ["env", *(f"{name}={value}" for name, value in env.items()), "/bin/sh", "-c", ROOTLESS]
    return machine.run("sluice", "sim", "exec", "--mounts", "--root", machine.root, "--state", machine.state, "--",
                       *around, cwd="/", timeout=120)


def test_what_cannot_run_says_why(boxed):
    reply = boxed.run("sluice", "run", "--image", "localhost/sluice-nobody:9", "--pull", "never", "--", "true")
    assert reply.rc == 125 and "sluice-nobody" in reply.err
    for image in ("-v", "--privileged", "a b", "debian\n--privileged", "\x1b[2J", ""):
        reply = boxed.run("sluice", "run", f"--image={image}", "--pull", "never", "--", "true")
        assert reply.rc == 64, reply
        assert "\x1b" not in reply.err
    for volume in ("a", "a:/b", "/a:/b:U", "-v:/b"):
        assert run_image(boxed, "true", options=[f"--volume={volume}"]).rc == 64
    assert run_image(boxed, "true", options=["--cwd", "relative"]).rc == 64
    assert boxed.run("sluice", "run", "--volume", "/a:/b", "--", "true").rc == 64
    assert "COMMAND" in boxed.run("sluice", "run").err

    empty = boxed.directory / "empty"
    empty.mkdir()
    reply = run_image(boxed, "true", env={"PATH": str(empty)}, options=["--gpus", "0"])
    assert reply.rc == 125 and "no podman and no docker in PATH" in reply.err
    old = empty / "podman"
    old.write_text("#!/bin/sh\necho podman version 3.4.4\n")
    old.chmod(0o755)
    reply = run_image(boxed, "true", env={"PATH": str(empty)}, options=["--gpus", "0"])
    assert reply.rc == 125 and "podman 3.4 is too old: it knows CDI from 4.1 on" in reply.err
    # a podman that ends otherwise: its code is the job's
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo podman version 4.3.1; exit; }\nexit 42\n')
    assert run_image(boxed, "true", env={"PATH": f"{empty}:/bin"}, options=["--gpus", "0"]).rc == 42


def test_limits_reach_the_container(boxed):
    big = "busybox dd if=/dev/zero of=/dev/shm/big bs=1M count=200 2>/dev/null; echo not killed"
    options = ["--gpus", "0", "--shm-size", "400Mi"]
    assert run_image(boxed, "sh", "-c", big, options=options).ok().out == "not killed\n"
    reply = run_image(boxed, "sh", "-c", f"exec {big}", options=[*options, "--mem", "64Mi"])
    job = boxed.job(2)
    assert reply.rc != 0 and job["reason"].startswith("OOMKilled"), job  # 137, unless podman lost its conmon
    assert boxed.storage.names() == []
    number = start_image(boxed, "sh", "-c", "echo ready; while :; do :; done", options=["--gpus", "0", "--cpus", "0.25"])
    job = started(boxed, number)
    [pid] = processes_of(job, "sh")
    used = []

    def ticks():
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    first, begin = ticks(), time.monotonic()
    wait_until(lambda: time.monotonic() - begin > 2, what="two seconds")
    used = (ticks() - first) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begin)
    assert used < 0.4, used
    boxed.run("sluice", "cancel", "--now", number).ok()


def test_without_a_network(machine_factory, storage):
    """An image that is here needs none, by its short name neither; what is not here is an error at once."""
    machine = box(machine_factory(opens_nodes=True), storage, around="unshare --net")
    storage.podman("tag", IMAGE, "docker.io/library/sluice-short:3")
    try:
        for name in (IMAGE, "sluice-short:3", "docker.io/library/sluice-short:3"):
            for pull in ("missing", "never"):
                reply = machine.run("sluice", "run", "--gpus", "1", "--image", name, "--pull", pull, "--", "pwd").ok()
                assert (reply.out, reply.err) == ("/\n", "")
    finally:
        storage.podman("untag", IMAGE, "docker.io/library/sluice-short:3")
    reply = machine.run("sluice", "run", "--image", "sluice-short:3", "--pull", "never", "--", "pwd")
    assert reply.rc == 125 and "sluice-short:3: image not known" in reply.err
    reply = machine.run("sluice", "run", "--image", "docker.io/library/sluice-short:3", "--", "pwd")
    assert reply.rc == 125 and "registry-1.docker.io" in reply.err and "unreachable" in reply.err


def sits_at_a_container(machine, *options):
    """The terminal is the container's: its size, what is typed, the keys by which runtimes are left."""
    seat = Seat(machine, "run", "--pty", "--gpus", "0", "--image", IMAGE, "--pull", "never", "--env", "PS1=ready$ ",
                *options, "--", "sh", "-i")
    seat.expect(b"ready$ ")
    # docker tells the container how large it is a moment after it has begun.
    seat.type(b'until [ "$(busybox stty size 2>&1)" = "30 100" ]; do :; done; busybox tty; busybox stty size; '
              b"echo $((6*7))\r")
    seat.expect(b"/dev/")
    seat.expect(b"30 100\r\n42\r\n")
    seat.type(b"\x10\x11echo still $((6*8))\r")  # Ctrl-P Ctrl-Q
    seat.expect(b"still 48\r\n")
    seat.type(b"exit 7\r")
    assert seat.wait() == 7


# The node of that name among the simulated machine's is one that the kernel finds no terminals for.
WITH_TERMINALS = f"{shutil.which('mount')} --bind /dev/pts/ptmx /dev/ptmx"


def test_at_a_terminal(machine_factory, storage):
    sits_at_a_container(box(machine_factory(opens_nodes=True), storage, WITH_TERMINALS))
    assert storage.names() == []


def test_what_podman_leaves_behind(boxed):
    """What is in PATH under podman's name is the user's, as is what it starts."""
    directory = boxed.directory / "own"
    directory.mkdir()
    podman = directory / "podman"
    podman.write_text(f"#!/bin/sh\nsetsid sleep 1000 </dev/null >/dev/null 2>&1 &\necho $! >{directory}/pid\n"
                      "echo podman version 3.4.4\n")
    podman.chmod(0o755)
    reply = run_image(boxed, "true", env={"PATH": f"{directory}:/bin:/usr/bin"}, options=["--gpus", "4"])
    assert reply.rc == 125 and "podman 3.4 is too old" in reply.err
    assert not alive(int((directory / "pid").read_text()))
    no_trace(boxed, boxed.job(1))
    # what clears up behind a container is no news
    reply = run_image(boxed, "true", options=["--gpus", "4", "--no-wait"]).ok()
    assert "is ending" not in reply.err and "left" not in reply.err


def test_a_removal_that_does_not_begin(boxed):
    """The helper has the user's environment: the loader waits for somebody to write into the FIFO."""
    fifo = boxed.directory / "preloaded"
    number = start_image(boxed, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done",
                         options=["--gpus", "4"], env={"LD_PRELOAD": str(fifo)})
    job = started(boxed, number)
    inside = processes_of(job, "sh")
    assert inside
    os.mkfifo(fifo)
    boxed.run("sluice", "cancel", "--grace", "100ms", number).ok()
    wait_until(lambda: boxed.job(number)["state"] == "Cancelled", what="the end of the job", deadline_s=20)
    assert not any(alive(pid) for pid in inside)
    assert "has not begun in time" in boxed.run("sluice", "logs", "--stderr", number).out
    fifo.unlink()
    boxed.storage.podman("rm", "--force", "--ignore", "--time=0", *boxed.storage.names())


def test_a_gpu_without_a_specification(machine_factory, storage):
    machine = machine_factory(opens_nodes=True)
    machine.start("t4x1", "--dev-style", "nvidia")
    machine.env.update(storage.env)
    machine.agent()  # it sees the simulated machine, and podman would not
    reply = run_image(machine, "true", options=["--gpus", "1"])
    assert reply.rc == 125
    assert "sluice.sim/gpu=GPU-" in reply.err and "sluice cdi check" in reply.err
    assert "sim exec --mounts" in reply.err
    assert run_image(machine, "true", options=["--gpus", "0"]).rc == 0
    assert storage.names() == []


def test_a_container_that_does_not_start_says_why(boxed):
    """By `sluice run` in its last line, by `sluice jobs` and `sluice jobs ID`, with what to do next; and what the command itself
    says looks otherwise."""
    elf = boxed.directory / "elf"
    elf.write_bytes(b"\x7fELF, of a kind")
    elf.chmod(0o755)
    given = ["--volume", f"{elf}:/elf:ro"]

    def fails(code, cause, advice, *command, options=(), image_name=IMAGE):
        reply = boxed.run("sluice", "run", "--gpus", "0", "--image", image_name, "--pull", "never", *options, "--", *command)
        last = reply.err.splitlines()[-1]
        assert reply.rc == code, reply
        assert "ContainerError" in last and cause in last and advice in last, reply.err
        job = boxed.job(re.match(r"sluice run: job (\d+) failed: ", last)[1])
        assert job["state"] == "Failed" and job["reason"].startswith("ContainerError"), job
        assert job["exit_code"] == code
        shown = boxed.run("sluice", "jobs", job["id"]).ok().out
        assert cause in shown and advice in shown, shown

    fails(125, "sluice-nobody:9: image not known", "is that its name", "true", image_name="localhost/sluice-nobody:9")
    fails(125, "statfs /nowhere/at/all: no such file", "correct the first part of --volume", "true",
          options=["--volume", "/nowhere/at/all:/y"])
    fails(127, '"no-such-program": executable file not found', "whole path", "no-such-program")
    fails(126, '"/etc": permission denied', "executable in the image", "/etc")
    fails(126, "exec /elf: exec format error", "this machine's processors", "/elf", options=given)
    # the command's own end
    for code in (1, 125, 126, 127):
        reply = run_image(boxed, "sh", "-c", f"echo it is me >&2; exit {code}", options=["--gpus", "0"])
        assert (reply.rc, reply.err) == (code, "it is me\n")
    assert boxed.storage.names() == []
