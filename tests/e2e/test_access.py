# SPDX-License-Identifier: Apache-2.0
"""Who may do what with whose job: its owner, root, the members of sluice.jobs.adminGroup, others."""

import json
import os
import pathlib
import resource
import shutil
import signal
import urllib.request

import pytest

from agent_client import Client, code_of, pb
from conftest import SLUICE, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="takes root, for jobs of several users")

ALICE, BOB, CAROL, ADMINS = 61001, 61002, 61003, 61900
SECRET = "correct-horse"


def be(uid, *groups):
    """What makes a program run as this user."""
    return {"user": uid, "group": uid, "extra_groups": list(groups), "cwd": "/"}


def configure(machine, text):
    machine.config = machine.directory / "config.yaml"
    machine.config.write_text(text)
    return machine.agent("--config", machine.config)


@pytest.fixture
def lab(machine):
    """A service with three users, of whom Carol is an administrator."""
    configure(machine, f"sluice: {{jobs: {{adminGroup: '{ADMINS}'}}}}")
    return machine


def secret_job(machine):
    number = machine.submit("sh", "-c", f"echo {SECRET}; exec sleep 1000",
                            options=("--name", f"name-{SECRET}"),
                            env={"TOKEN": SECRET}, **be(ALICE))
    machine.job_in(number, "Running")
    wait_until(lambda: SECRET in machine.run("sluice", "logs", number, **be(ALICE)).out)
    return number


def test_nobody_else_sees_what_a_job_is(lab):
    number = secret_job(lab)
    waits = lab.submit("sh", "-c", f"true {SECRET}", options=(
        "--name", f"name-{SECRET}", "--after", number), env={"TOKEN": SECRET}, **be(ALICE))
    numbers = [number, waits]
    for viewer in (be(BOB), be(CAROL, ADMINS)):
        for command in ([["jobs"], ["jobs", "--all", "--output", "json"], ["top", "--once"],
                         ["agent", "status"], ["agent", "status", "--output", "json"]] +
                        [["jobs", one] for one in numbers] +
                        [["jobs", one, "--output", "json"] for one in numbers] +
                        [["logs", one] for one in numbers]):
            reply = lab.run("sluice", *command, **viewer)
            assert SECRET not in reply.out + reply.err, f"{command}\n{reply}"
        listed = lab.run("sluice", "jobs", "--output", "json", **viewer).ok().json
        listed = listed.get("jobs", listed) if isinstance(listed, dict) else listed
        mine = [job for job in listed if job["id"] == number]
        assert mine and mine[0]["state"] == "Running", listed
        assert lab.run("sluice", "logs", number, **viewer).rc == 77
    # Its owner and root do.
    for viewer in (be(ALICE), be(0)):
        assert SECRET in lab.run("sluice", "jobs", number, "--output", "json", **viewer).ok().out
        assert SECRET in lab.run("sluice", "logs", number, **viewer).ok().out
    # Nor do the files of the job tell.
    found = [path for path in lab.state_dir.rglob("*") if path.is_file()]
    readable = [path for path in found if path.stat().st_mode & 0o077 and
                SECRET.encode() in path.read_bytes() and path.stat().st_mode & 0o004]
    assert not [path for path in readable if os.stat(path.parent).st_mode & 0o001], readable


def test_why_a_job_failed_names_its_command_to_its_owner_alone(lab):
    number = lab.submit(f"/nowhere/{SECRET}", **be(ALICE))
    job = lab.job_in(number, "Failed", **be(ALICE))
    assert SECRET in json.dumps(job)
    for command in (["jobs", "--all"], ["jobs", number], ["jobs", number, "--output", "json"]):
        reply = lab.run("sluice", *command, **be(BOB)).ok()
        assert SECRET not in reply.out + reply.err and "Failed" in reply.out, reply


def what_others_are_told(machine, number):
    """All that is said to another user and by page and API to whoever comes without a token."""
    told = []
    for command in (["jobs"], ["jobs", "--all"], ["jobs", "--all", "--output", "json"], ["jobs", number],
                    ["jobs", number, "--output", "json"], ["top", "--once"], ["agent", "status", "--output", "json"],
                    ["logs", number], ["cancel", number], ["jobs", "retry", number], ["jobs", "usage"]):
        reply = machine.run("sluice", *command, **be(BOB))
        told.append((command, reply.out + reply.err))
    address = machine.run("sluice", "agent", "status", "--output", "json").ok().json["web"]["address"]
    for path in ("/", "/metrics", "/api/v1/state", "/api/v1/processes", "/api/v1/events", "/api/v1/stream"):
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as reply:
            # Of the stream its first event, which is the whole state.
            text = b"".join(iter(reply.readline, b"\n")) if path.endswith("stream") else reply.read()
            assert text, path
            told.append((path, text.decode()))
    return told


