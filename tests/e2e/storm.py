# SPDX-License-Identifier: Apache-2.0
"""A kill storm over the queue, and the checks that are made from outside of it.

The queue runs in `sluice-torture` (Agent, torture_agent.c) or in the real service (Service), jobs are
`torture-job`, which write down that they ran and hold a lock of their own for each slot they were
given. Whatever is killed:

  lost      a job whose submission was answered is there until the end, and ends
  doubled   no attempt of a job ran twice (each rank of one with workers); exactly once if its
            supervisor was not killed, and not cancelled
  outcome   a job that nobody touched has the exit code that it gave
  overlap   no two living jobs were in one slot of a GPU
  order     no job runs while somebody holds it, before those that it waits for have ended, or
            while the queue is drained; and no more of an array than may
  ended     --on-end ran once for each attempt at most, exactly once if its supervisor lived
  kept      no more of an output is kept than may be
  left      when all have ended, no process of any of them lives, and no socket of one is there
  key       a submission that is repeated with its key gets the same job
  calm      it is no storm: what is aimed at the agent does not meet the one that serves
"""

import json
import os
import random
import re
import shutil
import signal
import socket
import stat
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
OUTPUT_MAX = 64 << 10  # bytes that are kept of a job's output by the service
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

    is_whole = False  # no terminals, workers, ...

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

    is_whole = True

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
        if what == "wanting":
            return self.submit(self.options(rest[0]), *rest[1:])
        if what == "submit":
            return self.submit([], *rest)
        return self.popen(*{
            "again": ["jobs", "retry", *rest],
            "all": ["jobs", "--all", "--output", "json"],
            "cancel": ["cancel", *rest],
            "drain": ["jobs", "drain" if rest == ["1"] else "resume"],
            "hold": ["jobs", "hold", *rest],
            "left": ["jobs", "--output", "json"],
            "release": ["jobs", "release", *rest],
            "set": ["jobs", "set", *rest[:1], f"--priority={rest[-1]}" if rest else ""],
            "state": ["jobs", *rest, "--output", "json"],
        }[what])

    def submit(self, options, key, gpus, share, *command):
        options = ["--key", str(uuid.uuid5(uuid.NAMESPACE_OID, key)), "--gpus", gpus, *options]
        options += ["--share"] if share == "1" else []
        return self.popen("run", "-q", "-d", "--grace", "300ms", "--cwd", "/", *options, "--", *command)

    def options(self, wants):
        """What such wants are called on the command line."""
        given = dict(field.split("=", 1) for field in wants.split("+") if field)
        options = []
        for after in given.get("after", "").split(","):
            options += ["--after-ok", after[3:]] if after.startswith("ok:") else ["--after", after] * bool(after)
        if "array_count" in given:
            options += ["--array", f"{given['array_count']}%{given.get('array_parallel', 0)}"]
        options += [f"--{name}={given[name]}" for name in ("priority", "retries") if name in given]
        options += [f"--{name}" for name in ("hold", "pty") if name in given]
        if "ranks" in given:
            options += ["--mpi", "ranks", "--workers", given["ranks"]]
        if "on_end" in given:
            options += ["--on-end", f"echo $SLUICE_JOB_ID $SLUICE_ATTEMPT >> {self.service.state}/ended"]
        return options

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
        return getattr(self, "read_" + words[0], lambda out: "ok")(out)

    def read_submit(self, out):
        return f"ok {int(out)}"

    def read_wanting(self, out):
        return self.read_submit(out)

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
        code, attempt = job["exit_code"], job["attempt"] or {}
        return f"{job['state']} {job['reason'] or '-'} {-1 if code is None else code} {attempt.get('number') or 0}"


