# SPDX-License-Identifier: Apache-2.0
"""The simulated libcuda.so.1 on a machine that processes share: memory, time, death. Programs are ctypes."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import wait_until

LIBRARY = pathlib.Path(os.environ["MESON_BUILD_ROOT"]) / "sim/cuda/libcuda.so.1"
PTX = pathlib.Path(os.environ["MESON_SOURCE_ROOT"]) / "src/bench/gpu/kernels/sl75.ptx"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"no simulated driver library: {LIBRARY}")

MIB = 1 << 20

# What every program begins with: a context on device 0, and `call`, which ends it with a word on an error.
HEAD = f"""
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit(f"{{name}} {{result}}")
call("cuInit", 0)
context, address = ctypes.c_void_p(), ctypes.c_uint64()
free, total, now = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
def retain():
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
def alloc(mib):
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(mib << 20))
    return address.value
def function(name):
    module, found = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), open({str(PTX)!r}, "rb").read() + b"\\0")
    call("cuModuleGetFunction", ctypes.byref(found), module, name)
    return found
def spin(kernel, ns):
    ns, out = ctypes.c_uint64(ns), ctypes.c_uint64(0)
    parameters = (ctypes.c_void_p * 2)(ctypes.addressof(ns), ctypes.addressof(out))
    call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
"""


def program(body):
    return [sys.executable, "-c", HEAD + body]


def tell(child, word):
    """Waits for a line with that word from the program."""
    line = child.stdout.readline()
    assert word in line, line
    return line


def used_mib(machine):
    return machine.show()["gpus"][0]["memory"]["used"] // MIB


def test_memory_of_a_program_is_seen_and_ends_with_it(machine):
    machine.start("t4x1")
    before = used_mib(machine)
    child = machine.spawn(*program("""
retain()
alloc(4000)
print("holds", flush=True)
sys.stdin.readline()
"""), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    tell(child, "holds")
    assert used_mib(machine) - before == 4000 + 300  # and its context
    assert str(child.pid) in machine.run("sluice", "processes").ok().out
    # another one gets what is left, and no more
    refused = machine.run(*program("retain(); alloc(10500)"))
    assert refused.rc == 1 and "cuMemAlloc_v2 2" in refused.err, refused
    machine.run(*program("retain(); alloc(10400)")).ok()
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_until(lambda: used_mib(machine) == before, what="the memory of the killed program")


BURN = """
retain()
kernel = function(b"sl_wmma_burn")
a = alloc(1)
blocks, iterations = 40, ctypes.c_int(20000)
values = [ctypes.c_uint64(a), ctypes.c_uint64(a), ctypes.c_uint64(a + 1024)]
parameters = (ctypes.c_void_p * 4)(*[ctypes.addressof(v) for v in values], ctypes.addressof(iterations))
def launch():
    call("cuLaunchKernel", kernel, blocks, 1, 1, 256, 1, 1, 0, None, parameters, None)
    call("cuCtxSynchronize")
def took(count):
    call("simCudaNow", ctypes.byref(now))
    begin = now.value
    for _ in range(count):
        launch()
    call("simCudaNow", ctypes.byref(now))
    return (now.value - begin) / count / 1e6
"""


def test_programs_share_time_and_one_that_is_killed_leaves_it_to_the_other(machine):
    machine.start("t4x1")
    alone = float(machine.run(*program(BURN + "print(took(20))")).ok().out)
    other = machine.spawn(*program(BURN + """
print("works", flush=True)
while True:
    launch()
"""), stdout=subprocess.PIPE)
    tell(other, "works")
    beside = float(machine.run(*program(BURN + "print(took(50))")).ok().out)
    assert beside > alone * 1.9, (alone, beside)
    other.send_signal(signal.SIGKILL)
    other.wait()
    again = float(machine.run(*program(BURN + "print(took(20))")).ok().out)
    assert abs(again - alone) < 0.01 * alone, (alone, again)


def another_user():
    if os.geteuid() != 0:
        pytest.skip("needs root to be another user")
    who = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
    if subprocess.run([sys.executable, "-c", f"open({str(LIBRARY)!r})"], check=False, capture_output=True,
                      **who).returncode:
        pytest.skip("the build cannot be read by another user")
    return who


def test_users_of_a_shared_machine_share_time_and_memory(machine):
    who = another_user()
    machine.start("t4x1", "--shared")
    alone = float(machine.run(*program(BURN + "print(took(20))"), **who).ok().out)
    before = used_mib(machine)
    other = machine.spawn(*program(BURN + """