def test_in_no_state_others_are_told_why(machine):
    """What is behind a reason names commands and directories, and is the owner's and root's in every state."""
    def serve():
        machine.agent("--web-address", "127.0.0.1:0")
        wait_until(lambda: machine.run("sluice", "agent", "status", "--output", "json").json["web"]["pid"], what="the page")

    machine.start("dgx-a100", "--gpus", "2")
    serve()

    def is_private(number, state, words="LaunchError"):
        job = machine.job_in(number, state, **be(ALICE))
        wait_until(lambda: str(number) in json.dumps([job["id"] for job in machine.run(
            "sluice", "jobs", "--all", "--output", "json", **be(BOB)).ok().json["jobs"]]), what="it is listed")
        for what, text in what_others_are_told(machine, number):
            assert SECRET not in text, f"{state}: {what}: {text}"
        if words:
            seen = machine.run("sluice", "jobs", number, "--output", "json", **be(BOB)).ok().json
            assert words in json.dumps(seen), seen
            for viewer in (be(ALICE), be(0)):
                assert SECRET in machine.job(number, **viewer)["reason_text"]
        return job

    # It waits for another attempt, is held, goes on to wait, and ends for good.
    number = machine.submit(f"/nowhere/{SECRET}", options=("--retries", 2), **be(ALICE))
    wait_until(lambda: machine.job(number, **be(ALICE))["reason"] == "Backoff", what="a retry")
    is_private(number, "Pending")
    for viewer in (be(ALICE), be(0)):
        assert SECRET in machine.run("sluice", "jobs", number, **viewer).ok().out
    machine.service.send_signal(signal.SIGKILL)  # the next one reads it from the store
    machine.service.wait()
    serve()
    is_private(number, "Pending")
    machine.run("sluice", "jobs", "hold", number, **be(ALICE)).ok()
    is_private(number, "Held", "")
    machine.run("sluice", "jobs", "release", number, **be(ALICE)).ok()
    is_private(number, "Pending", "")
    machine.run("sluice", "cancel", number, **be(ALICE)).ok()
    is_private(number, "Cancelled", "")
    # One that fails at once, one whose directory is not to be entered, and one that is too little isolated.
    gone = machine.directory / f"gone-{SECRET}"
    gone.mkdir(mode=0o777)
    os.chmod(gone, 0o777)
    failed = machine.submit(f"/nowhere/{SECRET}", **be(ALICE))
    is_private(failed, "Failed")
    held = machine.submit("true", options=("--hold", "--cwd", gone), **be(ALICE))
    is_private(held, "Held", "")
    gone.rmdir()
    machine.run("sluice", "jobs", "release", held, **be(ALICE)).ok()
    is_private(held, "Failed")
    # One that runs, and why its isolation is no better.
    runs = machine.submit("sleep", "1000", options=("--name", f"name-{SECRET}", "--isolation", "env"), **be(ALICE))
    is_private(runs, "Running", "")
    seen = machine.run("sluice", "jobs", runs, "--output", "json", **be(BOB)).ok().json
    assert seen["attempt"]["isolation"] and not seen["attempt"].get("isolation_reason"), seen
    assert machine.job(runs, **be(ALICE))["attempt"]["isolation_reason"]


def test_who_may_cancel(lab):
    number = secret_job(lab)
    reply = lab.run("sluice", "cancel", number, "--now", **be(BOB))
    assert reply.rc == 77 and f"job {number} belongs to" in reply.err, reply
    assert SECRET not in reply.err
    lab.run("sluice", "cancel", number, "--now", **be(CAROL, ADMINS)).ok()
    job = lab.job_in(number, "Cancelled", **be(ALICE))
    assert str(CAROL) in json.dumps(job)  # by whom
    # The group of the process counts, whether it is the first or one of many.
    number = secret_job(lab)
    lab.run("sluice", "cancel", number, "--now", user=CAROL, group=ADMINS, extra_groups=[],
            cwd="/").ok()
    lab.job_in(number, "Cancelled", **be(ALICE))


