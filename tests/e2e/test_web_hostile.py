# SPDX-License-Identifier: Apache-2.0
"""`sluice web` among clients that are slow, silent, many, or mean: it stays as large as it was, and answers the others."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import threading
import time

import pytest

from conftest import wait_until
from webfeed import WEB, Stream, Web, read_all

MB = 1 << 20


@pytest.fixture(name="web")
def one_web():
    """One that must be as large afterwards as it was before."""
    with Web() as web:
        for path in ("/metrics", "/", "/api/v1/state"):
            web.get(path, Accept_Encoding="gzip")
        rss, descriptors = web.rss(), web.descriptors()
        yield web
        wait_until(lambda: web.descriptors() <= descriptors, 20, "that connections are closed")
        assert web.rss() < rss + 2 * MB
        assert web.get("/healthz").status == 200


def polite(web):
    """What somebody gets who asks again when he is told to."""
    def ask():
        try:
            answer = web.get("/healthz", timeout=5)
        except OSError:
            return False
        assert answer.status == 200 or answer.headers["Retry-After"] == "1"
        return answer.status == 200
    return wait_until(ask, 20, "that a polite client is answered")


@contextlib.contextmanager
def crowd(web, count, data=b""):
    peers = []
    try:
        for _ in range(count):
            peer = web.connect()
            peer.setblocking(False)
            peers.append(peer)
            with contextlib.suppress(OSError):
                peer.send(data)
        yield peers
    finally:
        for peer in peers:
            peer.close()


@pytest.mark.parametrize("count, data", [
    (512, b""), (512, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-A: "), (512, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
], ids=["silent", "half a head", "whole and unread"])
def test_512_connections(web, count, data):
    with crowd(web, count, data):
        assert polite(web)
        assert web.descriptors() <= 128
        assert web.rss() < 12 * MB


def test_more_than_64_are_told_so(web):
    request = b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with crowd(web, 32, request), crowd(web, 32):
        wait_until(lambda: web.descriptors() >= 64)
        answer = web.get("/healthz")
        assert answer.status == 503 and answer.headers["Retry-After"] == "1"
        assert polite(web)  # the silent ones make room after a second


def test_more_than_32_streams(web):
    with contextlib.ExitStack() as stack:
        for _ in range(32):
            assert stack.enter_context(Stream(web)).status == 200
        with Stream(web) as one_more:
            assert one_more.status == 503 and one_more.headers["retry-after"] == "1"
        assert web.get("/metrics").status == 200


def test_ten_megabytes_of_header(web):
    with web.connect() as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        with contextlib.suppress(OSError):
            for _ in range(160):
                peer.sendall(b"a" * 65536)
        assert read_all(peer).startswith(b"HTTP/1.1 431 ")
    assert web.rss() < 12 * MB


def test_head_of_8_kb(web):
    line = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: "
    fits = line + b"a" * (8192 - len(line) - 4) + b"\r\n\r\n"
    assert len(fits) == 8192
    assert web.raw(fits).startswith(b"HTTP/1.1 200 ")
    assert web.raw(fits.replace(b"X: ", b"X: a")).startswith(b"HTTP/1.1 431 ")


def test_a_byte_now_and_then(web):
    """Each byte in time, and the whole not: 10 seconds for all of a head."""
    start = time.monotonic()
    with web.connect() as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n")
        peer.settimeout(0.5)
        answer = b""
        while not answer:
            with contextlib.suppress(TimeoutError):
                answer = peer.recv(100)
                break
            with contextlib.suppress(OSError):
                peer.sendall(b"X")
            assert polite(web)
        assert answer.startswith(b"HTTP/1.1 408 ")
    assert 8 < time.monotonic() - start < 16


def test_idle_connection_is_closed_without_a_word(web):
    with web.connect() as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        data = read_all(peer)
        assert data.count(b"HTTP/1.1") == 1 and data.endswith(b"ok\n")


@pytest.mark.parametrize("data, status", [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
    (b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    (b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
    (b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 403),
    (b"GET http://localhost/healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 200),
    (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    (b"\r\n\r\nGET /healthz HTTP/1.0\n\n", 200),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 101 + b"\r\n", 400),
])
def test_odd_requests(web, data, status):
    answer = web.raw(data)
    assert answer.split(b" ")[1] == str(status).encode(), answer[:200]


def test_pipelined(web):
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    data = web.raw(one * 100 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + one)
    assert data.count(b"HTTP/1.1 200 OK") == 101


@pytest.mark.parametrize("fields, body", [
    (b"Content-Length: 40", b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"[:40]),
    (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
    (b"Content-Length: 1000000", b"a" * 1000000),
], ids=["length", "chunked", "long"])
def test_body_is_no_second_request(web, fields, body):
    for method, status in ((b"GET", b"200"), (b"POST", b"405")):
        data = web.raw(method + b" /healthz HTTP/1.1\r\nHost: localhost\r\n" + fields + b"\r\n\r\n" + body)
        assert data.count(b"HTTP/1.1 ") == 1 and data.split(b" ")[1] == status
        assert b"Connection: close" in data


def test_half_closed_client_is_answered(web):
    with web.connect() as peer:
        peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        peer.shutdown(socket.SHUT_WR)
        data = read_all(peer)
        assert data.startswith(b"HTTP/1.1 200 OK") and data.rstrip().count(b"HTTP/1.1") == 1


def test_resets(web):
    for i in range(500):
        with web.connect() as peer:
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"[:i % 44])
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert polite(web)


def test_slow_reader_of_the_stream_is_dropped():
    with Web() as web:
        web.say("holders", 1000)
        wait_until(lambda: len(web.get("/api/v1/state").json["holders"]) == 1000)
        with socket.socket() as slow, Stream(web) as quick:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", web.port))
            slow.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            quick.next(), quick.next()
            slow.settimeout(20)
            assert slow.recv(8) == b"HTTP/1.1"
            for _ in range(6):
                web.say("tick")
                assert quick.next()["event"] == "sample"  # the others get theirs
            assert len(read_all(slow)) < 2 * MB  # it ends
            assert web.rss() < 12 * MB


def test_reader_that_talks_is_dropped(web):
    with Stream(web) as stream:
        with contextlib.suppress(OSError):
            for _ in range(10):
                stream.peer.sendall(b"a" * 4096)
        assert read_all(stream.peer) is not None


def test_killed_under_load():
    """The socket is the agent's: who connects while nobody is there waits, and the next process answers."""
    with Web() as web:
        stop, answers = threading.Event(), []

        def ask():
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    answers.append(web.get("/metrics", timeout=20).status)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            count = len(answers)
            wait_until(lambda seen=count: len(answers) > seen + 20)
            os.kill(web.pid, signal.SIGKILL)
            web.say("web")
        count = len(answers)
        wait_until(lambda: len(answers) > count + 20)
        stop.set()
        for thread in threads:
            thread.join()
        assert set(answers) <= {200}


