# SPDX-License-Identifier: Apache-2.0
"""One user against the others: whatever one takes of root's agent, others and root have their share."""

import os
import pathlib
import re
import resource
import threading
import time

import pytest

from agent_client import pb
from conftest import wait_until
from hostile import PING, Hostile, frame

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="takes root, to be several users")

ALICE, BOB, SUB = 61001, 61002, 900000


def be(uid):
    """What makes a program run as this user."""
    return {"user": uid, "group": uid, "extra_groups": [], "cwd": "/"}


@pytest.fixture
def lab(machine):
    machine.start("dgx-a100", "--gpus", "2", "--dev-style", "file")
    etc = machine.root / "etc"
    etc.mkdir(exist_ok=True)
    (etc / "subuid").write_text(f"{ALICE}:{SUB}:65536\n")
    machine.agent()
    machine.hostile = []
    yield machine
    for one in machine.hostile:
        one.close()


def attack(lab, uid, **how):
    lab.hostile.append(Hostile(lab.runtime_dir / "agent.sock", uid, **how))
    return lab.hostile[-1]


def rss(lab):
    status = pathlib.Path(f"/proc/{lab.service.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def others_are_served(lab):
    """Nothing of what a user or root does every day waits for Alice."""
    for who in (be(BOB), be(0)):
        began = time.monotonic()
        lab.run("sluice", "agent", "status", timeout=20, **who).ok()
        assert "hello" in lab.run("sluice", "run", "--gpus", "0", "--", "echo", "hello", timeout=20, **who).ok().out
        number = lab.submit("echo", "kept", **who)
        lab.job_in(number, "Succeeded", **who)
        assert "kept" in lab.run("sluice", "logs", number, timeout=20, **who).ok().out
        assert str(number) in lab.run("sluice", "jobs", "--all", timeout=20, **who).ok().out
        assert time.monotonic() - began < 30


def test_subordinate_ids_take_no_more_connections_than_their_owner(lab):
    peers = [attack(lab, SUB + i) for i in range(300)]
    wait_until(lambda: sum(one.is_open() for one in peers) <= 128)
    others_are_served(lab)
    assert sum(one.is_open() for one in peers) == 128
    # Who is refused is told why.
    assert b"one user may have 128 connections, and you have 128: close some" in peers[-1].seen
    reply = lab.run("sluice", "agent", "status", **be(ALICE))
    assert reply.rc != 0
    # A range that is given later counts at once, also for what its ids have.
    (lab.root / "etc" / "subuid").write_text(f"{BOB}:{SUB}:65536\n")
    wait_until(lambda: lab.run("sluice", "agent", "status", **be(ALICE)).rc == 0)
    assert lab.run("sluice", "agent", "status", **be(BOB)).rc != 0


def test_readers_of_one_user(lab):
    number = lab.submit("sleep", "1000", **be(ALICE))
    lab.job_in(number, "Running", **be(ALICE))
    for _ in range(12):
        peer = attack(lab, ALICE)
        for _ in range(10):
            peer.call("/sluice.v1.Queue/Logs", pb.LogsRequest(id=number, follow=True).SerializeToString())
        for _ in range(90):
            peer.call("/sluice.v1.Queue/Watch", pb.JobRequest(id=number).SerializeToString())
    wait_until(lambda: sum(one.ended() for one in lab.hostile) >= 90)
    others_are_served(lab)


def test_lists_that_nobody_reads(lab):
    lab.submit("true", options=("--array", "5000", "--hold"), **be(ALICE))
    peer = attack(lab, ALICE, window=0)
    for _ in range(60):
        peer.call("/sluice.v1.Queue/List", pb.ListRequest(all=True).SerializeToString())
    wait_until(lambda: peer.ended() >= 52)
    reply = lab.run("sluice", "jobs", **be(ALICE))
    assert "one user may have 8 lists of jobs, and you have 8" in reply.err, reply
    others_are_served(lab)


def test_requests_that_never_end(lab):
    before = rss(lab)
    part = b"\x0a" * ((3 << 20) - 1000)
    for uid in (ALICE, SUB + 5):
        for _ in range(2):
            peer = attack(lab, uid)
            for _ in range(9):
                peer.call("/sluice.v1.Queue/Submit", part, length=3 << 20, end=False)
                peer.drain()
    reply = lab.run("sluice", "run", "--gpus", "0", "--", "true", env={f"FILLER_{i}": "x" * 100000 for i in range(9)}, **be(ALICE))
    assert "bytes of requests on their way" in reply.err, reply
    assert rss(lab) - before < 32 << 20
    environment = {f"FILLER_{i}": "x" * 100000 for i in range(5)}
    for _ in range(10):
        lab.run("sluice", "run", "--detach", "--gpus", "0", "--hold", "--", "true", env=environment, **be(BOB)).ok()
    others_are_served(lab)


def test_replies_that_nobody_reads(lab):
    number = lab.submit("true", *["x" * 100000] * 9, options=("--hold",), **be(ALICE))
    before = rss(lab)
    request = pb.JobRequest(id=number, details=True).SerializeToString()
    for _ in range(12):
        peer = attack(lab, ALICE, window=0)
        for _ in range(30):
            peer.call("/sluice.v1.Queue/Get", request)
    wait_until(lambda: sum(one.ended() for one in lab.hostile) > 100)
    reply = lab.run("sluice", "jobs", number, **be(ALICE))
    assert "one user may have" in reply.err, reply
    others_are_served(lab)
    assert rss(lab) - before < 48 << 20
    for one in lab.hostile:
        one.close()
    lab.run("sluice", "jobs", number, **be(ALICE)).ok()


def test_the_memory_of_jobs_that_ended(lab):
    """Two hundred jobs of hers leave the two of his."""
    config = lab.directory / "config.yaml"
    config.write_text("sluice: {jobs: {retentionJobs: 50}}")
    lab.service.terminate()
    lab.service.wait()
    lab.agent("--config", config)
    his = [lab.submit("true", **be(BOB)) for _ in range(2)]
    for number in his:
        lab.job_in(number, "Succeeded", **be(BOB))
    hers = lab.submit("true", options=("--array", "210", "--hold"), **be(ALICE))
    lab.run("sluice", "cancel", hers, **be(ALICE)).ok()
    late = lab.submit("true", **be(ALICE))
    lab.job_in(late, "Succeeded", **be(ALICE))
    lab.run("sluice", "jobs", "gc").ok()
    for number in his:
        assert lab.job(number, **be(BOB))["state"] == "Succeeded"
    assert lab.job(late, **be(ALICE))["state"] == "Succeeded"
    assert lab.run("sluice", "jobs", hers, **be(ALICE)).rc != 0


def test_running_jobs_without_a_gpu(lab):
    """Where few descriptors are to be had few jobs run, and one user has half of them."""
    lab.service.terminate()
    lab.service.wait()
    lab.agent(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1100, 1100)))
    hers = lab.submit("sleep", "1000", options=("--array", "80"), **be(ALICE))
    wait_until(lambda: "jobs of this user run without a GPU" in lab.run("sluice", "jobs", "--wide", **be(ALICE)).ok().out)
    his = lab.submit("sleep", "1000", **be(BOB))
    lab.job_in(his, "Running", **be(BOB))
    for number, who in ((hers, be(ALICE)), (his, be(BOB))):
        lab.run("sluice", "cancel", number, "--now", **who).ok()