class Job:
    def __init__(self, key, chance, slots):
        self.key, self.id = key, None
        self.gpus = chance.choice([0, 0, 0, 1, 1, 1, 1, 2, 4])
        self.share = int(self.gpus > 0 and slots > 1 and chance.random() < 0.5)
        self.milliseconds = chance.choice([0, 5, 20, 60])
        self.kind = chance.choice(["plain", "plain", "plain", "daemon"])
        self.code = chance.choice([0, 0, 0, 3])
        self.cancelled = False  # and not tried again since
        self.was_cancelled = False
        self.wants = ""  # as wants.h has them, "+" for a newline; and pty, ranks, on_end
        self.tries = 0  # times that somebody has asked for it to run again
        self.holds = []  # [since, until]: not to be started
        self.releases_at = 0

    def want(self, name, default=0):
        found = re.search(rf"(?:^|\+){name}=(\d+)", self.wants)
        return int(found[1]) if found else default

    @property
    def members(self):
        """Jobs that it is, each of which runs."""
        return self.want("array_count", 1)

    def runs(self):
        """How often, when nothing happens to it."""
        return 1 + self.want("retries") if self.code else 1

    def numbers(self):
        return range(self.id, self.id + self.members)

    def after(self):
        """[(id, whether it has to succeed)]"""
        found = re.search(r"(?:^|\+)after=([^+]*)", self.wants)
        ids = found[1].split(",") if found else []
        return [(int(text.removeprefix("ok:")), text.startswith("ok:")) for text in ids]

    def vary(self, chance, made, is_whole):
        """What else a job can want; of the service more."""
        wants = []
        if chance.random() < 0.08:
            wants.append("hold=1")
        if chance.random() < 0.2:
            wants.append(f"priority={chance.randrange(1, 50)}")
        if self.code and chance.random() < 0.5 and not is_whole:  # its delay is ten seconds
            wants.append(f"retries={chance.choice([1, 2])}+retry_delay_ns=1000000")
        others = [job.id for job in made[-8:] if job.id]
        if others and chance.random() < 0.15:
            picked = chance.sample(others, min(len(others), chance.choice([1, 2])))
            wants.append("after=" + ",".join(chance.choice(["", "ok:"]) + str(number) for number in picked))
        how = chance.random()
        if how < 0.06:
            count = chance.choice([2, 3, 5])
            wants.append(f"array={2}+array_count={count}+array_parallel={chance.choice([1, 2])}+array_apart=1")
            self.gpus = min(self.gpus, 1)
        elif is_whole and how < 0.12:
            wants.append(f"ranks={chance.choice([2, 3])}")
            self.gpus, self.share, self.code = min(self.gpus, 1), 0, 0
        elif is_whole and how < 0.2:
            wants.append("pty=1")
        elif is_whole and how < 0.28:
            self.kind = "loud"
        if is_whole and chance.random() < 0.1:
            wants.append("on_end=1")
        self.wants = "".join(want + "+" for want in wants)


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
        self.varied = False  # jobs want all that there is, and what waits is changed
        self.drains = []  # [since, until, ids that waited then]
        self.may_lose = 0  # supervisors that die by themselves, of jobs that are not known

    def goes_on(self):
        return time.monotonic() < self.end and not self.broken and not self.until(self)

    def has_doubled(self):
        """Whether a job is known to have run twice by now."""
        return bool(self.doubled(self.times("ran")))

    def break_(self, what):
        with self.lock:
            self.broken.append(what)

    def request(self, job):
        what = ("wanting", job.wants) if job.wants else ("submit",)
        return (*what, job.key, job.gpus, job.share, self.program, self.witness, job.key,
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
            if self.varied:
                job.vary(chance, made, self.agent.is_whole)
            made.append(job)
            self.jobs[job.key] = job
            how = chance.random()
            if how < 0.05:  # killed between its question and the answer
                job.wants = job.wants.replace("hold=1+", "")  # nobody might be there to release it
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
            if job.want("hold"):
                job.holds.append([time.monotonic(), None])
            if job.id and how > 0.9:
                job.cancelled = job.was_cancelled = True
                client.insist("cancel", job.id)
                self.counts["cancelled"] += 1
            if self.varied:
                self.change(client, chance, made)
            if chance.random() < 0.1:
                again = chance.choice(made)
                if again.id:
                    self.submit(client, again)
            while self.goes_on() and int(client.insist("left")) > self.backlog:
                self.release(client, made)
                time.sleep(0.01)
        self.release(client, made, at_once=True)

    def change(self, client, chance, made):
        """Something is done to a job that this client has made, whatever it does by now."""
        self.release(client, made)
        job = chance.choice(made[-2:])
        if not job.id:
            return
        what = chance.random()
        if what < 0.08 and not (job.holds and job.holds[-1][1] is None):
            if client.insist("hold", job.id) == "ok":
                job.holds.append([time.monotonic(), None])
                job.releases_at = time.monotonic() + chance.uniform(0, 1)
                self.counts["held"] += 1
        elif what < 0.16:
            self.counts["set"] += client.insist("set", job.id, chance.randrange(1, 50)) == "ok"
        elif what < 0.32:
            self.again(client, chance.choice(made))
        elif what < 0.5 and self.agent.is_whole:
            terminals = [other for other in made[-10:] if other.id and other.want("pty")]
            if terminals:
                self.attach(client, chance.choice(terminals), chance)

    def release(self, client, made, at_once=False):
        for job in made:
            if job.id and job.holds and job.holds[-1][1] is None:
                if at_once or time.monotonic() > job.releases_at:
                    job.holds[-1][1] = time.monotonic()
                    client.insist("release", job.id)

    def again(self, client, job):
        """Not by insist(): each question may be another attempt."""
        for _ in range(1000):
            if not job.id:
                return
            job.tries += 1
            try:
                if client.ask("again", job.id) == "ok":
                    job.cancelled = False
                    self.counts["tried again"] += 1
                return
            except Gone:
                time.sleep(0.002)

    def attach(self, client, job, chance):
        """Somebody is at its terminal and dies."""
        near, far = os.openpty()
        process = subprocess.Popen([client.service.sluice, "attach", str(job.id)],
                                   env=client.service.environment, stdin=far, stdout=far, stderr=far,
                                   start_new_session=True)
        os.close(far)
        try:
            process.wait(timeout=chance.uniform(0, 0.2))
        except subprocess.TimeoutExpired:
            self.counts["terminals killed"] += 1
            process.kill()
            process.wait()
        os.close(near)

    def drainer(self):
        chance = random.Random(f"{self.seed} drainer")
        client = self.agent.client()
        while self.goes_on():
            time.sleep(chance.uniform(0.5, 3))
            if client.insist("drain", 1) != "ok":
                self.break_("lost: a drain was refused")
            ids = [job.id for job in list(self.jobs.values())[-30:] if job.id]
            waiting = [number for number, state in client.states(ids).items()
                       if number in ids and state.split()[0] in ("Pending", "Held")]
            since = time.monotonic()
            time.sleep(chance.uniform(0, 0.3))
            self.drains.append((since, time.monotonic(), waiting))
            if client.insist("drain", 0) != "ok":
                self.break_("lost: a resume was refused")
            self.counts["drained"] += 1

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
        if self.varied:
            threads.append(threading.Thread(target=self.body, args=(self.drainer,)))
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

    def times(self, name):
        """{(key, job, attempt, rank): [seconds at which that was written]}"""
        found = {}
        for line in self.lines(name):
            key, number, attempt, rank, at = line.split()
            found.setdefault((key, int(number), int(attempt), int(rank)), []).append(int(at) / 1e9)
        return found

    def doubled(self, ran):
        """What has run more often than it may, a line each. An agent that starts a job which runs gives it
        the number of another attempt, so how many there are says it as well."""
        found, attempts, ids = [], {}, {}
        for (key, number, attempt, rank), times in ran.items():
            if len(times) > 1:
                found.append(f"doubled: {key}, attempt {attempt}, rank {rank} of job {number}, "
                             f"ran {len(times)} times")
            attempts.setdefault((key, number), set()).add(attempt)
            ids.setdefault(key, set()).add(number)
        for (key, number), tried in attempts.items():
            job = self.jobs[key]
            if len(tried) > job.runs() * (1 + job.tries):
                found.append(f"doubled: {key}, job {number}, is to run {job.runs()} times each, was asked "
                             f"{job.tries} times to run again, and ran as attempts {sorted(tried)}")
        for key, numbers in ids.items():
            job = self.jobs[key]
            if len(numbers) > job.members or (job.id and not numbers <= set(job.numbers())):
                found.append(f"doubled: {key}, job {job.id}, ran as jobs {sorted(numbers)}")
        return found

    def check_job(self, job, number, answer, attempts, states):
        """`attempts`: {number: ranks that ran}."""
        words = answer.split()
        if words[0] not in FINAL:
            self.break_(f"lost: {job.key}, job {number}: {answer}")
            return
        last = int(words[3])
        self.counts[words[0] if words[1] != "SupervisorLost" else words[1]] += 1
        if any(attempt > last for attempt in attempts):
            self.break_(f"doubled: {job.key}, job {number}, ran its attempts {sorted(attempts)}: {answer}")
        if number in self.touched:
            return
        if words[1] == "SupervisorLost" and self.may_lose > 0:
            self.may_lose -= 1
            return
        if words[0] == "Cancelled" and job.cancelled:
            return
        if words[1] == "DependencyFailed" and any(self.has_failed(other, states)
                                                  for other, must in job.after() if must):
            return
        self.check_tries(job, number, answer, last, attempts)
        expected = "Succeeded" if job.code == 0 else "Failed"
        if words[0] != expected or int(words[2]) != job.code:
            self.break_(f"outcome: {job.key}, job {number} gave {job.code}: {answer}")

    def check_tries(self, job, number, answer, last, attempts):
        """The number of an attempt whose agent died before it began is not used again."""
        ranks = set(range(job.want("ranks", 1)))
        if attempts.get(last) != ranks:
            self.break_(f"lost: {job.key}, job {number}, ran its attempts {attempts}: {answer}")
        if len(attempts) < job.runs() and not job.was_cancelled:
            self.break_(f"lost: {job.key}, job {number}, is to run {job.runs()} times and ran its attempts "
                        f"{attempts}: {answer}")
        if any(found != ranks for found in attempts.values()) and not job.was_cancelled:
            self.break_(f"lost: {job.key}, job {number}, ran its attempts {attempts}: {answer}")

    def has_failed(self, number, states):
        """Whether that has not succeeded; of an array, all of it. Or it had not, before it was tried again."""
        others = [job for job in self.jobs.values() if job.id == number]
        return any(job.tries or states.get(member, "not").split()[0] != "Succeeded"
                   for job in others for member in job.numbers())

    def check_order(self, ran, finished):
        began, ended = {}, {}
        for (_, number, _, _), times in ran.items():
            began.setdefault(number, []).extend(times)
        for done in (ran, finished):
            for (_, number, _, _), times in done.items():
                ended[number] = max(times + [ended.get(number, 0)])
        jobs = {job.id: job for job in self.jobs.values() if job.id}
        for job in jobs.values():
            first = min((min(began[number]) for number in job.numbers() if number in began), default=None)
            for other in [jobs[number] for number, _ in job.after() if number in jobs]:
                last = max((ended.get(number, 0) for number in other.numbers()), default=0)
                if first is not None and not other.tries and last > first:
                    self.break_(f"order: job {job.id} ran before job {other.id} had ended, for which it waits")
            for since, until in job.holds if job.members == 1 else []:
                if any(since < at < (until or at + 1) for at in began.get(job.id, [])):
                    self.break_(f"order: job {job.id} ran while it was held")
            self.check_limit(job, ran, finished)
        for since, until, waiting in self.drains:
            for number in waiting:
                if any(since < at < until for at in began.get(number, [])):
                    self.break_(f"order: job {number} waited and was started while the queue was drained")

    def check_limit(self, job, ran, finished):
        spans = [(times[0], finished[who][0]) for who, times in ran.items()
                 if who[0] == job.key and who in finished]
        limit = job.want("array_parallel")
        for begin, _ in spans if limit else []:
            if sum(other <= begin < end for other, end in spans) > limit:
                self.break_(f"order: more than {limit} of array {job.id} ran at a time")

    def check_ends(self, ran):
        """What --on-end wrote."""
        ends = Counter(self.lines("ended"))
        self.counts["ends"] += len(ends)
        for line, count in ends.items():
            if count > 1:
                self.break_(f"ended: --on-end of {line} ran {count} times")
        for key, number, attempt, _ in ran:
            job = self.jobs[key]
            if job.want("on_end") and number not in self.touched and not ends[f"{number} {attempt}"]:
                self.break_(f"ended: --on-end of job {number}, attempt {attempt}, did not run")

    def check_files(self):
        """Of all that lies with the jobs: sockets, and how long their outputs are."""
        for folder, _, names in os.walk(os.path.join(self.agent.state, "j")):
            for name in names:
                try:
                    found = os.lstat(os.path.join(folder, name))
                except FileNotFoundError:
                    continue
                if stat.S_ISSOCK(found.st_mode):
                    self.break_(f"left: the socket {folder}/{name}")
                elif self.agent.is_whole and found.st_size > OUTPUT_MAX + 100:
                    self.break_(f"kept: {folder}/{name} has {found.st_size} bytes")

    def check(self):
        """What is broken, a line each; nothing if all is well."""
        if self.aimed >= AIMED and self.counts["agent killed"] < self.aimed * HIT_SHARE:
            self.broken.append(f"calm: of {self.aimed} blows at the agent that serves only "
                               f"{self.counts['agent killed']} met one")
        if self.broken:
            return self.broken  # nobody has let go what waits
        self.settle()
        ran = self.times("ran")
        attempts = {}
        for _, number, attempt, rank in ran:
            attempts.setdefault(number, {}).setdefault(attempt, set()).add(rank)
        jobs = [job for job in self.jobs.values() if job.id]
        states = self.agent.client().states([number for job in jobs for number in job.numbers()])
        self.broken += self.doubled(ran)
        for job in jobs:
            for number in job.numbers():
                self.check_job(job, number, states.get(number, "not there"), attempts.get(number, {}), states)
        self.check_order(ran, self.times("finished"))
        self.check_ends(ran)
        self.check_files()
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

    def job(self, name, gpus, milliseconds, share=0, kind="plain", code=0, wants=""):
        job = Job(name, random.Random(0), 2)
        job.wants = wants
        job.gpus, job.share, job.milliseconds = gpus, share, milliseconds
        job.kind, job.code = kind, code
        self.storm.jobs[name] = job
        self.storm.submit(self.client, job)
        return job

    def cancel(self, job):
        job.cancelled = job.was_cancelled = True
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
        return any(key == job.key for key, *_ in self.storm.times("ran"))

    def play_order(self):
        """What is held, waits for others, is tried again, and is an array."""
        self.client.insist("drain", 1)
        held = self.job("held", 0, 5, wants="hold=1+")
        again = self.job("again", 0, 5, code=3, wants="retries=1+retry_delay_ns=1000000+")
        self.job("array", 0, 5, wants="array=2+array_count=3+array_parallel=2+array_apart=1+")
        ahead = self.job("ahead", 0, 5)
        self.job("behind-it", 0, 5, wants=f"after=ok:{ahead.id},{again.id}+")
        never = self.job("never", 0, 5, wants="hold=1+")
        doomed = self.job("doomed", 0, 5, wants=f"after=ok:{never.id}+")
        self.cancel(never)
        doomed.cancelled = True
        self.client.insist("hold", held.id)
        self.client.insist("drain", 0)
        self.client.insist("release", held.id)
        failed = self.job("failed", 0, 5, code=3)
        self.wait(lambda: not self.is_past(failed, *FINAL), "failed ends")
        self.storm.again(self.client, failed)

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
