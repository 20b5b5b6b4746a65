# SPDX-License-Identifier: Apache-2.0
"""The first process of a space: makes its mounts, then takes in whatever ends.

    init.py NAME                  the control plane
    init.py NAME BASE MACHINE     a node, with directories of its own below BASE; the simulated driver's files are in MACHINE
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import uuid

# What a node has for itself, over what this machine has there.
OVERLAID = ("etc", "var/lib", "opt")
BOOT_ID = "/proc/sys/kernel/random/boot_id"
OWN = ("run", "var/lib/kubelet", "var/lib/containerd", "var/lib/sluice", "var/log")


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def node_mounts(base, machine):
    # The driver lies in /usr, as its package would put it.
    mount("-t", "overlay", "-o", f"lowerdir={machine}/usr:/usr", "overlay", "/usr")
    for name in OVERLAID:
        upper, work = base / "upper" / name, base / "work" / name
        upper.mkdir(parents=True, exist_ok=True)
        work.mkdir(parents=True, exist_ok=True)
        mount("-t", "overlay", "-o", f"lowerdir=/{name},upperdir={upper},workdir={work}", "overlay", f"/{name}")
    for name in OWN:
        own = base / "own" / name
        own.mkdir(parents=True, exist_ok=True)
        target = pathlib.Path("/") / name
        target.mkdir(parents=True, exist_ok=True)
        mount("--bind", own, target)
    # Whatever a boot finds in /run is from before it.
    subprocess.run(["find", "/run", "-mindepth", "1", "-xdev", "-delete"], check=False)
    for name in ("cdi", "containerd", "netns", "nvidia"):
        pathlib.Path("/run", name).mkdir()
    # Each boot has its own, of which a kubelet tells. Containers mount another /proc, with that of this machine.
    (base / "boot-id").write_text(f"{uuid.uuid4()}\n")
    mount("--bind", base / "boot-id", BOOT_ID)
    mount("--make-rshared", "/")


def main():
    name, *node = sys.argv[1:]
    # Mounts go on being made below it: the namespace has to be ready before anybody enters it.
    if node:
        node_mounts(pathlib.Path(node[0]), pathlib.Path(node[1]))
        (pathlib.Path(node[0]) / "booted").write_text("")
    socket.sethostname(name)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        signal.sigwait([signal.SIGCHLD])
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


main()
