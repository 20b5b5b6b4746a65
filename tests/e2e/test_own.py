# SPDX-License-Identifier: Apache-2.0
"""Where the machine has an agent, its queue stays one: while that agent is away nobody is given another unasked. In the
default places, of a mount namespace of this test's own."""

import os
import signal
import subprocess
import time

import pytest

from conftest import SLUICE, base_environment, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or subprocess.run(
    ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/etc/systemd"], capture_output=True, check=False).returncode != 0,
    reason="needs root and mount namespaces")
ALICE = 4242
AWAY = "waiting for the machine's agent, which does not answer"


class Place:
    """/run and /var/lib that are empty, and a user who has a home."""

    def __init__(self, directory):
        self.home = directory / "alice"
        self.home.mkdir()
        os.chown(self.home, ALICE, ALICE)
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /var/lib && mount -t tmpfs none /run && mount -t tmpfs none /etc/systemd && echo && exec sleep 600"],
            stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"\n"
        self.service = None

    def popen(self, *words, user=ALICE, **env):
        inside = ["nsenter", "-m", "-t", str(self.holder.pid), "--"]
        if user:
            inside += ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
            env["HOME"] = str(self.home)
        return subprocess.Popen([*inside, SLUICE, *map(str, words)], env={**base_environment(), **env}, cwd="/",
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def inside(self, *words):
        subprocess.run(["nsenter", "-m", "-t", str(self.holder.pid), "--", *words], check=True)

    def run(self, *words, **how):
        process = self.popen(*words, **how)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def serve(self):
        self.service = self.popen("agent", user=0)
        wait_until(lambda: self.run("jobs")[0] == 0, what="the machine's agent")

    def kill(self):
        self.service.kill()
        self.service.communicate()

    def has_own(self):
        return (self.home / ".local").exists()


@pytest.fixture
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("own")
    for each in (directory, directory.parent, directory.parent.parent):
        os.chmod(each, 0o755)
    if subprocess.run(["setpriv", "--reuid", str(ALICE), "--clear-groups", SLUICE, "--version"],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip(f"other users cannot execute {SLUICE}")
    made = Place(directory)
    yield made
    made.run("agent", "stop", "--socket", "own")
    if made.service:
        made.kill()
    made.holder.kill()
    made.holder.wait()


def waiting(place, *words, **how):
    """A run that says that it waits."""
    process = place.popen("run", *words, **how)
    line = process.stderr.readline()
    assert AWAY in line and "--own" in line, line
    return process


def test_a_run_waits_for_the_machines_agent(place):
    place.serve()
    assert place.run("run", "--gpus", "0", "--", "echo", "first")[:2] == (0, "first\n")
    place.kill()

    process = waiting(place, "--gpus", "0", "--", "echo", "second")
    time.sleep(0.3)
    assert process.poll() is None and not place.has_own()
    place.serve()
    assert process.communicate(timeout=60)[0] == "second\n" and process.returncode == 0
    place.kill()

    # What root starts is the machine's, with its queue.
    process = waiting(place, "--gpus", "0", "--", "true")
    assert place.run("run", "--gpus", "0", "--", "echo", "root", user=0)[:2] == (0, "root\n")
    assert process.wait(timeout=60) == 0 and not place.has_own()
    assert {line.split()[0] for line in place.run("jobs", "--all", user=0)[1].splitlines()[1:]} == {"1", "2", "3", "4"}
    place.run("agent", "stop", user=0)


def test_root_waits_for_the_service_of_systemd(place):
    """Which is about to start it, and could not beside another."""
    place.inside("mkdir", "-p", "/run/systemd/system", "/etc/systemd/system/multi-user.target.wants")
    place.inside("touch", "/etc/systemd/system/multi-user.target.wants/sluice.service")
    processes = [waiting(place, "--gpus", "0", "--", "echo", "x", user=user) for user in (0, ALICE)]
    place.serve()
    for process in processes:
        assert process.communicate(timeout=60)[0] == "x\n" and process.returncode == 0
    place.kill()
    place.inside("rm", "-r", "/run/systemd")  # installed into a container: nobody starts it but whoever needs it
    assert place.run("run", "--gpus", "0", "--", "echo", "y", user=0)[:2] == (0, "y\n")
    place.run("agent", "stop", user=0)


def test_who_does_not_want_to_wait_says_so(place):
    place.serve()
    place.kill()
    rc, _, err = place.run("run", "--no-wait", "--gpus", "0", "--", "true")
    assert rc == 75 and "does not answer, and would have to be waited for" in err, err
    rc, _, err = place.run("run", "--wait-timeout", "300ms", "--gpus", "0", "--", "true")
    assert rc == 124 and "--wait-timeout" in err, err
    rc, _, err = place.run("run", "--dry-run", "--gpus", "0", "--", "true")
    assert rc == 69 and "the machine's agent does not answer" in err, err
    rc, _, err = place.run("jobs")
    assert rc == 69 and "systemctl status sluice" in err, err
    process = waiting(place, "--gpus", "0", "--", "true")
    process.send_signal(signal.SIGINT)
    assert "nothing was submitted" in process.communicate(timeout=60)[1] and process.returncode == 130
    assert not place.has_own()


def test_an_agent_of_ones_own_is_there_for_the_asking(place):
    place.serve()
    place.kill()
    assert place.run("run", "--own", "--gpus", "0", "--", "echo", "mine")[:2] == (0, "mine\n")
    assert place.has_own()
    assert "echo" in place.run("jobs", "--all", "--socket", "own")[1]
    assert place.run("jobs")[0] == 69  # the machine's is still the one that is meant
    place.serve()
    assert "echo" not in place.run("jobs", "--all")[1]
    assert "echo" in place.run("jobs", "--all", SLUICE_SOCKET="own")[1]
    assert place.run("run", "--own", "--socket", "/x", "--", "true")[0] == 64


def test_without_one_of_the_machine_the_first_run_starts_ones_own(place):
    assert place.run("run", "--gpus", "0", "--", "echo", "alone")[:2] == (0, "alone\n")
    assert place.has_own()
    # Root's first run is no installation either: it ends when it is idle.
    assert place.run("run", "--gpus", "0", "--", "echo", "root", user=0)[:2] == (0, "root\n")
    place.run("agent", "stop", user=0)
    assert place.run("run", "--gpus", "0", "--", "echo", "again")[:2] == (0, "again\n")