def test_a_variable_is_the_owners_to_set(lab):
    """By LD_PRELOAD an administrator would become the job's user."""
    number = lab.submit("sleep", "1000", options=("--hold",), **be(ALICE))
    change = ("sluice", "jobs", "set", number, "--env", "LD_PRELOAD=/tmp/x.so")
    for who in (be(BOB), be(CAROL, ADMINS)):
        assert lab.run(*change, **who).rc == 77
    lab.run(*change, **be(ALICE)).ok()
    lab.run("sluice", "jobs", "set", number, "--priority", 7, **be(CAROL, ADMINS)).ok()
    assert lab.run("sluice", "jobs", "set", number, "--priority", 8, **be(ALICE)).rc == 77
    assert lab.run("sluice", "jobs", "drain", **be(ALICE)).rc == 77


def test_priorities_above_0_are_the_administrators(lab):
    how = ("sluice", "run", "--detach", "--gpus", 0)
    reply = lab.run(*how, "--priority", 1, "--", "true", **be(BOB))
    assert reply.rc == 77 and "adminGroup" in reply.err, reply
    for who, priority in ((be(BOB), 0), (be(BOB), -100), (be(CAROL, ADMINS), 100), (be(0), 100)):
        lab.run(*how, f"--priority={priority}", "--", "true", **who).ok()


def test_without_the_group_root_alone(machine):
    configure(machine, "sluice: {jobs: {adminGroup: no-such-group-here}}")
    wait_until(lambda: "no group 'no-such-group-here'" in
               machine.run("sluice", "agent", "status").out + machine.run("sluice", "agent", "status").err)
    number = secret_job(machine)
    assert machine.run("sluice", "cancel", number, **be(CAROL, ADMINS)).rc == 77
    # A reload makes her one, and takes it away again.
    machine.config.write_text(f"sluice: {{jobs: {{adminGroup: '{ADMINS}'}}}}")
    os.kill(machine.service.pid, signal.SIGHUP)
    wait_until(lambda: machine.run("sluice", "cancel", number, "--now",
                                   **be(CAROL, ADMINS)).rc == 0)
    machine.config.write_text("sluice: {}")
    os.kill(machine.service.pid, signal.SIGHUP)
    number = secret_job(machine)
    wait_until(lambda: machine.run("sluice", "cancel", number, "--now",
                                   **be(CAROL, ADMINS)).rc == 77)
    machine.run("sluice", "cancel", number, "--now").ok()


def test_a_user_database_that_hangs(machine):
    """Nobody waits for it: jobs are taken, run and listed."""
    tools = machine.directory / "tools"
    tools.mkdir()
    (tools / "getent").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tools / "getent").chmod(0o755)
    machine.env["PATH"] = f"{tools}:{machine.env['PATH']}"
    configure(machine, "sluice: {jobs: {adminGroup: of-the-directory, groups: "
              "[{group: other-of-it, gpus: 1}, {group: '61002', pending: 1}]}}")
    status = machine.run("sluice", "agent", "status").ok()
    assert "of-the-directory" in status.out + status.err and "being asked" in status.out + status.err
    number = machine.submit("true", **be(BOB))
    machine.job_in(number, "Succeeded", **be(BOB))


RELAY = """
import os, select, socket, sys
inner = socket.socket(socket.AF_UNIX)
inner.connect(sys.argv[1])
if sys.argv[3] == "leave" and os.fork() > 0:
    os._exit(0)  # who has connected is gone
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[2])
os.chmod(sys.argv[2], 0o777)
listener.listen()
outer, _ = listener.accept()
while True:
    for ready in select.select([inner, outer], [], [])[0]:
        data = ready.recv(1 << 16)
        if not data:
            sys.exit()
        (outer if ready is inner else inner).sendall(data)
"""


@pytest.fixture
def relayed(machine):
    """Makes a client whose connection is a process of Alice's that has the limits of her login, whatever the client says."""
    made = []

    def make(limits, how="stay"):
        place = machine.directory / f"relay-{len(made)}"
        place.mkdir()
        os.chown(place, ALICE, ALICE)

        def limit():
            for kind, value in limits.items():
                resource.setrlimit(kind, (value, value))
        process = machine.spawn("/usr/bin/python3", "-c", RELAY, machine.runtime_dir / "agent.sock", place / "s", how, preexec_fn=limit, **be(ALICE))
        wait_until((place / "s").exists, what="the relay")
        client = Client(place / "s")
        made.append((client, process))
        return client

    yield make
    for client, _ in made:
        client.close()


