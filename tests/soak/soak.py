#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A seeded storm over everything that exists: kills, faults and hangs, with invariants that hold.

One simulated machine, and at once: writers of its state that are killed at any moment, readers that
check what they read, a service whose agent, supervisors, jobs and clients are killed with SIGKILL one
by one and all together (tests/e2e/storm.py), a driver that hangs and recovers. Then the fuzz targets
for a part of the time. The seed decides what happens, the machine's scheduler when; the same seed
makes a similar storm, not the same one.

Ends with a line "N passed, N failed", one for each invariant; exits 1 when one was broken.
"""

import argparse
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import storm as queue_storm  # noqa: E402, below the path to it

PROFILE = "dgx-a100"
GPUS = 8
ANSWER_S = 60  # no command of ours may take longer, whatever else goes on
HUNG_S = 75  # the agent asks a GPU that hung again after a minute, and may have to notice first
TOLD_LINES = 40  # of each log, when something broke
FUZZ_SHARE = 0.2
FUZZ_LEAST_S = 2  # of a target that is searched at all: it starts and reads its corpus first
SLOTS = 2  # of each GPU
ROUND_S = 60  # then all jobs are let end, and each is looked at
VICTIMS = ["agent"] * 6 + ["supervisor"] * 2 + ["command", "everything"]
INVARIANTS = {
    "state": "a writer that was killed harms nobody: the next one succeeds, readers read",
    "readings": "what is read is whole: same GPUs, memory adds up, energy only grows",
    "lost": "a job whose submission was answered is there until the end, and ends",
    "doubled": "no attempt of a job runs twice, whatever is killed",
    "order": "nothing runs while it is held, drained, or before what it waits for; no array beyond its limit",
    "ended": "--on-end runs once for an attempt",
    "kept": "no more of an output is kept than may be",
    "overlap": "no two living jobs are in one slot of a GPU",
    "left": "when all jobs have ended no process of theirs lives",
    "outcome": "the exit code of a job that nobody touched is its own",
    "key": "the same submission again is the same job",
    "leaks": "when the last job is gone every GPU is free again",
    "hangs": "a GPU that hangs hides no other one, and is back when the hang is over",
    "calm": "what is aimed at the agent that serves meets it",
    "fuzz": "no input makes a parser fail",
}


class Broken(Exception):
    """An invariant does not hold."""


class Storm:
    def __init__(self, build, seconds, seed):
        self.sluice = os.path.join(build, "src", "cmd", "sluice")
        self.seed = seed
        self.deadline = time.monotonic() + seconds
        self.folder = tempfile.mkdtemp(prefix="sluice-soak-")
        os.chmod(self.folder, 0o755)
        self.counts = Counter()
        self.broken = {}
        self.waiting = None
        self.lock = threading.Lock()
        # Faults that hide GPUs or block calls, and readers that expect none of them, take turns.
        self.quiet = threading.Lock()
        self.job = os.path.join(build, "tests", "e2e", "torture-job")
        self.env = {
            **os.environ,
            "SLUICE_SIM_STATE": os.path.join(self.folder, "machine.state"),
            "SLUICE_WEB_ADDRESS": "off",
            "SLUICE_SIM_LIBDIR": os.path.join(build, "sim", "nvml"),
            "SLUICE_PROFILES": os.path.join(ROOT, "sim", "profiles"),
        }

    # Small tools.

    def goes_on(self):
        return time.monotonic() < self.deadline and not self.broken

    def random(self, name):
        return random.Random(f"{self.seed} {name}")

    def break_(self, invariant, text):
        with self.lock:
            self.broken.setdefault(invariant, text)

    def count(self, what, by=1):
        with self.lock:
            self.counts[what] += by

    def start(self, *command, **options):
        return subprocess.Popen([self.sluice, *command], env=self.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, start_new_session=True, **options)

    def run(self, invariant, *command):
        """The output of a command that must succeed in time."""
        process = self.start(*command)
        try:
            out, err = process.communicate(timeout=ANSWER_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Broken(invariant, f"'{' '.join(command)}' took more than {ANSWER_S} s") from None
        if process.returncode != 0:
            raise Broken(invariant, f"'{' '.join(command)}' exited with {process.returncode}: {err}")
        return out

    def machine_environment(self):
        """What `sluice sim env` prints, as variables."""
        lines = [shlex.split(line, comments=True) for line in self.run("state", "sim", "env").splitlines()]
        return dict(words[1].split("=", 1) for words in lines if words[:1] == ["export"])

    def kill_after(self, process, seconds):
        """Lets a process live for so long at most, then kills it and all of its group."""
        try:
            process.communicate(timeout=seconds)
            return False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return True

    # The actors. Each runs in a thread of its own until the time is over or something broke.

    def writers(self):
        chance = self.random("writers")
        while self.goes_on():
            gpu = str(chance.randrange(GPUS))
            command = chance.choice([
                ("sim", "inject", "xid", str(chance.choice([31, 43, 94])), "--gpu", gpu),
                ("sim", "inject", "ecc", "corrected", "--gpu", gpu),
                ("sim", "inject", "thermal", "--ambient", str(chance.randrange(20, 35)), "--gpu", gpu),
                ("sim", "load", "--gpu", gpu, "--util", "0.9", "--mem", "1GiB", "--", "sleep", "1"),
            ])
            if self.kill_after(self.start(*command), chance.uniform(0, 0.03)):
                self.count("writers killed")
            if chance.random() < 0.2:
                self.run("state", "sim", "inject", "xid", "43", "--gpu", gpu)
                self.run("state", "sim", "status")
            self.count("writes")

    def readers(self):
        chance = self.random("readers")
        energy = {}
        while self.goes_on():
            with self.quiet:
                shown = json.loads(self.run("readings", "sim", "show", "--output", "json"))
                seen = json.loads(self.run("readings", "devices", "--output", "json"))
            self.check_readings(shown, seen, energy)
            self.count("machines read")
            if chance.random() < 0.3:
                self.run("readings", "topo")

    def check_readings(self, shown, seen, energy):
        uuids = [gpu["uuid"] for gpu in shown["gpus"]]
        if len(set(uuids)) != GPUS:
            raise Broken("readings", f"{len(set(uuids))} different GPUs in place of {GPUS}")
        if [gpu["uuid"] for gpu in seen["gpus"]] != uuids:
            raise Broken("readings", "sluice devices and sluice sim show name different GPUs")
        for gpu in shown["gpus"]:
            memory = gpu["memory"]
            if memory["total"] != memory["used"] + memory["free"] + memory["reserved"]:
                raise Broken("readings", f"{gpu['uuid']}: memory does not add up: {memory}")
            if gpu["energy_mj"] < energy.get(gpu["uuid"], 0):
                raise Broken("readings", f"{gpu['uuid']}: energy went back to {gpu['energy_mj']}")
            energy[gpu["uuid"]] = gpu["energy_mj"]

    def jobs(self):
        config = os.path.join(self.folder, "shared.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write("version: v1\nsharing: {timeSlicing: {resources: "
                       f"[{{name: nvidia.com/gpu, replicas: {SLOTS}}}]}}}}\nsluice: {{jobs: {{logLimit: 64Ki}}}}\n")
        service = queue_storm.Service(self.sluice, {**self.env, "SLUICE_CONFIG": config}, SLOTS)
        number = 0
        try:
            while self.goes_on():
                number += 1
                self.jobs_round(service, number)
            if not self.broken:
                self.check_leaks(service)
        except Broken as broken:
            self.break_(*broken.args)
        finally:
            if self.broken or sys.exc_info()[0]:
                self.tell(service)
            if self.waiting:
                self.waiting.kill()  # or it would start an agent of its own
                self.waiting.communicate()
            service.stop(keep=bool(self.broken))

    def jobs_round(self, service, number):
        storm = queue_storm.Storm(service, self.job, f"{self.seed}-{number}", VICTIMS)
        storm.varied = True
        storm.rage(min(ROUND_S, max(1, self.deadline - time.monotonic())))
        for line in storm.check():
            kind = line.split(":")[0]
            self.break_(kind if kind in INVARIANTS else "state", line)
        self.count("jobs", len(storm.jobs))
        for what, count in storm.counts.items():
            self.count(f"jobs {what}" if what[0].isupper() else what, count)

    def check_leaks(self, service):
        """Every GPU can be had once what was left of the killed jobs is gone and a hang is over."""
        process = service.client().popen("run", "-q", "--gpus", str(GPUS), "--", "true")
        try:
            _, err = process.communicate(timeout=ANSWER_S + HUNG_S)
        except subprocess.TimeoutExpired:
            self.waiting = process  # while tell() looks
            raise Broken("leaks", f"a job for all GPUs has not run within {ANSWER_S + HUNG_S} s; "
                                  "what it waits for stands above") from None
        if process.returncode != 0:
            raise Broken("leaks", f"a job for all GPUs exited with {process.returncode}: {err}")

    def tell(self, service):
        """What the service knows at the moment at which something broke."""
        for words in (["jobs", "--output", "json"], ["top", "--once"], ["devices"]):
            process = service.client().popen(*words)
            try:
                out, err = process.communicate(timeout=ANSWER_S)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                err += f"no answer within {ANSWER_S} s"
            if words[0] == "jobs" and process.returncode == 0:
                jobs = json.loads(out)["jobs"]
                out = "\n".join(json.dumps(job) for job in jobs if job["state"] not in queue_storm.FINAL)
            self.tell_lines(f"sluice {' '.join(words)}", [*out.splitlines(), *err.splitlines()])
        for what, lines in service.logs().items():
            self.tell_lines(what, [line for line in lines
                                   if '"event":"xid"' not in line and '"level":"info"' not in line])

    def tell_lines(self, what, lines):
        print(f"soak: {what}:")
        if len(lines) > TOLD_LINES:
            print(f"soak:   ({len(lines) - TOLD_LINES} lines more)")
        for line in lines[-TOLD_LINES:]:
            print(f"soak:   {line}")
        sys.stdout.flush()

    def hangs(self):
        chance = self.random("hangs")
        while self.goes_on():
            gpu = chance.randrange(GPUS)
            with self.quiet:
                self.run("hangs", "sim", "inject", "hang", "nvmlDeviceGetTemperature", "--gpu", str(gpu))
                process = self.start("devices", "--output", "json")
                try:
                    out, err = process.communicate(timeout=ANSWER_S)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
                    raise Broken("hangs", f"sluice devices did not return with GPU {gpu} hanging") from None
                try:
                    found = len(json.loads(out)["gpus"])
                except (ValueError, KeyError):
                    raise Broken("hangs", f"sluice devices said: {out} {err}") from None
                if found != GPUS:
                    raise Broken("hangs", f"{found} GPUs are listed while GPU {gpu} hangs")
                self.run("hangs", "sim", "heal")
                self.run("hangs", "devices")
            self.count("hangs and heals")
            self.wait(chance.uniform(1, 5))

    def wait(self, seconds):
        end = min(time.monotonic() + seconds, self.deadline)
        while time.monotonic() < end and not self.broken:
            time.sleep(0.1)

    # The whole.

    def actor(self, function, *arguments):
        def body():
            try:
                function(*arguments)
            except Broken as broken:
                self.break_(*broken.args)
            except Exception as error:  # an actor that dies must not look like a calm sea
                self.break_("state", f"{function.__name__}: {type(error).__name__}: {error}")

        thread = threading.Thread(target=body)
        thread.start()
        return thread

    def storm(self):
        try:
            self.run("state", "sim", "start", "--profile", PROFILE, "--seed", str(self.seed),
                     "--root", os.path.join(self.folder, "machine"),
                     "--state", self.env["SLUICE_SIM_STATE"], "--dev-style", "file", "--alongside")
            self.env.update(self.machine_environment())
            threads = [self.actor(function)
                       for function in (self.writers, self.readers, self.hangs, self.jobs)]
            for thread in threads:
                thread.join()
            self.run("state", "sim", "stop")
        except Broken as broken:
            self.break_(*broken.args)
        if not self.broken:
            shutil.rmtree(self.folder)
        else:
            print(f"soak: what was left is in {self.folder}")

    def fuzz(self, seconds):
        """All targets, or as many as there are seconds for: the seed chooses."""
        targets = sorted(name.removesuffix("_fuzz.c") for name in os.listdir(os.path.join(ROOT, "tests", "fuzz"))
                         if name.endswith("_fuzz.c"))
        if not shutil.which("clang") or not targets:
            print("soak: fuzz: SKIPPED, there is no clang or no target")
            return
        seconds *= os.cpu_count() or 1
        searched = random.Random(self.seed).sample(targets, min(len(targets), max(1, int(seconds / FUZZ_LEAST_S))))
        each = max(FUZZ_LEAST_S, int(seconds / len(searched)))
        result = subprocess.run([os.path.join(ROOT, "tools", "fuzz"), *searched, "--seconds", str(each),
                                 "--seed", str(self.seed % (1 << 31) or 1)],
                                capture_output=True, text=True, check=False)
        print(result.stdout, end="")
        if result.returncode != 0:
            self.break_("fuzz", result.stdout + result.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    arguments = parser.parse_args()
    seconds = arguments.seconds or (arguments.hours or 1) * 3600
    print(f"soak: seed {arguments.seed}, {seconds:.0f} s", flush=True)

    storm = Storm(os.path.realpath(arguments.build), seconds * (1 - FUZZ_SHARE), arguments.seed)
    storm.storm()
    for what, number in sorted(storm.counts.items()):
        print(f"soak: {number} {what}")
    storm.fuzz(seconds * FUZZ_SHARE)
    for invariant, text in INVARIANTS.items():
        held = "held until then" if storm.broken else "held"
        verdict = f"BROKEN: {storm.broken[invariant]}" if invariant in storm.broken else held
        print(f"soak: {invariant}: {text}: {verdict}")
    print(f"{len(INVARIANTS) - len(storm.broken)} passed, {len(storm.broken)} failed")
    return 1 if storm.broken else 0


if __name__ == "__main__":
    sys.exit(main())
