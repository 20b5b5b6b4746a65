# SPDX-License-Identifier: Apache-2.0
"""What the cluster takes: seconds of `up`, and memory, by its number of nodes."""

import datetime
import os
import pathlib
import platform
import subprocess
import time

import programs
from cluster import Cluster
from place import ROOT, Failure

SETTLE_S = 20  # after Ready, for what a start takes for a moment


def pss_kb(space):
    """{program: PSS} of all processes of a space: those in the namespace of its first process."""
    wanted = os.readlink(f"/proc/{space.pids()}/ns/pid")
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "ns/pid") != wanted:
                continue
            kb = next(int(line.split()[1]) for line in (process / "smaps_rollup").read_text().splitlines()
                      if line.startswith("Pss:"))
            name = (process / "comm").read_text().strip()
        except (OSError, StopIteration):
            continue  # it has ended, or is a zombie
        found[name] = found.get(name, 0) + kb
    return found


def mib(kb):
    return f"{kb / 1024:.0f} MiB"


def by_size(found):
    return ", ".join(f"{name} {mib(kb)}" for name, kb in sorted(found.items(), key=lambda row: -row[1]) if kb >= 1024)


def machine():
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return (f"machine: {platform.machine()} {platform.release()}, {os.cpu_count()} cores, load {load}; {today}, "
            f"commit {commit.stdout.strip() or 'unknown'}")


def measure(most=3):
    """Up and down with one to `most` nodes; what is printed can be copied as it stands."""
    if Cluster().nodes:
        raise Failure("the cluster is up; tests/cluster/run down ends it")
    print(machine())
    for name, seconds in programs.built_seconds().items():
        print(f"build of {name}: {seconds / 60:.1f} min")
    for count in range(1, most + 1):
        start = time.monotonic()
        cluster = Cluster()
        cluster.up(count)
        took = time.monotonic() - start
        time.sleep(SETTLE_S)
        control, nodes = pss_kb(cluster.control), [pss_kb(node) for node in cluster.nodes]
        total = sum(control.values()) + sum(sum(one.values()) for one in nodes)
        print(f"up, {count} nodes: {took:.0f} s = {took / 60:.2f} min, PSS {mib(total)}: control plane "
              f"{mib(sum(control.values()))}, nodes {' '.join(mib(sum(one.values())) for one in nodes)}", flush=True)
        if count == most:
            print(f"  control plane: {by_size(control)}\n  a node: {by_size(nodes[0])}")
        left = cluster.down()
        if left:
            raise Failure(f"left behind: {left}")
