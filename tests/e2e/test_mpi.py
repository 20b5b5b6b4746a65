# SPDX-License-Identifier: Apache-2.0
"""`sluice run --workers` on a simulated machine, with the distribution's Open MPI and MPICH: what each rank gets,
and who is ended by whose death. The ranks are mpi_ranks.c, compiled with each mpicc."""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from conftest import ROOT, SLUICE, alive, environments, has_entry, wait_until
from test_isolation import denied_call, syscall_number

BOTH = ["openmpi", "mpich"]
DAEMON = {"openmpi": b"orted", "mpich": b"hydra_pmi_proxy"}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """The program of each family: built once."""
    directory = tmp_path_factory.mktemp("ranks")
    directory.chmod(0o755)
    programs = {}

    def of(family):
        for program in (f"mpicc.{family}", f"mpirun.{family}"):
            if not shutil.which(program):
                pytest.skip(f"{program} is not installed: tools/setup mpi")
        if family not in programs:
            programs[family] = directory / family
            subprocess.run([f"mpicc.{family}", "-O1", "-o", programs[family], ROOT / "tests/e2e/mpi_ranks.c"],
                           check=True, timeout=120)
        return [f"mpirun.{family}"], programs[family]

    return of


@pytest.fixture
def dgx(machine):
    machine.start("dgx-a100", "--gpus", "8")
    machine.agent()
    return machine


def uuids(machine, number=None):
    job = machine.job(number or 1)
    return [grant["uuid"] for grant in job["attempt"]["gpus"]]


def reports(reply):
    """What the ranks said, in their order: [size, sum, worker, GPUs]."""
    lines = [line.split() for line in reply.out.splitlines() if line[:1].isdigit()]
    return [line[1:] for line in sorted(lines, key=lambda line: int(line[0]))]


def processes(machine, number):
    """The pids of what the job started."""
    mark = os.fsencode(f"SLUICE_JOB_ID={number}")
    state = os.fsencode(f"SLUICE_STATE_DIR={machine.state_dir}")
    return [int(path.parent.name) for path in environments() if has_entry(path, (mark,)) and has_entry(path, (state,))]


def named(machine, number, name):
    """Of those the ones that execute this program."""
    found = []
    for pid in processes(machine, number):
        try:
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.path.basename(command[0]) == name:
            found.append(pid)
    return sorted(found)


