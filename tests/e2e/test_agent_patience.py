# SPDX-License-Identifier: Apache-2.0
"""What an agent waits for, and for how long: a disk that does not answer, a reader that does not
read."""

import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

from agent_client import Agent, Client, code_of, pb
from conftest import DEADLINE_S, wait_until

HANGING_SYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
/* fsync and fdatasync do not come back while the file is there. */
static void hang(void)
{
	const char *file = getenv("HANG_FILE");
	while (file && access(file, F_OK) == 0)
		usleep(10000);
}
int fsync(int fd)
{
	hang();
	return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
int fdatasync(int fd)
{
	hang();
	return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""


def drain(sock, for_s=0.0):
    """What the service manager was told by now, and for so long from now on."""
    messages = []
    end = time.monotonic() + for_s
    try:
        while True:
            sock.settimeout(max(0.0, end - time.monotonic()))
            messages.append(sock.recv(4096).decode())
    except (BlockingIOError, TimeoutError):
        return messages


def test_a_write_that_does_not_come_back(machine):
    compiler = shutil.which("cc") or pytest.skip("needs a compiler")
    machine.start("dgx-a100", "--gpus", "2", "--dev-style", "file")
    source, library = machine.directory / "hang.c", machine.directory / "hang.so"
    source.write_text(HANGING_SYNC)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"],
                   check=True, timeout=DEADLINE_S)
    hang = machine.directory / "hang"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(machine.directory / "notify"))
    agent = Agent(machine, env={"LD_PRELOAD": str(library), "HANG_FILE": str(hang),
                                "NOTIFY_SOCKET": str(machine.directory / "notify"),
                                "WATCHDOG_USEC": "600000"})
    client = agent.client()
    running = client.submit("sleep", "1000")
    client.wait(running.id, (pb.RUNNING,))
    hang.touch()
    stuck = client.queue.Submit.future(pb.SubmitRequest(
        key="hangs", spec=pb.JobSpec(argv=[b"true"], directory=b"/", name="stuck")))
    began = time.monotonic()
    error = wait_until(lambda: client.status().storage_error, deadline_s=60)
    assert "has not answered" in error and time.monotonic() - began > 25
    before = time.monotonic()
    status, words = code_of(client.submit, "true")
    assert status == "ABORTED" and "has not answered" in words
    assert client.get(running.id, details=False).state == pb.RUNNING
    assert len(client.list(states=[pb.RUNNING])) == 1
    assert time.monotonic() - before < 5  # the loop waits for nothing of it
    wait_until(lambda: [text for text in drain(sock) if "does not answer" in text])
    # A sign of life would have been due ten times. Nor is it told again what is known.
    assert drain(sock, for_s=2) == []
    hang.unlink()
    assert stuck.result(timeout=DEADLINE_S).id > running.id  # it was only late
    wait_until(lambda: not client.status().storage_error)
    assert client.wait(client.submit("true").id).state == pb.SUCCEEDED
    wait_until(lambda: [text for text in drain(sock) if "WATCHDOG" in text])
    client.cancel(running.id)
    client.wait(running.id)
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.process.wait(timeout=DEADLINE_S) == 0
    sock.close()


def test_a_reader_that_never_reads_is_dropped(machine):
    machine.start("dgx-a100", "--dev-style", "file")
    agent = Agent(machine, "--period", "20ms")
    client = agent.client()
    wait_until(lambda: client.status().gpus == 8)
    # The library takes in no more for a stream that is not read than HTTP/2 makes it.
    lazy = Client(agent.socket, ("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1))
    began = time.monotonic()
    streams = [lazy.node.Watch(pb.WatchRequest()) for _ in range(3)]
    # What it would have got fills its window and our cap; then a minute is waited.
    wait_until(lambda: agent.text().count("does not read") == 3, deadline_s=150)
    assert time.monotonic() - began > 50
    for stream in streams:
        stream.cancel()
    lazy.close()
    assert client.status().pid == agent.pid
    assert agent.end() == 0
