# SPDX-License-Identifier: Apache-2.0
"""`sluice health`: each fault shows with its reason and advice, on its GPU only."""

import pytest

from conftest import wait_until


def health(machine, *options, rc=None):
    reply = machine.run("sluice", "health", "--output", "json", *options)
    assert reply.rc in (0, 1), reply
    if rc is not None:
        assert reply.rc == rc, reply
    gpus = reply.json["gpus"]
    assert (reply.rc == 1) == any(gpu["health"] == "unhealthy" for gpu in gpus), reply
    return gpus


def causes(gpu):
    return {reason["cause"] for reason in gpu["reasons"]}


def test_all_healthy(machine):
    machine.start("dgx-a100")
    gpus = health(machine, rc=0)
    assert [gpu["health"] for gpu in gpus] == ["healthy"] * 8
    assert all(gpu["reasons"] == [] for gpu in gpus)


@pytest.mark.parametrize("fault, state, cause", [
    (["lost"], "unhealthy", "lost"),
    (["reset-required"], "unhealthy", "reset-required"),
    (["xid", "62"], "unhealthy", "xid"),
    (["xid", "79"], "unhealthy", "xid"),
    (["xid", "54"], "unhealthy", "xid"),
    (["xid", "48"], "unhealthy", "xid"),
    (["ecc", "uncorrected", "--contained"], "degraded", "ecc-uncorrected"),
    (["ecc", "uncorrected", "--uncontained"], "unhealthy", "recovery-action"),
    (["remap", "pending"], "degraded", "remap-pending"),
    (["remap", "failure"], "unhealthy", "remap-failure"),
    (["power-brake"], "degraded", "throttled"),
    (["nvlink", "2", "down"], None, "nvlink-down"),
    (["recovery", "2"], "unhealthy", "recovery-action"),
    (["mode", "ecc", "pending"], "degraded", "mode-pending"),
])
def test_fault(machine, fault, state, cause):
    machine.start("dgx-a100", "--gpus", "4")
    machine.sim("inject", *fault, "--gpu", "1")
    # some faults show with the next tick of the machine's clock
    wait_until(lambda: cause in causes(health(machine)[1]), what=f"{cause} of {fault}")
    gpus = health(machine)
    if state:
        assert gpus[1]["health"] == state, gpus[1]
    assert cause in causes(gpus[1]), gpus[1]
    assert all(reason["advice"] and reason["text"] for reason in gpus[1]["reasons"])
    assert gpus[3]["health"] == "healthy", gpus[3]


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 94])
def test_a_jobs_own_fault_leaves_the_gpu_healthy(machine, code):
    machine.start("t4x4")
    machine.sim("inject", "xid", code, "--gpu", "2")
    gpus = health(machine)
    assert all(reason["cause"] != "xid" for reason in gpus[2]["reasons"])
    assert [entry["xid"] for entry in gpus[2]["xids"]] == [code]


@pytest.mark.parametrize("form", ["new", "old", "threeline"])
def test_every_form_of_the_kernel_log(machine, form):
    machine.start("t4x4")
    machine.sim("inject", "xid", "79", "--gpu", "1", "--form", form)
    gpus = health(machine, rc=1)
    assert [entry["xid"] for entry in gpus[1]["xids"]] == [79]
    assert [gpu["health"] for gpu in gpus] == ["healthy", "unhealthy", "healthy", "healthy"]


def test_forged_record_is_ignored(machine):
    machine.start("t4x4")
    machine.sim("inject", "xid", "79", "--gpu", "1", "--forge")
    gpus = health(machine, rc=0)
    assert all(gpu["xids"] == [] for gpu in gpus)


def test_events_that_nvml_missed_are_in_the_log(machine):
    machine.start("t4x4")
    machine.sim("inject", "events-missed", "119")
    machine.sim("inject", "xid", "119", "--gpu", "0")
    assert health(machine, rc=1)[0]["health"] == "unhealthy"


def test_hung(machine):
    machine.start("t4x4")
    machine.sim("inject", "hang", "any", "--gpu", "3")
    gpus = health(machine, "--timeout", "4s", rc=1)
    assert causes(gpus[3]) == {"hung"}
    assert [gpu["health"] for gpu in gpus[:3]] == ["healthy"] * 3


def test_since(machine):
    machine.start("t4x1")
    machine.sim("inject", "xid", "62", "--gpu", "0")
    health(machine, "--since", "1h", rc=1)
    health(machine, "--since", "1ns", rc=0)


def test_advice_names_the_gpu(machine):
    machine.start("dgx-a100")
    machine.sim("inject", "xid", "62", "--gpu", "2")
    [reason] = health(machine, rc=1)[2]["reasons"]
    assert "0000:47:00.0" in reason["advice"] and reason["xid"] == 62


def test_reset_helps_where_it_can_be_seen(machine):
    machine.start("dgx-a100", "--gpus", "1")
    machine.sim("inject", "xid", "48", "--gpu", "0")
    health(machine, rc=1)
    machine.sim("heal")
    machine.sim("reset-gpu", "--gpu", "0")
    assert health(machine, rc=0)[0]["health"] == "healthy"


def test_table(machine):
    machine.start("t4x4")
    machine.sim("inject", "xid", "79", "--gpu", "1")
    reply = machine.run("sluice", "health")
    assert reply.rc == 1
    assert "simulated" in reply.out.splitlines()[0]
    assert "XID 79 (the GPU has fallen off the bus)" in reply.out
    assert reply.out.count("healthy") >= 4


def test_without_a_kernel_log(machine):
    machine.start("t4x1")
    machine.path("/kmsg").unlink()
    reply = machine.run("sluice", "health")
    assert reply.rc == 0 and "Errors in the kernel log are not in this" in reply.out
