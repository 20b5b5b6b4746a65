# SPDX-License-Identifier: Apache-2.0
"""sluice-kube against an API server that does what it should not."""

import base64
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import pytest

from apiserver import LABEL, NODE, ApiServer, Certificates
from conftest import BUILD, DEADLINE_S, wait_until
from kubelet import Kubelet

PROGRAM = os.environ.get("SLUICE_KUBE", str(BUILD / "src" / "libexec" / "kube" / "sluice-kube"))
if not os.path.exists(PROGRAM):
    pytest.skip("sluice-kube was not built: libcurl is missing", allow_module_level=True)


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def fields(data):
    """{number: value} of a protobuf message; texts are bytes."""
    found, at = {}, 0

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = take()
        value = take()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        found[key >> 3] = value
    return found


def pairs(data):
    """The labels of a message Labels."""
    found, at = {}, 0
    while at < len(data):
        size = data[at + 1]  # each is shorter than 128 bytes
        inner = fields(data[at + 2:at + 2 + size])
        found[inner[1].decode()] = inner[2].decode()
        at += 2 + size
    return found


def text_field(number, text):
    data = text.encode()
    return varint(number << 3 | 2) + varint(len(data)) + data


class Kube:
    """A running sluice-kube, and the agent's end of its socket pair."""

    def __init__(self, *options, env=None, node=NODE):
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.errors = tempfile.TemporaryFile()
        base = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}

        def place():
            os.dup2(theirs.fileno(), 3)
            os.set_inheritable(3, True)

        self.process = subprocess.Popen(
            [PROGRAM, "--node", node, "--label", LABEL, "--back-off-ms", "20", *options],
            env={**base, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self.errors, close_fds=False, preexec_fn=place)
        theirs.close()
        self.labels, self.problems, self.others = [], [], []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            while (data := self.ours.recv(1 << 16)):
                for number, value in fields(data).items():
                    inner = fields(value)
                    if number == 1:
                        self.labels.append(inner.get(2, b"").decode() if inner.get(1) else None)
                    elif number == 3:
                        self.heard(inner)
                    elif number == 4:
                        self.others.append(pairs(value))
                    elif inner.get(1) or self.problems:  # not that all is well from the beginning
                        self.problems.append(inner.get(1, b"").decode())
        except OSError:
            pass

    def heard(self, inner):
        """How far the labels are: of test_kube_labels.py."""

    def event(self, reason, message, warning=False):
        inner = (b"\x08\x01" if warning else b"") + text_field(2, reason) + text_field(3, message)
        self.ours.send(b"\x0a" + varint(len(inner)) + inner)

    def label(self, value):
        wait_until(lambda: self.labels and self.labels[-1] == value,
                   what=f"label {value!r} after {self.labels} {self.problems}")

    def problem(self, *words):
        """The first problem that has all the words, once it is said."""
        return wait_until(lambda: next((text for text in self.problems
                                        if all(word in text for word in words)), None),
                          what=f"{words} in {self.problems}")

    def is_well(self):
        wait_until(lambda: self.problems and not self.problems[-1],
                   what=f"an end of {self.problems}")

    def status(self, key):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(line.split()[1] for line in text.splitlines() if line.startswith(key + ":"))

    def end(self):
        self.ours.shutdown(socket.SHUT_RDWR)  # a close would wait for the thread that reads
        code = self.process.wait(timeout=DEADLINE_S)
        self.errors.seek(0)
        errors = self.errors.read().decode()
        assert (code, errors) == (0, ""), f"{code} {errors}"

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=DEADLINE_S)
        self.ours.close()
        self.errors.close()


@pytest.fixture(scope="module")
def certificates():
    directory = tempfile.mkdtemp(prefix="sluice-kube-")
    yield Certificates(directory)
    shutil.rmtree(directory)


@pytest.fixture
def rig(certificates, tmp_path):
    """Starts servers and programs; all are gone afterwards."""
    made = Rig(certificates, tmp_path)
    yield made
    made.stop()


class Rig:
    def __init__(self, certificates, directory):
        self.certificates, self.directory, self.made = certificates, directory, []
        shutil.copy(certificates.path("ca.crt"), directory / "ca.crt")
        self.set_token("first-token")

    def set_token(self, token):
        """As the kubelet does it: the whole file at once."""
        new = self.directory / "token.new"
        new.write_text(token + "\n")
        new.rename(self.directory / "token")

    def server(self, *options, **how):
        server = ApiServer(self.certificates, *options, **how)
        self.made.append(server)
        return server

    def kube(self, server, *options, env=None, **how):
        """In a pod."""
        pod = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
        kube = Kube("--service-account", str(self.directory), *options, env={**pod, **(env or {})}, **how)
        self.made.append(kube)
        return kube

    def with_kubeconfig(self, text):
        path = self.directory / "kubeconfig"
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        kube = Kube("--kubeconfig", str(path))
        self.made.append(kube)
        return kube

    def stop(self):
        for thing in self.made:
            thing.kill() if isinstance(thing, Kube) else thing.stop()


