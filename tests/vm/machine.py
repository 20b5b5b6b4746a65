# SPDX-License-Identifier: Apache-2.0
"""A scenario and its emulated machines."""

import contextlib
import pathlib
import re
import shutil
import subprocess
import threading
import time

from image import Failure

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORDS = {"machines": "1", "packages": "", "memory": "1536", "arguments": "", "disks": "", "files": "", "minutes": "20"}
RESULT = re.compile(r"^vm: (\d+) passed, (\d+) failed$")
SHOWN = re.compile(r"^(ok|not ok|#|vm:) ?")


class Machine:
    """One qemu. Emulated: a machine that is virtual itself seldom has a KVM that works."""

    def __init__(self, scenario, number, image, place):
        self.scenario = scenario
        self.number = number
        self.place = place
        self.name = scenario.name if scenario.machines == 1 else f"{scenario.name}.{number}"
        self.result = None
        self.cuts = 0
        self.started = 0.0
        self.boots_s = []
        self.memory_mib = 0
        self.disk = place / f"disk.{number}"
        make_overlay(self.disk, image / "disk")
        self.image = image
        self.more = []
        for index, size in enumerate(scenario.disks, 1):
            more = place / f"disk.{number}.{index}"
            make_empty(more, size)
            self.more += ["-drive", f"file={more},if=none,id=more{index},format=qcow2",
                          "-device", f"virtio-blk-pci,drive=more{index},serial=disk{index}"]
        self.work = ROOT / "build/vm"
        self.console = self.work / f"{self.name}.console"
        self.console.write_bytes(b"")
        self.log = open(self.work / f"{self.name}.log", "w")

    def command(self):
        net = ["-nic", "none"]
        if self.scenario.machines == 2:
            net = ["-netdev", f"dgram,id=link,local.type=unix,local.path={self.place}/link.{self.number},"
                              f"remote.type=unix,remote.path={self.place}/link.{3 - self.number}",
                   "-device", f"virtio-net-pci,netdev=link,mac=52:54:00:00:00:0{self.number}"]
        # On a busy machine the kernel takes late ticks of the timer for none.
        arguments = f"root=/dev/vda rw no_timer_check console=ttyS0 quiet net.ifnames=0 vm.machine={self.number} {self.scenario.arguments}"
        # It ends with the runner, however that ends.
        return ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-accel", "tcg,thread=multi",
                "-m", str(self.scenario.memory), "-smp", "2", "-display", "none", "-monitor", "none",
                "-chardev", f"file,id=console,path={self.console},append=on", "-serial", "chardev:console", "-serial", "stdio",
                "-kernel", str(self.image / "kernel"), "-initrd", str(self.image / "initrd"), "-append", arguments,
                # In this order they are vda, vdb, ...
                "-drive", f"file={self.disk},if=none,id=root,format=qcow2", "-device", "virtio-blk-pci,drive=root", *self.more, *net,
                "-virtfs", f"local,path={self.place}/host,mount_tag=host,security_model=none,multidevs=remap"]

    def hear(self, stream):
        for raw in stream:
            line = raw.decode(errors="replace").rstrip("\r\n")
            self.log.write(line + "\n")
            self.log.flush()
            if line == "vm: up":
                if self.started:  # not after an orderly reboot, which is no start of qemu
                    self.boots_s.append(time.monotonic() - self.started)
                self.started = 0.0
            elif found := RESULT.match(line):
                self.result = (int(found[1]), int(found[2]))
            elif SHOWN.match(line):
                print(f"{self.name}: {line}", flush=True)

    def watch(self, qemu, deadline):
        """Until it has ended: by itself, by a cut that the scenario has asked for, or since its time is up. True: boot again."""
        asked = self.place / f"host/cut.{self.number}"
        try:
            while qemu.poll() is None:
                if asked.exists():
                    asked.unlink()
                    qemu.kill()
                    self.cuts += 1
                    return True
                if time.monotonic() > deadline:
                    print(f"{self.name}: not ok it has ended within {self.scenario.minutes} minutes", flush=True)
                    return False
                self.memory_mib = max(self.memory_mib, peak_mib(qemu.pid))
                time.sleep(0.02)
            return False
        finally:
            qemu.kill()
            qemu.wait()

    def run(self, deadline):
        while True:
            (self.place / f"link.{self.number}").unlink(missing_ok=True)
            self.started = time.monotonic()
            qemu = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            hearing = threading.Thread(target=self.hear, args=[qemu.stdout])
            hearing.start()
            again = self.watch(qemu, deadline)
            hearing.join()
            if not again:
                break
        self.log.close()


class Scenario:
    """A file of tests/vm, and what the comment at its top asks for."""

    def __init__(self, path):
        self.path = path
        self.name = path.stem
        wanted = dict(WORDS)
        for line in path.read_text().splitlines():
            if not line.startswith("#"):
                break
            found = re.match(r"# ([a-z]+): (.*)", line)
            if found and found[1] not in WORDS:
                raise Failure(f"{path.name}: no such setting '{found[1]}'; see tests/vm/run --help")
            if found:
                wanted[found[1]] = found[2]
        self.machines = int(wanted["machines"])
        self.packages = wanted["packages"].split()
        self.memory = int(wanted["memory"])
        self.arguments = wanted["arguments"]
        self.disks = wanted["disks"].split()
        self.files = wanted["files"].split()
        self.minutes = int(wanted["minutes"])
        if self.machines not in (1, 2):
            raise Failure(f"{path.name}: one machine or two")

    def give(self, place, debs, seed):
        """What the machines find in /host/in."""
        given = place / "host/in"
        (given / "files").mkdir(parents=True)
        shutil.copy(HERE / "guest/start", given / "start")
        shutil.copy(HERE / "lib.sh", given / "lib.sh")
        shutil.copy(self.path, given / "scenario.sh")
        for name, file in debs.items():
            shutil.copy(file, given / name)
        for name in self.files:
            shutil.copy(ROOT / name, given / "files")
        (given / "settings").write_text(f"machines={self.machines}\nseed={seed}\n")

    def run(self, image, scratch, debs, seed):
        """True when every check of every machine passed."""
        place = scratch / self.name
        place.mkdir()
        self.give(place, debs, seed)
        start = time.monotonic()
        machines = [Machine(self, number, image, place) for number in range(1, self.machines + 1)]
        deadline = start + self.minutes * 60
        threads = [threading.Thread(target=one.run, args=[deadline]) for one in machines]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        shutil.rmtree(place)
        return self.told(machines, time.monotonic() - start)

    def told(self, machines, took_s):
        well = True
        for one in machines:
            if one.result is None or one.result[1] or not one.result[0]:
                well = False
                print(f"{one.name}: vm: failed: build/vm/{one.name}.log and .console", flush=True)
        passed = sum(one.result[0] for one in machines if one.result)
        failed = sum(one.result[1] for one in machines if one.result)
        boots = " ".join(f"{boot_s:.0f}" for one in machines for boot_s in one.boots_s)
        cuts = sum(one.cuts for one in machines)
        print(f"{self.name}: vm: {passed} passed, {failed} failed, {took_s:.0f} s, up after {boots} s, {cuts} power cuts, "
              f"qemu at most {max(one.memory_mib for one in machines)} MiB", flush=True)
        return well


def make_overlay(path, below):
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", below, "-F", "raw", path], check=True)


def make_empty(path, size):
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, size], check=True)


def peak_mib(pid):
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) // 1024
    return 0