alloc(1000)
print("works", flush=True)
while True:
    launch()
"""), stdout=subprocess.PIPE, **who)
    tell(other, "works")
    assert used_mib(machine) - before >= 1000
    beside = float(machine.run(*program(BURN + "print(took(50))")).ok().out)
    assert beside > alone * 1.9, (alone, beside)


def test_faults_of_a_shared_machine_are_its_owners(machine):
    who = another_user()
    started = machine.start("t4x1", "--shared")
    assert "--state" in started.out, started
    machine.run("sluice", "sim", "load", "--gpu", 0, "--", "true", **who).ok()
    for verb in (("inject", "xid", 79, "--gpu", 0), ("inject", "ecc", "--gpu", 0), ("heal",), ("sync",),
                 ("reset-gpu", "--gpu", 0), ("reload-driver",)):
        refused = machine.run("sluice", "sim", *verb, **who)
        assert refused.rc == 4 and "only its owner" in refused.err, refused
    refused = machine.run("sluice", "sim", "start", "--shared", **who)
    assert refused.rc == 77 and "needs root" in refused.err, refused
    machine.sim("heal")


def test_another_user_is_told_that_nothing_is_shared(machine):
    who = another_user()
    machine.start("t4x1")
    reply = machine.run(*program("retain()"), **who).ok()
    assert "belongs to another user" in reply.err or "another user's" in reply.err, reply
    assert "sluice sim start --shared" in reply.err, reply
    for verb in (("load", "--gpu", 0, "--", "true"), ("stop",)):
        refused = machine.run("sluice", "sim", *verb, **who)
        assert refused.rc == 4 and "another user" in refused.err, refused
    assert machine.sim("status").rc == 0


def test_the_real_clock_lets_work_be_watched(machine):
    machine.start("t4x1")
    child = machine.spawn(*program("""
retain()
kernel = function(b"sl_spin")
print("works", flush=True)
while True:
    spin(kernel, 50000000)
    call("cuCtxSynchronize")
"""), env={"SLUICE_SIM_CUDA_CLOCK": "real"}, stdout=subprocess.PIPE)
    tell(child, "works")
    wait_until(lambda: machine.show()["gpus"][0]["utilization"]["gpu"] > 50, what="work to be seen")
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_until(lambda: machine.show()["gpus"][0]["utilization"]["gpu"] == 0, what="rest to be seen")


def test_a_gpu_that_is_lost_fails_what_runs_on_it(machine):
    machine.start("t4x1")
    child = machine.spawn(*program("""
retain()
kernel = function(b"sl_spin")
print("works", flush=True)
while True:
    spin(kernel, 1000000)
    call("cuCtxSynchronize")
"""), env={"SLUICE_SIM_CUDA_CLOCK": "real"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    tell(child, "works")
    machine.sim("inject", "lost", "--gpu", "0")
    assert child.wait(timeout=30) == 1
    assert "999" in child.stderr.read()
    machine.sim("heal")
    machine.run(*program("retain(); alloc(1)")).ok()


def test_mig_devices_are_those_of_their_uuid(machine):
    machine.start("a100-mig", "--gpus", "1", "--mig", "hetero")
    listing = """
call("cuDeviceTotalMem_v2", ctypes.byref(total), 0)
name = ctypes.create_string_buffer(100)
call("cuDeviceGetName", name, 100, 0)
count = ctypes.c_int()
call("cuDeviceGetCount", ctypes.byref(count))
print(count.value, name.value.decode(), total.value >> 20)
"""
    first = machine.run(*program(listing)).ok().out
    assert first.startswith("1 ") and " MIG 3g." in first, first
    uuids = [instance["uuid"] for instance in machine.show()["gpus"][0]["mig"]["instances"]]
    last = machine.run(*program(listing), env={"CUDA_VISIBLE_DEVICES": uuids[-1]}).ok().out
    assert " MIG 2g." in last, last
    none = machine.run(*program(listing), env={"CUDA_VISIBLE_DEVICES": "MIG-51ce51ce-nonsense"})
    assert none.rc == 1 and "cuInit 100" in none.err


def test_stop_removes_what_programs_shared(machine):
    machine.start("t4x1")
    machine.run(*program("retain()")).ok()
    shared = pathlib.Path(f"{machine.state}.cuda")
    assert shared.exists()
    machine.sim("stop")
    assert not shared.exists()
    gone = machine.run(*program("retain()"))
    assert gone.rc == 1 and "cuInit 100" in gone.err
