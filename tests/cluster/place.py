# SPDX-License-Identifier: Apache-2.0
"""Where everything of the cluster lies, and processes whose numbers are written down: only those are ever ended."""

import contextlib
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD", ROOT / "build"))
SLUICE = BUILD / "src/cmd/sluice"
# Several clusters run beside each other on one machine, each with a name.
NAME = os.environ.get("SLUICE_CLUSTER", "")
# What every namespace and control group of this cluster begins with.
PREFIX = f"sl-{NAME}-" if NAME else "sl-"
# On a disk: overlayfs takes no directory of an overlayfs or, for containers, of a tmpfs.
BASE = pathlib.Path(f"/var/tmp/sluice-cluster-{NAME}" if NAME else "/var/tmp/sluice-cluster")
# What all clusters share: built programs, and locks for what only one may build at a time.
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "sluice-cluster"
PKI, CONF, LOG, PIDS = BASE / "pki", BASE / "conf", BASE / "log", BASE / "pids"
IMAGES = BASE / "images"


class Failure(Exception):
    """Something that should have worked did not; the text names it."""


def check_name():
    """Of letters and digits, so that no cluster's name is the beginning of another's namespaces."""
    if not re.fullmatch(r"[a-z0-9]{0,12}", NAME) or NAME in ("node", "control", "switch"):
        raise Failure(f"SLUICE_CLUSTER={NAME!r} is no name of a cluster: at most 12 lower-case letters and digits")


@contextlib.contextmanager
def alone(name):
    """Held by one process of this machine at a time, of whichever cluster."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(*arguments, timeout=120, **options):
    """A command that has to work: its standard output."""
    try:
        done = subprocess.run([str(one) for one in arguments], capture_output=True, text=True, timeout=timeout,
                              check=False, **options)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"not within {timeout} s: {' '.join(map(str, arguments))}") from error
    if done.returncode:
        raise Failure(f"exit {done.returncode} of {' '.join(map(str, arguments))}\n{(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def wait(what, seconds, holds, every=0.2):
    """Waits until holds() is true; its value. `what` is for the error."""
    end = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(every)


def start(name, *arguments, **options):
    """Starts a program in the background; what it says goes to log/NAME.log."""
    LOG.mkdir(parents=True, exist_ok=True)
    PIDS.mkdir(parents=True, exist_ok=True)
    with open(LOG / f"{name}.log", "ab") as log:
        child = subprocess.Popen([str(one) for one in arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True, **options)
    (PIDS / name).write_text(f"{child.pid} {started(child.pid)}")
    return child.pid


def started(pid):
    """When a process began, in clock ticks since boot: with it a number names one process for ever. 0: there is none."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (OSError, IndexError):
        return 0


def is_zombie(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (OSError, IndexError):
        return False


def pid_of(name):
    """The number of a program that start() started and that still runs, else 0."""
    try:
        pid, ticks = map(int, (PIDS / name).read_text().split())
    except (OSError, ValueError):
        return 0
    return pid if started(pid) == ticks and not is_zombie(pid) else 0


def stop(name, how=signal.SIGTERM, seconds=20):
    """Ends what start() started, by `how`, after `seconds` by SIGKILL."""
    pid = pid_of(name)
    if pid:
        os.kill(pid, how)
        try:
            wait(f"the end of {name}", seconds, lambda: not pid_of(name), every=0.05)
        except Failure:
            os.kill(pid, signal.SIGKILL)
            wait(f"the end of {name} by SIGKILL", 10, lambda: not pid_of(name), every=0.05)
    reap()
    (PIDS / name).unlink(missing_ok=True)


def reap():
    """Takes in children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
