# SPDX-License-Identifier: Apache-2.0
"""What keeps a job to its GPUs, by level, and the known ways around it, on stand-ins for the driver's nodes.

A simulated machine's nodes have the numbers of real ones and nothing behind them: one that may be opened says ENXIO
here (on a machine with such GPUs it opens), one that a cgroup denies EPERM, one that Landlock denies EACCES.
"""

import ctypes
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile

import pytest

from conftest import SLUICE, alive, outside, wait_until

ROOT = os.geteuid() == 0
NOBODY = 65534
LEVELS = ("cgroup2", "cgroup1", "landlock")
OPENS = {errno.ENXIO, 0}

# Run by the job: prints {what: errno} of opening nodes in several ways. argv[1]: the nodes' directory, argv[2]: a
# process outside.
PROBE = r"""
import ctypes, errno, json, os, stat, sys
dev, outsider, made = sys.argv[1:4]
def code(call):
    try:
        call()
        return 0
    except OSError as error:
        return error.errno
def opens(path):
    return code(lambda: os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK)))
told = {}
for name in sorted(os.listdir(dev)):
    path = os.path.join(dev, name)
    if stat.S_ISCHR(os.lstat(path).st_mode):
        told[name] = opens(path)
        told["self/" + name] = opens("/proc/self/root" + path)
        told["outside/" + name] = opens(f"/proc/{outsider}/root{path}")
for name in ("dri/card0", "dri/card1", "dri/card7"):
    if os.path.exists(os.path.join(dev, name)):
        told[name] = opens(os.path.join(dev, name))
node = os.path.join(made, f"made-{os.getpid()}")
told["mknod"] = code(lambda: os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(195, 1)))
told["made"] = opens(node) if told["mknod"] == 0 else -1
told["null"] = opens("/dev/null")
told["file"] = code(lambda: open(node + ".txt", "w").close())
libc = ctypes.CDLL(None, use_errno=True)
if os.fork() == 0:  # a namespace of its own, and a look through it
    ok = libc.unshare(0x10000000) == 0  # CLONE_NEWUSER
    result = {"userns": [ok, {name: opens(os.path.join(dev, name)) for name in os.listdir(dev)
                              if name.startswith("nvidia") and name[6:].isdigit()}]}
    print(json.dumps(result), flush=True)
    os._exit(0)
os.wait()
told["status"] = [line for line in open("/proc/self/status") if line.startswith(("NoNewPrivs", "NSpid"))]
print(json.dumps(told), flush=True)
"""


def probed(text):
    told = {}
    for line in text.splitlines():
        told.update(json.loads(line))
    return told