def kubeconfig(server, user=None, **cluster):
    return {"current-context": "here",
            "contexts": [{"name": "there", "context": {"cluster": "x", "user": "y"}},
                         {"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{server.port}/",
                                                   **cluster}}],
            "users": [{"name": "u", "user": user or {}}]}


# --- the label ------------------------------------------------------------------------------------


def test_the_label_and_its_changes(rig):
    server = rig.server()
    server.change(config="a100")
    kube = rig.kube(server)
    kube.label("a100")
    server.change(other="thing")
    server.change(config="h100")
    kube.label("h100")
    server.change(config=None)
    kube.label(None)
    server.change(config="")
    kube.label("")
    assert kube.labels == ["a100", "h100", None, ""] and not kube.problems
    [listed] = server.of("list")
    [watched] = server.of("watch")
    assert listed.query == {"fieldSelector": "metadata.name=node-1", "resourceVersion": "0"}
    assert watched.query["resourceVersion"] == "101"
    assert watched.query["allowWatchBookmarks"] == "true"
    assert "PartialObjectMetadata" in watched.headers["accept"]
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer first-token"}
    kube.end()


def test_what_the_operator_says(rig):
    server = rig.server()
    kube = rig.kube(server)
    deploy = "nvidia.com/gpu.deploy.device-plugin"
    kube.label(None)
    wait_until(lambda: kube.others == [{}])
    server.change(**{deploy: "false", "nvidia.com/gpu.count": "8"})
    server.change(**{"nvidia.com/gpu.count": "7"})
    server.change(**{"nvidia.com/gpu-driver-upgrade-state": "cordon-required"})
    server.change(**{deploy: None})
    wait_until(lambda: len(kube.others) == 4, what=f"four in {kube.others}")
    assert kube.others[1:] == [{deploy: "false"},
                               {deploy: "false", "nvidia.com/gpu-driver-upgrade-state": "cordon-required"},
                               {"nvidia.com/gpu-driver-upgrade-state": "cordon-required"}]


def test_no_label_at_all(rig):
    kube = rig.kube(rig.server())
    kube.label(None)
    assert kube.labels == [None]


def test_pieces_of_any_size(rig):
    """Each byte for itself: within an object, within a character, within a line's end."""
    server = rig.server()
    lines = b"".join(json.dumps({"type": kind, "object": {
        "metadata": {"name": NODE, "resourceVersion": str(version), "labels": labels,
                     "annotations": {"note": "gr\u00f6\u00dfe \U0001f600 \u4e2d"}}}},
        ensure_ascii=False).encode() + b"\r\n\n"
        for kind, version, labels in (("MODIFIED", 200, {LABEL: "gr\u00f6\u00dfe"}),
                                      ("SOMETHING-NEW", 201, {}),
                                      ("MODIFIED", 202, {LABEL: "two"})))

    def bytewise(request):
        request.stream()
        for i in range(len(lines)):
            request.chunk(lines[i:i + 1])
        request.end()

    server.plan("watch", bytewise)
    kube = rig.kube(server)
    kube.label("two")
    assert kube.labels == [None, "gr\u00f6\u00dfe", "two"] and not kube.problems
    assert server.wait_for("watch", 2)[1].query["resourceVersion"] == "202"


def test_many_events_in_one_piece(rig):
    server = rig.server()

    def at_once(request):
        request.stream()
        request.chunk(b"".join(json.dumps({"type": "MODIFIED", "object": {"metadata": {
            "resourceVersion": str(200 + i), "labels": {LABEL: f"v{i}"}}}}).encode() + b"\n"
            for i in range(500)))
        request.end()

    server.plan("watch", at_once)
    kube = rig.kube(server)
    kube.label("v499")


def test_a_bookmark_is_where_it_goes_on(rig):
    server = rig.server()
    server.plan("watch", lambda request: server._watch(request, 1.5))
    kube = rig.kube(server)
    kube.label(None)
    server.wait_for("watch")
    server.bookmark(555)
    assert server.wait_for("watch", 2)[1].query["resourceVersion"] == "555"
    assert len(server.of("list")) == 1 and not kube.problems


def test_a_version_that_is_gone(rig):
    """410 as the status, and as an event within the stream; and again and again."""
    server = rig.server()
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}

    def as_event(request):
        server.change(config="two")
        request.stream()
        request.event("ERROR", gone)
        request.end()

    def as_status(request):
        server.change(config="one")
        request.reply(410, gone)

    server.plan("watch", as_status, as_event, *[lambda request: request.reply(410, gone)] * 3)
    kube = rig.kube(server)
    kube.label("two")
    lists = server.wait_for("list", 6)
    assert "resourceVersion" not in lists[1].query and "resourceVersion" not in lists[2].query
    wait_until(lambda: len(server.of("watch")) == 6)
    server.change(config="three")
    kube.label("three")
    assert not kube.problems


