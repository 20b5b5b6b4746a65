# SPDX-License-Identifier: Apache-2.0
"""A kill storm over the queue, and the checks that are made from outside of it.

The queue runs in `sluice-torture` (Agent, torture_agent.c) or in the real service (Service), jobs are
`torture-job`, which write down that they ran and hold a lock of their own for each slot they were
given. Whatever is killed:

  lost      a job whose submission was answered is there until the end, and ends
  doubled   no job's command ran twice; exactly once if its supervisor was not killed, and not
            cancelled
  outcome   a job that nobody touched has the exit code that it gave
  overlap   no two living jobs were in one slot of a GPU
  left      when all have ended, no process of any of them lives
  key       a submission that is repeated with its key gets the same job
  calm      it is no storm: what is aimed at the agent does not meet the one that serves
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections import Counter

import cgroups

FINAL = ("Succeeded", "Failed", "Cancelled")
ANSWER_S = 30
IDLE_S = 180
BACKLOG = 40  # jobs that are not final, of all clients
LOG_MAX = 1 << 20  # bytes of a log's end that are looked at
AIMED, HIT_SHARE = 20, 0.2  # of so many blows or more, this part or more meet who serves


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def descendants(pid):
    found = [pid]
    for parent in found:
        try:
            with open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
        except OSError:
            pass
    return found[1:]


def supervisors_of(state):
    """{pid: job id} of those that live."""
    found = {}
    prefix = os.path.join(os.path.realpath(state), "j") + "/"
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/comm", encoding="ascii", errors="replace") as file:
                if not file.read().startswith("sluice-supervis"):
                    continue
            target = os.readlink(f"/proc/{name}/fd/4")
        except OSError:
            continue
        rest = target[len(prefix):]
        if target.startswith(prefix) and rest.isdigit():
            found[int(name)] = int(rest)
    return found


class Keeper:
    """A program that is started again whenever it has died."""

    def __init__(self, command, environment, state, slots):
        self.command, self.environment, self.state = command, environment, state
        self.slots = slots
        self.log = tempfile.TemporaryFile()  # not on a disk that a test fills
        self.process, self.stopping = None, False
        self.starts = self.died = 0
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.keep)
        self.thread.start()

    def keep(self):
        while not self.stopping:
            with self.lock:
                self.process = subprocess.Popen(self.command, env=self.environment,
                                                stdin=subprocess.DEVNULL, stdout=self.log,
                                                stderr=self.log, start_new_session=True)
                self.starts += 1
            self.process.wait()
            if self.process.returncode < 0:
                self.died += 1
            else:
                time.sleep(0.1)  # it refuses to start: not in a tight loop

    def processes(self):
        return [self.process.pid]

    def kill(self):
        """The one that serves; False when there is none at this moment."""
        with self.lock:
            pid = self.serving()
            return pid is not None and kill(pid)

    def serving(self):
        return self.process.pid

    def supervisors(self):
        return supervisors_of(self.state)

    def end(self):
        self.stopping = True
        while self.thread.is_alive():
            with self.lock:
                for pid in self.processes():
                    kill(pid)
            self.thread.join(0.1)
        for pid in self.supervisors():
            for child in descendants(pid):
                kill(child)
            kill(pid)

    def logs(self):
        """{name: lines} of what the kept program, and agents that clients started, have written."""
        found = {"log": self.log_lines(self.log.fileno())}
        try:
            with open(os.path.join(self.state, "agent.log"), "rb") as file:
                found["agent.log"] = self.log_lines(file.fileno())
        except FileNotFoundError:
            pass
        return found

    @staticmethod
    def log_lines(fd):
        """By pread: the program writes at the position that it shares with us."""
        text = os.pread(fd, LOG_MAX, max(0, os.fstat(fd).st_size - LOG_MAX))
        return text.decode(errors="replace").splitlines()

    def keep_log(self, directory):
        self.log.seek(0)
        with open(os.path.join(directory, "storm.log"), "wb") as file:
            shutil.copyfileobj(self.log, file)


class Agent(Keeper):
    """sluice-torture."""

    def __init__(self, program, supervisor, gpus=4, slots=2, environment=None, state=None):
        state = state or tempfile.mkdtemp(prefix="sluice-storm-")
        os.chmod(state, 0o755)
        with open(os.path.join(state, "machine"), "w", encoding="ascii"):
            pass  # the tokens of this machine are its own
        super().__init__([program, state, supervisor, str(gpus), str(slots)],
                         {**os.environ, **(environment or {})}, state, slots)

    def client(self):
        return Client(self)

    def stop(self, keep=False):
        self.end()
        if keep:
            self.keep_log(self.state)
        self.log.close()
        if not keep:
            shutil.rmtree(self.state, ignore_errors=True)


class Service(Keeper):
    """`sluice agent` on a simulated machine; clients are `sluice run` and the like."""

    def __init__(self, sluice, environment, slots):
        self.sluice = sluice
        super().__init__([sluice, "agent", "--period", "200ms"], environment,
                         environment["SLUICE_STATE_DIR"], slots)

    def serving(self):
        """Who has the queue: the agent that is kept here, or one that a client has started."""
        try:
            with open(os.path.join(self.state, "queue.lock"), encoding="ascii") as file:
                holder = int(file.read().split()[1])
            # The number may be another's by now.
            program = os.readlink(f"/proc/{holder}/exe").removesuffix(" (deleted)")
        except (OSError, ValueError, IndexError):
            return None
        return holder if program == os.path.realpath(self.sluice) else None

    def processes(self):
        found = {self.process.pid, self.serving()} - {None}
        return [*found, *(child for pid in found for child in descendants(pid))]

    def client(self):
        return CommandClient(self)

    def stop(self, keep=False):
        self.end()
        cgroups.remove(self.state)
        if keep:
            self.keep_log(self.state)
        self.log.close()


class Gone(Exception):
    """The agent died before it answered."""


class Insistent:
    def ask(self, *words):
        raise NotImplementedError

    def insist(self, *words):
        """Repeats until somebody answers."""
        deadline = time.monotonic() + IDLE_S
        while time.monotonic() < deadline:
            try:
                return self.ask(*words)
            except Gone:
                time.sleep(0.002)
        raise AssertionError(f"nobody answers '{words[0]}' for {IDLE_S} s")

    def states(self, ids):
        return {number: self.insist("state", number) for number in ids}


class Client(Insistent):
    """Speaks to sluice-torture."""

    def __init__(self, agent):
        self.path = os.path.join(agent.state, "torture.sock")
        self.socket = None

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    def send(self, *words):
        try:
            if not self.socket:
                self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self.socket.settimeout(ANSWER_S)
                self.socket.connect(self.path)
            self.socket.send(" ".join(str(word) for word in words).encode())
        except (ConnectionError, FileNotFoundError, BrokenPipeError) as error:
            self.close()
            raise Gone from error

    def ask(self, *words):
        self.send(*words)
        try:
            answer = self.socket.recv(4096)
        except ConnectionError as error:
            self.close()
            raise Gone from error
        except TimeoutError:
            raise AssertionError(f"no answer to '{words[0]} {words[1:2]}' in {ANSWER_S} s") from None
        if not answer:
            self.close()
            raise Gone
        return answer.decode()


class CommandClient(Insistent):
    """Each question is a program of ours, which may be killed as any other."""

    def __init__(self, service):
        self.service = service

    def close(self):
        pass

    def start(self, *words):
        what, *rest = [str(word) for word in words]
        if what == "submit":
            key, gpus, share, *command = rest
            options = ["--key", str(uuid.uuid5(uuid.NAMESPACE_OID, key)), "--gpus", gpus]
            options += ["--share"] if share == "1" else []
            what = ["run", "-q", "-d", "--grace", "300ms", "--cwd", "/", *options, "--", *command]
        else:
            what = {"cancel": ["cancel", *rest], "left": ["jobs", "--output", "json"],
                    "all": ["jobs", "--all", "--output", "json"],
                    "state": ["jobs", *rest, "--output", "json"]}[what]
        return self.popen(*what)

    def popen(self, *words):
        return subprocess.Popen([self.service.sluice, *words], env=self.service.environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, start_new_session=True)

    def send(self, *words):
        """Dies of it, at any moment."""
        process = self.start(*words)
        try:
            process.communicate(timeout=random.uniform(0, 0.03))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def ask(self, *words):
        process = self.start(*words)
        try:
            out, err = process.communicate(timeout=IDLE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise AssertionError(f"'{words[0]} {words[1:2]}' took {IDLE_S} s") from None
        if process.returncode in (69, 124) or process.returncode < 0:
            raise Gone(err)
        if process.returncode != 0:
            return f"error {process.returncode} {err}"
        return getattr(self, "read_" + words[0])(out)

    def read_submit(self, out):
        return f"ok {int(out)}"

    def read_cancel(self, out):
        return "ok"

    def read_left(self, out):
        return str(sum(job["state"] not in FINAL for job in json.loads(out)["jobs"]))

    def read_all(self, out):
        return out

    def states(self, ids):
        jobs = json.loads(self.insist("all"))["jobs"]
        return {job["id"]: self.state_of(job) for job in jobs}

    def read_state(self, out):
        return self.state_of(json.loads(out))

    def state_of(self, job):
        code = job["exit_code"]
        return f"{job['state']} {job['reason'] or '-'} {-1 if code is None else code}"


class Job:
    def __init__(self, key, chance, slots):
        self.key, self.id = key, None
        self.gpus = chance.choice([0, 0, 0, 1, 1, 1, 1, 2, 4])
        self.share = int(self.gpus > 0 and slots > 1 and chance.random() < 0.5)
        self.milliseconds = chance.choice([0, 5, 20, 60])
        self.kind = chance.choice(["plain", "plain", "plain", "daemon"])
        self.code = chance.choice([0, 0, 0, 3])
        self.cancelled = False
        self.wants = ""  # as wants.h has them, "+" for a newline
        self.members = 1  # jobs that it is, each of which runs
        self.runs = 1  # of each, when nothing happens to it


class Storm:
    def __init__(self, agent, job_program, seed, victims=("agent",), backlog=BACKLOG):
        self.agent, self.program, self.seed = agent, job_program, seed
        self.victims, self.backlog = victims, backlog
        self.witness = agent.state  # where jobs write what they did
        self.jobs = {}  # by key
        self.touched = set()  # ids of jobs whose supervisor or command was killed
        self.counts = Counter()
        self.broken = []
        self.lock = threading.Lock()
        self.end = self.aimed = 0
        self.until = lambda storm: False
        self.may_lose = 0  # supervisors that die by themselves, of jobs that are not known

    def goes_on(self):
        return time.monotonic() < self.end and not self.broken and not self.until(self)

    def has_doubled(self):
        """Whether a job is known to have run twice by now."""
        return any(runs > 1 for runs in Counter(self.lines("ran")).values())

    def break_(self, what):
        with self.lock:
            self.broken.append(what)

    def request(self, job):
        return (*(("wanting", job.wants) if job.wants else ("submit",)), job.key, job.gpus, job.share, self.program, self.witness, job.key,
                job.milliseconds, job.kind, self.agent.slots, "share" if job.share else "whole",
                job.code)

    # The actors.

    def submit(self, client, job):
        answer = client.insist(*self.request(job))
        words = answer.split()
        if words[0] != "ok":
            self.break_(f"key: {job.key} was refused: {answer}")
            return
        number = int(words[1])
        if job.id not in (None, number):
            self.break_(f"key: {job.key} made job {job.id} and job {number}")
        job.id = number

    def client(self, number):
        chance = random.Random(f"{self.seed} client {number}")
        client = self.agent.client()
        made = []
        while self.goes_on():
            job = Job(f"{self.seed}-{number}-{len(made)}", chance, self.agent.slots)
            made.append(job)
            self.jobs[job.key] = job
            how = chance.random()
            if how < 0.05:  # killed between its question and the answer
                try:
                    client.send(*self.request(job))
                except Gone:
                    pass
                client.close()
                self.counts["clients killed"] += 1
                if chance.random() < 0.5:
                    self.submit(client, job)  # and started again by its user
            else:
                self.submit(client, job)
                self.counts["submitted"] += 1
            if job.id and how > 0.9:
                job.cancelled = True
                client.insist("cancel", job.id)
                self.counts["cancelled"] += 1
            if chance.random() < 0.1:
                again = chance.choice(made)
                if again.id:
                    self.submit(client, again)
            while self.goes_on() and int(client.insist("left")) > self.backlog:
                time.sleep(0.01)

    def killer(self):
        chance = random.Random(f"{self.seed} killer")
        while self.goes_on():
            time.sleep(chance.uniform(0, 0.25))
            victim = chance.choice(self.victims)
            if victim == "agent":
                self.aimed += 1
                self.counts["agent killed"] += self.agent.kill()
                continue
            self.kill_supervisors(victim, chance)
            self.counts[f"{victim} killed"] += 1

    def kill_supervisors(self, victim, chance):
        living = self.agent.supervisors()
        if victim == "supervisor" and living:
            pid = chance.choice(list(living))
            self.touched.add(living[pid])
            kill(pid)
        elif victim == "command" and living:
            pid = chance.choice(list(living))
            for child in descendants(pid)[:1]:
                self.touched.add(living[pid])
                kill(child)
        elif victim == "everything":
            # As a power cut: nothing of it may act on the death of another.
            with self.agent.lock:
                pids = self.agent.processes()
                for pid in pids:
                    kill(pid, signal.SIGSTOP)
                living = self.agent.supervisors()
                for pid in living:
                    kill(pid, signal.SIGSTOP)
                    pids += [pid] + descendants(pid)
                self.touched.update(living.values())
                for number in (signal.SIGSTOP, signal.SIGKILL):
                    for pid in pids:
                        kill(pid, number)

    def body(self, function, *arguments):
        try:
            function(*arguments)
        except Exception as error:  # must not look like a calm sea
            self.break_(f"{function.__name__}: {type(error).__name__}: {error}")

    def rage(self, seconds, clients=3, until=lambda storm: False):
        """For so long, or until that holds."""
        self.until = until
        self.end = time.monotonic() + seconds
        threads = [threading.Thread(target=self.body, args=(self.client, number))
                   for number in range(clients)]
        threads.append(threading.Thread(target=self.body, args=(self.killer,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    # The checks.

    def settle(self):
        client = self.agent.client()
        deadline = time.monotonic() + IDLE_S
        while int(client.insist("left")) > 0:
            if time.monotonic() > deadline:
                self.break_(f"lost: jobs have not ended after {IDLE_S} s")
                return
            time.sleep(0.02)

    def lines(self, name):
        try:
            with open(os.path.join(self.witness, name), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def living(self):
        """Processes of jobs of this storm."""
        found, mark = [], os.fsencode(self.witness)
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[0] == os.fsencode(self.program) and mark in words:
                found.append(int(name))
        return found

    def check_job(self, answer, job, runs):
        if runs > job.runs * job.members:
            self.break_(f"doubled: {job.key}, job {job.id}, ran {runs} times")
        if job.id is None:
            return
        words = answer.split()
        if words[0] not in FINAL:
            self.break_(f"lost: {job.key}, job {job.id}: {answer}")
            return
        self.counts[words[0] if words[1] != "SupervisorLost" else words[1]] += 1
        if job.id in self.touched:
            return
        if words[1] == "SupervisorLost" and self.may_lose > 0:
            self.may_lose -= 1
            return
        if words[0] == "Cancelled" and job.cancelled:
            return
        if words[1] == "DependencyFailed" and self.counts["SupervisorLost"] and runs == 0:
            return
        if runs != job.runs * job.members and self.lost_member(job):
            return
        if runs != job.runs * job.members:
            self.break_(f"lost: {job.key}, job {job.id}, ran {runs} times: {answer}")
        expected = "Succeeded" if job.code == 0 else "Failed"
        if words[0] != expected or int(words[2]) != job.code:
            self.break_(f"outcome: {job.key}, job {job.id} gave {job.code}: {answer}")

    def lost_member(self, job):
        """Whether one of an array, but not the first, was lost by a supervisor that may die."""
        client = self.agent.client()
        others = client.states(range(job.id + 1, job.id + job.members)).values()
        lost = sum(state.split()[1] == "SupervisorLost" for state in others)
        self.may_lose -= lost
        return lost > 0 and self.may_lose >= 0

    def check(self):
        """What is broken, a line each; nothing if all is well."""
        if self.aimed >= AIMED and self.counts["agent killed"] < self.aimed * HIT_SHARE:
            self.broken.append(f"calm: of {self.aimed} blows at the agent that serves only "
                               f"{self.counts['agent killed']} met one")
        self.settle()
        runs = Counter(self.lines("ran"))
        client = self.agent.client()
        jobs = list(self.jobs.values())
        states = client.states([job.id for job in jobs if job.id])
        for job in jobs:
            self.check_job(states.get(job.id, "not there"), job, runs[job.key])
        self.broken += [f"overlap: {line}" for line in self.lines("violations")]
        self.broken += [f"left: process {pid} of a job that has ended" for pid in self.living()]
        return self.broken

    def __str__(self):
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        return f"seed {self.seed}: {len(self.jobs)} jobs: {counts}"


class Scenario:
    """Each way through the protocol once, with a machine of two GPUs of two slots."""

    def __init__(self, program, supervisor, job_program, environment):
        self.agent = Agent(program, supervisor, 2, 2, environment)
        self.storm = Storm(self.agent, job_program, "scenario")
        self.client = Client(self.agent)
        # Of a submission that nobody was told of.
        os.makedirs(os.path.join(self.agent.state, "j", "900"))

    def job(self, name, gpus, milliseconds, share=0, kind="plain", code=0, wants="", members=1, runs=1):
        job = Job(name, random.Random(0), 2)
        job.wants, job.members, job.runs = wants, members, runs
        job.gpus, job.share, job.milliseconds = gpus, share, milliseconds
        job.kind, job.code = kind, code
        self.storm.jobs[name] = job
        self.storm.submit(self.client, job)
        return job

    def cancel(self, job):
        job.cancelled = True
        self.client.insist("cancel", job.id)

    def wait(self, condition, what):
        deadline = time.monotonic() + ANSWER_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {ANSWER_S} s")
            time.sleep(0.005)

    def is_past(self, job, *states):
        return self.client.insist("state", job.id).split()[0] not in states

    def ran(self, job):
        return job.key in self.storm.lines("ran")

    def play_order(self):
        """What is held, waits for others, is tried again, and is an array."""
        self.client.insist("drain", 1)
        held = self.job("held", 0, 5, wants="hold=1+")
        again = self.job("again", 0, 5, code=3, wants="retries=1+retry_delay_ns=1000000+", runs=2)
        self.job("array", 0, 5, wants="array=2+array_count=3+array_parallel=2+array_apart=1+", members=3)
        ahead = self.job("ahead", 0, 5)
        self.job("behind-it", 0, 5, wants=f"after=ok:{ahead.id},{again.id}+")
        never = self.job("never", 0, 5, wants="hold=1+")
        doomed = self.job("doomed", 0, 5, wants=f"after=ok:{never.id}+")
        self.cancel(never)
        doomed.cancelled = True
        self.client.insist("hold", held.id)
        self.client.insist("drain", 0)
        self.client.insist("release", held.id)
        failed = self.job("failed", 0, 5, code=3, runs=2)
        self.wait(lambda: not self.is_past(failed, *FINAL), "failed ends")
        self.client.insist("again", failed.id)

    def play(self):
        self.play_order()
        self.job("plain", 1, 5)
        self.job("shared", 2, 5, share=1, code=3)
        self.job("leaves", 0, 20, kind="daemon")
        for job in list(self.storm.jobs.values()):
            self.storm.submit(self.client, job)  # the same again
        holder = self.job("holder", 2, 60000)
        behind = self.job("behind", 1, 5)
        self.wait(lambda: self.ran(holder) or not self.is_past(holder, "Failed"), "holder starts")
        self.cancel(behind)
        self.cancel(holder)
        lost = self.job("lost", 1, 60000)
        self.wait(lambda: self.ran(lost) or not self.is_past(lost, "Failed"), "lost starts")
        self.storm.touched.add(lost.id)
        for pid, number in self.agent.supervisors().items():
            if number == lost.id:
                kill(pid)
        self.job("last", 2, 5)

    def check(self):
        return self.storm.check()
