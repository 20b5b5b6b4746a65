# SPDX-License-Identifier: Apache-2.0
"""Today's agent takes over what each release has written (tools/release-fixture): its jobs, those that run under
its own supervisor, its configuration. Paths of the kept files are written over by ones of the same length.

The jobs are root's. An ordinary user is root of a user namespace here; where the kernel permits none it skips.
"""

import ctypes
import fcntl
import importlib.machinery
import importlib.util
import json
import lzma
import os
import pathlib
import platform
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

import pytest

from conftest import BUILD, ROOT, SLUICE, Machine, wait_until

KEPT = ROOT / "tests" / "fixtures" / "releases"
RELEASES = sorted(path for path in KEPT.iterdir() if path.is_dir())
FINAL = ("Succeeded", "Failed", "Cancelled")
EARLIER = "00000000-0000-4000-8000-000000000000"
CLONE_NEWUSER = 0x10000000
IS_ROOT = os.geteuid() == 0
# What is said of a job that nobody touched, and may be otherwise a minute later or in another release.
CHANGES = {"position", "reason_text", "reason"}
# Whose supervisors cannot move the limit of a job that runs.
WITHOUT_LIMITS = {"0.1.0"}
# (release, setting): why it does not mean what it meant. A setting that only got another name belongs here, too.
OTHERWISE = {}

# The supervisor's descriptors, as its release had them; Python's own must not lie there meanwhile.
START = "import os, sys; [os.dup2(20 + i, 3 + i) for i in range(3)]; os.closerange(6, 64); os.execv(sys.argv[1], sys.argv[1:])"