def test_other_errors_within_the_stream(rig):
    server = rig.server()

    def error(request):
        request.stream()
        request.event("ERROR", {"kind": "Status", "code": 500, "message": "etcd fell over"})
        request.end()

    server.plan("watch", error)
    kube = rig.kube(server)
    kube.problem("500", "etcd fell over")
    kube.is_well()
    assert len(server.of("list")) == 2


def test_a_node_that_is_deleted_and_comes_back(rig):
    server = rig.server()
    server.change(config="a")
    kube = rig.kube(server)
    kube.label("a")
    server.change("DELETED")
    kube.problem("no node 'node-1'", "kubectl get nodes")
    assert kube.labels == ["a"]
    server.change("ADDED", config="b")
    kube.label("b")
    kube.is_well()


def test_a_node_that_is_not_there(rig):
    server = rig.server()
    server.is_there = False
    kube = rig.kube(server)
    kube.problem("no node 'node-1'")
    assert not kube.labels
    server.change("ADDED", config="b")
    kube.label("b")
    kube.is_well()


# --- who we are -----------------------------------------------------------------------------------


def test_a_token_is_replaced(rig):
    server = rig.server()
    server.token = "first-token"
    server.plan("watch", lambda request: server._watch(request, 1.2))
    kube = rig.kube(server)
    kube.label(None)
    server.wait_for("watch")
    server.token = "second-token"
    rig.set_token("second-token")
    server.wait_for("watch", 2)
    server.change(config="a")
    kube.label("a")
    assert not kube.problems


def test_a_token_is_replaced_while_it_is_refused(rig):
    """The file changes between the request and its answer: it is asked again at once."""
    server = rig.server()

    def refuse(request):
        rig.set_token("second-token")
        request.refuse(401, "Unauthorized")

    server.plan("list", refuse)
    kube = rig.kube(server, "--back-off-ms", "20000")
    kube.label(None)
    assert server.of("list")[1].headers["authorization"] == "Bearer second-token"


def test_a_token_that_is_refused(rig):
    server = rig.server()
    server.token = "another"
    kube = rig.kube(server)
    kube.problem("401", "expired")
    rig.set_token("another")
    kube.label(None)
    kube.is_well()


def test_a_token_that_is_none(rig):
    server = rig.server()
    for wrong, word in (("", "empty"), ("two words", "right file"), ("line\r\nX-Evil: 1", "right file")):
        rig.set_token(wrong)
        kube = rig.kube(server)
        kube.problem(str(rig.directory / "token"), word)
    (rig.directory / "token").unlink()
    kube = rig.kube(server)
    kube.problem(str(rig.directory / "token"), "No such file")
    assert not server.requests
    rig.set_token("first-token")
    kube.label(None)
    kube.is_well()


def test_what_rbac_does_not_permit(rig):
    server = rig.server()
    message = 'nodes is forbidden: User "system:serviceaccount:a:b" cannot list resource "nodes"'
    server.plan("list", lambda request: request.refuse(403, message))
    kube = rig.kube(server)
    kube.problem("403", "get, list and watch of nodes", "rbac.yaml")
    kube.label(None)
    kube.is_well()


def test_a_watch_that_rbac_does_not_permit(rig):
    server = rig.server()
    server.change(config="a")
    server.plan("watch", *[lambda request: request.refuse(403, "no")] * 3)
    kube = rig.kube(server)
    kube.label("a")
    kube.problem("403", "watch of nodes")
    kube.is_well()
    assert [text for text in kube.problems if text] == kube.problems[:-1]


# --- servers that are not well --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["list", "watch"])
def test_a_server_that_is_asked_too_much(rig, kind):
    server = rig.server()
    server.plan(kind, lambda request: request.refuse(429, "slow down", Retry_After=1))
    kube = rig.kube(server)
    kube.problem("429")
    kube.is_well()
    first, *later = [request for request in server.requests if request.kind == kind]
    following = [request for request in server.requests if request.time > first.time]
    assert later and following[0].time - first.time >= 0.99


def test_a_connection_that_is_dead(rig):
    """Nothing comes any more, and nobody says so."""
    server = rig.server()
    over = threading.Event()
    server.plan("watch", lambda request: (request.stream(), over.wait(DEADLINE_S)) and False)
    kube = rig.kube(server, "--watch-seconds", "1", "--slack-seconds", "1")
    kube.label(None)
    first = server.wait_for("watch")[0]
    second = server.wait_for("watch", 2)[1]
    assert 1.9 <= second.time - first.time < 10
    server.change(config="a")
    kube.label("a")
    kube.is_well()
    over.set()


