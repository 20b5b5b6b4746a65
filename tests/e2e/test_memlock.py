# SPDX-License-Identifier: Apache-2.0
"""libexec/sluice-memlock, the OCI hook that raises the limit of locked memory of a container.

Raising a hard limit needs CAP_SYS_RESOURCE, which the root of a container or a build machine may lack: here the
soft limit is raised within the hard one, which is the same call. See doc/unproven.md."""

import json
import os
import resource
import shutil
import subprocess

import pytest

from conftest import BUILD
from containers import WITHOUT_UNIFIED, Bundle, image, needs

HOOK = BUILD / "src/libexec/memlock/sluice-memlock"
KIB = 1024
MIB = 1024 * KIB


@pytest.fixture(name="low")
def soft_limit():
    """64 KiB for this process and what it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if hard != resource.RLIM_INFINITY and hard < 4 * MIB:
        pytest.skip(f"the hard limit of locked memory is {hard} bytes, and these tests need 4 MiB of it")
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 * KIB, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


@pytest.fixture(name="process")
def sleeping(low):
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def call(state, *arguments):
    text = state if isinstance(state, (bytes, str)) else json.dumps(state)
    return subprocess.run([HOOK, *arguments], input=text if isinstance(text, bytes) else text.encode(), env={},
                          capture_output=True, timeout=60, check=False)


def limits(pid):
    return resource.prlimit(pid, resource.RLIMIT_MEMLOCK)


def test_raised_and_never_lowered(process, low):
    state = {"ociVersion": "1.0.2", "id": "box", "status": "creating", "pid": process.pid, "bundle": "/nowhere"}
    done = call(state, str(2 * MIB))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert limits(process.pid) == (2 * MIB, low)
    assert call(state, str(MIB)).returncode == 0  # a second resource that wants less
    assert limits(process.pid) == (2 * MIB, low)


def test_what_is_refused(process):
    before = limits(process.pid)
    for state in ("", "{", b"\0" * 10, {"pid": 1}, {"pid": -1}, {"pid": str(process.pid)},
                  json.dumps({"pid": process.pid}).ljust(64 * KIB + 1)):
        done = call(state, "unlimited")
        assert done.returncode == 1, state
        assert b"no state of a container" in done.stderr
        assert call(state, "unlimited", "warn").returncode == 0
    for arguments in ((), ("1", "2"), ("64Gi",), ("0",), ("1", "warn", "x")):
        assert call({"pid": process.pid}, *arguments).returncode == 64
    assert call(json.dumps({"pid": process.pid}).ljust(64 * KIB), str(64 * KIB)).returncode == 0
    assert limits(process.pid) == before


def test_a_process_that_is_gone(low):
    process = subprocess.Popen(["true"])
    process.wait()
    done = call({"id": "box\nx", "pid": process.pid}, str(MIB))
    assert done.returncode == 1
    assert done.stderr == (b"sluice-memlock: container box\\nx: cannot raise RLIMIT_MEMLOCK to 1048576: "
                           b"its process is gone\n")
    assert call({"id": "box", "pid": process.pid}, str(MIB), "warn").returncode == 0


def test_the_configuration_that_will_win_is_named(process, tmp_path):
    config = {"process": {"rlimits": [{"type": "RLIMIT_MEMLOCK", "soft": 65536, "hard": 65536}]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    state = {"id": "box", "pid": process.pid, "bundle": str(tmp_path)}
    done = call(state, str(MIB))
    assert done.returncode == 0
    assert b"its config.json sets RLIMIT_MEMLOCK to 65536, and runc does that after this" in done.stderr
    assert call(state, str(64 * KIB)).stderr == b""
    (tmp_path / "config.json").unlink()
    os.mkfifo(tmp_path / "config.json")  # whatever lies there, nobody waits for it
    assert call(state, str(MIB)).returncode == 0


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_a_container_that_is_not_root_sees_it(low, tmp_path, runtime):
    needs(runtime)
    box = Bundle(tmp_path / "box", image(tmp_path / "rootfs"), runtime)
    for name in ("rdma", "memory"):  # no cgroup of its own is needed, and not every kernel permits one
        box.config["linux"].get("resources", {}).pop(name, None)
    box.config["process"]["user"] = {"uid": 1000, "gid": 1000}
    for kind in box.config["process"]["capabilities"]:
        box.config["process"]["capabilities"][kind] = []
    box.shell("ulimit -S -l; id -u")
    before = WITHOUT_UNIFIED if runtime == "crun" else ()
    assert box.run(*before).ok().out == "64\n1000\n"
    hook = tmp_path / "sluice-memlock"
    shutil.copy(HOOK, hook)
    box.config["hooks"] = {"createRuntime": [
        {"path": str(hook), "args": ["sluice-memlock", str(2 * MIB)], "env": ["SLUICE_HOOK=1"], "timeout": 2}]}
    assert box.run(*before).ok().out == "2048\n1000\n"
    # runc sets a limit of the specification after the hooks, crun before them.
    hard = MIB if low == resource.RLIM_INFINITY else low
    box.config["process"]["rlimits"] = [{"type": "RLIMIT_MEMLOCK", "soft": MIB, "hard": hard}]
    assert box.run(*before).ok().out == ("1024" if runtime == "runc" else "2048") + "\n1000\n"


def test_it_needs_no_library():
    """Nothing is loaded: a loader reads files and variables."""
    assert b"INTERP" not in subprocess.run(["readelf", "-lW", HOOK], capture_output=True, check=True).stdout
    assert HOOK.stat().st_size <= 100 * KIB