def tool():
    path = str(ROOT / "tools" / "release-fixture")
    loader = importlib.machinery.SourceFileLoader("release_fixture", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("release_fixture", loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def as_root():
    if IS_ROOT:
        return
    uid, gid = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        pytest.skip("the kept jobs are root's, and this kernel permits an ordinary user no user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        pathlib.Path("/proc/self", name).write_text(text, encoding="ascii")


class Taken(Machine):
    """A machine on which a release was killed."""

    def __init__(self, release):
        self.release = release
        self.kept = json.loads((release / "jobs.json").read_text(encoding="utf-8"))
        self.jobs = {job["name"]: job for job in self.kept["jobs"]}
        was = pathlib.PurePath(self.kept["directory"])
        top = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else "/tmp"
        super().__init__(tempfile.mkdtemp(prefix="sluice-release-".ljust(len(str(was)) - len(top) - 9, "-"), dir=top))
        os.chmod(self.directory, 0o755)
        self.was = str(was)
        assert len(str(self.directory)) == len(self.was)
        self.programs = pathlib.Path(tempfile.mkdtemp(prefix="sluice-release-programs-"))

    def lay_down(self):
        # a package's programs are today's after an upgrade; a supervisor that lives calls them by their paths
        (self.directory / "bin").mkdir()
        (self.directory / "libexec").symlink_to(BUILD / "src" / "libexec")
        self.start(self.release / "machine.profile")
        with lzma.open(self.release / "state.tar.xz") as packed, tarfile.open(fileobj=packed) as tar:
            tar.extractall(self.directory)
        for path in self.root.joinpath("run").rglob("*"):
            if path.is_file() and not path.name.startswith("queue.db"):
                path.write_bytes(self.moved(path.read_bytes()))

    def moved(self, text):
        return text.replace(self.was.encode(), str(self.directory).encode())

    def serve(self, **how):
        config = self.directory / "config.yaml"
        config.write_text((self.release / "config" / "agent.yaml").read_text(encoding="utf-8"), encoding="utf-8")
        return self.agent("--config", config, **how)

    def told(self, number):
        """What is said of a job; of an array, of each of its members."""
        said = self.job(number)
        return said.get("jobs", [said])

    # -- jobs that run

    def supervisor(self):
        """The one of that release; a skip where this machine cannot execute it."""
        packed = self.release / f"sluice-supervise.{platform.machine()}.xz"
        if not packed.exists():
            pytest.skip(f"{self.release.name} has kept no supervisor for {platform.machine()}")
        program = self.programs / "sluice-supervise"
        program.write_bytes(lzma.decompress(packed.read_bytes()))
        program.chmod(0o755)
        said = subprocess.run([program], capture_output=True, text=True, check=False).stderr
        if "GLIBC_" in said:
            pytest.skip(f"the kept supervisor needs a later C library: {said.strip()}")
        return program

    def supervise(self, program, launch):
        """As the agent of that release has started it: descriptors, arguments and the launch, byte for byte."""
        number, attempt = launch.name.split(".")
        folder = self.state_dir / "j" / number
        (folder / f"claim.{attempt}").unlink()
        (folder / f"out.{attempt}").write_bytes(b"")
        for made in (self.state_dir / "workers").glob(f"{launch.name}-*"):
            shutil.rmtree(made)
        memory = os.memfd_create("sluice-launch", os.MFD_ALLOW_SEALING)
        os.write(memory, self.moved(launch.read_bytes()))
        os.lseek(memory, 0, os.SEEK_SET)
        lock = os.open(folder / "lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        given = [os.dup2(fd, 20 + place) for place, fd in enumerate((lock, os.open(folder, os.O_RDONLY), memory))]
        with open(folder / "supervisor", "ab") as log:
            child = subprocess.Popen([sys.executable, "-c", START, program, "--job", number, "--attempt", attempt], env=self.env,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, pass_fds=given, start_new_session=True)
        for fd in (lock, memory, *given):
            os.close(fd)
        self.children.append(child)
        wait_until(lambda: (folder / f"claim.{attempt}").exists() or child.poll() is not None, what=f"the claim of job {number}")
        assert child.poll() is None, self.gone(folder, attempt)
        return int(number), child.pid

    @staticmethod
    def gone(folder, attempt):
        return "".join((folder / name).read_text() for name in ("supervisor", f"result.{attempt}") if (folder / name).exists())

    def stop(self):
        super().stop()
        for launch in (self.release / "launch").iterdir():
            tool().end_instance(launch.read_bytes())
        shutil.rmtree(self.programs, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def taken(request):
    machine = Taken(request.param)
    try:
        machine.lay_down()
        yield machine
    finally:
        machine.stop()


def same(was, now, path=""):
    """Where what is said now differs from what was said; keys that came later are no difference."""
    if isinstance(was, dict) and isinstance(now, dict):
        return [line for key, value in was.items() if key not in CHANGES
                for line in (same(value, now[key], f"{path}.{key}") if key in now else [f"{path}.{key} is gone"])]
    return [] if was == now else [f"{path}: {was} has become {now}"]


def moved(taken, said):
    return json.loads(taken.moved(json.dumps(said).encode()))


def test_no_job_is_lost_or_changed(taken):
    taken.serve()
    listed = sorted(job["id"] for job in taken.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"])
    assert listed == taken.kept["listed"]
    for name in ("succeeded", "failed", "timed-out", "stays-held"):
        job = taken.jobs[name]
        assert same(moved(taken, job["said"]), taken.job(job["id"])) == [], name
    for job in taken.jobs.values():
        if job["then"] and "state" in job["said"]:
            now = taken.job(job["id"])
            fields = {key: value for key, value in job["said"].items() if key not in ("state", "exit_code", "signal", "attempt")}
            assert same(moved(taken, fields), now) == [], job["name"]
    for name, text in (("succeeded", "done\n"), ("told-before", "runs\ntold\n")):
        assert taken.run("sluice", "logs", taken.jobs[name]["id"]).ok().out == text
    assert taken.submit("true") > max(listed)


@pytest.mark.skipif(not IS_ROOT, reason="the supervisor of root's jobs takes on groups, which a namespace of an ordinary user does not permit")
def test_jobs_that_run_are_adopted_and_the_others_follow(taken):
    program = taken.supervisor()
    supervisors = dict(taken.supervise(program, launch) for launch in sorted((taken.release / "launch").iterdir()))
    taken.serve()
    held = []
    for number, pid in supervisors.items():
        job = taken.job_in(number, "Running")
        assert job["attempt"]["number"] == 1 and job["attempt"]["supervisor_pid"] == pid
        held += [gpu["uuid"] for gpu in job["attempt"]["gpus"]]
    wide = taken.job(taken.jobs["wide"]["id"])
    assert held and wide["state"] == "Pending", wide  # no GPU of theirs is given away

    for job in taken.jobs.values():
        then = job["then"] or {}
        if then.get("do") == "signal":
            wait_until(lambda: (taken.state_dir / "j" / str(job["id"]) / "out.1").read_text() == "runs\n")  # pylint: disable=W0640
            os.kill(taken.job(job["id"])["attempt"]["pid"], signal.SIGUSR1)
        elif then.get("do") == "cancel":
            taken.run("sluice", "cancel", job["id"]).ok()
        elif then.get("do") == "release":
            taken.run("sluice", "jobs", "release", job["id"]).ok()
    become(taken, taken.jobs.values())
    assert taken.run("sluice", "logs", taken.jobs["told"]["id"]).ok().out == "runs\ntold\n"


@pytest.mark.skipif(not IS_ROOT, reason="as above")
def test_what_a_supervisor_cannot_do_is_refused(taken):
    program = taken.supervisor()
    number, pid = taken.supervise(program, sorted((taken.release / "launch").iterdir())[0])
    taken.serve()
    taken.job_in(number, "Running")
    reply = taken.run("sluice", "jobs", "set", "--time", "1s", number)
    if taken.release.name in WITHOUT_LIMITS:
        assert reply.rc == 64 and (f"job {number} was started by an earlier release of sluice, whose supervisor (pid {pid}) "
                                  "cannot move a limit") in reply.err, reply
        taken.run("sluice", "cancel", number).ok()
        taken.job_in(number, "Cancelled")
    else:
        assert taken.job_in(number, "Failed")["reason"] == "DeadlineExceeded", reply


def test_jobs_whose_supervisor_is_gone_are_told_apart(taken):
    """As after a reboot: only what is on the disk is left. The claims say in which life of the machine they were made."""
    for claim in taken.state_dir.glob("j/*/claim.*"):
        was = claim.read_bytes()
        claim.write_bytes(was.replace(taken.kept["boot"].encode(), EARLIER.encode()))
        assert claim.read_bytes() != was
    taken.serve()
    become(taken, [taken.jobs["told-before"], taken.jobs["lost"]])
    assert taken.job(taken.jobs["lost"]["id"])["reason"] == "NodeRebooted"
    for launch in (taken.release / "launch").iterdir():
        job = taken.job_in(int(launch.name.split(".")[0]), "Failed")
        assert (job["reason"], job["attempt"]["number"]) == ("NodeRebooted", 1), job


def become(taken, jobs):
    for job in jobs:
        for key, value in (job["then"] or {}).items():
            if key == "do":
                continue
            wait_until(lambda: all(said["state"] in FINAL for said in taken.told(job["id"])), what=f"the end of {job['name']}")  # pylint: disable=W0640
            assert {said[key] for said in taken.told(job["id"])} == {value}, taken.told(job["id"])


def tables(path):
    """The version of a store, and its tables."""
    database = sqlite3.connect(path)
    found = (database.execute("PRAGMA user_version").fetchone()[0],
             sorted(str(row[0]) for row in database.execute("SELECT sql FROM sqlite_master")))
    database.close()
    return found


def test_a_store_with_other_tables_has_another_version(taken, machine):
    """By which the release before knows that it must leave it alone."""
    machine.agent()
    machine.run("sluice", "agent", "stop").ok()
    machine.service.wait()
    was, now = tables(taken.state_dir / "queue.db"), tables(machine.state_dir / "queue.db")
    assert now[0] > was[0] or now == was


def test_a_later_store_is_refused_and_stays(taken):
    taken.serve()
    taken.run("sluice", "agent", "stop").ok()
    taken.service.wait()
    store = taken.state_dir / "queue.db"
    later = tables(store)[0] + 1
    database = sqlite3.connect(store)
    database.execute(f"PRAGMA user_version = {later}")
    database.close()
    before = store.read_bytes()
    reply = taken.run("sluice", "agent", "--log-format", "text")
    assert reply.rc != 0 and f"queue.db' is of version {later}, which a later release of sluice has made" in reply.err, reply
    assert store.read_bytes() == before


@pytest.mark.parametrize("file", [file for release in RELEASES for file in sorted((release / "config").glob("*.yaml"))],
                         ids=lambda file: f"{file.parent.parent.name}-{file.name}")
def test_a_configuration_means_what_it_meant(file):
    checked = subprocess.run([SLUICE, "config", "check", "--strict", file], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked
    shown = subprocess.run([SLUICE, "config", "show", "--output", "json", file], env=tool().CLEAN, capture_output=True, text=True, check=True)
    now = {entry["path"]: entry["value"] for entry in json.loads(shown.stdout)["settings"]}
    was = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    release = file.parent.parent.name
    assert [line for line in same(was, now) if (release, line.split(":")[0].split(" ")[0].lstrip(".")) not in OTHERWISE] == []
