# SPDX-License-Identifier: Apache-2.0
"""`sluice run` on a simulated machine: what a job gets, who waits for whom, and who dies."""

import json
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import SLUICE, wait_until

PRINT_GPUS = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]


def alive(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def children(pid):
    try:
        return [int(word) for word in
                pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Job:
    """A `sluice run` in the background; its command writes its pid into a file and goes on."""

    count = 0

    def __init__(self, machine, *options, script="exec sleep 1000", before="", **popen):
        Job.count += 1
        self.machine = machine
        self.file = machine.directory / f"job-{Job.count}"
        self.process = machine.spawn(
            "sluice", "run", *options, "--", "sh", "-c",
            f"{before}echo $$ $CUDA_VISIBLE_DEVICES >{self.file}.tmp; mv {self.file}.tmp {self.file}; "
            f"{script}",
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **popen)

    def started(self):
        wait_until(self.file.exists, what="the start of the job")
        words = self.file.read_text().split()
        self.pid = int(words[0])
        self.gpus = words[1].split(",") if len(words) > 1 else []
        self.supervisor = children(self.process.pid)[0]
        return self

    def line(self):
        return self.process.stderr.readline().strip()

    def end(self):
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


def all_free(machine, count=8):
    return machine.run("sluice", "run", "--gpus", count, "--no-wait", "--", "true").rc == 0


@pytest.fixture
def dgx(machine):
    machine.start("dgx-a100")
    yield machine


# -- what the job gets


def test_job_finds_its_gpus_and_nothing_else(dgx):
    reply = dgx.run("sluice", "run", "--gpus", "2", "--", "env", "-0", env={
        "CUDA_VISIBLE_DEVICES": "7", "NVIDIA_VISIBLE_DEVICES": "all", "OMPI_COMM_WORLD_RANK": "3",
        "SLUICE_GPUS": "x", "KEPT": "yes"}).ok()
    env = dict(entry.split("=", 1) for entry in reply.out.split("\0") if entry)
    uuids = env["CUDA_VISIBLE_DEVICES"].split(",")
    known = {gpu["uuid"] for gpu in dgx.show()["gpus"]}
    assert len(set(uuids)) == 2 and set(uuids) <= known
    assert env["NVIDIA_VISIBLE_DEVICES"] == env["SLUICE_GPUS"] == env["CUDA_VISIBLE_DEVICES"]
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID" and env["KEPT"] == "yes"
    assert env["SLUICE_JOB_NAME"] == "env" and env["SLUICE_JOB_ID"].startswith("run-")
    assert "OMPI_COMM_WORLD_RANK" not in env


def test_cpu_job_sees_no_gpu(machine):
    reply = machine.run("sluice", "run", "--gpus", "0", "--", "sh", "-c",
                        'echo "[${CUDA_VISIBLE_DEVICES-unset}] $NVIDIA_VISIBLE_DEVICES"').ok()
    assert reply.out == "[] void\n"


def test_gpu_ids_are_exactly_those(dgx):
    uuids = [gpu["uuid"] for gpu in dgx.show()["gpus"]]
    reply = dgx.run("sluice", "run", "--gpu-ids", f"5,{uuids[2]}", "--", *PRINT_GPUS).ok()
    assert reply.out.strip() == f"{uuids[5]},{uuids[2]}"


def test_streams_and_directory_are_the_callers(dgx):
    reply = dgx.run("sluice", "run", "--", "sh", "-c", "pwd; cat; echo oops >&2", input="in\n",
                    cwd="/usr").ok()
    assert reply.out == "/usr\nin\n" and reply.err == "oops\n"


def test_report_says_what_ran_where(dgx):
    report = dgx.directory / "report"
    reply = dgx.run("sluice", "run", "--gpus", "2", "--name", "my-job", "--report", report, "-v",
                    "--", "sh", "-c", "exit 5")
    told = json.loads(report.read_text())
    assert reply.rc == told["exit_code"] == 5 and told["name"] == "my-job"
    assert told["simulated"] is True and "simulated GPU" in reply.err
    assert len(told["gpus"]) == 2 and told["started_unix"] <= told["ended_unix"]
    assert told["command"] == ["sh", "-c", "exit 5"] and told["signal"] is None


# -- exit codes


@pytest.mark.parametrize("script,code", [
    ("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)])
def test_exit_code_is_the_commands(dgx, script, code):
    assert dgx.run("sluice", "run", "--", "sh", "-c", script).rc == code


def test_exit_code_and_report_without_anybody_who_reads(machine):
    read_end, write_end = os.pipe()
    os.close(read_end)
    report = machine.directory / "report"
    job = machine.spawn("sluice", "run", "--gpus", "0", "-v", "--report", report, "--",
                        "sh", "-c", "exit 7", stderr=write_end)
    os.close(write_end)
    assert job.wait(timeout=30) == 7
    assert json.loads(report.read_text())["exit_code"] == 7


def test_report_replaces_nothing_but_a_file(machine):
    link = machine.directory / "link"
    link.symlink_to(machine.directory / "target")
    fifo = machine.directory / "fifo"
    os.mkfifo(fifo)
    for path in (link, fifo, machine.directory):
        reply = machine.run("sluice", "run", "--gpus", "0", "--report", path, "--", "touch",
                            machine.directory / "ran")
        assert reply.rc == 64 and str(path) in reply.err
    assert link.is_symlink() and fifo.is_fifo()
    assert not (machine.directory / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_report_of_a_user_with_a_high_number(machine):
    user = {"user": 3000000000, "group": 65534, "extra_groups": []}
    if subprocess.run([SLUICE, "--version"], check=False, capture_output=True, **user).returncode:
        pytest.skip("the build cannot be read by another user")
    machine.directory.chmod(0o777)
    report = machine.directory / "report"
    machine.run("sluice", "run", "--gpus", "0", "--report", report, "--", "true", cwd="/",
                **user).ok()
    assert json.loads(report.read_text())["uid"] == 3000000000


def test_commands_that_cannot_run(dgx):
    assert dgx.run("sluice", "run", "--", "no-such-command").rc == 127
    reply = dgx.run("sluice", "run", "--", "/etc/passwd")
    assert reply.rc == 126 and "/etc/passwd" in reply.err
    assert all_free(dgx)


@pytest.mark.parametrize("options", [
    ["--gpus", "-1"], ["--gpus", "x"], ["--gpu-ids", "x"], ["--gpu-ids", "9"],
    ["--gpu-ids", "1,1"], ["--gpu-ids", ""], ["--gpu-ids", "0", "--gpus", "1"],
    ["--name", "Not_A_Label"], ["--name", ""], ["--no-wait", "--wait-timeout", "1s"], ["--nope"]])
def test_wrong_command_lines(dgx, options):
    reply = dgx.run("sluice", "run", *options, "--", "echo", "ran")
    assert reply.rc == 64 and "ran" not in reply.out and len(reply.err) > 10, reply


def test_no_command_at_all(dgx):
    assert dgx.run("sluice", "run").rc == 64


def test_more_gpus_than_there_are(dgx):
    reply = dgx.run("sluice", "run", "--gpus", "9", "--", "true")
    assert reply.rc == 78 and "9 GPUs" in reply.err and "has 8" in reply.err


def test_no_driver(machine):
    machine.start("t4x1")
    machine.sim("stop")
    reply = machine.run("sluice", "run", "--gpus", "1", "--", "echo", "ran")
    assert reply.rc == 69 and reply.out == "" and len(reply.err.splitlines()) == 1


def test_no_wait_and_timeout(dgx):
    Job(dgx, "--gpus", "7", "--name", "holder").started()
    reply = dgx.run("sluice", "run", "--gpus", "2", "--no-wait", "--", "true")
    assert reply.rc == 75 and "1 free" in reply.err and "(holder, user " in reply.err
    reply = dgx.run("sluice", "run", "--gpus", "2", "--wait-timeout", "0.2s", "--", "true")
    assert reply.rc == 124 and "waiting for 2 GPUs" in reply.err
    assert dgx.run("sluice", "run", "--gpus", "1", "--no-wait", "--", "true").rc == 0


# -- waiting


def test_waits_with_a_reason_and_is_woken(dgx):
    holder = Job(dgx, "--gpus", "8", "--name", "train").started()
    waiter = Job(dgx, "--gpus", "3", script="exit 4")
    assert "waiting for 3 GPUs: 0 free; GPU 0, GPU 1" in waiter.line()
    holder.process.terminate()
    assert holder.end()[0] == 143
    assert waiter.end()[0] == 4


def test_times_that_never_come(dgx):
    holder = Job(dgx, "--gpus", "8", script="sleep 0.3").started()
    reply = dgx.run("sluice", "run", "--wait-timeout", "18446744073s", "--grace", "18446744073s",
                    "--", "sh", "-c", "(sleep 0.3; echo late) & exit 5")
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
    assert "7 free" in wide.line()
    narrow = Job(dgx, "--gpus", "1", script="exit 0")
    assert "next in line after pid" in narrow.line()
    elsewhere = dgx.run("sluice", "run", "--gpus", "1", "--no-wait", "--", "true")
    assert elsewhere.rc == 75  # it would overtake
    holder.process.terminate()
    assert wide.end()[0] == 0 and narrow.end()[0] == 0
    assert wide.file.stat().st_mtime_ns <= narrow.file.stat().st_mtime_ns


def test_many_wide_jobs_do_not_lock_up(dgx):
    jobs = [Job(dgx, "--gpus", str(5 + number % 4), script="exit 0") for number in range(8)]
    for job in jobs:
        code, _, err = job.end()
        assert code == 0, err
    assert all_free(dgx)


def test_simulated_machines_do_not_meet(machine_factory):
    machines = [machine_factory() for _ in range(2)]
    for machine in machines:
        machine.start("t4x1", "--seed", "7")
    assert len({machine.show()["gpus"][0]["uuid"] for machine in machines}) == 1
    jobs = [Job(machine).started() for machine in machines]
    assert jobs[0].gpus == jobs[1].gpus


# -- which GPUs


def test_a_lost_gpu_is_not_given(dgx):
    lost = dgx.show()["gpus"][3]["uuid"]
    dgx.sim("inject", "lost", "--gpu", "3")
    reply = dgx.run("sluice", "run", "--gpus", "7", "--", *PRINT_GPUS).ok()
    assert lost not in reply.out and len(reply.out.split(",")) == 7
    reply = dgx.run("sluice", "run", "--gpus", "8", "--no-wait", "--", "true")
    assert reply.rc == 75 and "GPU 3 not healthy" in reply.err


def test_a_gpu_in_foreign_use_is_not_given(machine):
    machine.start("t4x1")
    stranger = machine.load(0, "--util", "0.5")
    reply = machine.run("sluice", "run", "--no-wait", "--", "true")
    assert reply.rc == 75 and f"pid {stranger.pid}, which sluice did not start" in reply.err
    assert machine.run("sluice", "run", "--busy-outsiders", "ignore", "--", "true").rc == 0
    waiter = Job(machine, script="exit 0")
    assert "in use by pid" in waiter.line()
    stranger.kill()
    stranger.wait()
    assert waiter.end()[0] == 0


def test_mig_devices_are_units(machine):
    machine.start("a100-mig")
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
    return job, int(path.read_text())


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
    code, _, err = job.end()
    assert code == 3 and "left 1 process" in err
    assert not alive(daemon) and all_free(dgx)


def test_a_killed_client(dgx):
    job, daemon = with_daemon(dgx, "exec sleep 1000", "--grace", "300ms")
    job.process.kill()
    wait_until_free(dgx, job.pid, daemon)


def test_a_killed_supervisor(dgx):
    job, daemon = with_daemon(dgx, "exec sleep 1000")
    os.kill(job.supervisor, signal.SIGKILL)
    code, _, err = job.end()
    assert code == 137 and "supervisor was killed" in err
    assert not alive(job.pid) and not alive(daemon) and all_free(dgx)


def test_a_killed_command(dgx):
    job, daemon = with_daemon(dgx, "exec sleep 1000", "--grace", "100ms")
    os.kill(job.pid, signal.SIGKILL)
    assert job.end()[0] == 137
    assert not alive(daemon) and all_free(dgx)


def test_both_killed_and_a_daemon_lives(dgx):
    job, daemon = with_daemon(dgx, "exec sleep 1000")
    for pid in (job.process.pid, job.supervisor):
        os.kill(pid, signal.SIGSTOP)  # so that neither acts for the other
    for pid in (job.process.pid, job.supervisor):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(job.pid) and not alive(job.supervisor))
    assert alive(daemon) and not all_free(dgx)
    os.kill(daemon, signal.SIGKILL)
    wait_until_free(dgx)


def test_a_stopped_job_keeps_its_gpus(dgx):
    job = Job(dgx, "--gpus", "8", "--grace", "100ms").started()
    os.kill(job.pid, signal.SIGSTOP)
    assert not all_free(dgx)
    job.process.kill()
    wait_until_free(dgx, job.pid)


def test_a_small_fork_bomb(dgx):
    bomb = dgx.directory / "bomb"
    bomb.write_text("trap '' TERM HUP INT\nwhile :; do setsid sleep 1000 & sleep 0.05; done\n")
    job = Job(dgx, "--gpus", "8", "--grace", "200ms",
              script=f"for i in 1 2 3 4 5 6 7 8 9 10; do sh {bomb} & done; exit 2").started()
    assert job.end()[0] == 2
    assert all_free(dgx)
    here = os.fsencode(f"SLUICE_SIM_STATE={dgx.state}")
    left = [path for path in pathlib.Path("/proc").glob("[0-9]*/environ")
            if b"SLUICE_JOB_ID=" in read(path) and here in read(path)]
    assert left == []


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_interrupts(dgx):
    loop = "while :; do sleep 0.01; done"
    job = Job(dgx, "--gpus", "8", before="trap 'exit 42' INT; ", script=loop).started()
    job.process.send_signal(signal.SIGINT)
    assert job.end()[0] == 42
    stubborn = Job(dgx, "--gpus", "8", before="trap '' INT TERM; ", script=loop).started()

    def interrupted():
        stubborn.process.send_signal(signal.SIGINT)
        return stubborn.process.poll() is not None
    wait_until(interrupted, what="the end after two interrupts")
    assert stubborn.end()[0] == 137 and all_free(dgx)


def test_a_waiting_run_that_is_killed_leaves_the_line(dgx):
    holder = Job(dgx, "--gpus", "1").started()
    wide = Job(dgx, "--gpus", "8")
    assert "7 free" in wide.line()
    narrow = Job(dgx, "--gpus", "1", script="exit 0")
    assert "next in line" in narrow.line()
    wide.process.kill()
    assert narrow.end()[0] == 0
    assert holder.process.poll() is None


# -- hostile directories, other users


def test_a_runtime_directory_of_everybody_is_refused(dgx):
    shared = dgx.directory / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    reply = dgx.run("sluice", "run", "--", "true", env={"SLUICE_RUNTIME_DIR": str(shared)})
    assert reply.rc == 77 and "can be written by others" in reply.err
    link = dgx.directory / "link"
    link.symlink_to("/tmp")
    reply = dgx.run("sluice", "run", "--", "true", env={"SLUICE_RUNTIME_DIR": str(link)})
    assert reply.rc in (73, 77) and str(link) in reply.err


def test_a_runtime_directory_that_cannot_be_made(dgx):
    (dgx.directory / "file").write_text("")
    reply = dgx.run("sluice", "run", "--", "true",
                    env={"SLUICE_RUNTIME_DIR": str(dgx.directory / "file" / "x")})
    assert reply.rc == 73 and str(dgx.directory / "file") in reply.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_another_user_respects_roots_tokens(dgx):
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    if subprocess.run([SLUICE, "--version"], check=False, capture_output=True, **nobody).returncode:
        pytest.skip("the build cannot be read by another user")
    env = {"SLUICE_RUNTIME_DIR": "", "XDG_RUNTIME_DIR": ""}
    Job(dgx, "--gpus", "7", "--name", "roots").started()
    free = dgx.run("sluice", "run", "--no-wait", "--", *PRINT_GPUS, env=env, cwd="/", **nobody).ok()
    assert free.out.startswith("GPU-")
    reply = dgx.run("sluice", "run", "--gpus", "2", "--no-wait", "--", "true", env=env, cwd="/",
                    **nobody)
    assert reply.rc == 75 and "(roots, user root" in reply.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_another_user_in_roots_directory(dgx):
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    if subprocess.run([SLUICE, "--version"], check=False, capture_output=True, **nobody).returncode:
        pytest.skip("the build cannot be read by another user")
    locks = dgx.directory / "locks"
    env = {"SLUICE_RUNTIME_DIR": str(locks)}
    locks.mkdir(mode=0o755)
    (locks / "gpu").mkdir(mode=0o755)
    reply = dgx.run("sluice", "run", "--", "true", env=env, cwd="/", **nobody)
    assert reply.rc == 77 and "SLUICE_RUNTIME_DIR" in reply.err
    assert dgx.run("sluice", "run", "--gpus", "8", "--", "true", env=env).rc == 0
    assert dgx.run("sluice", "run", "--", "true", env=env, cwd="/", **nobody).rc == 0
