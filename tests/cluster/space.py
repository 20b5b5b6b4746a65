# SPDX-License-Identifier: Apache-2.0
"""One machine of the cluster: namespaces of its own for processes, mounts, network, host name. All machines hang on a
bridge in a network namespace of its own, so that this machine's network is not touched. Killing the first process of a
space kills everything in it, as a power cut does."""

import os
import pathlib
import signal

from place import HERE, PREFIX, Failure, pid_of, run, start, started, stop, wait

SWITCH = f"{PREFIX}switch"
NETWORK = "10.77.0"
# Served by the control plane's loopback device: no kube-proxy.
SERVICES = "10.96.0.0/16"


def netns_path(name):
    return pathlib.Path("/run/netns") / name


def switch_up():
    """The bridge on which every space hangs."""
    if netns_path(SWITCH).exists():
        return
    run("ip", "netns", "add", SWITCH)
    run("ip", "-n", SWITCH, "link", "add", "br0", "type", "bridge")
    run("ip", "-n", SWITCH, "link", "set", "br0", "up")


def switch_down():
    if netns_path(SWITCH).exists():
        run("ip", "netns", "delete", SWITCH)


class Space:
    def __init__(self, name, number):
        self.name = name
        self.number = number
        self.address = f"{NETWORK}.{number}"
        self.netns = f"{PREFIX}{name}"

    def pids(self):
        """The first process of the space, as this machine numbers it; 0 where it is down."""
        outer = pid_of(f"space-{self.name}")
        return child_of(outer) if outer else 0

    def up(self, *init, ready=lambda: True):
        """Makes the space. `init` becomes its first process; without one, a process that only waits."""
        if self.pids():
            return
        switch_up()
        if not netns_path(self.netns).exists():
            self.plug()
        start(f"space-{self.name}", "nsenter", f"--net={netns_path(self.netns)}", "unshare", "--fork", "--pid", "--mount-proc",
              "--uts", "--ipc", "--kill-child=SIGKILL", *init or ("python3", HERE / "init.py", self.name))
        wait(f"the space {self.name}", 20, lambda: self.pids() and ready())

    def plug(self):
        """Its network: one cable to the bridge."""
        run("ip", "netns", "add", self.netns)
        run("ip", "-n", SWITCH, "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", self.netns)
        run("ip", "-n", SWITCH, "link", "set", self.name, "master", "br0", "up")
        run("ip", "-n", self.netns, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", self.netns, "link", "set", device, "up")
        run("ip", "netns", "exec", self.netns, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    def route(self, network, through):
        run("ip", "-n", self.netns, "route", "replace", network, "via", through)

    def link(self, state):
        """Pulls the cable ("down") or puts it back ("up")."""
        run("ip", "-n", SWITCH, "link", "set", self.name, state)

    def inside(self, *arguments):
        """The command line that runs a program in the space."""
        pid = self.pids()
        if not pid:
            raise Failure(f"{self.name} is down")
        return ["nsenter", "--target", str(pid), "--mount", "--net", "--uts", "--ipc", "--pid", "--", *arguments]

    def run(self, *arguments, **options):
        return run(*self.inside(*arguments), **options)

    def start(self, name, *arguments):
        """Starts a program in the space, written down as SPACE-NAME."""
        return start(f"{self.name}-{name}", *self.inside(*arguments))

    def stop(self, name, how=signal.SIGTERM):
        """nsenter forks; the program is its child, and it ends when that does."""
        outer = pid_of(f"{self.name}-{name}")
        if outer and child_of(outer):
            os.kill(child_of(outer), how)
        stop(f"{self.name}-{name}", signal.SIGCONT)

    def kill(self):
        """A power cut."""
        first = self.pids()
        stop(f"space-{self.name}", signal.SIGKILL)
        if first:
            wait(f"the end of {self.name}", 20, lambda: not started(first))

    def down(self):
        self.kill()
        if netns_path(self.netns).exists():
            run("ip", "netns", "delete", self.netns)


def child_of(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    except (OSError, IndexError):
        return 0