def test_the_threat_model_has_the_figures():
    """Those of the one table from which the limits are taken."""
    root = pathlib.Path(__file__).parents[2]
    told = [[cell.strip() for cell in line.split("|")[1:-1]]
            for line in (root / "doc" / "threat-model.md").read_text().split("| of | one user |")[1].split("\n\n")[0]
            .splitlines()[2:]]
    told = [[figure.split(" (")[0].replace(" MiB", "").replace(",", "") for figure in row[1:4]] for row in told]
    text = re.sub(r"//.*|/\*.*?\*/", "", (root / "src" / "base" / "account.c").read_text())
    table = text.split("account_limits[ACCOUNT_RESOURCE_COUNT] = {")[1].split("\n};")[0]
    table = re.sub(r'"[^"]*"', "", table)
    rows = [re.findall(r"\d+", row)[:3] for row in table.split("[ACCOUNT_")[1:]]
    assert len(told) > 9 and told == rows


def test_floods(lab):
    """Frames that ask for answers, or for nothing: the others do not notice."""
    stop = threading.Event()

    def flood(peers):
        for peer in peers:
            while not stop.is_set() and peer.is_open() and peer.send(frame(PING, 0, 0, b"12345678") * 100):
                pass
    threads = [threading.Thread(target=flood, args=([attack(lab, ALICE) for _ in range(4)],)) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        others_are_served(lab)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_many_honest_clients_of_one_user(lab):
    """What a person does who looks at everything at once is no attack."""
    number = lab.submit("sleep", "1000", **be(ALICE))
    lab.job_in(number, "Running", **be(ALICE))
    watchers = [attack(lab, ALICE) for _ in range(48)]
    for one in watchers:
        one.call("/sluice.v1.Node/Watch", pb.WatchRequest().SerializeToString())
    readers = [attack(lab, ALICE) for _ in range(12)]
    for one in readers:
        for kind in (False, True):
            one.call("/sluice.v1.Queue/Logs",
                     pb.LogsRequest(id=number, follow=True, stderr=kind).SerializeToString())
        one.call("/sluice.v1.Queue/Watch", pb.JobRequest(id=number, details=True).SerializeToString())
    for one in watchers:
        wait_until(lambda one=one: len(one.drain()) > 1000)
    others_are_served(lab)
    lab.run("sluice", "jobs", **be(ALICE)).ok()
    lab.run("sluice", "run", "--gpus", "0", "--", "true", **be(ALICE)).ok()
    assert all(one.is_open() and one.ended() == 0 for one in watchers + readers)
