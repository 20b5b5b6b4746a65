# SPDX-License-Identifier: Apache-2.0
"""The example of TLS in packaging/nginx/sluice.conf, with a real nginx in front of `sluice web`."""

import http.client
import os
import shutil
import socket
import ssl
import subprocess

import pytest

from conftest import ROOT, wait_until
from webfeed import Web

EXAMPLE = ROOT / "packaging" / "nginx" / "sluice.conf"
NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")

pytestmark = pytest.mark.skipif(not NGINX or not shutil.which("openssl"),
                                reason="nginx or openssl is not installed: tools/setup check")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy:
    def __init__(self, directory, web):
        self.port = free_port()
        cert, key = directory / "cert.pem", directory / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", cert,
                        "-subj", "/CN=gpu7.example", "-addext", "subjectAltName=DNS:gpu7.example"],
                       check=True, capture_output=True, timeout=60)
        text = EXAMPLE.read_text()
        for old, new in (("9443 ssl", f"127.0.0.1:{self.port} ssl"), ("127.0.0.1:9400", f"127.0.0.1:{web.port}"),
                         ("/etc/ssl/certs/gpu7.example.pem", str(cert)), ("/etc/ssl/private/gpu7.example.key", str(key))):
            assert old in text, old
            text = text.replace(old, new)
        config = directory / "nginx.conf"
        places = "".join(f"{kind}_temp_path {directory}/{kind};\n"
                         for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = "user root;\n" if os.geteuid() == 0 else ""
        config.write_text(f"{user}daemon off;\nmaster_process off;\npid {directory}/pid;\nerror_log {directory}/error.log;\n"
                          f"events {{}}\nhttp {{\naccess_log off;\n{places}{text}}}\n")
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen([NGINX, "-e", f"{directory}/error.log", "-c", config],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.tls = ssl.create_default_context(cafile=cert)
        wait_until(self.is_up, 20, f"that nginx listens: {(directory / 'error.log')}")

    def is_up(self):
        assert self.process.poll() is None
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def open(self):
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        return self.tls.wrap_socket(raw, server_hostname="gpu7.example")

    def get(self, path, method="GET", host="gpu7.example", **headers):
        connection = http.client.HTTPConnection("127.0.0.1")
        connection.sock = self.open()
        connection.request(method, path, headers={"Host": host, **headers})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def test_tls(tmp_path):
    with Web() as web:
        proxy = Proxy(tmp_path, web)
        try:
            assert proxy.get("/metrics")[0] == 403  # its name is not ours yet
            web.say("host", "gpu7.example")
            wait_until(lambda: proxy.get("/metrics")[0] == 200)
            status, body = proxy.get("/api/v1/state")
            assert status == 200 and b'"gpus"' in body
            assert proxy.get("/", method="HEAD") == (200, b"")
            assert proxy.get("/metrics", method="POST")[0] in (403, 405)
            web.say("token", "secret")
            wait_until(lambda: proxy.get("/metrics")[0] == 401)
            assert proxy.get("/metrics", Authorization="Bearer secret")[0] == 200
            check_stream(proxy, web)
        finally:
            proxy.stop()


def check_stream(proxy, web):
    """What is said each second comes at once and is not gathered."""
    with proxy.open() as peer, peer.makefile("rb") as file:
        peer.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: gpu7.example\r\nAuthorization: Bearer secret\r\n\r\n")
        assert b" 200 " in file.readline()
        wait_for_line(file, b"event: state\n")
        for _ in range(3):
            web.say("tick")
            wait_for_line(file, b"event: sample\n")


def wait_for_line(file, wanted):
    for line in file:
        if line == wanted:
            return
    raise AssertionError(f"the stream ended before {wanted}")
