# SPDX-License-Identifier: Apache-2.0
"""`sluice run` on a simulated machine: what a job gets, who waits for whom, and who dies."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

from conftest import DEADLINE_S, SLUICE, alive, environments, has_entry, outside, wait_until

PRINT_GPUS = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
KEY = "01234567-89ab-4cde-8f01-23456789abcd"


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


class Job:
    """A `sluice run` in the background; its command writes its pid into a file and goes on."""

    count = 0

    def __init__(self, machine, *options, script="exec sleep 1000", before="", **popen):
        Job.count += 1
        self.machine = machine
        self.file = machine.directory / f"job-{Job.count}"
        self.name = f"job-{Job.count}"
        if "--name" not in options:
            options = (*options, "--name", self.name)
        else:
            self.name = options[options.index("--name") + 1]
        self.process = machine.spawn(
            "sluice", "run", *options, "--", "sh", "-c",
            f"{before}echo $$ $CUDA_VISIBLE_DEVICES >{self.file}.tmp; mv {self.file}.tmp {self.file}; "
            f"{script}",
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **popen)

    def started(self):
        wait_until(self.file.exists, what="the start of the job")
        words = self.file.read_text().split()
        self.pid = outside(self.machine, int(words[0]))
        self.gpus = words[1].split(",") if len(words) > 1 else []
        return self

    def told(self):
        """What the agent says of it; None before it was accepted."""
        listed = self.machine.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"]
        found = [job for job in listed if job["name"] == self.name]
        if not found:
            return None
        return self.machine.run("sluice", "jobs", found[-1]["id"], "--output", "json").ok().json

    def wait_for(self, state):
        wait_until(lambda: (self.told() or {}).get("state") == state,
                   what=f"{state} of {self.name}")
        return self.told()

    def line(self):
        return self.process.stderr.readline().strip()

    def end(self):
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out, err


def gated(machine, script):
    """A file, and a script that waits until it is there."""
    gate = machine.directory / "gate"
    return gate, f"while ! test -e {gate}; do sleep 0.02; done; {script}"


def all_free(machine, count=8):
    return machine.run("sluice", "run", "--gpus", count, "--no-wait", "--", "true").rc == 0


@pytest.fixture
def dgx(machine):
    machine.start("dgx-a100")
    machine.agent()
    yield machine


# -- what the job gets


def test_job_finds_its_gpus_and_nothing_else(dgx):
    reply = dgx.run("sluice", "run", "--gpus", "2", "--env", "GIVEN=a=b", "--", "env", "-0", env={
        "CUDA_VISIBLE_DEVICES": "7", "NVIDIA_VISIBLE_DEVICES": "all", "OMPI_COMM_WORLD_RANK": "3",
        "SLUICE_GPUS": "x", "KEPT": "yes"}).ok()
    env = dict(entry.split("=", 1) for entry in reply.out.split("\0") if entry)
    uuids = env["CUDA_VISIBLE_DEVICES"].split(",")
    known = {gpu["uuid"] for gpu in dgx.show()["gpus"]}
    assert len(set(uuids)) == 2 and set(uuids) <= known
    assert env["NVIDIA_VISIBLE_DEVICES"] == env["SLUICE_GPUS"] == env["CUDA_VISIBLE_DEVICES"]
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID" and env["KEPT"] == "yes"
    assert env["GIVEN"] == "a=b"
    assert env["SLUICE_JOB_NAME"] == "env" and env["SLUICE_JOB_ID"].isdigit()
    assert "OMPI_COMM_WORLD_RANK" not in env


def test_cpu_job_sees_no_gpu(served):
    reply = served.run("sluice", "run", "--gpus", "0", "--", "sh", "-c",
                       'echo "[${CUDA_VISIBLE_DEVICES-unset}] $NVIDIA_VISIBLE_DEVICES"').ok()
    assert reply.out == "[] void\n"


def test_gpu_ids_are_exactly_those(dgx):
    uuids = [gpu["uuid"] for gpu in dgx.show()["gpus"]]
    reply = dgx.run("sluice", "run", "--gpu-ids", f"5,{uuids[2]}", "--", *PRINT_GPUS).ok()
    assert sorted(reply.out.strip().split(",")) == sorted([uuids[5], uuids[2]])


def test_streams_directory_and_limits_are_the_callers(dgx):
    reply = dgx.run("sluice", "run", "--", "sh", "-c", "pwd; cat; umask; ulimit -n; echo oops >&2",
                    input="not read\n", cwd="/usr", umask=0o027,
                    preexec_fn=lambda: __import__("resource").setrlimit(7, (77, 99))).ok()
    assert reply.out == "/usr\n0027\n77\n" and reply.err.endswith("\noops\n")
    reply = dgx.run("sluice", "run", "--cwd", "lib", "--", "sh", "-c", "pwd; echo $PWD",
                    cwd="/usr").ok()
    assert reply.out.splitlines()[1] == "/usr/lib"


def test_report_says_what_ran_where(dgx):
    report = dgx.directory / "report"
    reply = dgx.run("sluice", "run", "--gpus", "2", "--name", "my-job", "--report", report, "-v",
                    "--", "sh", "-c", "exit 5")
    told = json.loads(report.read_text())
    assert reply.rc == told["exit_code"] == 5 and told["name"] == "my-job"
    assert told["simulated"] is True and "simulated GPU" in reply.err
    attempt = told["attempt"]
    assert len(attempt["gpus"]) == 2 and attempt["started_unix"] <= attempt["ended_unix"]
    assert told["command"] == ["sh", "-c", "exit 5"] and told["signal"] is None
    assert told["uid"] == os.geteuid() and attempt["isolation"] in ("cgroup2", "cgroup1", "landlock", "env")


def test_the_agent_that_it_starts_has_a_name(dgx):
    """It and its probe are started through /proc/self/exe, which ps would show as 'exe'."""
    dgx.run("sluice", "run", "-q", "--", "true").ok()
    agent = dgx.run("sluice", "agent", "status", "--output", "json").json["pid"]

    def names():
        children = read(pathlib.Path(f"/proc/{agent}/task/{agent}/children")).split()
        return {read(pathlib.Path(f"/proc/{int(pid)}/comm")) for pid in [agent, *children]}

    wait_until(lambda: names() == {b"sluice\n"}, what="the agent and its probe are called sluice")


def test_many_bytes_come_as_they_are(served):
    """100 MB on one stream, some on the other: nothing lost, doubled or mixed."""
    script = ("dd if=/dev/urandom bs=1M count=100 2>/dev/null | tee $1/copy; "
              "yes error | head -c 1000000 >&2")
    process = served.spawn("sluice", "run", "-q", "--gpus", "0", "--", "sh", "-c", script, "sh",
                           served.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    out = hashlib.sha256()
    while block := process.stdout.buffer.read(1 << 20):
        out.update(block)
    reader.join()
    assert process.wait(timeout=DEADLINE_S) == 0
    assert out.digest() == hashlib.sha256((served.directory / "copy").read_bytes()).digest()
    assert errors[0] == "error\n" * 166666 + "erro"


def test_output_comes_at_once(served):
    fifo = served.directory / "fifo"
    os.mkfifo(fifo)
    process = served.spawn("sluice", "run", "--gpus", "0", "--", "sh", "-c",
                           f"while read line; do echo $line; done <{fifo}", stdout=subprocess.PIPE)
    delays = []
    with open(fifo, "w", encoding="ascii", buffering=1) as pipe:  # open for good: nothing is lost
        for number in range(50):
            pipe.write(f"{number}\n")
            begin = time.monotonic()
            assert process.stdout.readline() == f"{number}\n"
            delays.append(time.monotonic() - begin)
    # The fastest: this machine may be busy. What is looked for in turns is always late.
    assert min(delays) < 0.05, delays


# -- exit codes


@pytest.mark.parametrize("script,code", [
    ("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)])
def test_exit_code_is_the_commands(dgx, script, code):
    assert dgx.run("sluice", "run", "--", "sh", "-c", script).rc == code


def test_exit_code_and_report_without_anybody_who_reads(served):
    read_end, write_end = os.pipe()
    os.close(read_end)
    report = served.directory / "report"
    job = served.spawn("sluice", "run", "--gpus", "0", "-v", "--report", report, "--",
                       "sh", "-c", "echo text; echo text >&2; exit 7", stdout=write_end,
                       stderr=write_end)
    os.close(write_end)
    assert job.wait(timeout=DEADLINE_S) == 7
    assert json.loads(report.read_text())["exit_code"] == 7


@pytest.mark.parametrize("option", ["--report", "--output"])
def test_files_that_cannot_be_written_are_refused_before_it_runs(served, option):
    ran = served.directory / "ran"
    for path in ("/nonexistent/file", served.directory, "/dev/full", served.directory / "f" / "file"):
        reply = served.run("sluice", "run", "--gpus", "0", option, path, "--", "touch", ran)
        assert reply.rc == 64 and f"{option} '{path}'" in reply.err, reply
    assert not ran.exists()


def test_a_report_that_is_not_written_is_no_success(served):
    gone = served.directory / "gone"
    for script, code in ((f"rmdir {gone}", 73), (f"rmdir {gone}; exit 5", 5)):
        gone.mkdir()
        reply = served.run("sluice", "run", "--gpus", "0", "--report", gone / "report", "--", "sh", "-c", script)
        assert reply.rc == code and "the report was not written" in reply.err, reply


def test_closed_outputs_are_no_success_and_nothing_else_is_written_there(served):
    for command, code in ((["run", "--gpus", "0", "--", "echo", "text"], 73), (["jobs"], 1), (["--version"], 1)):
        for how in (">&-", ">/dev/full"):
            done = served.run("sh", "-c", f'exec "$@" {how}', "sh", SLUICE, *command, stdin=subprocess.DEVNULL)
            assert done.rc == code and "cannot write the output: " in done.err, (how, done)
    done = served.run("sh", "-c", "exec sluice run -d -- true >/dev/full")
    assert done.rc == 73 and "was accepted, but its number cannot be written" in done.err, done
    # Nor does the lowest number that is free become a database's.
    done = served.run("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", SLUICE, "run", "--gpus", "0", "--", "echo", "text")
    assert done.rc == 73, done


def test_input_that_no_job_gets_is_said(served):
    path = served.directory / "input"
    path.write_text("one\n")
    note = "a job's input is empty"

    def run(stdin, *options):
        reply = served.run("sluice", "run", "--gpus", "0", *options, "--", "cat", stdin=stdin).ok()
        return note in reply.err

    with subprocess.Popen(["echo", "x"], stdout=subprocess.PIPE) as echo:
        echo.wait()
        assert run(echo.stdout)
    reading, writing = os.pipe()  # open and silent, as that of a CI runner
    assert not run(reading)
    os.close(reading)
    os.close(writing)
    with open(path, "rb") as file:
        assert run(file) and run(file, "--detach") and not run(file, "--quiet")
        file.seek(0, os.SEEK_END)
        assert not run(file)
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as nothing:
        nothing.wait()
        assert not run(nothing.stdout)
    assert not run(subprocess.DEVNULL)


def test_jobs_of_a_service_that_has_ended_by_itself(machine):
    assert machine.run("sluice", "run", "--gpus", "0", "--name", "mine", "--", "sh", "-c", "exit 3").rc == 3
    machine.kill_service()
    assert machine.run("sluice", "jobs", "--no-start").rc == 69
    for command, code in ((["jobs", "--all"], 0), (["jobs", "1"], 0), (["jobs", "wait", "1"], 3),
                          (["jobs", "usage"], 0), (["cancel", "1"], 0), (["attach", "1"], 64)):
        reply = machine.run("sluice", *command)
        assert reply.rc == code and "starting one in the background" in reply.err, reply
        assert "mine" in reply.out or command[-1] not in ("--all",), reply
        machine.kill_service()
    assert machine.run("sluice", "jobs", "--socket", machine.directory / "none").rc == 69

    # One that somebody has as a service, and has stopped, stays stopped.
    machine.agent()
    machine.service.terminate()
    machine.service.wait()
    for command in (["jobs"], ["jobs", "1"], ["cancel", "1"]):
        assert machine.run("sluice", *command).rc == 69


def test_a_dry_run_starts_no_service(machine):
    machine.env["HOME"] = str(machine.directory)
    for command in (["--", "true"], ["--lines", "-"]):
        reply = machine.run("sluice", "run", "--gpus", "0", "--dry-run", *command, input="true\n")
        assert reply.rc == 69 and "no agent answers" in reply.err and "--dry-run" in reply.err, reply
    assert not machine.state_dir.exists() and not machine.runtime_dir.exists()


def test_report_replaces_nothing_but_a_file(served):
    link = served.directory / "link"
    link.symlink_to(served.directory / "target")
    fifo = served.directory / "fifo"
    os.mkfifo(fifo)
    for path in (link, fifo, served.directory):
        reply = served.run("sluice", "run", "--gpus", "0", "--report", path, "--", "touch",
                           served.directory / "ran")
        assert reply.rc == 64 and str(path) in reply.err
    assert link.is_symlink() and fifo.is_fifo()
    assert not (served.directory / "ran").exists()


def test_commands_that_cannot_run(dgx):
    reply = dgx.run("sluice", "run", "--", "no-such-command")
    assert reply.rc == 127 and "no-such-command" in reply.err
    reply = dgx.run("sluice", "run", "--", "/etc/passwd")
    assert reply.rc == 126 and "/etc/passwd" in reply.err
    # What is no program for this processor is not read as a shell's script.
    for content in (b"\x7fELF\2\1\1\n(exit 9)\n", b"a\0b\nexit 9\n"):
        broken = dgx.directory / "broken"
        broken.write_bytes(content)
        broken.chmod(0o755)
        for command in (["run", "--"], ["sim", "exec", "--root", dgx.root, "--state", dgx.state, "--"]):
            reply = dgx.run("sluice", *command, broken)
            assert reply.rc == 126 and "Exec format error" in reply.err, reply
    script = dgx.directory / "script"
    script.write_text("exit $(($1 + 1))\n")
    script.chmod(0o755)
    assert dgx.run("sluice", "run", "--", script, 7).rc == 8
    reply = dgx.run("sluice", "run", "--cwd", "/no/such", "--", "true")
    assert reply.rc == 125 and "/no/such" in reply.err
    assert all_free(dgx)


@pytest.mark.parametrize("options", [
    ["--gpus", "-1"], ["--gpus", "x"], ["--gpu-ids", "x"], ["--gpu-ids", "9"], ["--gpu-ids", "1,1"], ["--gpu-ids", ""], ["--gpu-ids", "0", "--gpus", "1"],
    ["--name", "Not_A_Label"], ["--name", ""], ["--no-wait", "--wait-timeout", "1s"], ["--share=2"],
    ["--share=3/2"], ["--env", "x"], ["--key", "x"], ["--nope"], ["--mem", "16"]])
def test_wrong_command_lines(dgx, options):
    reply = dgx.run("sluice", "run", *options, "--", "echo", "ran")
    hint = "write 16M or 16G" if "--mem" in options else ""
    assert reply.rc == 64 and "ran" not in reply.out and len(reply.err) > 10 and hint in reply.err, reply


def test_no_command_at_all(machine):
    assert machine.run("sluice", "run").rc == 64


def test_more_gpus_than_there_are(dgx):
    reply = dgx.run("sluice", "run", "--gpus", "9", "--", "true")
    assert reply.rc == 78 and "9 GPUs" in reply.err and "has 8" in reply.err
    reply = dgx.run("sluice", "run", "--share", "--", "true")
    assert reply.rc == 78 and "shared" in reply.err


def test_an_environment_that_is_too_large(served):
    env = {f"LARGE_{number}": "x" * 100000 for number in range(12)}
    reply = served.run("sluice", "run", "--gpus", "0", "--", "true", env=env)
    assert reply.rc == 64 and "1048576 are allowed" in reply.err


def test_no_wait_and_timeout(dgx):
    Job(dgx, "--gpus", "7", "--name", "holder").started()
    reply = dgx.run("sluice", "run", "--gpus", "2", "--no-wait", "--", "true")
    assert reply.rc == 75 and "holder" in reply.err or "job 1" in reply.err
    reply = dgx.run("sluice", "run", "--gpus", "2", "--wait-timeout", "0.2s", "--", "true")
    assert reply.rc == 124 and "WaitingForGPU (have 1, need 2" in reply.err and "gave up waiting, job " in reply.err
    reply = dgx.run("sluice", "run", "--hold", "--wait-timeout", "0.2s", "--", "true", timeout=10)
    assert reply.rc == 124 and "gave up waiting, job " in reply.err
    assert dgx.run("sluice", "run", "--gpus", "1", "--no-wait", "--", "true").rc == 0


def test_a_job_that_runs_too_long(dgx):
    reply = dgx.run("sluice", "run", "--time", "300ms", "--grace", "200ms", "--", "sh", "-c",
                    "trap '' TERM; while :; do sleep 0.1; done")
    assert reply.rc == 124 and "DeadlineExceeded" in reply.err
    assert all_free(dgx)


def test_dry_run(dgx):
    reply = dgx.run("sluice", "run", "--gpus", "3", "--dry-run", "--", "touch",
                    dgx.directory / "ran").ok()
    assert "start now, on 3 GPUs" in reply.out
    Job(dgx, "--gpus", "7").started()
    reply = dgx.run("sluice", "run", "--gpus", "3", "--dry-run", "--", "true").ok()
    assert "would wait: WaitingForGPU (have 1" in reply.out
    assert dgx.run("sluice", "run", "--gpus", "9", "--dry-run", "--", "true").rc == 78
    assert not (dgx.directory / "ran").exists()
    assert len(dgx.run("sluice", "jobs", "-o", "json").json["jobs"]) == 1


# -- waiting


def test_waits_with_a_reason_and_is_woken(dgx):
    holder = Job(dgx, "--gpus", "8", "--name", "train").started()
    waiter = Job(dgx, "--gpus", "3", script="exit 4")
    line = waiter.line()
    assert "waits: WaitingForGPU (have 0, need 3; " in line and "job 1" in line
    dgx.run("sluice", "cancel", "1").ok()
    assert holder.end()[0] == 143
    assert waiter.end()[0] == 4


def test_times_that_never_come(dgx):
    holder = Job(dgx, "--gpus", "8", script="sleep 0.3").started()
    reply = dgx.run("sluice", "run", "--wait-timeout", "18446744073s", "--grace", "18446744073s",
                    "--time", "18446744073s", "--", "sh", "-c", "(sleep 0.3; echo late) & exit 5")
    assert (reply.rc, reply.out) == (5, "late\n")
    assert holder.end()[0] == 0


def test_quiet_says_nothing(dgx):
    holder = Job(dgx, "--gpus", "8", script="sleep 0.3").started()
    reply = dgx.run("sluice", "run", "-q", "--", "true")
    assert reply.rc == 0 and reply.err == ""
    assert holder.end()[0] == 0


def test_first_come_first_served(dgx):
    holder = Job(dgx, "--gpus", "1").started()
    wide = Job(dgx, "--gpus", "8", script="exit 0")
    assert "have 7, need 8" in wide.line()
    narrow = Job(dgx, "--gpus", "1", script="exit 0")
    assert "QueueOrder" in narrow.line()
    elsewhere = dgx.run("sluice", "run", "--gpus", "1", "--no-wait", "--", "true")
    assert elsewhere.rc == 75  # it would overtake
    dgx.run("sluice", "cancel", "1").ok()
    assert wide.end()[0] == 0 and narrow.end()[0] == 0 and holder.end()[0] == 143
    assert wide.file.stat().st_mtime_ns <= narrow.file.stat().st_mtime_ns


def test_many_wide_jobs_do_not_lock_up(dgx):
    jobs = [Job(dgx, "--gpus", str(5 + number % 4), script="exit 0") for number in range(8)]
    for job in jobs:
        code, _, err = job.end()
        assert code == 0, err
    assert all_free(dgx)


def test_a_cpu_job_does_not_wait_for_gpus(dgx):
    Job(dgx, "--gpus", "8").started()
    Job(dgx, "--gpus", "8").line()
    assert dgx.run("sluice", "run", "--gpus", "0", "--no-wait", "--", "true").rc == 0


def test_simulated_machines_do_not_meet(machine_factory):
    machines = [machine_factory() for _ in range(2)]
    for machine in machines:
        machine.start("t4x1", "--seed", "7")
        machine.agent()
    assert len({machine.show()["gpus"][0]["uuid"] for machine in machines}) == 1
    jobs = [Job(machine).started() for machine in machines]
    assert jobs[0].gpus == jobs[1].gpus


# -- which GPUs


SHARED = """\
version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
      devices: ["6", "7"]
