# SPDX-License-Identifier: Apache-2.0
"""GPUs and users that are drained, and GPUs that are reserved for somebody in a window of time."""

import json
import os
import time
import urllib.request

import pytest

from conftest import wait_until

ALICE, BOB = 4242, 4343


def number(machine, *arguments, user=None):
    how = {"user": user, "group": user, "extra_groups": [], "cwd": "/"} if user else {}
    return int(machine.run("sluice", "run", "-d", *arguments, **how).ok().out)


def restarted(machine, agent, *options):
    agent.kill()
    agent.wait()
    return machine.agent(*options)


def reason(machine, job):
    row = machine.job(job)
    return f"{row['reason']}({row['reason_text'] or ''})"


def claims(machine):
    return machine.run("sluice", "jobs", "reservations", "--output", "json").ok().json["reservations"]


def on_screens(machine, what, begins):
    """GPU 1 says so wherever GPUs are seen, and GPU 0 does not."""
    for command in (["top", "--once"], ["health"]):
        text = machine.run("sluice", *command).ok().out
        assert text.count(begins) == 1, text
        gpus = machine.run("sluice", *command, "--output", "json").ok().json["gpus"]
        assert [gpu[what] for gpu in gpus] == [False, True]
        assert gpus[0]["claim"] is None and gpus[1]["claim"].startswith(begins)
    address = machine.run("sluice", "agent", "status", "--output", "json").ok().json["web"]["address"]

    def get(path):
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.read().decode()

    gpus = wait_until(lambda: [gpus for gpus in [json.loads(get("/api/v1/state"))["gpus"]] if len(gpus) > 1 and gpus[1].get(what)], what="the page")[0]
    assert gpus[1]["claim"].startswith(begins) and "claim" not in gpus[0]
    assert begins in get("/")
    values = [line.split()[-1] for line in get("/metrics?set=native").splitlines() if line.startswith(f"sluice_gpu_{what}{{")]
    assert values == ["0", "1"]