@pytest.mark.parametrize("kind", ["list", "watch"])
def test_a_server_that_drips(rig, kind):
    """A byte now and then, for ever."""
    server = rig.server()

    def drip(request):
        request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            request.send(b" ")
            time.sleep(0.1)

    server.plan(kind, drip)
    kube = rig.kube(server, "--watch-seconds", "1", "--slack-seconds", "1")
    server.change(config="a")
    server.wait_for(kind, 2)
    kube.label("a")


def test_a_server_that_drips_headers(rig):
    server = rig.server()

    def drip(request):
        request.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            request.send(b"X-Padding: more\r\n")
            time.sleep(0.1)

    server.plan("list", drip)
    kube = rig.kube(server, "--slack-seconds", "1")
    kube.problem("timed out")
    kube.is_well()


GARBAGE = {
    "words": b"this is no JSON\n",
    "cut": b'{"type": "ADDED", "object": {"meta\n',
    "no-object": b'{"type": "ADDED"}\n',
    "a-list": b"[1, 2]\n",
    "bytes": b'{"type": "\xff\xfe", "object": {}}\n',
    "nul": b'{"type": "ADDED\x00", "object": {}}\n',
    "no-version": b'{"type": "ADDED", "object": {"metadata": {}}}\n',
    "an-odd-version": b'{"type": "ADDED", "object": {"metadata": {"resourceVersion": "1&watch=0"}}}\n',
    "a-long-label": json.dumps({"type": "ADDED", "object": {"metadata": {
        "resourceVersion": "7", "labels": {LABEL: "x" * 300}}}}).encode() + b"\n",
    "deep": b"[" * 100000 + b"]" * 100000 + b"\n",
    "wide": b"[" + b"0," * 300000 + b"0]\n",
    "long": b'{"type": "' + b"x" * (5 << 20) + b'"}\n',
    "endless": b"x" * (9 << 20),
}


# Whole objects, but no events of a watch; a list would be another thing.
ODD_EVENTS = ("no-version", "no-object", "an-odd-version", "a-long-label")


@pytest.mark.parametrize("kind, what", [("watch", what) for what in GARBAGE] +
                         [("list", what) for what in GARBAGE if what not in ODD_EVENTS])
def test_garbage(rig, kind, what):
    server = rig.server()

    def answer(request):
        try:
            request.stream()
            for at in range(0, len(GARBAGE[what]), 50000):
                request.chunk(GARBAGE[what][at:at + 50000])
            request.end()
        finally:
            server.change(config="after")

    server.plan(kind, answer)
    kube = rig.kube(server)
    kube.problem("the API server")
    kube.label("after")
    kube.is_well()
    assert int(kube.status("VmHWM")) < 48 << 10
    kube.end()


def test_a_server_that_ends_every_watch(rig):
    server = rig.server()

    def end(request):
        request.stream()
        request.end()

    server.plan("watch", *[end] * 5)
    kube = rig.kube(server)
    kube.problem("as soon as it begins")
    kube.is_well()


def test_a_server_that_is_restarted(rig):
    server = rig.server()
    kube = rig.kube(server)
    kube.label(None)
    server.wait_for("watch")
    server.stop()
    kube.problem(f"https://127.0.0.1:{server.port}", "is it there")
    server.change(config="meanwhile")
    server.start()
    kube.label("meanwhile")
    kube.is_well()


def test_a_connection_that_breaks_within_an_event(rig):
    server = rig.server()

    def cut(request):
        request.stream()
        request.chunk(b'{"type": "MODIFIED", "object": {"metadata": {"resourceVersion": "9')
        return False

    server.plan("watch", cut)
    kube = rig.kube(server)
    kube.label(None)
    assert server.wait_for("watch", 2)[1].query["resourceVersion"] == "100"
    server.change(config="a")
    kube.label("a")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(rig, status):
    server, thief = rig.server(), rig.server()
    server.plan("list", lambda request: request.reply(
        status, Location=f"https://127.0.0.1:{thief.port}/api/v1/nodes"))
    kube = rig.kube(server)
    kube.problem(str(status))
    kube.label(None)
    assert not thief.requests


# --- whom we trust --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["foreign", "elsewhere"])
def test_a_wrong_certificate(rig, name):
    """Of another authority; for another host: it hears nothing, least of all the token."""
    server = rig.server(name)
    kube = rig.kube(server)
    kube.problem(f"https://127.0.0.1:{server.port}", "certificate")
    wait_until(lambda: server.handshakes_failed >= 3 or name == "elsewhere")
    assert not server.requests and not kube.labels
    server.name = "server"
    kube.label(None)
    kube.is_well()


