# SPDX-License-Identifier: Apache-2.0
"""Debian's Slurm, started for this alone, runs the same short jobs as the local queue; build/perf/bench-slurm
starts both and judges."""

import os
import pathlib
import shutil
import subprocess

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo")
PATH = f"{os.environ.get('PATH', '/usr/bin')}:/usr/sbin:/sbin"


class Slurm:
    def __init__(self, build):
        self.program = pathlib.Path(build) / "perf/bench-slurm"
        self.missing = []

    def install(self):
        """Nothing is fetched: what is not there is told of, and the case is not passed over in silence."""
        absent = [program for program in PROGRAMS if not shutil.which(program, path=PATH)]
        if absent:
            self.missing.append(f"not here: {', '.join(absent)}; 'tools/setup conformance' installs Slurm")
        elif os.geteuid() != 0:
            self.missing.append("its daemons need root")
        elif not self.program.exists():
            self.missing.append(f"there is no {self.program}: build all (ninja)")


def throughput(slurm):
    done = subprocess.run([slurm.program], capture_output=True, text=True, timeout=600, check=False)
    lines = done.stdout.splitlines()
    gates = [line for line in lines if line.startswith("gate ")]
    for line in lines:
        print(f"     {line}", flush=True)
    if done.returncode == 0 and len(gates) == 1:
        return [], gates[0]
    return [*gates, *(done.stderr.strip().splitlines() or [f"exit {done.returncode}"])], ""


def check(run, slurm):
    if not slurm.missing:
        run.check("slurm throughput", throughput, slurm)