def test_one_gpu_is_drained(machine):
    machine.start("dgx-a100", "--gpus", "2")
    agent = machine.agent("--web-address", "127.0.0.1:0")
    runs = number(machine, "--gpu-ids", "1", "--", "sleep", "1000")
    machine.job_in(runs, "Running")
    machine.run("sluice", "jobs", "drain", "--gpu", "1", "--reason", "the fan is replaced").ok()
    assert machine.job(runs)["state"] == "Running"
    machine.run("sluice", "cancel", "--now", runs).ok()
    machine.job_in(runs, "Cancelled")

    wide = number(machine, "--gpus", "2", "--", "true")
    named = number(machine, "--gpu-ids", "1", "--", "true")
    machine.job_in(number(machine, "--gpus", "1", "--", "true"), "Succeeded")  # on the other, past the wide one
    for job in (wide, named):
        wait_until(lambda: reason(machine, job) == "Draining(GPU 1: the fan is replaced)")
    agent = restarted(machine, agent, "--web-address", "127.0.0.1:0")
    wait_until(lambda: reason(machine, wide) == "Draining(GPU 1: the fan is replaced)")
    assert "drained: GPU 1: the fan is replaced" in machine.run("sluice", "agent", "status").ok().out
    assert claims(machine)[0]["reason"] == "the fan is replaced"
    assert "\ndrained: GPU 1: the fan is replaced\n" in machine.run("sluice", "devices").ok().out
    assert machine.run("sluice", "devices", "--output", "json").ok().json["reservations"] == claims(machine)

    on_screens(machine, "drained", "drained: the fan is replaced")

    reply = machine.run("sluice", "jobs", "resume", "--gpu", "0")
    assert reply.rc == 64 and "GPU 0 is not drained" in reply.err
    machine.run("sluice", "jobs", "resume", "--gpu", "1").ok()
    machine.job_in(wide, "Succeeded")
    machine.job_in(named, "Succeeded")
    assert claims(machine) == []
    for words, said in ((["--gpu", "9"], "9"), (["--gpu", ""], "names no GPU"), (["--user", "nobody-of-that-name"], "there is no user"),
                        (["--gpu", "0", "--user", "0"], "exclude each other"), (["--reason", "x"], "--reason is for")):
        reply = machine.run("sluice", "jobs", "drain", *words)
        assert reply.rc == 64 and said in reply.err, reply.err


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_one_user_is_drained(machine):
    machine.start("dgx-a100", "--gpus", "2")
    agent = machine.agent()
    reply = machine.run("sluice", "jobs", "drain", "--user", str(BOB), user=ALICE, group=ALICE, extra_groups=[], cwd="/")
    assert reply.rc == 77, reply.err
    machine.run("sluice", "jobs", "drain", "--user", str(ALICE), "--reason", "see me").ok()
    waits = number(machine, "--gpus", "1", "--", "true", user=ALICE)
    wait_until(lambda: reason(machine, waits) == f"Draining(user {ALICE}: see me)")
    machine.job_in(number(machine, "--gpus", "2", "--", "true", user=BOB), "Succeeded")
    restarted(machine, agent)
    wait_until(lambda: reason(machine, waits).startswith("Draining"))
    machine.run("sluice", "jobs", "resume", "--user", str(ALICE)).ok()
    machine.job_in(waits, "Succeeded")
    assert machine.run("sluice", "jobs", "resume", "--user", str(ALICE)).rc == 64


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_gpus_are_reserved(machine):
    machine.start("dgx-a100", "--gpus", "2")
    agent = machine.agent("--web-address", "127.0.0.1:0")
    reply = machine.run("sluice", "jobs", "reserve", "--gpus", "1", "--user", ALICE, "--time", "1h", user=ALICE, group=ALICE,
                        extra_groups=[], cwd="/")
    assert reply.rc == 77, reply.err
    said = machine.run("sluice", "jobs", "reserve", "--gpus", "1", "--user", ALICE, "--time", "1h", "--name", "talk").ok().out
    assert said.startswith(f"talk for {ALICE}, until ") and "GPU 1" in said, said
    on_screens(machine, "reserved", f"reserved (talk) for {ALICE}, 20")

    wide = number(machine, "--gpus", "2", "--", "true", user=BOB)
    wait_until(lambda: reason(machine, wide).startswith(f"Reserved(talk for {ALICE}, until "))
    machine.job_in(number(machine, "--gpus", "1", "--", "true", user=BOB), "Succeeded")
    machine.job_in(number(machine, "--gpus", "2", "--", "true", user=ALICE), "Succeeded")  # hers
    agent = restarted(machine, agent)
    wait_until(lambda: reason(machine, wide).startswith("Reserved"))
    reply = machine.run("sluice", "run", "--dry-run", "--gpus", "2", "--", "true", user=BOB, group=BOB, extra_groups=[], cwd="/")
    assert "Reserved (talk" in reply.out + reply.err, reply.out + reply.err

    reply = machine.run("sluice", "jobs", "reserve", "--gpu-ids", "1", "--user", BOB, "--begin", "now+30m", "--time", "1h")
    assert reply.rc == 65 and "GPU 1 is reserved at that time: talk for" in reply.err, reply.err
    reply = machine.run("sluice", "jobs", "reserve", "--gpus", "2", "--user", BOB, "--time", "1h")
    assert reply.rc == 78 and "needs 2 GPUs, and 1 of the queue's 2 are not reserved then: talk" in reply.err, reply.err
    reply = machine.run("sluice", "jobs", "reserve", "--gpus", "1", "--user", BOB, "--time", "1h", "--name", "talk")
    assert reply.rc == 65 and "there is a reservation of that name" in reply.err
    machine.run("sluice", "jobs", "unreserve", "talk").ok()
    machine.job_in(wide, "Succeeded")
    assert machine.run("sluice", "jobs", "unreserve", "talk").rc == 64


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_a_window_to_come_and_one_that_is_over(machine):
    machine.start("t4x1")
    machine.agent()
    machine.run("sluice", "jobs", "reserve", "--gpus", "1", "--user", ALICE, "--begin", "now+2h", "--time", "1h", "--name", "later").ok()
    long = number(machine, "--gpus", "1", "--time", "3h", "--", "true", user=BOB)
    endless = number(machine, "--gpus", "1", "--", "true", user=BOB)
    wait_until(lambda: reason(machine, long).startswith("Reserved") and reason(machine, endless).startswith("Reserved"))
    machine.job_in(number(machine, "--gpus", "1", "--time", "1h", "--", "true", user=BOB), "Succeeded")  # ends before
    machine.run("sluice", "jobs", "unreserve", "later").ok()
    machine.job_in(long, "Succeeded")
    machine.job_in(endless, "Succeeded")

    # Far enough away, one without a limit starts; and what is over is gone.
    machine.run("sluice", "jobs", "reserve", "--gpus", "1", "--user", ALICE, "--begin", "now+2h", "--time", "1h", "--lead", "1h").ok()
    machine.job_in(number(machine, "--gpus", "1", "--", "true", user=BOB), "Succeeded")
    machine.run("sluice", "jobs", "unreserve", "r1").ok()
    machine.run("sluice", "jobs", "reserve", "--gpus", "1", "--user", ALICE, "--time", "2s").ok()
    waits = number(machine, "--gpus", "1", "--", "true", user=BOB)
    ended = machine.job_in(waits, "Succeeded")
    assert claims(machine) == [] and ended["attempt"]["started_unix"] - ended["submitted_unix"] > 1
    assert time.time() > ended["submitted_unix"]


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_a_reservation_moves_off_a_gpu_that_fails(machine):
    """Drained, then broken: each time a free GPU takes its place, and the listing says so. GPUs that were named stay."""
    machine.start("dgx-a100", "--gpus", "4")
    agent = machine.agent()
    busy = number(machine, "--gpu-ids", "2", "--", "sleep", "1000", user=BOB)
    machine.job_in(busy, "Running")
    machine.run("sluice", "jobs", "reserve", "--gpus", "1", "--user", ALICE, "--time", "1h", "--name", "any").ok()
    machine.run("sluice", "jobs", "reserve", "--gpu-ids", "0", "--user", ALICE, "--time", "1h", "--name", "named").ok()

    def reserved():
        return {claim["name"]: [gpu["label"] for gpu in claim["gpus"]] for claim in claims(machine) if claim["kind"] == "reservation"}

    assert reserved() == {"any": ["GPU 3"], "named": ["GPU 0"]}
    assert all(claim["moved"] is None for claim in claims(machine))
    machine.run("sluice", "jobs", "drain", "--gpu", "3,0", "--reason", "the fan").ok()
    wait_until(lambda: reserved() == {"any": ["GPU 1"], "named": ["GPU 0"]})  # on GPU 2 somebody computes
    moved = {claim["name"]: claim["moved"] for claim in claims(machine)}
    assert moved["any"] == "GPU 1 instead of GPU 3 (drained: the fan)" and moved["named"] is None, moved
    assert "GPU 1 instead of GPU 3 (drained: the fan)" in machine.run("sluice", "jobs", "reservations").ok().out

    # Bob waits for what is hers now, and it outlives the service.
    agent = restarted(machine, agent)
    waits = number(machine, "--gpu-ids", "1", "--", "true", user=BOB)
    wait_until(lambda: reason(machine, waits).startswith(f"Reserved(any for {ALICE}, until ") and "GPU 1" in reason(machine, waits))
    machine.job_in(number(machine, "--gpus", "1", "--", "true", user=ALICE), "Succeeded")

    # None is free: that of a job that runs is the next best, and nobody else starts there.
    machine.sim("inject", "lost", "--gpu", "1")
    wait_until(lambda: reserved()["any"] == ["GPU 2"])
    assert [claim["moved"] for claim in claims(machine) if claim["name"] == "any"][0].startswith("GPU 2 instead of GPU 1 (")
    assert machine.job(busy)["state"] == "Running"
    machine.job_in(waits, "Pending")

    # It stays where there is no other.
    machine.run("sluice", "jobs", "drain", "--gpu", "2").ok()
    assert reserved()["any"] == ["GPU 2"]


def test_a_limit_does_not_grow_into_a_window(machine):
    """A job that started because it would end before the window cannot be given more afterwards, but by root."""
    machine.start("dgx-a100", "--gpus", "3")
    machine.agent()
    machine.run("sluice", "jobs", "reserve", "--gpu-ids", "1,2", "--user", BOB, "--begin", "now+1h", "--time", "1h", "--name", "lab").ok()
    held, free, own = (number(machine, "--gpu-ids", gpu, "--time", "5m", "--", "sleep", "1000", user=user)
                       for gpu, user in ((1, ALICE), (0, ALICE), (2, BOB)))
    for job in (held, free, own):
        machine.job_in(job, "Running")

    def longer(job, time_text, user):
        return machine.run("sluice", "jobs", "set", "--time", time_text, job, user=user, group=user, extra_groups=[], cwd="/")

    reply = longer(held, "2h", ALICE)
    assert reply.rc == 77 and f"job {held} runs on GPU 1, which is reserved: lab for " in reply.err, reply
    longer(held, "30m", ALICE).ok()
    longer(free, "2h", ALICE).ok()
    longer(own, "2h", BOB).ok()
    machine.run("sluice", "jobs", "set", "--time", "2h", held).ok()