def test_an_authority_that_is_replaced(rig):
    server = rig.server("foreign")
    kube = rig.kube(server)
    kube.problem("certificate")
    shutil.copy(rig.certificates.path("other-ca.crt"), rig.directory / "ca.crt")
    kube.label(None)


def test_old_tls_is_refused(rig):
    server = rig.server(tls={"minimum_version": ssl.TLSVersion.TLSv1_1,
                             "maximum_version": ssl.TLSVersion.TLSv1_1})
    kube = rig.kube(server)
    kube.problem(f"https://127.0.0.1:{server.port}")
    assert not server.requests


def test_tls_of_1_2_is_enough(rig):
    server = rig.server(tls={"maximum_version": ssl.TLSVersion.TLSv1_2})
    kube = rig.kube(server)
    kube.label(None)


def test_no_proxy_is_used(rig):
    server = rig.server()
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY")
    kube = rig.kube(server, env={name: "http://127.0.0.1:1" for name in names})
    kube.label(None)


# --- a kubeconfig ---------------------------------------------------------------------------------


def inline(path):
    return base64.b64encode(pathlib.Path(path).read_bytes()).decode()


def test_a_kubeconfig_with_everything_in_it(rig):
    server = rig.server(client_ca="ca.crt")
    of = rig.certificates.path
    kube = rig.with_kubeconfig(kubeconfig(
        server, {"client-certificate-data": inline(of("client.crt")),
                 "client-key-data": inline(of("client.key"))},
        **{"certificate-authority-data": inline(of("ca.crt"))}))
    kube.label(None)
    assert "authorization" not in server.requests[0].headers
    assert server.requests[0].path == "/api/v1/nodes"


def test_a_kubeconfig_that_names_files(rig):
    """Beside it, and read again: another token counts with the next request."""
    server = rig.server(client_ca="ca.crt")
    for name in ("client.crt", "client.key"):
        shutil.copy(rig.certificates.path(name), rig.directory / name)
    server.plan("watch", lambda request: server._watch(request, 1.2))
    kube = rig.with_kubeconfig(kubeconfig(
        server, {"client-certificate": "client.crt", "client-key": str(rig.directory / "client.key"),
                 "tokenFile": "token"}, **{"certificate-authority": "ca.crt"}))
    kube.label(None)
    rig.set_token("second-token")
    assert server.wait_for("watch", 2)[1].headers["authorization"] == "Bearer second-token"


def test_a_kubeconfig_that_checks_nothing(rig):
    server = rig.server("foreign")
    kube = rig.with_kubeconfig(kubeconfig(server, {"token": "abc"}, **{"insecure-skip-tls-verify": True}))
    kube.label(None)
    assert server.requests[0].headers["authorization"] == "Bearer abc"


@pytest.mark.parametrize("user, words", [
    ({"exec": {"command": "aws", "args": ["eks", "get-token"]}}, ("'exec'", "service account")),
    ({"auth-provider": {"name": "gcp"}}, ("'auth-provider'",)),
    ({"username": "a", "password": "b"}, ("'username'",)),
])
def test_a_kubeconfig_that_wants_too_much(rig, user, words):
    server = rig.server()
    kube = rig.with_kubeconfig(kubeconfig(server, user))
    kube.problem(*words)
    assert not server.requests


def test_a_kubeconfig_that_becomes_right(rig):
    server = rig.server()
    kube = rig.with_kubeconfig("current-context: [")
    kube.problem(str(rig.directory / "kubeconfig"))
    new = rig.directory / "kubeconfig.new"
    new.write_text(json.dumps(kubeconfig(server, {"tokenFile": "token"},
                                         **{"certificate-authority": "ca.crt"})))
    new.rename(rig.directory / "kubeconfig")
    kube.label(None)
    kube.is_well()


def test_neither_pod_nor_kubeconfig(rig):
    kube = Kube()
    rig.made.append(kube)
    kube.problem("neither a kubeconfig nor $KUBERNETES_SERVICE_HOST")


# --- Events ---------------------------------------------------------------------------------------