def limits_of(client, wanted):
    """The soft and the hard limits of processes, files and locked memory that a job gets that says to have these."""
    number = client.submit("bash", "-c", "for what in u n l; do ulimit -S$what; ulimit -H$what; done",
                           limits=[pb.Limit(resource=kind, soft=soft, hard=hard) for kind, soft, hard in wanted]).id
    client.wait(number)
    return client.logs(number).decode().split()


LOGIN = {resource.RLIMIT_NPROC: 321, resource.RLIMIT_NOFILE: 123, resource.RLIMIT_MEMLOCK: 64 << 10}
ENDLESS = 2 ** 64 - 1


def test_nobody_gets_more_than_the_limits_of_his_login(machine, relayed):
    """The hard limits are those that the kernel says of who submits: its word lowers them and raises none."""
    machine.agent()
    client = relayed(LOGIN)
    assert limits_of(client, [(kind, ENDLESS, ENDLESS) for kind in LOGIN]) == ["321", "321", "123", "123", "64", "64"]
    assert limits_of(client, []) == ["321", "321", "123", "123", "64", "64"]
    assert limits_of(client, [(resource.RLIMIT_NPROC, 200, 300), (resource.RLIMIT_NOFILE, 50, 4000)]) == [
        "200", "300", "50", "123", "64", "64"]
    # Twice the same one: the lowest counts.
    assert limits_of(client, [(resource.RLIMIT_NPROC, 100, 200), (resource.RLIMIT_NPROC, 300, 300)])[:2] == ["100", "200"]


def test_limits_of_who_is_gone_are_not_guessed(machine, relayed):
    machine.agent()
    client = relayed(LOGIN, "leave")
    code, words = code_of(client.submit, "true")
    assert code == "PERMISSION_DENIED" and "limits" in words, (code, words)
    assert not client.list(all=True)


PODMAN = """#!/bin/sh
echo "$@" >>{log}
case " $* " in *" --version "*) echo podman version 4.9.0;; *" rm "*) ;; *) exec sleep 2;; esac
"""


@pytest.fixture
def alices_podman(machine):
    """A program of Alice's that is called podman, in a directory of hers; what it was told is in machine.told."""
    machine.home = machine.directory / "alice"
    machine.home.mkdir()
    machine.told = machine.home / "told"
    program = machine.home / "podman"
    program.write_text(PODMAN.format(log=machine.told))
    program.chmod(0o755)
    for path in (machine.home, program):
        os.chown(path, ALICE, ALICE)
    machine.env["PATH"] = f"{machine.home}:/usr/bin:/bin"
    return machine


def test_a_users_own_podman_is_no_container(alices_podman):
    """What lies in a user's directory makes what it likes: it is not called a container, and satisfies nobody who wants one."""
    machine = alices_podman
    machine.agent()
    number = machine.submit("true", options=("--image", "box"), **be(ALICE))
    wait_until(lambda: machine.told.exists() and "--rm" in machine.told.read_text(), what="its podman")
    attempt = machine.job_in(number, "Running", **be(ALICE))["attempt"]
    assert attempt["isolation"] in ("env", "cgroup1", "cgroup2"), attempt
    assert f"'{machine.home}/podman' is not the administrator's" in attempt["isolation_reason"], attempt
    machine.job_in(number, "Succeeded")
    machine.told.unlink()
    reply = machine.run("sluice", "run", "--gpus", 0, "--image", "box", "--isolation", "container", "--", "true", **be(ALICE))
    assert reply.rc == 125 and "isolation 'container' is not reached" in reply.err, reply
    assert not machine.told.exists()  # nothing of hers was started for it


