#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A simulated machine and its service for cases_agent.js: obeys lines of JSON, answers each with one.

    ["start", "dgx-a100"]            the machine
    ["agent", "--web-address", ...]  its service; answers with the address of the page
    ["end"]                          ends the service
    ["load", 3, "--util", "0.8"]     a process on GPU 3
    ["submit", 2, "--mem 9GiB", "epochs", "--name", "a"]    a job on two GPUs that puts load on them
    ["sim", "inject", ...]           as `sluice sim`
    ["sluice", "jobs", ...]          a command
    ["show"]                         what `sluice sim show` says

Everything is gone when standard input ends.
"""

import json
import math
import os
import pathlib
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import conftest  # noqa: E402  pylint: disable=wrong-import-position

# What a job of ours does: it loads each GPU that it was given, as a training run would.
JOB = """
for gpu in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do
    "$SLUICE" sim load --root "$ROOT" --state "$STATE" --gpu "$gpu" $LOAD -- sleep 1000 &
done
wait
"""


# How busy jobs keep their GPUs, second by second of a minute and a bit; then from the beginning.
TRACE_S = 64
TURN = 2 * math.pi / TRACE_S
SHAPES = {
    "epochs": lambda t: 0.12 if t > 55 else 0.9 + 0.04 * math.sin(12 * TURN * t),
    "steady": lambda t: 0.97 + 0.02 * math.sin(7 * TURN * t),
    "waves": lambda t: 0.62 + 0.2 * math.sin(TURN * t) + 0.03 * math.sin(17 * TURN * t),
    "now and then": lambda t: 0.45 if t < 14 else 0.04,
}


class Orders:
    def __init__(self, machine):
        self.machine = machine

    def start(self, profile, *options):
        self.machine.start(profile, *options)

    def agent(self, *options):
        self.machine.agent(*options)
        status = self.machine.run("sluice", "agent", "status", "--output", "json").ok().json
        return status["web"]["address"]

    def end(self):
        self.machine.service.terminate()
        self.machine.service.wait(30)

    def load(self, gpu, *options):
        return self.machine.load(gpu, *options).pid

    def submit(self, gpus, load, shape, *options):
        trace = self.machine.directory / f"{shape.replace(' ', '-')}.trace"
        trace.write_text("".join(f"{SHAPES[shape](second):.3f}\n" for second in range(TRACE_S)))
        load = f"--util 1 {load} --shape trace --trace {trace}"
        variables = {"SLUICE": conftest.SLUICE, "ROOT": self.machine.root, "STATE": self.machine.state, "LOAD": load}
        flags = [part for name, value in variables.items() for part in ("--env", f"{name}={value}")]
        return self.machine.submit("sh", "-c", JOB, gpus=gpus, options=[*flags, *options])

    def running(self, gpus, *jobs):
        """Waits until these jobs run, and so many GPUs have a process."""
        for job in jobs:
            self.machine.job_in(job, "Running")
        conftest.wait_until(lambda: sum(bool(gpu["processes"]) for gpu in self.show()["gpus"]) == gpus, what="all loads")

    def sim(self, *arguments):
        return self.machine.sim(*arguments).out

    def sluice(self, *arguments):
        return self.machine.run("sluice", *arguments).ok().out

    def show(self):
        return self.machine.show()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    directory = tempfile.mkdtemp(prefix="sluice-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    os.chmod(directory, 0o755)
    machine = conftest.Machine(directory)
    orders = Orders(machine)
    try:
        for line in sys.stdin:
            word, *rest = json.loads(line)
            try:
                answer = {"ok": getattr(orders, word)(*rest)}
            except (Exception, AssertionError) as error:  # pylint: disable=broad-except
                answer = {"error": f"{word}: {error!r}"}
            print(json.dumps(answer), flush=True)
    finally:
        machine.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