def test_events_are_posted_and_counted(rig):
    server = rig.server()
    kube = rig.kube(server)
    kube.event("GPUUnhealthy", "GPU 3: XID 79 \u2014 fell off the bus", warning=True)
    [post] = server.wait_for("post")
    assert post.path == "/api/v1/namespaces/default/events"
    body = post.json
    assert body["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE}
    assert (body["type"], body["reason"]) == ("Warning", "GPUUnhealthy")
    assert body["message"] == "GPU 3: XID 79 \u2014 fell off the bus" and body["count"] == 1
    assert body["source"] == {"component": "sluice", "host": NODE}
    assert body["metadata"]["namespace"] == "default"
    assert body["metadata"]["name"].startswith(NODE + ".")
    assert body["firstTimestamp"] == body["lastTimestamp"]
    time.strptime(body["lastTimestamp"], "%Y-%m-%dT%H:%M:%SZ")
    for count in (2, 3):
        kube.event("GPUUnhealthy", "GPU 3: XID 79 \u2014 fell off the bus", warning=True)
        patch = server.wait_for("patch", count - 1)[count - 2]
        assert patch.path == post.path + "/" + body["metadata"]["name"]
        assert patch.headers["content-type"] == "application/merge-patch+json"
        assert patch.json["count"] == count
    kube.event("GPUHealthy", "GPU 3", warning=False)
    other = server.wait_for("post", 2)[1].json
    assert other["type"] == "Normal" and other["metadata"]["name"] != body["metadata"]["name"]
    kube.end()


def test_an_event_that_the_server_has_forgotten(rig):
    server = rig.server()
    server.plan("patch", lambda request: request.refuse(404, "not found"))
    kube = rig.kube(server)
    kube.event("A", "b")
    server.wait_for("post")
    kube.event("A", "b")
    first, second = [request.json for request in server.wait_for("post", 2)]
    assert second["count"] == 2 and first["metadata"]["name"] != second["metadata"]["name"]
    assert not kube.problems


def test_events_wait_for_a_server_that_is_not_there(rig):
    server = rig.server()
    kube = rig.kube(server)
    kube.label(None)
    server.stop()
    for i in range(100):  # the oldest are lost
        kube.event("Told", f"event {i}")
    kube.event("Told", "event 99")
    server.plan("post", lambda request: request.refuse(503, "not yet"),
                lambda request: request.refuse(429, "slow", Retry_After=1))
    server.start()
    # 64 are kept; one that was on its way when there were more stays the first
    posts = [request.json for request in server.wait_for("post", 66)]
    told = [post["message"] for post in posts[2:]]
    assert told[1:] == [f"event {i}" for i in range(37, 100)] and len(told) == 64
    assert posts[-1]["count"] == 2


def test_events_that_rbac_does_not_permit(rig):
    """Said once; what else there is to do is done."""
    server = rig.server()
    server.plan("post", lambda request: request.refuse(403, "events is forbidden"))
    kube = rig.kube(server)
    for i in range(5):
        kube.event("Told", f"event {i}")
    kube.problem("403", "create and patch of events", "rbac.yaml")
    server.change(config="a")
    kube.label("a")
    assert len(kube.problems) == 1 and len(server.of("post")) == 1


def test_an_event_that_is_refused_for_itself(rig):
    server = rig.server()
    server.plan("post", lambda request: request.refuse(422, "message is too long"))
    kube = rig.kube(server)
    kube.event("A", "first")
    kube.event("A", "second")
    kube.problem("422", "too long")
    assert [request.json["message"] for request in server.wait_for("post", 2)] == ["first", "second"]
    kube.is_well()


# --- the process ----------------------------------------------------------------------------------


def test_it_ends_with_the_agent(rig):
    server = rig.server()
    over = threading.Event()
    server.plan("list", lambda request: over.wait(DEADLINE_S) and False)
    kube = rig.kube(server)
    server.wait_for("list")
    kube.end()  # at once, whatever it waits for
    over.set()


def test_it_has_little(rig):
    """No descriptor of somebody else's, no privileges that it could gain, one capability at most."""
    server = rig.server()
    leaked = os.open("/dev/null", os.O_RDONLY)
    high = 900
    os.dup2(leaked, high, inheritable=True)
    try:
        kube = rig.kube(server)
    finally:
        os.close(high)
        os.close(leaked)
    kube.label(None)
    server.wait_for("watch")
    held = {int(entry) for entry in os.listdir(f"/proc/{kube.process.pid}/fd")}
    assert high not in held and len(held) < 16
    assert kube.status("NoNewPrivs") == "1"
    assert kube.status("Threads") == "1"
    assert int(kube.status("CapEff"), 16) in (0, 1 << 2)
    assert kube.status("CapPrm") == kube.status("CapEff")
    assert int(kube.status("CapInh"), 16) == int(kube.status("CapAmb"), 16) == 0
    limits = resource.prlimit(kube.process.pid, resource.RLIMIT_CORE)
    assert limits == (0, 0)


def test_what_it_takes(rig):
    """The gate of the design, with a whole Node of 300 images, changes and Events behind it. The libraries'
    pages are counted by the share that is its own: alone on a machine it is more of them."""
    server = rig.server()
    plain = server.node
    images = [{"names": [f"registry.example/{i}@sha256:{i:064x}", f"registry.example/{i}:v1"],
               "sizeBytes": i} for i in range(300)]
    server.node = lambda: {**plain(), "status": {"images": images}}
    kube = rig.kube(server)
    kube.label(None)
    for i in range(50):
        server.change(config=f"v{i}")
        kube.event("Told", f"event {i}")
    kube.label("v49")
    server.wait_for("post", 50)

    def rollup():
        text = pathlib.Path(f"/proc/{kube.process.pid}/smaps_rollup").read_text(encoding="utf-8")
        return {line.split()[0].rstrip(":"): int(line.split()[1]) for line in text.splitlines()[1:]}

    wait_until(lambda: rollup()["Pss"] * 1024 <= 9e6, what="a PSS of 9 MB")
    now = rollup()
    print(f"\ngate kube_pss {now['Pss'] * 1024 / 1e6:.2f} MB <= 9 ok (RSS {now['Rss'] * 1024 / 1e6:.2f} MB, "
          f"private and dirty {now['Private_Dirty']} KiB)")


def test_garbage_of_the_agent(rig):
    server = rig.server()
    kube = rig.kube(server)
    kube.label(None)
    kube.ours.send(b"\xff\xff\xff\xff")
    assert kube.process.wait(timeout=DEADLINE_S) == 1


@pytest.mark.parametrize("arguments", [
    [], ["--node", "a"], ["--label", "b"], ["--node", "A b", "--label", "c"],
    ["--node", "a&b", "--label", "c"], ["--node", "a", "--label", "b", "more"], ["--nonsense"],
    ["--nod", "a", "--label", "b"], ["--node=a", "--label", "b", "--watch", "1"], ["--node", "a", "--with"],
])
def test_wrong_usage(arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=DEADLINE_S,
                          check=False)
    assert done.returncode == 64 and "usage: sluice-kube" in done.stderr


def test_without_an_agent():
    done = subprocess.run([PROGRAM, "--node", "a", "--label", "b"], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    assert done.returncode == 1 and "sluice agent" in done.stderr


def test_a_signal_ends_it(rig):
    kube = rig.kube(rig.server())
    kube.label(None)
    kube.process.send_signal(signal.SIGTERM)
    assert kube.process.wait(timeout=DEADLINE_S) == -signal.SIGTERM


# --- the whole way --------------------------------------------------------------------------------

PLAIN = "version: v1\n"
SHARED = """version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""


@pytest.fixture
def node(rig, machine):
    """A simulated machine with a directory of configurations, and its API server; start() starts the
    agent."""
    machine.start("dgx-a100", "--gpus", "2", "--dev-style", "file")
    configs = machine.directory / "configs"
    configs.mkdir()
    (configs / "default").write_text(PLAIN)
    (configs / "shared").write_text(SHARED)
    machine.server = rig.server()
    machine.configs = configs
    path = rig.directory / "kubeconfig"
    path.write_text(json.dumps(kubeconfig(machine.server, {"tokenFile": "token"},
                                          **{"certificate-authority": "ca.crt"})))
    machine.env.pop("KUBERNETES_SERVICE_HOST", None)

    def start(*options):
        machine.agent("--node-name", NODE, "--kubeconfig", path, "--config-file-srcdir", configs,
                      *options)
        return machine

    machine.begin = start
    return machine


def status(machine):
    return machine.run("sluice", "agent", "status", "--output", "json").ok().json


def told(machine, reason):
    """The Events of this reason."""
    return [request.json for request in machine.server.of("post") if request.json["reason"] == reason]


def test_the_label_chooses_the_configuration(node):
    node.server.change(config="shared")
    node.begin()
    wait_until(lambda: status(node)["configuration_name"] == "shared")
    node.server.change(config=None)
    wait_until(lambda: status(node)["configuration_name"] == "default")
    assert "kube" in [process["role"] for process in status(node)["processes"]]
    assert status(node)["kubernetes_error"] is None
    node.server.change(config="nowhere")
    [event] = wait_until(lambda: told(node, "ConfigurationMissing"))
    assert event["message"] == "specified config nowhere does not exist" and event["type"] == "Warning"
    assert status(node)["configuration_name"] == "default"
    (node.configs / "broken").write_text(SHARED.replace("4", "many"))
    node.server.change(config="broken")
    [event] = wait_until(lambda: told(node, "ConfigurationRefused"))
    assert f"{node.configs}/broken:6:17" in event["message"] and event["type"] == "Warning"


def test_a_gpu_that_fails_and_recovers_is_told(node):
    node.begin()
    node.server.wait_for("watch")
    wait_until(lambda: status(node)["gpus"] == 2)
    node.sim("inject", "xid", "79", "--gpu", "1")
    [event] = wait_until(lambda: told(node, "GPUUnhealthy"))
    assert event["message"].startswith("GPU 1 (GPU-") and "79" in event["message"]
    assert event["type"] == "Warning"


def test_adapters_that_are_not_offered_are_told_once(node):
    path = node.path("/k8s-rdma-shared-dev-plugin/config.json")
    path.parent.mkdir()
    path.write_text(json.dumps({"configList": [{"resourceName": "hca", "rdmaHcaMax": 1, "healthCheck": "port",
                                                "selectors": {"vendors": ["15b3"]}}]}))
    node.sim("inject", "rdma", "0", "unbound")
    node.begin()
    [event] = wait_until(lambda: told(node, "RDMANotOffered"))
    assert re.fullmatch(r"[0-9a-f:.]{12} not offered as rdma/hca: no driver bound", event["message"])
    assert event["type"] == "Warning"
    node.sim("inject", "rdma", "1", "no-node")
    node.sim("inject", "rdma", "1", "gone")  # what the kernel tells of
    node.sim("inject", "rdma", "1", "back")
    wait_until(lambda: len(told(node, "RDMANotOffered")) == 2)
    assert "node missing: /dev/infiniband/uverbs1" in told(node, "RDMANotOffered")[1]["message"]
    path.write_text('{"configList": []}')
    [event] = wait_until(lambda: told(node, "RDMAConfigurationRefused"))
    assert event["message"] == f"rdma config '{path}': configList: at least one entry is needed"


def test_what_is_wrong_with_the_server_is_shown(node):
    node.server.stop()
    node.begin()
    text = wait_until(lambda: status(node)["kubernetes_error"])
    assert f"https://127.0.0.1:{node.server.port}" in text
    assert text in node.run("sluice", "agent", "status").out
    [pid] = [process["pid"] for process in status(node)["processes"] if process["role"] == "kube"]
    os.kill(pid, signal.SIGKILL)
    node.server.start()
    wait_until(lambda: status(node)["kubernetes_error"] is None)
    node.service.terminate()
    assert node.service.wait(timeout=DEADLINE_S) == 0


DEPLOY = "nvidia.com/gpu.deploy.device-plugin"
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"


def holders(machine):
    """Processes of the agent that have the driver open."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            if str(machine.state) in path.read_text(encoding="utf-8", errors="replace") and \
                    b"probe" in (path.parent / "cmdline").read_bytes():
                found.append(path.parent.name)
        except OSError:
            pass
    return found


def test_a_driver_upgrade(node):
    """The labels of an upgrade, in their order: the driver is let go, and nothing is lost."""
    kubelet = Kubelet(node.path("/var/lib/kubelet/device-plugins")).start()
    try:
        node.begin()
        endpoint = kubelet.wait(2)
        wait_until(lambda: holders(node))
        node.server.change(**{UPGRADE: "upgrade-required"})
        node.server.change(**{UPGRADE: "cordon-required"})
        begin = time.monotonic()
        wait_until(lambda: not holders(node), what="nobody holds the driver")
        assert time.monotonic() - begin < 5
        wait_until(lambda: set(endpoint.devices.values()) == {"Unhealthy"})
        assert any("cordon-required" in text for text in status(node)["warnings"])
        for state in ("wait-for-jobs-required", "pod-deletion-required", "drain-required",
                      "pod-restart-required"):
            node.server.change(**{UPGRADE: state})
            wait_until(lambda: any(state in text for text in status(node)["warnings"]))
            assert not holders(node)
        for state in ("validation-required", "uncordon-required", "upgrade-done"):
            node.server.change(**{UPGRADE: state})
        wait_until(lambda: set(endpoint.devices.values()) == {"Healthy"})
        assert wait_until(lambda: holders(node)) and not endpoint.ended.is_set()
        assert len(kubelet.requests) == 1
    finally:
        kubelet.die()


def test_a_node_that_is_not_ours_to_serve(node):
    kubelet = Kubelet(node.path("/var/lib/kubelet/device-plugins")).start()
    try:
        node.begin()
        endpoint = kubelet.wait(2)
        node.server.change(**{"nvidia.com/gpu.workload.config": "vm-passthrough"})
        wait_until(lambda: endpoint.devices == {} or endpoint.ended.is_set())
        [event] = wait_until(lambda: told(node, "NodeLabels"))
        assert "vm-passthrough" in event["message"]
        assert any("vm-passthrough" in text for text in status(node)["warnings"])
        node.server.change(**{"nvidia.com/gpu.workload.config": "container"})
        kubelet.wait(2)
        node.server.change(**{DEPLOY: "false"})
        wait_until(lambda: not kubelet.devices())
        node.server.change(**{DEPLOY: None})
        kubelet.wait(2)
        node.server.change(**{DEPLOY.replace("device-plugin", "gpu-feature-discovery"): "false"})
        labels = wait_until(lambda: status(node)["labels"]["state"] == "off" and status(node)["labels"])
        assert "gpu-feature-discovery is false" in labels["reason"]
    finally:
        kubelet.die()
