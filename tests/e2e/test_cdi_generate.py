# SPDX-License-Identifier: Apache-2.0
"""`sluice cdi generate`: the specification of a simulated machine, and its exit codes."""

import os
import stat
import subprocess

import pytest

needs_nodes = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes are made by root")


def generate(machine, *options, rc=0):
    reply = machine.run("sluice", "cdi", "generate", *options)
    assert reply.rc == rc, reply
    return reply.json if rc == 0 and "--output" not in options else reply


def names(spec):
    return [device["name"] for device in spec["devices"]]


def nodes(edits):
    return [node["path"] for node in edits.get("deviceNodes", [])]


@needs_nodes
def test_the_machine_as_it_is(machine):
    machine.start("dgx-a100", "--gpus", "2", "--minors", "1,0")
    truth = machine.show()
    spec = generate(machine)
    assert spec["kind"] == "sluice.sim/gpu" and spec["cdiVersion"] == "0.5.0"
    assert names(spec) == ["0", truth["gpus"][0]["uuid"], "1", truth["gpus"][1]["uuid"], "all"]
    first = spec["devices"][0]["containerEdits"]
    assert nodes(first)[0] == "/dev/nvidia1"
    assert first["deviceNodes"][0]["hostPath"] == f"{machine.root}/dev/nvidia1"
    edits = spec["containerEdits"]
    assert edits["env"] == ["NVIDIA_VISIBLE_DEVICES=void"] and "hooks" not in edits
    for mount in edits["mounts"]:
        assert os.path.exists(mount["hostPath"])
    assert "/usr/lib64/libcuda.so.1" in [mount["containerPath"] for mount in edits["mounts"]]


@needs_nodes
def test_a_file_is_written_once(machine):
    machine.start("t4x1")
    path = machine.directory / "new" / "cdi" / "sim.json"
    old = os.umask(0o077)
    try:
        generate(machine, "--output", str(path))
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    before = path.stat()
    assert "unchanged" in generate(machine, "--output", str(path)).err
    assert path.stat().st_ino == before.st_ino
    path.write_text("{}")
    generate(machine, "--output", str(path))
    assert path.stat().st_ino != before.st_ino and path.stat().st_size == before.st_size


def test_plain_files_are_no_devices(machine):
    machine.start("t4x1", "--dev-style", "file")
    said = generate(machine, rc=5).err
    assert "there is no device node " in said and "/dev/nvidia0" in said
    assert "plain files" in said and "root" in said


@needs_nodes
def test_hostile_and_broken_roots(machine):
    """Each in turn: the exit code, and the file that is to blame."""
    machine.start("t4x1")
    libraries = machine.root / "usr/lib/x86_64-linux-gnu"
    cache, minors = machine.root / "etc/ld.so.cache", machine.root / "proc/driver/nvidia-caps/mig-minors"
    good = generate(machine)
    machine.root.chmod(0o1777)
    generate(machine, rc=4)
    generate(machine, "--driver-root", str(machine.root), rc=64)
    machine.root.chmod(0o755)
    libraries.chmod(0o777)
    assert f"{libraries}' may be written by others" in generate(machine, rc=4).err
    libraries.chmod(0o755)
    for bytes_ in (b"garbage", b"glibc-ld.so.cache1.1" + b"\xff" * 28):
        cache.write_bytes(bytes_)
        reply = machine.run("sluice", "cdi", "generate")
        assert reply.rc == 0 and reply.json == good and "ld.so.cache" in reply.err
    cache.unlink()
    os.mkfifo(cache)  # nobody will ever write to it
    assert generate(machine) == good
    cache.unlink()
    minors.parent.mkdir(exist_ok=True)
    minors.write_bytes(os.urandom(100000))
    assert generate(machine) == good
    second = libraries / "libcuda.so.570.1"
    second.write_bytes((libraries / "libcuda.so.1").read_bytes())
    reply = machine.run("sluice", "cdi", "generate")
    assert reply.rc == 0 and reply.json == good and str(second) in reply.err
    second.unlink()
    version = (machine.root / "sys/module/nvidia/version").read_text().strip()
    ml = libraries / f"libnvidia-ml.so.{version}"
    ml.unlink()
    assert "half a driver" in generate(machine, rc=4).err
    for target in ("/etc/shadow", "../" * 20 + "etc/passwd", "libnvidia-ml.so.1"):
        ml.symlink_to(target)
        assert str(ml) in generate(machine, rc=4).err
        ml.unlink()


@needs_nodes
def test_hundreds_of_devices(machine):
    machine.start("dgx-a100", "--mig", "single")
    spec = generate(machine)
    assert len(spec["devices"]) == 8 * 7 * 2 + 1
    union = {path for device in spec["devices"][:-1] for path in nodes(device["containerEdits"])}
    assert nodes(spec["devices"][-1]["containerEdits"]) == sorted(union)
    assert generate(machine, "--device-id", "7:6", "--no-all-device")["devices"] == spec["devices"][-3:-1]


@needs_nodes
def test_exit_codes(machine):
    machine.start("t4x1")
    generate(machine, "--format", "yaml", rc=64)
    generate(machine, "--mode", "gds", rc=64)
    generate(machine, "--driver-root", "relative", rc=64)
    generate(machine, "--capabilities", "compote", rc=64)
    generate(machine, "--vendor", "not/one", rc=64)
    assert "'7'" in generate(machine, "--device-id", "7", rc=5).err
    assert "channel3" in generate(machine, "--imex-channel", "3", rc=5).err
    generate(machine, "--imex-channel", "three", rc=64)
    generate(machine, "--library-search-path", "relative", rc=64)
    generate(machine, "--output", "-", rc=64)
    # A script's empty variable is no word for all of them.
    for option in ("--device-id", "--device-name-strategy", "--imex-channel"):
        for nothing in ("", ","):
            assert f"{option} names nothing" in generate(machine, option, nothing, rc=64).err
    generate(machine, "--output", "/proc/not/there.json", rc=73)
    link = machine.directory / "link"
    link.symlink_to("/dev/full")
    for path in (link, machine.directory):  # never replaced
        generate(machine, "--output", str(path), rc=73)
    assert link.is_symlink()
    full = subprocess.run(["sh", "-c", "exec sluice cdi generate >/dev/full"], env=machine.env,
                          capture_output=True, text=True, timeout=60, check=False)
    assert full.returncode == 73 and "No space left" in full.stderr
    version = machine.root / "proc/driver/nvidia/version"
    module = machine.root / "sys/module/nvidia/version"
    module.write_text("999.9\n")
    assert "999.9" in generate(machine, rc=4).err
    version.unlink()
    module.unlink()
    assert "modprobe nvidia" in generate(machine, rc=3).err
