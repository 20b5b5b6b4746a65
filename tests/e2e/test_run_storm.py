# SPDX-License-Identifier: Apache-2.0
"""A kill storm over `sluice run`: however its processes die, no GPU has two living jobs.

STORM_SECONDS (default 6) and STORM_SEED choose how long and which; the seed is printed. The witness
(storm_job.py) is outside of sluice. The negative control runs the same storm with a build in which
tokens are always free, and must see the witness complain.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

from conftest import BUILD, SLUICE, wait_until

SECONDS = float(os.environ.get("STORM_SECONDS", "6"))
SEED = int(os.environ.get("STORM_SEED", random.randrange(1 << 31)))
THREADS = 4
BROKEN = os.environ.get("SLUICE_WITHOUT_TOKENS",
                        str(BUILD / "tests" / "e2e" / "sluice-without-tokens"))
JOB = str(pathlib.Path(__file__).with_name("storm_job.py"))


def child_of(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    except (OSError, IndexError):
        return 0


def kill(*pids):
    """Kills at once: all are stopped first, so that none can act for another."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, number) if pid else None
            except ProcessLookupError:
                pass


class Storm:
    def __init__(self, machine, sluice, seconds):
        self.machine, self.sluice = machine, sluice
        self.held = machine.directory / "held"
        self.held.mkdir(exist_ok=True)
        self.violations = self.held / "violations"
        self.end = time.monotonic() + seconds
        self.started = self.killed = self.finished = 0
        self.errors = []
        self.lock = threading.Lock()

    def one(self, chance):
        victim = chance.choice(["nobody", "nobody", "client", "supervisor", "command", "both"])
        # one that closes its descriptors and whose keepers all die at once is beyond our promise
        kind = chance.choice(["plain", "daemon"] + (["closing"] if victim != "both" else []))
        process = subprocess.Popen(
            [self.sluice, "run", "-q", "--gpus", str(chance.choice([1, 1, 2, 4, 8])), "--grace",
             chance.choice(["0s", "50ms", "1s"]), "--", sys.executable, "-S", JOB, str(self.held),
             str(chance.randrange(120)), kind],
            env=self.machine.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True)
        try:
            if victim != "nobody":
                process.wait(timeout=chance.uniform(0, 0.5))
            else:
                process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            supervisor = child_of(process.pid)
            command = child_of(supervisor) if supervisor else 0
            kill(*{"client": [process.pid], "supervisor": [supervisor], "command": [command],
                   "both": [process.pid, supervisor]}.get(victim, []))
            with self.lock:
                self.killed += 1
        _, err = process.communicate(timeout=60)
        with self.lock:
            self.started += 1
            if victim == "nobody":
                self.finished += 1
                if process.returncode != 0:
                    self.errors.append(f"an unharmed job ended with {process.returncode}: {err}")

    def body(self, number):
        chance = random.Random(f"{SEED} {number}")
        try:
            while time.monotonic() < self.end and not self.violations.exists():
                self.one(chance)
        except Exception as error:  # must not look like a calm sea
            self.errors.append(f"{type(error).__name__}: {error}")

    def rage(self):
        threads = [threading.Thread(target=self.body, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"seed {SEED}: {self.started} jobs, {self.killed} killed, {self.finished} unharmed")


def leftovers(machine):
    """Processes of jobs of this machine that still live."""
    mark = os.fsencode(f"SLUICE_SIM_STATE={machine.state}")
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if mark in text.split(b"\0") and b"SLUICE_JOB_ID=" in text:
            found.append(path.parent.name)
    return found


def test_no_two_living_jobs_share_a_gpu(machine):
    machine.start("dgx-a100")
    storm = Storm(machine, SLUICE, SECONDS)
    storm.rage()
    assert not storm.errors, storm.errors
    assert not storm.violations.exists(), f"seed {SEED}: {storm.violations.read_text()}"
    assert storm.started > THREADS and storm.killed > 0
    wait_until(lambda: not leftovers(machine), what="the end of all jobs")
    machine.run("sluice", "run", "--gpus", "8", "--wait-timeout", "10s", "--", "true").ok()


def test_the_witness_sees_a_build_without_tokens(machine):
    machine.start("dgx-a100")
    storm = Storm(machine, BROKEN, 30)
    storm.rage()
    assert storm.violations.exists(), f"seed {SEED}: the witness is blind"
    wait_until(lambda: not leftovers(machine), what="the end of all jobs")
