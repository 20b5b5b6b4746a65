# SPDX-License-Identifier: Apache-2.0
"""A simulated machine of one case: its own state and trees in a temporary directory, a clock that
stands still unless it is told to move (or is real), and processes that put load on its GPUs."""

import json
import os
import shlex
import shutil
import subprocess
import tempfile


class Failure(Exception):
    """A command that should have worked did not."""


class Machine:
    def __init__(self, build, profile, driver, mig="none", seed=7, extra=(), clock="virtual", nodes="file"):
        self.sluice = os.path.join(build, "src/cmd/sluice")
        self.directory = tempfile.mkdtemp(prefix="sluice conformance.")  # the blank is on purpose
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith("SLUICE_") and name not in ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
        }
        here = os.path.dirname(os.path.abspath(__file__))
        self.environment["SLUICE_PROFILES"] = os.path.join(here, "../../sim/profiles")
        self.environment["SLUICE_WEB_ADDRESS"] = "off"
        self.environment["SLUICE_SIM_LIBDIR"] = os.path.join(build, "sim/nvml")
        self.environment["SLUICE_SIM_STATE"] = os.path.join(self.directory, "state")
        self.environment["LC_ALL"] = "C.UTF-8"
        self.children = []
        try:
            self.sim("start", "--profile", profile, "--driver", driver, "--seed", str(seed), "--mig", mig,
                     "--clock", clock, "--dev-style", nodes, "--alongside",
                     "--root", os.path.join(self.directory, "root"),
                     "--state", self.environment["SLUICE_SIM_STATE"], *extra)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.kill()
            child.wait()
        subprocess.run([self.sluice, "sim", "stop"], env=self.environment, capture_output=True, timeout=30)
        shutil.rmtree(self.directory, ignore_errors=True)

    def command(self, arguments, timeout=60):
        done = subprocess.run(arguments, env=self.environment, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-1500:]
            raise Failure(f"exit {done.returncode} of {shlex.join(map(str, arguments))}\n{said}")
        return done

    def sim(self, *arguments):
        return self.command([self.sluice, "sim", *arguments]).stdout

    def show(self):
        return json.loads(self.sim("show", "--output", "json"))

    def program(self, *arguments, timeout=60):
        """Runs a program of somebody else's on this machine; its standard output."""
        return self.command([self.sluice, "sim", "exec", "--", *arguments], timeout=timeout).stdout

    def start(self, *arguments):
        """The same in the background, with a pipe to read its lines from."""
        return subprocess.Popen([self.sluice, "sim", "exec", "--", *arguments], env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def load(self, gpu, util, memory, *options):
        """A real process, which as far as the machine knows computes on a GPU."""
        child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
        self.children.append(child)
        self.sim("load", "--gpu", str(gpu), "--pid", str(child.pid), "--util", str(util), "--mem", str(memory),
                 *options)
        return child.pid

    def advance(self, seconds):
        self.sim("clock", "advance", f"{seconds}s")