def test_a_users_own_podman_is_not_what_a_machine_demands(alices_podman):
    machine = alices_podman
    configure(machine, "sluice: {jobs: {minimumIsolation: container}}")
    reply = machine.run("sluice", "run", "--gpus", 0, "--image", "box", "--", "true", **be(ALICE))
    assert reply.rc == 125 and "which this machine demands" in reply.err, reply
    assert not machine.told.exists()
    # The administrator's is asked where it comes first, with nothing of hers in it.
    machine.env["PATH"] = f"/usr/bin:/bin:{machine.home}"
    if shutil.which("podman", path="/usr/bin"):
        reply = machine.run("sluice", "run", "--gpus", 0, "--image", "no/such:image", "--pull", "never", "--", "true",
                            env={"HOME": str(machine.home), "LD_PRELOAD": f"{machine.home}/x.so"}, **be(ALICE))
        assert "not reached" not in reply.err, reply
        job = max(machine.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"], key=lambda job: job["id"])
        assert job["attempt"]["isolation"].startswith("container"), job
        said = machine.run("sluice", "logs", "--stderr", job["id"]).out
        assert "image not known" in said and "LD_PRELOAD" not in said, said
        assert not machine.told.exists()


CREW = 61950
GROUPS = """#!/bin/sh
exec unshare -m sh -c 'for name in passwd group; do mount --bind "{etc}/$name" "/etc/$name"; done; exec "$0" "$@"' "{sluice}" "$@"
"""


@pytest.fixture
def crew(machine):
    """A service on a machine where Alice is in a group, until crew.leave()."""
    etc = machine.directory / "etc"
    etc.mkdir()
    (etc / "passwd").write_text(pathlib.Path("/etc/passwd").read_text() + f"alice:x:{ALICE}:{ALICE}::/:/bin/sh\n")
    groups = pathlib.Path("/etc/group").read_text() + f"alice:x:{ALICE}:\n"
    (etc / "group").write_text(f"{groups}crew:x:{CREW}:alice\n")
    program = machine.directory / "agent"
    program.write_text(GROUPS.format(etc=etc, sluice=SLUICE))
    program.chmod(0o755)
    machine.agent(program=str(program))
    machine.leave = lambda: (etc / "group").write_text(f"{groups}crew:x:{CREW}:\n")  # the file that is mounted
    return machine


def groups_of(machine, number):
    machine.job_in(number, "Succeeded")
    return {int(group) for group in machine.run("sluice", "logs", number).ok().out.split()}


def test_a_job_that_waited_has_the_groups_of_its_start(crew):
    """Who was taken out of a group does not come back into it by a job of then, whatever it is made to execute."""
    told = crew.directory / "end"
    told.mkdir()
    told.chmod(0o777)
    ends = ("--on-end", f"id -G >{told}/$SLUICE_JOB_ID")
    numbers = [crew.submit("id", "-G", options=("--hold", *ends), **be(ALICE, CREW)) for _ in range(2)]
    # As her first group, by newgrp once.
    first = crew.submit("id", "-G", options=("--hold",), user=ALICE, group=CREW, extra_groups=[ALICE], cwd="/")
    crew.run("sluice", "jobs", "release", numbers[0], **be(ALICE)).ok()
    assert groups_of(crew, numbers[0]) == {ALICE, CREW}
    crew.leave()
    for number in (numbers[1], first):
        crew.run("sluice", "jobs", "release", number, **be(ALICE)).ok()
        assert groups_of(crew, number) == {ALICE}
    assert (told / str(numbers[0])).read_text().split() == [str(ALICE), str(CREW)]
    assert (told / str(numbers[1])).read_text().split() == [str(ALICE)]


def test_who_changes_what_a_job_executes_gives_it_no_rights(crew):
    """By a variable one decides what a job does: it keeps no group and no limit that this process has not."""
    how = ("--hold", "--env", "X=1")
    command = ("bash", "-c", "id -G; ulimit -Hn")
    number, other = (crew.submit(*command, options=how, **be(ALICE, CREW)) for _ in range(2))
    assert crew.run("sluice", "jobs", "set", number, "--env", "X=2", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (60, 60)), **be(ALICE)).ok()
    reply = crew.run("sluice", "jobs", "set", other, "--env", "X=2", user=ALICE, group=CREW, extra_groups=[], cwd="/")
    assert reply.rc == 77 and f"group {ALICE}" in reply.err, reply
    for one in (number, other):
        crew.run("sluice", "jobs", "release", one, **be(ALICE)).ok()
        crew.job_in(one, "Succeeded")
    groups, files = crew.run("sluice", "logs", number).ok().out.splitlines()
    assert (groups.split(), files) == ([str(ALICE)], "60")
    groups, files = crew.run("sluice", "logs", other).ok().out.splitlines()
    assert set(groups.split()) == {str(ALICE), str(CREW)} and int(files) > 60
    # Root may.
    number = crew.submit(*command, options=how, **be(ALICE, CREW))
    crew.run("sluice", "jobs", "set", number, "--env", "X=2").ok()
    crew.run("sluice", "jobs", "release", number).ok()
    crew.job_in(number, "Succeeded")
    assert str(CREW) in crew.run("sluice", "logs", number).ok().out