"""


def test_shared_gpus(machine):
    machine.start("dgx-a100")
    config = machine.directory / "config.yaml"
    config.write_text(SHARED)
    machine.agent("--config", config)
    uuids = [gpu["uuid"] for gpu in machine.show()["gpus"]]
    one = Job(machine, "--share").started()
    half = Job(machine, "--share=1/2").started()
    assert one.gpus == half.gpus and one.gpus[0] in uuids[6:]  # the fuller one first
    told = half.told()["attempt"]["gpus"][0]
    assert len(told["slots"]) == 2 and told["slot_count"] == 4
    assert not set(told["slots"]) & set(one.told()["attempt"]["gpus"][0]["slots"])
    # nobody gets a shared GPU for himself
    whole = Job(machine, "--gpus", "7").started()
    assert not set(whole.gpus) & set(one.gpus)
    reply = machine.run("sluice", "run", "--share=1/2", "--no-wait", "--", "true")
    assert reply.rc == 75 and "WaitingForGPU" in reply.err
    assert machine.run("sluice", "run", "--share=1/4", "--no-wait", "--", "true").rc == 0


def test_a_lost_gpu_is_not_given(dgx):
    lost = dgx.show()["gpus"][3]["uuid"]
    dgx.sim("inject", "lost", "--gpu", "3")
    wait_until(lambda: dgx.run("sluice", "run", "--gpus", "8", "--no-wait", "--", "true").rc == 75,
               what="the agent's notice of the lost GPU")
    reply = dgx.run("sluice", "run", "--gpus", "7", "--", *PRINT_GPUS).ok()
    assert lost not in reply.out and len(reply.out.split(",")) == 7
    reply = dgx.run("sluice", "run", "--gpus", "8", "--no-wait", "--", "true")
    assert reply.rc == 75 and "GPU 3" in reply.err


def test_a_gpu_in_foreign_use_is_not_given(machine):
    machine.start("t4x1")
    stranger = machine.load(0, "--util", "0.5")
    machine.agent()
    reply = machine.run("sluice", "run", "--no-wait", "--", "true")
    assert reply.rc == 75 and f"pid {stranger.pid}" in reply.err
    assert machine.run("sluice", "run", "--busy-outsiders", "ignore", "--", "true").rc == 0
    waiter = Job(machine, script="exit 0")
    assert "GPUInUseByOthers" in waiter.line()
    stranger.kill()
    stranger.wait()
    assert waiter.end()[0] == 0


def test_nothing_is_given_before_it_is_known_who_uses_it(machine):
    machine.start("t4x1")
    machine.load(0, "--util", "0.5")
    machine.sim("inject", "slow", "nvmlDeviceGetComputeRunningProcesses", "--ms", "1000", "--gpu", "0")
    machine.agent()
    reply = machine.run("sluice", "run", "--no-wait", "--", "true")
    assert reply.rc == 75 and "GPUInUseByOthers" in reply.err, reply


def test_mig_devices_are_units(machine):
    machine.start("a100-mig")
    machine.agent()
    gpus = machine.show()["gpus"]
    split = next(gpu["index"] for gpu in gpus if gpu["mig"])
    reply = machine.run("sluice", "run", "--gpu-ids", split, "--", "true")
    assert reply.rc == 64 and "split into MIG devices" in reply.err
    one = machine.run("sluice", "run", "--gpu-ids", f"{split}:0", "--", *PRINT_GPUS).ok()
    assert one.out.startswith("MIG-")
    if all(gpu["mig"] for gpu in gpus):
        any_one = machine.run("sluice", "run", "--", *PRINT_GPUS).ok()
        assert any_one.out.startswith("MIG-")


# -- who dies, and what then


DAEMON = "( ( setsid sh -c 'echo $$ >{0}.t; mv {0}.t {0}; exec sleep 1000' & ) & ); " \
         "while ! test -e {0}; do sleep 0.01; done; "


def with_daemon(machine, script, *options):
    """A job that daemonises a process; (job, the daemon's pid)."""
    path = machine.directory / "daemon"
    job = Job(machine, "--gpus", "8", *options, script=DAEMON.format(path) + script).started()
    wait_until(path.exists, what="the daemon's start")
    return job, outside(machine, int(path.read_text()))


def wait_until_free(machine, *pids):
    """All GPUs can be had, and not before all of these are dead."""
    def freed():
        if not all_free(machine):
            return False
        assert not any(alive(pid) for pid in pids), "a GPU was given while its job lived"
        return True
    wait_until(freed, what="free GPUs")


def test_what_the_command_leaves_is_ended(dgx):
    job, daemon = with_daemon(dgx, "exit 3", "--grace", "200ms")
    assert job.end()[0] == 3
    assert not alive(daemon) and all_free(dgx)
    assert job.told()["attempt"]["killed_leftovers"] == 1


def test_a_killed_client_does_not_touch_the_job(dgx):
    gate, script = gated(dgx, "exit 9")
    job = Job(dgx, "--gpus", "8", script=script).started()
    job.process.kill()
    assert alive(job.pid) and not all_free(dgx)
    gate.touch()
    assert job.wait_for("Failed")["exit_code"] == 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_client_that_is_asked_to_end(dgx, number):
    job = Job(dgx, "--gpus", "1").started()
    job.process.send_signal(number)
    code, _, err = job.end()
    assert code == 128 + number and "job 1 goes on" in err and "sluice logs" in err
    assert alive(job.pid)
    dgx.run("sluice", "cancel", "--now", "1").ok()


def test_a_killed_supervisor(dgx):
    job, daemon = with_daemon(dgx, "exec sleep 1000")
    os.kill(job.told()["attempt"]["supervisor_pid"], signal.SIGKILL)
    code, _, err = job.end()
    assert code == 1 and "SupervisorLost" in err
    assert not alive(job.pid) and not alive(daemon)
    wait_until_free(dgx)


def test_a_killed_command(dgx):
    job, daemon = with_daemon(dgx, "exec sleep 1000", "--grace", "100ms")
    os.kill(job.pid, signal.SIGKILL)
    assert job.end()[0] == 137
    assert not alive(daemon) and all_free(dgx)


def test_a_stopped_job_keeps_its_gpus(dgx):
    job = Job(dgx, "--gpus", "8", "--grace", "100ms").started()
    os.kill(job.pid, signal.SIGSTOP)
    assert not all_free(dgx)
    dgx.run("sluice", "cancel", "1").ok()
    assert job.end()[0] in (143, 137)
    wait_until_free(dgx, job.pid)


def test_a_small_fork_bomb(dgx):
    bomb = dgx.directory / "bomb"
    bomb.write_text("trap '' TERM HUP INT\nwhile :; do setsid sleep 1000 & sleep 0.05; done\n")
    job = Job(dgx, "--gpus", "8", "--grace", "200ms",
              script=f"for i in 1 2 3 4 5 6 7 8 9 10; do sh {bomb} & done; exit 2").started()
    assert job.end()[0] == 2
    assert all_free(dgx)
    here = os.fsencode(f"SLUICE_SIM_STATE={dgx.state}")
    left = [path for path in environments()
            if b"SLUICE_JOB_ID=" in read(path) and here in read(path)]
    assert left == []


def test_interrupts(dgx):
    loop = "while :; do sleep 0.01; done"
    for _ in range(5):
        job = Job(dgx, "--gpus", "8", before="trap 'exit 42' INT; ", script=loop).started()
        wait_until(lambda job=job: job.told()["state"] == "Running", what="that it runs")
        job.process.send_signal(signal.SIGINT)
        code = job.end()[0]
        if code != 143:  # that is for a client who has not heard yet that it runs: it cancels
            break
    assert code == 42
    stubborn = Job(dgx, "--gpus", "8", before="trap '' INT TERM; ", script=loop).started()

    def interrupted():
        stubborn.process.send_signal(signal.SIGINT)
        return stubborn.process.poll() is not None
    wait_until(interrupted, what="the end after three interrupts")
    assert stubborn.end()[0] == 137
    assert stubborn.told()["state"] == "Cancelled"
    assert all_free(dgx)


def test_an_interrupt_of_one_that_waits(dgx):
    Job(dgx, "--gpus", "8").started()
    waiter = Job(dgx, "--gpus", "1")
    assert "waits" in waiter.line()
    waiter.process.send_signal(signal.SIGINT)
    assert waiter.end()[0] == 130
    assert waiter.told()["state"] == "Cancelled" and not waiter.file.exists()


# -- the agent dies


def test_output_goes_on_while_the_agent_is_killed(machine):
    """Three agents are killed under a job that writes all the time."""
    machine.agent()
    script = "for i in $(seq 1 4000); do echo line $i; echo error $i >&2; sleep 0.0005; done; exit 6"
    process = machine.spawn("sluice", "run", "-q", "--gpus", "0", "--", "sh", "-c", script,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    errors, lines = [], []
    reader = threading.Thread(target=lambda: errors.extend(process.stderr.read().splitlines()))
    reader.start()
    for line in process.stdout:
        lines.append(line.rstrip())
        if len(lines) in (500, 1500, 2500):
            machine.service.kill()
            machine.service.wait()
            machine.agent()
    reader.join()
    assert process.wait(timeout=DEADLINE_S) == 6
    assert lines == [f"line {number}" for number in range(1, 4001)]
    assert errors == [f"error {number}" for number in range(1, 4001)]


def test_an_end_while_the_agent_is_away(machine):
    machine.agent()
    gate, script = gated(machine, "echo late; exit 8")
    job = Job(machine, "--gpus", "0", script=script).started()
    machine.service.kill()
    machine.service.wait()
    gate.touch()
    wait_until(lambda: not alive(job.pid), what="the job's end without an agent")
    assert job.process.poll() is None  # it does not know the exit code yet
    machine.agent()
    code, out, err = job.end()
    assert (code, out) == (8, "late\n") and "the agent is away" in err and "is back" in err


def test_an_agent_that_dies_while_it_is_asked(machine):
    """Whatever the first one did with the submission: one job comes of it."""
    for number in range(5):
        machine.kill_service()  # one that was started beside the last one may have its place
        service = machine.agent()
        service.send_signal(signal.SIGSTOP)
        ran = machine.directory / f"ran-{number}"
        process = machine.spawn("sluice", "run", "--gpus", "0", "--", "sh", "-c",
                                f"echo x >>{ran}; exit 3", stderr=subprocess.PIPE)
        if number:  # connected; else it finds nobody, and starts one beside the next
            # besides the one that listens, and one that was only a look whether it does
            wait_until(lambda: read(pathlib.Path("/proc/net/unix")).count(
                os.fsencode(str(machine.runtime_dir / "agent.sock"))) > 2, what="a connection")
        if number % 2:  # it gets the request, and perhaps answers, before it dies
            service.send_signal(signal.SIGCONT)
            time.sleep(0.002 * number)
        service.kill()
        service.wait()
        try:
            machine.agent()
        except AssertionError as error:  # the one beside it was faster, and will do
            if "another agent" not in str(error):
                raise
        _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 3, err
        assert ran.read_text() == "x\n"


def test_the_same_key_is_the_same_job(served):
    command = ["sluice", "run", "--gpus", "0", "--key", KEY, "--detach", "--", "sh", "-c",
               f"echo x >>{served.directory}/ran"]
    first = served.run(*command).ok().out
    assert served.run(*command).ok().out == first
    served.run("sluice", "jobs", "wait", first.strip()).ok()
    assert served.run(*command).ok().out == first
    assert (served.directory / "ran").read_text() == "x\n"
    other = served.run("sluice", "run", "--gpus", "0", "--key", KEY, "--detach", "--", "false")
    assert other.rc == 65 and KEY in other.err


# -- an agent in the background


def test_one_is_started_in_the_background(machine):
    """By several at once: one agent, all jobs on it."""
    machine.start("t4x1")
    jobs = [Job(machine, script="exit 5") for _ in range(4)]
    told = [job.end() for job in jobs]
    assert [code for code, _, _ in told] == [5] * 4
    assert sum("starting one in the background" in err for _, _, err in told) >= 1
    assert len(machine.run("sluice", "jobs", "-o", "json").ok().json["jobs"]) == 4
    mark = (os.fsencode(f"SLUICE_STATE_DIR={machine.state_dir}"),)
    agents = [path.parent.name for path in environments()
              if has_entry(path, mark) and b"\0agent\0" in read(path.with_name("cmdline"))]
    assert len(agents) == 1
    assert (machine.state_dir / "agent.log").exists()


def test_one_that_cannot_be_started(machine):
    machine.state_dir.parent.mkdir(exist_ok=True)
    machine.state_dir.write_text("a file")
    reply = machine.run("sluice", "run", "--gpus", "0", "--", "true")
    assert reply.rc in (69, 73) and str(machine.state_dir) in reply.err
    reply = machine.run("sluice", "run", "--socket", machine.directory / "none", "--", "true")
    assert reply.rc == 69 and "start one with 'sluice agent'" in reply.err


# -- other users


NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}


def can_be(user):
    return subprocess.run([SLUICE, "--version"], check=False, capture_output=True,
                          **user).returncode == 0


@pytest.fixture
def nobody(machine):
    if os.geteuid() != 0:
        pytest.skip("needs root to be another user")
    if not can_be(NOBODY):
        pytest.skip("the build cannot be read by another user")
    return NOBODY


def test_a_job_runs_as_the_caller(dgx, nobody):
    reply = dgx.run("sluice", "run", "--", "sh", "-c", "id -u; id -g; id -G; echo $SLUICE_JOB_ID",
                    cwd="/", **nobody).ok()
    assert reply.out.split() == ["65534", "65534", "65534", "1"]
    # a high number, and a directory that only it may enter
    own = {"user": 3000000000, "group": 65534, "extra_groups": []}
    private = dgx.directory / "private"
    private.mkdir(mode=0o700)
    os.chown(private, 3000000000, 65534)
    reply = dgx.run("sluice", "run", "--cwd", private, "--report", private / "report", "--", "pwd",
                    cwd="/", **own).ok()
    assert reply.out.strip() == str(private)
    assert json.loads((private / "report").read_text())["uid"] == 3000000000


def test_an_agent_of_ones_own_respects_roots_tokens(dgx, nobody):
    own = dgx.directory / "nobody"
    own.mkdir(mode=0o700)
    os.chown(own, 65534, 65534)
    env = {"SLUICE_RUNTIME_DIR": str(own / "run"), "SLUICE_STATE_DIR": str(own / "state")}
    dgx.own = env  # for the end
    Job(dgx, "--gpus", "7", "--name", "roots").started()
    free = dgx.run("sluice", "run", "--", *PRINT_GPUS, env=env, cwd="/", **nobody).ok()
    assert free.out.startswith("GPU-")
    reply = dgx.run("sluice", "run", "--gpus", "2", "--wait-timeout", "1s", "--", "true", env=env,
                    cwd="/", **nobody)
    assert reply.rc == 124 and "root" in reply.err