def denied_call(number, code=errno.EPERM):
    """A preexec_fn: this system call fails for the agent and all it starts, as where it is forbidden."""
    def install():
        program = b"".join(struct.pack("HBBI", *one) for one in (
            (0x20, 0, 0, 0),  # the number
            (0x15, 0, 1, number),
            (0x06, 0, 0, 0x00050000 | code),  # SECCOMP_RET_ERRNO
            (0x06, 0, 0, 0x7fff0000)))
        buffer = ctypes.create_string_buffer(program)
        what = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        assert libc.prctl(22, 2, what, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP, a filter
    return install


def landlock_is_there():
    return ctypes.CDLL(None).syscall(444, None, 0, 1) > 0


def needs_landlock():
    if not landlock_is_there():
        pytest.skip("this kernel has no Landlock, or it is not enabled")


def syscall_number(name):
    numbers = {"x86_64": {"bpf": 321}, "aarch64": {"bpf": 280}}.get(os.uname().machine)
    if not numbers:
        pytest.skip(f"the number of {name}(2) on {os.uname().machine} is not known here")
    return numbers[name]


@pytest.fixture
def boxed(machine_factory):
    """Four GPUs with nodes, in a place that Landlock can tell from the rest."""
    if not ROOT:
        pytest.skip("device nodes are made by root")
    machine = machine_factory(opens_nodes=True)
    machine.start("dgx-a100", "--gpus", "4", "--dev-style", "nvidia")
    outsider = subprocess.Popen(["sleep", "1000"])
    machine.outsider = outsider.pid
    made = tempfile.mkdtemp(prefix="made-", dir="/var/tmp")
    os.chmod(made, 0o777)
    machine.made = made
    yield machine
    outsider.kill()
    outsider.wait()
    shutil.rmtree(made)


def probe(machine, *options, rc=0, **how):
    reply = machine.run("sluice", "run", *options, "--", "python3", "-c", PROBE, machine.path("dev"),
                        machine.outsider, machine.made, **how)
    assert reply.rc == rc, reply
    return probed(reply.out) if rc == 0 else reply


def last_job(machine):
    return max(machine.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"],
               key=lambda job: job["id"])


def nodes_of(told, prefix=""):
    return {int(name[len(prefix) + 6:]): code for name, code in told.items()
            if re.fullmatch(f"{prefix}nvidia[0-9]+", name)}


def expect_denied(told, granted, code):
    """One GPU opens; the others do not, neither on the ways around."""
    own = nodes_of(told)
    assert own[granted] in OPENS, told
    assert {minor: found for minor, found in own.items() if minor != granted} == \
        {minor: code for minor in own if minor != granted}, told
    for prefix in ("self/", "outside/"):
        for minor, found in nodes_of(told, prefix).items():
            if minor != granted:
                assert found not in OPENS, (prefix, minor, told)
    assert told["null"] == 0 and told["file"] == 0, told
    assert told["mknod"] != 0, told
    for minor, found in nodes_of(told["userns"][1]).items():
        assert minor == granted or found not in OPENS, told


def granted_minor(machine):
    return last_job(machine)["attempt"]["gpus"][0]["gpu_index"]


def test_around_the_cgroup(boxed):
    """cgroup v2, which is what root's agent has wherever cgroup2 is mounted."""
    boxed.agent()
    told = probe(boxed, "--gpus", "1")
    attempt = last_job(boxed)["attempt"]
    if attempt["isolation"] != "cgroup2":
        pytest.skip(f"no cgroup v2 here: {attempt['isolation_reason']}")
    expect_denied(told, granted_minor(boxed), errno.EPERM)
    assert told["mknod"] == errno.EPERM
    own = granted_minor(boxed)
    assert told["nvidiactl"] in OPENS and told["nvidia-uvm"] in OPENS
    for card in (0, 1):
        assert (told[f"dri/card{card}"] in OPENS) == (card == own), told


def test_a_cpu_job_opens_no_gpu(boxed):
    boxed.agent()
    told = probe(boxed, "--gpus", "0", "--isolation", "require")
    assert not OPENS & set(nodes_of(told).values()), told
    assert not OPENS & {told["dri/card0"], told["dri/card1"]}, told


def test_two_jobs_share_a_gpu_and_nothing_else(boxed):
    """What is denied is by number: a job that sets the variable itself gains nothing."""
    boxed.agent()
    told = probe(boxed, "--gpus", "2", "--env", "CUDA_VISIBLE_DEVICES=0,1,2,3")
    minors = {gpu["gpu_index"] for gpu in last_job(boxed)["attempt"]["gpus"]}
    assert {minor for minor, code in nodes_of(told).items() if code in OPENS} == minors


def test_cgroup_v1_where_bpf_is_forbidden(boxed):
    if not os.path.isdir("/sys/fs/cgroup/devices"):
        pytest.skip("no cgroup v1 devices here")
    boxed.agent(preexec_fn=denied_call(syscall_number("bpf")))
    told = probe(boxed, "--gpus", "1", "--isolation", "cgroup")
    attempt = last_job(boxed)["attempt"]
    assert attempt["isolation"] == "cgroup1"
    expect_denied(told, granted_minor(boxed), errno.EPERM)


def test_landlock_around_a_job(boxed):
    needs_landlock()
    boxed.agent()
    told = probe(boxed, "--gpus", "1", "--isolation", "landlock")
    assert last_job(boxed)["attempt"]["isolation"] == "landlock"
    expect_denied(told, granted_minor(boxed), errno.EACCES)
    assert told["mknod"] == errno.EACCES


def test_env_is_no_boundary(boxed):
    """The negative control: each way leads to every GPU where nothing is put around the job."""
    boxed.agent()
    told = probe(boxed, "--gpus", "1", "--isolation", "env")
    assert last_job(boxed)["attempt"]["isolation"] == "env"
    assert set(nodes_of(told).values()) <= OPENS and len(nodes_of(told)) == 4, told
    assert set(nodes_of(told, "outside/").values()) <= OPENS and nodes_of(told, "outside/"), told
    assert told["mknod"] == 0 and told["made"] in OPENS


def test_a_device_that_appears_later(boxed):
    """Its number is denied before it is there."""
    boxed.agent()
    meet = pathlib.Path(boxed.made)
    script = f"touch {meet}/here; until test -e {meet}/go; do sleep 0.02; done; exec \"$@\""
    node = boxed.path("dev/nvidia7")
    process = boxed.spawn("sluice", "run", "--gpus", "1", "--isolation", "require", "--", "sh", "-c", script, "sh",
                          "python3", "-c", PROBE, boxed.path("dev"), boxed.outsider, boxed.made,
                          stdout=subprocess.PIPE)
    wait_until((meet / "here").exists, what="the job")
    os.mknod(node, 0o20666, os.makedev(195, 7))
    os.mknod(boxed.path("dev/dri/card7"), 0o20666, os.makedev(226, 7))
    (meet / "go").touch()
    told = probed(process.communicate(timeout=60)[0])
    os.unlink(node)
    os.unlink(boxed.path("dev/dri/card7"))
    assert told["nvidia7"] not in OPENS and told["dri/card7"] not in OPENS, told


def test_capabilities_of_other_mig_devices(machine_factory):
    if not ROOT:
        pytest.skip("device nodes are made by root")
    machine = machine_factory(opens_nodes=True)
    machine.start("a100-mig", "--dev-style", "nvidia")
    machine.agent()
    caps = machine.path("dev/nvidia-caps")
    reply = machine.run("sluice", "run", "--isolation", "require", "--", "python3", "-c",
                        "import os,sys\nfor n in sorted(os.listdir(sys.argv[1])):\n"
                        " try: os.open(sys.argv[1]+'/'+n, os.O_RDONLY|os.O_NONBLOCK); print(n, 0)\n"
                        " except OSError as e: print(n, e.errno)", caps).ok()
    told = {name: int(code) for name, code in (line.split() for line in reply.out.splitlines())}
    opened = {name for name, code in told.items() if code in OPENS}
    assert len(opened) == 2, told  # its GPU instance's and its compute instance's
    assert not {"nvidia-cap1", "nvidia-cap2"} & opened  # config, monitor
    every = machine.run("sluice", "run", "--isolation", "env", "--", "ls", caps).ok()
    assert len(every.out.split()) > len(opened)


# -- what is demanded is had, or nothing runs


def test_what_cannot_be_reached_is_refused(boxed):
    boxed.agent()
    reply = boxed.run("sluice", "run", "--isolation", "container", "--", "true")
    assert reply.rc == 125 and "isolation 'container' is not reached" in reply.err and "no image" in reply.err, reply
    job = last_job(boxed)
    assert job["state"] == "Failed" and "LaunchError" in job["reason"], job
    reply = boxed.run("sluice", "run", "--isolation", "perfect", "--", "true")
    assert reply.rc == 64


def test_require_without_its_prerequisites(boxed):
    """Neither cgroups nor Landlock: best runs and says why, everything else fails."""
    def without():
        denied_call(444, errno.ENOSYS)()
        denied_call(syscall_number("bpf"))()
    mounts = "mount --make-rprivate / && umount -l /sys/fs/cgroup && "
    boxed.agent(program=wrapped(boxed, mounts), preexec_fn=without)
    for level in ("require", "cgroup", "landlock"):
        reply = boxed.run("sluice", "run", "--isolation", level, "--", "touch", f"{boxed.made}/ran")
        assert reply.rc == 125 and f"'{level}' is not reached, only env" in reply.err, reply
    assert not os.path.exists(f"{boxed.made}/ran")
    boxed.run("sluice", "run", "--", "true").ok()
    number = boxed.submit("sleep", "1000")
    attempt = boxed.job_in(number, "Running")["attempt"]
    assert attempt["isolation"] == "env"
    for level in ("cgroup2: ", "cgroup1: ", "landlock: "):
        assert level in attempt["isolation_reason"], attempt


def wrapped(machine, before):
    path = machine.directory / "sluice-wrapped"
    path.write_text(f"#!/bin/sh\nexec unshare --mount sh -c '{before}exec \"$0\" \"$@\"' {SLUICE} \"$@\"\n")
    path.chmod(0o755)
    return str(path)


def test_a_users_agent_has_landlock(boxed):
    """Without any privilege."""
    needs_landlock()
    run = pathlib.Path(boxed.directory)
    for directory in (run, *run.rglob("*")):
        if directory.is_dir() and not directory.is_symlink():
            os.chown(directory, NOBODY, NOBODY)
    demote = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    boxed.agent(**demote)
    told = probe(boxed, "--gpus", "1", **demote)
    attempt = last_job(boxed)["attempt"]
    assert attempt["isolation"] == "landlock"
    expect_denied(told, granted_minor(boxed), errno.EACCES)
    assert any(re.match(r"NoNewPrivs:\s+1", line) for line in told["status"])


# -- processes


def test_a_job_sees_its_own_processes_alone(boxed):
    boxed.agent()
    reply = boxed.run("sluice", "run", "--", "sh", "-c", f"ls -d /proc/[0-9]*; test -e /proc/{boxed.outsider}").rc
    assert reply != 0
    number = boxed.submit("sleep", "1000")
    attempt = boxed.job_in(number, "Running")["attempt"]
    if attempt["isolation"] == "env":
        pytest.skip(f"no isolation here: {attempt['isolation_reason']}")
    assert alive(attempt["pid"])
    command = pathlib.Path(f"/proc/{attempt['pid']}/cmdline").read_bytes()
    assert command == b"sleep\0001000\0"
    numbers = re.search(r"NSpid:\s+(.*)", pathlib.Path(f"/proc/{attempt['pid']}/status").read_text()).group(1)
    assert len(numbers.split()) == 2


@pytest.mark.parametrize("script, code", [
    ("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("kill -SEGV $$", 139)])
def test_ends_are_told_from_inside(boxed, script, code):
    boxed.agent()
    assert boxed.run("sluice", "run", "--isolation", "best", "--", "sh", "-c", script).rc == code


def test_orphans_end_with_the_job(boxed):
    boxed.agent()
    path = f"{boxed.made}/orphan"
    script = f"(setsid sh -c 'echo $$ >{path}.t; mv {path}.t {path}; exec sleep 1000' &) ; " \
             f"until test -e {path}; do sleep 0.02; done; exit 5"
    reply = boxed.run("sluice", "run", "--grace", "100ms", "--", "sh", "-c", script)
    assert reply.rc == 5
    job = last_job(boxed)
    assert job["attempt"]["killed_leftovers"] == 1
    assert outside(boxed, int(pathlib.Path(path).read_text())) is None


def test_a_killed_supervisor_leaves_nothing(boxed):
    boxed.agent()
    number = boxed.submit("sh", "-c", "setsid sleep 1000 & exec sleep 1000")
    attempt = boxed.job_in(number, "Running")["attempt"]
    group = pathlib.Path(attempt["cgroup"], "cgroup.procs")
    wait_until(lambda: len(group.read_text().split()) >= 3, what="both of its processes")
    pids = [int(pid) for pid in group.read_text().split()]
    os.kill(attempt["supervisor_pid"], signal.SIGKILL)
    boxed.job_in(number, "Failed")
    # the first process of a namespace waits until the machine's own has taken in all others
    wait_until(lambda: not any(alive(pid) for pid in pids), what="the end of its processes")


def test_other_users_gain_no_privileges(boxed):
    boxed.agent()
    how = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    for level, expected in (("best", "1"), ("env", "1"), ("none", "0")):
        reply = boxed.run("sluice", "run", "--isolation", level, "--", "grep", "NoNewPrivs", "/proc/self/status",
                          cwd="/", **how).ok()
        assert reply.out.split()[1] == expected, (level, reply)
    assert last_job(boxed)["attempt"]["isolation"] == "none"


# -- limits


def limits_of(machine, number):
    attempt = machine.job_in(number, "Running")["attempt"]
    return attempt["isolation_reason"] or "", attempt


def test_out_of_memory_is_told(boxed):
    boxed.agent()
    script = "x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1"
    number = boxed.submit("sleep", "1000", options=("--mem", "64Mi"))
    why, _ = limits_of(boxed, number)
    if "memory counted only" in why:
        pytest.skip(why)
    reply = boxed.run("sluice", "run", "--mem", "64Mi", "--", "python3", "-c", script)
    job = last_job(boxed)
    assert reply.rc == 137 and job["reason"].startswith("OOMKilled"), (reply, job)
    reply = boxed.run("sluice", "run", "--mem", "1Gi", "--", "python3", "-c", script).ok()
    # a worker that is killed, and a command that gives up for it
    reply = boxed.run("sluice", "run", "--mem", "64Mi", "--", "python3", "-c",
                      f"import subprocess, sys\nsys.exit(3 if subprocess.run([sys.executable, '-c', {script!r}])"
                      ".returncode else 0)")
    job = last_job(boxed)
    assert reply.rc in (3, 137) and job["reason"].startswith("OOMKilled"), (reply, job)


def test_processes_are_limited(boxed):
    boxed.agent()
    reply = boxed.run("sluice", "run", "--pids", "20", "--", "true")
    if reply.rc == 125:
        pytest.skip(reply.err)
    script = "import os, time\nn = 0\ntry:\n  while n < 100:\n    if os.fork() == 0: time.sleep(1000)\n    n += 1\n" \
             "except BlockingIOError: pass\nprint(n)\nos._exit(0)"
    reply = boxed.run("sluice", "run", "--pids", "20", "--grace", "0s", "--", "python3", "-c", script).ok()
    assert 10 < int(reply.out) < 20, reply


def test_a_number_of_processes_that_cannot_be_had_is_no_endless_one(boxed):
    """What the kernel refuses, and where there is no control group, is told instead of the command being run."""
    boxed.agent()
    for how in ({}, {"user": 61001, "group": 61001, "extra_groups": []}):
        reply = boxed.run("sluice", "run", "--pids", 2 ** 32 - 1, "--", "echo", "it runs", cwd="/", **how)
        assert reply.rc == 125 and "it runs" not in reply.out and "--pids" in reply.err, reply


def test_processors_are_limited(boxed):
    boxed.agent()
    number = boxed.submit("sleep", "1000", options=("--cpus", "0.2"))
    why, _ = limits_of(boxed, number)
    if "processors counted only" in why:
        pytest.skip(why)
    script = "import time\nwhile time.process_time() < 0.2: pass\nprint(time.monotonic() - float(__import__('sys').argv[1]))"
    reply = boxed.run("sluice", "run", "--cpus", "0.2", "--", "sh", "-c",
                      f'exec python3 -c "{script}" $(cut -d" " -f1 /proc/uptime)').ok()
    assert float(reply.out) > 0.5, reply  # 0.2 s of a fifth of a processor


def test_a_fork_bomb_ends(boxed):
    boxed.agent()
    bomb = "import os, time\nfor i in range(1200):\n  if os.fork() == 0:\n    os.setsid(); time.sleep(1000)\n" \
           f"open('{boxed.made}/full', 'w').close()\ntime.sleep(1000)"
    number = boxed.submit("python3", "-c", bomb)
    wait_until(pathlib.Path(boxed.made, "full").exists, what="1200 processes")
    attempt = boxed.job(number)["attempt"]
    procs = pathlib.Path(attempt["cgroup"], "cgroup.procs")
    assert len(procs.read_text().split()) > 1200
    boxed.run("sluice", "cancel", "--now", number).ok()
    job = boxed.job_in(number, "Cancelled")
    assert not procs.exists() and job["reason"].startswith("User")


# -- what runs after the job



def probe_at_end(machine, *options, rc=0, **how):
    """What the command of --on-end may open."""
    script = pathlib.Path(machine.made, "probe.py")
    script.write_text(PROBE)
    command = f"python3 {script} {machine.path('dev')} {machine.outsider} {machine.made} >{machine.made}/told.t 2>&1; " \
              f"mv {machine.made}/told.t {machine.made}/told"
    reply = machine.run("sluice", "run", "--gpus", "1", *options, "--on-end", command, "--", "true", **how)
    assert reply.rc == rc, reply
    return pathlib.Path(machine.made, "told")


def expect_no_gpu(told):
    for prefix in ("", "self/", "outside/"):
        assert not OPENS & set(nodes_of(told, prefix).values()), (prefix, told)
    assert told["mknod"] != 0, told


def test_what_runs_at_the_end_has_landlock_as_well(boxed):
    needs_landlock()
    boxed.agent()
    told = probe_at_end(boxed, "--isolation", "landlock")
    expect_denied(probed(told.read_text()), granted_minor(boxed), errno.EACCES)


def test_what_runs_at_the_end_has_the_rules_of_cgroup_v1(boxed):
    if not os.path.isdir("/sys/fs/cgroup/devices"):
        pytest.skip("no cgroup v1 devices here")
    boxed.agent(preexec_fn=denied_call(syscall_number("bpf")))
    told = probe_at_end(boxed, "--isolation", "cgroup")
    assert last_job(boxed)["attempt"]["isolation"] == "cgroup1"
    expect_denied(probed(told.read_text()), granted_minor(boxed), errno.EPERM)


def test_what_runs_at_the_end_has_the_rules_of_cgroup_v2(boxed):
    boxed.agent()
    told = probe_at_end(boxed, "--isolation", "cgroup")
    if last_job(boxed)["attempt"]["isolation"] != "cgroup2":
        pytest.skip("no cgroup v2 here")
    expect_denied(probed(told.read_text()), granted_minor(boxed), errno.EPERM)


def test_a_job_that_is_refused_runs_nothing_at_its_end(boxed):
    boxed.agent()
    told = probe_at_end(boxed, "--isolation", "container", rc=125)
    assert not told.exists()
