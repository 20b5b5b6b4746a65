# SPDX-License-Identifier: Apache-2.0
"""A client of the agent in Python, by proto/sluice.proto alone: nothing of sluice's own client is
in it. Also what tests need around an agent: starting one and waiting until it serves."""

import os
import pathlib
import subprocess
import tempfile
import uuid

import pytest

from conftest import DEADLINE_S, SLUICE, wait_until
from messages import grpc, messages

pb = messages("sluice")
METHODS = {
    "Queue": {
        "Submit": (pb.SubmitRequest, pb.SubmitReply, False),
        "List": (pb.ListRequest, pb.ListReply, True),
        "Get": (pb.JobRequest, pb.Job, False),
        "Watch": (pb.JobRequest, pb.Job, True),
        "Signal": (pb.SignalRequest, pb.SignalReply, False),
        "Cancel": (pb.CancelRequest, pb.CancelReply, False),
        "Logs": (pb.LogsRequest, pb.LogChunk, True),
    },
    "Node": {
        "Status": (pb.StatusRequest, pb.StatusReply, False),
        "Watch": (pb.WatchRequest, pb.Machine, True),
        "Reload": (pb.ReloadRequest, pb.ReloadReply, False),
        "Health": (pb.HealthRequest, pb.HealthReply, False),
        "ClearHealth": (pb.ClearHealthRequest, pb.ClearHealthReply, False),
        "Release": (pb.ReleaseRequest, pb.ReleaseReply, False),
    },
}
FINAL = (pb.SUCCEEDED, pb.FAILED, pb.CANCELLED)


class Client:
    """client.queue.Submit(request, timeout=5), client.node.Status(...)."""

    def __init__(self, socket, *options):
        # Its own connection: the library shares those with the same arguments.
        self.channel = grpc.insecure_channel(f"unix:{socket}", options=[
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", 64 << 20), *options])
        self.queue = self._stub("Queue")
        self.node = self._stub("Node")

    def _stub(self, service):
        class Stub:  # pylint: disable=too-few-public-methods
            pass
        stub = Stub()
        for name, (request, reply, stream) in METHODS[service].items():
            make = self.channel.unary_stream if stream else self.channel.unary_unary
            setattr(stub, name, make(f"/sluice.v1.{service}/{name}",
                                     request_serializer=request.SerializeToString,
                                     response_deserializer=reply.FromString))
        return stub

    def submit(self, *argv, key=None, no_wait=False, dry_run=False, **spec):
        spec.setdefault("directory", b"/")
        spec.setdefault("umask", 0o022)
        spec.setdefault("environment", [b"PATH=/usr/bin:/bin"])
        spec.setdefault("name", "test")
        spec = pb.JobSpec(argv=[os.fsencode(word) for word in argv], **spec)
        return self.queue.Submit(pb.SubmitRequest(
            key=key or str(uuid.uuid4()), spec=spec, no_wait=no_wait, dry_run=dry_run),
            timeout=DEADLINE_S)

    def get(self, number, details=True):
        return self.queue.Get(pb.JobRequest(id=number, details=details), timeout=DEADLINE_S)

    def wait(self, number, states=FINAL):
        """The job once it is in one of these states."""
        for job in self.queue.Watch(pb.JobRequest(id=number, details=True), timeout=DEADLINE_S):
            if job.state in states:
                return job
        raise AssertionError(f"job {number} never was in {states}")

    def list(self, **request):
        jobs = []
        for reply in self.queue.List(pb.ListRequest(**request), timeout=DEADLINE_S):
            jobs.extend(reply.jobs)
        return jobs

    def logs(self, number, **request):
        return b"".join(chunk.data for chunk in self.queue.Logs(
            pb.LogsRequest(id=number, **request), timeout=DEADLINE_S))

    def cancel(self, number, **request):
        return self.queue.Cancel(pb.CancelRequest(id=number, **request), timeout=DEADLINE_S)

    def status(self):
        return self.node.Status(pb.StatusRequest(), timeout=DEADLINE_S)

    def close(self):
        self.channel.close()


def code_of(call, *arguments, **options):
    """The status with which a call fails, by name, and its text."""
    with pytest.raises(grpc.RpcError) as caught:
        reply = call(*arguments, **options)
        if hasattr(reply, "__next__"):
            list(reply)
    return caught.value.code().name, caught.value.details()


class Agent:
    """A `sluice agent` of a machine. `wrap` comes before it: ["setpriv", ...]."""

    def __init__(self, machine, *options, wrap=(), env=None, pass_fds=()):
        self.machine, self.env = machine, {**machine.env, **(env or {})}
        self.log = tempfile.TemporaryFile("w+")  # pylint: disable=consider-using-with
        ready, told = os.pipe()
        # Its own session: a Ctrl-C of who runs the tests is not for it.
        self.process = subprocess.Popen(
            [*wrap, SLUICE, "agent", "--log-format", "text", "--ready-fd", str(told), *options],
            env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            pass_fds=(told, *pass_fds), start_new_session=True)
        machine.children.append(self.process)
        os.close(told)
        self.is_ready = os.read(ready, 1) == b"1"
        os.close(ready)
        self.socket = pathlib.Path(self.env["SLUICE_RUNTIME_DIR"]) / "agent.sock"
        for i, option in enumerate(options):
            if option == "--socket":
                self.socket = pathlib.Path(options[i + 1])
            if option == "--runtime-dir" and "--socket" not in options:
                self.socket = pathlib.Path(options[i + 1]) / "agent.sock"
        self.clients = []

    @property
    def pid(self):
        return self.process.pid

    def client(self):
        self.clients.append(Client(self.socket))
        return self.clients[-1]

    def text(self):
        """What it has logged so far."""
        self.log.flush()
        with open(f"/proc/self/fd/{self.log.fileno()}", encoding="utf-8") as file:
            return file.read()

    def logged(self, words):
        wait_until(lambda: words in self.text(), what=f"'{words}' in the log")

    def end(self, kill=False):
        """Ends it and returns its exit code."""
        for client in self.clients:
            client.close()
        self.clients = []
        if self.process.poll() is None:
            (self.process.kill if kill else self.process.terminate)()
        return self.process.wait(timeout=DEADLINE_S)