def inside(pid):
    """Its number in its own PID namespace."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[-1]) for line in lines if line.startswith("NSpid:"))


class Waiting:
    """A job whose ranks wait; their pids."""

    def __init__(self, machine, ranks, family, *options, workers=2):
        self.machine = machine
        mpirun, program = ranks(family)
        self.directory = machine.directory / "ranks"
        self.directory.mkdir()
        self.number = machine.submit(*mpirun, program, "wait", self.directory, gpus=1,
                                     options=("--workers", workers, "--name", "sum", *options))
        files = [self.directory / f"rank-{i}" for i in range(workers)]
        wait_until(lambda: all(file.exists() for file in files), what="the ranks")
        outside = {inside(pid): pid for pid in processes(machine, self.number)}
        self.pids = [outside[int(file.read_text())] for file in files]
        environment = pathlib.Path(f"/proc/{self.pids[0]}/environ").read_bytes().split(b"\0")
        self.instance = next(entry for entry in environment
                             if entry.startswith(b"SLUICE_JOB_INSTANCE=")).partition(b"=")[2].decode()

    def ended(self, within_s):
        """The job as it ended, in that time; nothing of it is left."""
        start = time.monotonic()
        wait_until(lambda: self.machine.job(self.number)["state"] not in ("Running", "Stopping"), what="its end")
        took = time.monotonic() - start
        assert took < within_s, f"{took:.1f} s"
        wait_until(lambda: not processes(self.machine, self.number), deadline_s=5, what="nothing left")
        assert not any(alive(pid) for pid in self.pids)
        assert not list(pathlib.Path("/dev/shm").glob(f"sluice-{self.instance}*"))
        return self.machine.job(self.number)


@pytest.mark.parametrize("family", BOTH)
@pytest.mark.parametrize("workers", [2, 8])
def test_each_rank_has_the_gpus_of_its_worker(dgx, ranks, family, workers):
    mpirun, program = ranks(family)
    reply = dgx.run("sluice", "run", "--workers", workers, "--", *mpirun, program).ok()
    assert reports(reply) == [[str(workers), str(sum(range(workers))), str(i), uuid]
                              for i, uuid in enumerate(uuids(dgx))]


@pytest.mark.parametrize("family", BOTH)
def test_several_gpus_and_slots(dgx, ranks, family):
    mpirun, program = ranks(family)
    reply = dgx.run("sluice", "run", "--workers", 2, "-g", 3, "--slots", 2, "--mpi", family, "--",
                    *mpirun, program).ok()
    own = uuids(dgx)
    groups = [",".join(own[:3]), ",".join(own[3:])]
    assert [(line[2], line[3]) for line in reports(reply)] == [
        ("0", groups[0]), ("0", groups[0]), ("1", groups[1]), ("1", groups[1])]


@pytest.mark.parametrize("family", BOTH)
def test_the_launcher_has_no_gpu_and_a_list_of_hosts(dgx, ranks, family):
    ranks(family)
    reply = dgx.run("sluice", "run", "--workers", 2, "--slots", 4, "--mpi", family, "--name", "sum", "--", "sh", "-c",
                    'echo "[$CUDA_VISIBLE_DEVICES]" $K_MPI_JOB_ROLE; cat $SLUICE_HOSTFILE; $SLUICE_DISCOVER_HOSTS').ok()
    form = "{} slots=4" if family == "openmpi" else "{}:4"
    hosts = ["sum-worker-0", "sum-worker-1"]
    assert reply.out.splitlines() == ["[] launcher", *[form.format(host) for host in hosts],
                                      *[f"{host}:4" for host in hosts]]


@pytest.mark.parametrize("family", BOTH)
def test_the_exit_code_of_a_rank(dgx, ranks, family):
    mpirun, program = ranks(family)
    reply = dgx.run("sluice", "run", "--workers", 2, "--", *mpirun, program, "7")
    assert reply.rc == 7
    job = dgx.job(1)
    assert (job["state"], job["reason"]) == ("Failed", "ExitCode")


@pytest.mark.parametrize("family", BOTH)
def test_a_killed_rank(dgx, ranks, family):
    job = Waiting(dgx, ranks, family)
    os.kill(job.pids[1], signal.SIGKILL)
    ended = job.ended(10)  # Open MPI gives the others two seconds
    assert ended["state"] == "Failed"
    # MPICH's mpirun: the signal's number, or that it has lost a rank, whatever it hears first.
    assert ended["exit_code"] in ((137,) if family == "openmpi" else (9, 255))


@pytest.mark.parametrize("family", BOTH)
def test_a_killed_daemon_ends_the_job_and_is_named(dgx, ranks, family):
    job = Waiting(dgx, ranks, family)
    daemons = {}
    for pid in named(dgx, job.number, DAEMON[family]):
        names = [entry for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                 if entry.startswith(b"SLUICE_WORKER=")]
        daemons[int(names[0].partition(b"=")[2])] = pid
    os.kill(daemons[1], signal.SIGKILL)
    ended = job.ended(2)
    assert (ended["state"], ended["reason"]) == ("Failed", "WorkerFailed")
    assert "sum-worker-1, killed by signal 9" in ended["reason_text"]
    assert ended["exit_code"] != 0


@pytest.mark.parametrize("family", BOTH)
def test_a_killed_remote_shell_ends_the_job(dgx, ranks, family):
    job = Waiting(dgx, ranks, family)
    shells = named(dgx, job.number, b"sluice-rsh")
    assert len(shells) == 2
    os.kill(shells[0], signal.SIGKILL)
    ended = job.ended(2)
    assert (ended["state"], ended["reason"]) == ("Failed", "WorkerFailed")
    assert "sum-worker-" in ended["reason_text"]


@pytest.mark.parametrize("family", BOTH)
def test_a_killed_launcher(dgx, ranks, family):
    job = Waiting(dgx, ranks, family)
    launchers = [pid for pid in processes(dgx, job.number)
                 if b"SLUICE_HOSTFILE" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                 and b"mpirun" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]]
    os.kill(min(launchers), signal.SIGKILL)
    ended = job.ended(10)
    assert (ended["state"], ended["signal"]) == ("Failed", signal.SIGKILL)


@pytest.mark.parametrize("family", BOTH)
def test_cancel_and_time(dgx, ranks, family):
    job = Waiting(dgx, ranks, family)
    dgx.run("sluice", "cancel", job.number).ok()
    assert job.ended(10)["state"] == "Cancelled"
    mpirun, program = ranks(family)
    reply = dgx.run("sluice", "run", "--workers", 2, "--time", "1s", "--grace", "1s", "--", *mpirun, program, "wait",
                    job.directory)
    assert reply.rc == 124
    assert dgx.job(2)["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize("family", BOTH)
def test_a_killed_supervisor_leaves_nothing(dgx, ranks, family):
    job = Waiting(dgx, ranks, family)
    supervisors = [int(name) for name in os.listdir("/proc") if name.isdigit() and is_supervisor(dgx, name)]
    assert len(supervisors) == 1
    os.kill(supervisors[0], signal.SIGKILL)
    assert job.ended(10)["reason"] == "SupervisorLost"


def is_supervisor(machine, name):
    directory = pathlib.Path("/proc", name)
    try:
        return (b"sluice-supervise" in (directory / "cmdline").read_bytes().split(b"\0")[0]
                and (directory / "comm").read_text() != "sluice-init\n"
                and has_entry(directory / "environ", (os.fsencode(f"SLUICE_STATE_DIR={machine.state_dir}"),)))
    except OSError:
        return False


def test_a_worker_that_is_none(dgx):
    reply = dgx.run("sluice", "run", "--workers", 2, "--name", "sum", "--", "sh", "-c",
                    "$HYDRA_LAUNCHER_EXEC sum-worker-2 true; sleep 1000")
    assert reply.rc == 255
    assert "sluice-rsh: sum-worker-2: no such worker: this job has sum-worker-0 to sum-worker-1" in reply.err
    assert "WorkerFailed (sum-worker-2, no such worker" in reply.err


def test_a_daemon_that_is_not_installed(dgx):
    reply = dgx.run("sluice", "run", "--workers", 2, "--name", "sum", "--", "sh", "-c",
                    "$HYDRA_LAUNCHER_EXEC sum-worker-1 no-such-daemon; sleep 1000")
    assert reply.rc == 127
    assert "WorkerFailed (sum-worker-1, exited with 127 (command not found there))" in reply.err


def test_what_the_remote_shell_hands_on(dgx):
    script = ('echo in | $HYDRA_LAUNCHER_EXEC -x -n me@sum-worker-1 cat \\; echo err \\>\\&2 \\; echo \\$SLUICE_WORKER '
              '\\$K_MPI_JOB_ROLE \\; exit 3; echo $?; $HYDRA_LAUNCHER_EXEC; echo $?')
    reply = dgx.run("sluice", "run", "--workers", 2, "--name", "sum", "--", "sh", "-c", script).ok()
    assert reply.out.splitlines() == ["in", "1 worker", "3", "255"]
    assert "err\n" in reply.err and "usage: sluice-rsh" in reply.err


def test_nobody_from_outside_is_heard(dgx):
    """Neither another process of the same user, nor a job of its own."""
    file = dgx.directory / "socket"
    number = dgx.submit("sh", "-c", f"echo $SLUICE_RSH $HYDRA_LAUNCHER_EXEC >{file}.tmp; mv {file}.tmp {file}; sleep 1000",
                        options=("--workers", 2, "--name", "sum"))
    wait_until(file.exists, what="its socket")
    name, program = file.read_text().split()
    env = {**dgx.env, "SLUICE_RSH": name}
    done = subprocess.run([program, "sum-worker-0", "echo", "hello"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (255, "")
    reply = dgx.run("sluice", "run", "-g", 0, "--", "env", f"SLUICE_RSH={name}", program, "sum-worker-0", "echo", "hello")
    assert (reply.rc, reply.out) == (255, "")
    assert dgx.job(number)["state"] == "Running"
    dgx.run("sluice", "cancel", "--now", number).ok()


@pytest.mark.parametrize("family", BOTH)
def test_as_another_user(dgx, ranks, family):
    if os.geteuid() != 0:
        pytest.skip("needs root to be another user")
    mpirun, program = ranks(family)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    if subprocess.run([SLUICE, "--version"], check=False, capture_output=True, **nobody).returncode != 0:
        pytest.skip("the build cannot be read by another user")
    if subprocess.run(["test", "-x", program], check=False, **nobody).returncode != 0:
        for directory in list(pathlib.Path(program).parents)[:3]:
            directory.chmod(0o755)
    reply = dgx.run("sluice", "run", "--workers", 2, "-e", "HOME=/tmp", "--", *mpirun, program, cwd="/", **nobody).ok()
    assert [line[2] for line in reports(reply)] == ["0", "1"]


@pytest.mark.parametrize("family", BOTH)
def test_with_nothing_but_a_loopback(machine, ranks, family):
    mpirun, program = ranks(family)
    if subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("network namespaces are not permitted here")
    machine.start("dgx-a100", "--gpus", "2")
    alone = machine.directory / "alone"
    alone.write_text('#!/bin/sh\nexec unshare -n sh -c \'ip link set lo up && exec "$0" "$@"\' ' f'"{SLUICE}" "$@"\n')
    alone.chmod(0o755)
    machine.agent(program=str(alone))
    reply = machine.run("sluice", "run", "--workers", 2, "--", *mpirun, program).ok()
    assert len(reports(reply)) == 2


def test_merged_below_one_daemon(dgx, ranks):
    mpirun, program = ranks("openmpi")
    reply = dgx.run("sluice", "run", "--workers", 2, "--slots", 2, "--mpi-merge", "--", *mpirun, program).ok()
    own = uuids(dgx)
    assert [(line[2], line[3]) for line in reports(reply)] == [
        ("0", own[0]), ("0", own[0]), ("1", own[1]), ("1", own[1])]


@pytest.mark.parametrize("family, implementation", [("openmpi", "OpenMPI"), ("mpich", "MPICH")])
def test_the_file_of_an_mpijob(dgx, ranks, family, implementation):
    mpirun, program = ranks(family)
    file = dgx.directory / "job.yaml"
    file.write_text(f"""\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: allreduce}}
