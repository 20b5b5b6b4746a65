# SPDX-License-Identifier: Apache-2.0
"""`sluice web` with a simulated agent around it: web_feed.c says what it can do."""

import http.client
import json
import os
import pathlib
import socket
import subprocess

import conftest

BUILD = conftest.BUILD
FEED = os.environ.get("WEB_FEED", str(BUILD / "tests" / "e2e" / "web_feed"))
WEB = os.environ.get("SLUICE_WEB", str(BUILD / "src" / "libexec" / "web" / "sluice-web"))


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


class Web:
    """The pair of processes. Use it as a context manager."""

    def __init__(self, *arguments, program=(WEB,)):
        # pylint: disable=consider-using-with
        if os.geteuid() == 0 and "--no-sandbox" not in arguments:
            arguments += ("--uid", "65534", "--gid", "65534")
        self.feed = subprocess.Popen([FEED, *program, *arguments], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True, bufsize=1)
        port, pid = self.feed.stdout.readline().split()
        self.port, self.pid = int(port), int(pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.feed.stdin.close()
        self.feed.wait(10)
        self.feed.stdout.close()

    def say(self, *words):
        self.feed.stdin.write(" ".join(str(word) for word in words) + "\n")
        answer = self.feed.stdout.readline().strip()
        if words[0] == "web":
            self.pid = int(answer)
        return answer

    def connect(self, timeout=20):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def get(self, path, method="GET", timeout=20, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def raw(self, data, timeout=20):
        """What comes back for these bytes, until the end."""
        with self.connect(timeout) as peer:
            peer.sendall(data)
            return read_all(peer)

    def rss(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def read_all(peer):
    data = b""
    while True:
        try:
            more = peer.recv(65536)
        except ConnectionResetError:
            return data
        if not more:
            return data
        data += more


class Stream:
    """A reader of /api/v1/stream: events one by one."""

    def __init__(self, web, timeout=20, **headers):
        self.peer = web.connect(timeout)
        fields = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
        self.peer.sendall(f"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode())
        self.file = self.peer.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        for line in iter(self.file.readline, b"\r\n"):
            key, value = line.decode().strip().split(": ", 1)
            self.headers[key.lower()] = value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.peer.close()

    def next(self):
        """The next block as a dictionary of its fields; "data" is parsed. None at the end."""
        block = {}
        for line in iter(self.file.readline, b"\n"):
            if not line:
                return None
            key, value = line.decode().rstrip("\n").split(":", 1)
            block[key or "comment"] = value.strip()
        if "data" in block:
            block["data"] = json.loads(block["data"])
        return block