def test_scrapes_cost_no_memory(web):
    for _ in range(20):
        web.get("/metrics"), web.get("/api/v1/state", Accept_Encoding="gzip")
    before = web.rss()
    with web.connect() as peer:
        file = peer.makefile("rb")
        for i in range(3000):
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while file.readline() != b"\r\n":
                pass
            file.read(3)
            if i % 300 == 0:
                web.say("tick")
                web.get("/metrics")
    assert web.rss() <= before + 256 * 1024


def test_hostile_names():
    with Web() as web:
        for name in ("</script><script>alert(1)</script>", "\u202eevil\u2028", "a" * 240):
            web.say("holders", 50, name)
            state = wait_until(lambda wanted=name: (lambda s: s if s["holders"][0]["pod"].startswith(wanted[:200]) else None)(
                web.get("/api/v1/state").json))
            assert len(state["holders"]) == 50
            body = web.get("/api/v1/state").body
            assert b"<script" not in body


# -- shut in

def status_of(web):
    text = pathlib.Path(f"/proc/{web.pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_shut_in(web):
    status = wait_until(lambda: (lambda s: s if s["Seccomp"].strip() == "2" else None)(status_of(web)))
    assert status["NoNewPrivs"].strip() == "1"
    for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[kind], 16) == 0, kind
    if os.geteuid() == 0:
        assert status["Uid"].split() == ["65534"] * 4 and status["Gid"].split() == ["65534"] * 4
        assert status["Groups"].strip() == "" and int(status["CapBnd"], 16) == 0
        assert os.listdir(f"/proc/{web.pid}/root") == []
    limits = pathlib.Path(f"/proc/{web.pid}/limits").read_text()
    assert re.search(r"Max open files\s+128\s+128", limits)
    assert re.search(r"Max core file size\s+0\s+0", limits)
    opened = {os.readlink(f"/proc/{web.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{web.pid}/fd") if int(fd) > 2}
    assert not [name for name in opened if name.startswith("/") and "memfd" not in name]


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_filter_denies_nothing_that_is_needed(tmp_path):
    """Serving all there is, once through strace: after the filter no call fails with EPERM."""
    log = tmp_path / "calls"
    with Web(program=("strace", "-f", "-o", str(log), WEB)) as web:
        for path in ("/", "/metrics", "/api/v1/state", "/api/v1/history?series=power_mw", "/api/v1/processes",
                     "/api/v1/events", "/nothing"):
            web.get(path), web.get(path, Accept_Encoding="gzip")
        with Stream(web) as stream:
            stream.next(), stream.next()
            web.say("tick")
            stream.next()
        web.say("end")
        web.feed.wait(10)
        wait_until(lambda: "exited with" in log.read_text())
    calls = log.read_text()
    _, after = re.split(r"PR_SET_SECCOMP, .*= 0", calls, maxsplit=1)
    assert "EPERM" not in after
    assert "+++ exited with 0 +++" in after
    assert "+++ killed" not in after