spec:
  slotsPerWorker: 1
  mpiImplementation: {implementation}
  mpiReplicaSpecs:
    Launcher:
      template: {{spec: {{containers: [{{name: l, image: "bench:1", command: [{mpirun[0]}, -np, "2", {program}]}}]}}}}
    Worker:
      replicas: 2
      template: {{spec: {{containers: [{{name: w, image: "bench:1", resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}}}
""")
    reply = dgx.run("sluice", "run", "--host", "--file", file).ok()
    assert [line[3] for line in reports(reply) if len(line) == 4] == uuids(dgx)
    refused = dgx.run("sluice", "run", "--file", file)
    assert refused.rc == 64 and "run it with --host" in refused.err


# -- what keeps a rank to its GPUs

# Says of each GPU's node whether it may be opened. Their numbers have nothing behind them: ENXIO, not EPERM or EACCES.
OPENS = ("import errno, os, sys\n"
         "told = []\n"
         "for i in range(3):\n"
         "    try:\n"
         "        os.close(os.open(f'{sys.argv[1]}/nvidia{i}', os.O_RDWR | os.O_NONBLOCK))\n"
         "        told.append('+')\n"
         "    except OSError as error:\n"
         "        told.append('+' if error.errno == errno.ENXIO else '-')\n"
         "names = 'OMPI_COMM_WORLD_RANK', 'PMI_RANK', 'RANK'\n"
         "who = [os.environ[name] for name in names if name in os.environ] or ['launcher']\n"
         "os.write(1, f'{who[0]} {\"\".join(told)}\\n'.encode())\n")


@pytest.fixture
def three(machine_factory):
    """Three GPUs with nodes that may be opened."""
    if os.geteuid() != 0:
        pytest.skip("device nodes are made by root")
    machine = machine_factory(opens_nodes=True)
    machine.start("dgx-a100", "--gpus", "3", "--dev-style", "nvidia")
    return machine


def opened(machine, mpirun, *options):
    """{who: "+--"} for a launcher and two ranks, each with one GPU of three."""
    file = machine.directory / "opens.py"
    file.write_text(OPENS)
    reply = machine.run("sluice", "run", "--workers", 2, *options, "--", "sh", "-c", 'python3 "$0" "$1"; shift; exec "$@"', file,
                        machine.path("dev"), *mpirun, "python3", file, machine.path("dev")).ok()
    return dict(line.split() for line in reply.out.splitlines())


def by_levels(machine, level):
    if level == "landlock" and ctypes.CDLL(None).syscall(444, None, 0, 1) < 1:
        pytest.skip("this kernel has no Landlock, or it is not enabled")
    if level == "cgroup1":
        machine.agent(preexec_fn=denied_call(syscall_number("bpf")))
        return "cgroup"
    machine.agent()
    return {"cgroup2": "cgroup"}.get(level, level)


@pytest.mark.parametrize("family", BOTH)
@pytest.mark.parametrize("level", ["cgroup2", "cgroup1", "landlock"])
def test_a_rank_opens_its_own_gpus_alone(three, ranks, family, level):
    mpirun, _ = ranks(family)
    told = opened(three, mpirun, "--isolation", by_levels(three, level))
    assert three.job(1)["attempt"]["isolation"] == level
    assert sorted(told) == ["0", "1", "launcher"]
    assert told["launcher"] == "---"
    assert {told["0"].count("+"), told["1"].count("+")} == {1}
    assert told["0"] != told["1"]


def test_a_rank_opens_all_without_isolation(three, ranks):
    """The control: at `env` nothing keeps it from its neighbour's."""
    mpirun, _ = ranks("openmpi")
    three.agent()
    assert set(opened(three, mpirun, "--isolation", "env").values()) == {"+++"}


@pytest.mark.parametrize("level", ["cgroup2", "cgroup1"])
def test_merged_ranks_open_their_own_gpus_alone(three, ranks, level):
    mpirun, _ = ranks("openmpi")
    told = opened(three, mpirun, "--mpi-merge", "--isolation", by_levels(three, level))
    assert told["launcher"] == "---" and told["0"] != told["1"]
    assert {told["0"].count("+"), told["1"].count("+")} == {1}


def test_ranks_of_the_queue_open_their_own_gpus_alone(three):
    three.agent()
    reply = three.run("sluice", "run", "--workers", 2, "--mpi", "ranks", "--isolation", "cgroup", "--", "python3", "-c", OPENS,
                      three.path("dev")).ok()
    own = [reply.out.split()[1], three.run("sluice", "logs", "1", "--worker", "1").ok().out.split()[1]]
    assert own[0] != own[1] and [one.count("+") for one in own] == [1, 1]


# -- without MPI


def test_ranks_of_the_queue(dgx):
    script = ("import os, socket\n"
              "rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
              "there = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])\n"
              "if rank == 0:\n"
              "    with socket.create_server(there) as server:\n"
              "        for _ in range(size - 1):\n"
              "            print(server.accept()[0].makefile().readline().strip(), flush=True)\n"
              "else:\n"
              "    import time\n"
              "    for _ in range(500):\n"
              "        try:\n"
              "            link = socket.create_connection(there)\n"
              "        except OSError:\n"
              "            time.sleep(0.02)\n"
              "        else:\n"
              "            break\n"
              "    link.sendall(f'{rank} {os.environ[\"CUDA_VISIBLE_DEVICES\"]} {os.environ[\"LOCAL_RANK\"]}\\n'.encode())\n"
              "    print('rank', rank)\n")
    reply = dgx.run("sluice", "run", "--workers", 3, "--mpi", "ranks", "--", "python3", "-c", script).ok()
    own = uuids(dgx)
    assert sorted(reply.out.splitlines()) == [f"1 {own[1]} 0", f"2 {own[2]} 0"]
    assert dgx.run("sluice", "logs", "1", "--worker", "2").ok().out == "rank 2\n"
    assert dgx.run("sluice", "logs", "1", "--worker", "0").ok().out == reply.out
    assert dgx.run("sluice", "logs", "1", "--worker", "3").rc == 64


def test_one_rank_that_fails_ends_all(dgx):
    reply = dgx.run("sluice", "run", "--workers", 3, "--mpi", "ranks", "--name", "sum", "--", "sh", "-c",
                    '[ "$RANK" != 1 ] || exit 9; sleep 1000')
    assert reply.rc == 9
    assert "WorkerFailed (sum-worker-1, exited with 9)" in reply.err
    wait_until(lambda: not processes(dgx, 1), deadline_s=5, what="nothing left")


def test_ranks_end_when_all_have(dgx):
    reply = dgx.run("sluice", "run", "--workers", 3, "--mpi", "ranks", "--grace", "0s", "--", "sh", "-c",
                    "sleep 0.$RANK; echo $RANK").ok()
    assert reply.out == "0\n"
    assert [dgx.run("sluice", "logs", "1", "--worker", i).ok().out for i in "12"] == ["1\n", "2\n"]


# -- what cannot be meant


@pytest.mark.parametrize("options, says", [
    (["--slots", "2"], "--slots is for jobs with --workers"),
    (["--mpi", "mpich"], "--mpi is for jobs with --workers"),
    (["--mpi-merge"], "--mpi-merge is for jobs with --workers"),
    (["--workers", "2", "--mpi", "mpich", "--mpi-merge"], "--mpi-merge is for Open MPI"),
    (["--workers", "2", "--mpi", "ranks", "--slots", "2"], "--slots is for jobs with an mpirun"),
    (["--workers", "2", "--gpu-ids", "0,1,2"], "2 workers cannot share evenly"),
    (["--workers", "2", "--image", "x"], "--workers and --image together are not built yet"),
])
def test_refused(dgx, options, says):
    reply = dgx.run("sluice", "run", *options, "--", "true")
    assert reply.rc == 64 and says in reply.err


def test_more_than_the_machine_has(dgx):
    reply = dgx.run("sluice", "run", "--workers", "3", "-g", "3", "--", "true")
    assert reply.rc == 78
    assert "needs 3 workers x 3 GPUs, this machine has 8" in reply.err
