# SPDX-License-Identifier: Apache-2.0
"""`sluice doctor --packages`: whether a repository, in a directory or behind an address, has what a
driver for one kernel is built from; with servers that lie, wait and send elsewhere."""

import gzip
import http.server
import lzma
import threading

import pytest

KERNEL = "5.14.0-427.13.1.el9_4.x86_64"
WANTED = [("kernel-headers", "5.14.0-427.13.1.el9_4"), ("kernel-devel", "5.14.0-427.13.1.el9_4"),
          ("kernel-core", "5.14.0-427.13.1.el9_4"), ("gcc", "11.4.1-3.el9"),
          ("elfutils-libelf", "0.190-2.el9"), ("elfutils-libelf-devel", "0.190-2.el9")]
OLD = [(name, "5.14.0-362.8.1.el9_3" if name == "kernel-devel" else version) for name, version in WANTED]


def primary(packages):
    rows = "".join(f"<package type='rpm'><name>{name}</name><arch>x86_64</arch><version epoch='0' "
                   f"ver='{version.rpartition('-')[0]}' rel='{version.rpartition('-')[2]}'/></package>\n"
                   for name, version in packages)
    return f"<?xml version='1.0'?><metadata packages='{len(packages)}'>{rows}</metadata>".encode()


def repodata(packages, suffix=".gz", pack=gzip.compress):
    name = f"repodata/primary.xml{suffix}"
    return {"repodata/repomd.xml": f"<repomd><data type='primary'><location href='{name}'/></data></repomd>".encode(),
            name: pack(primary(packages))}


def write(directory, files):
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return directory


def ask(machine, *locations, kernel=KERNEL, system="rhel"):
    named = [word for location in locations for word in ("--packages", str(location))]
    return machine.run("sluice", "doctor", "--only", "driver.packages", "--kernel", kernel, "--system", system,
                       "-o", "json", *named)


def missing(reply):
    return {finding["object"].removeprefix("package "): finding["found"] for finding in reply.json["findings"]
            if finding["status"] == "fail"}


@pytest.fixture(name="root")
def root_fixture(machine):
    machine.path("/sys/bus/pci/devices").mkdir(parents=True)
    return machine


def test_directories(root, tmp_path):
    rpms = write(tmp_path / "rpms", {f"{name}-{version}.x86_64.rpm": b"" for name, version in WANTED})
    assert ask(root, rpms).ok().rc == 0
    old = write(tmp_path / "old", repodata(OLD))
    reply = ask(root, old)
    assert reply.rc == 2
    assert missing(reply) == {"kernel-devel-5.14.0-427.13.1.el9_4": "kernel-devel-5.14.0-362.8.1.el9_3"}
    assert "kernel-devel-5.14.0-427.13.1.el9_4 for kernel" in reply.json["findings"][1]["need"]
    # baseos and appstream: each has a part
    assert ask(root, old, write(tmp_path / "rest", repodata(WANTED[1:2], ".xml.xz", lzma.compress))).ok()
    # as reposync makes them
    assert ask(root, f"file://{tmp_path}/").ok()


def test_debian_suite(root, tmp_path):
    text = b"Package: linux-headers-6.1.0-18-amd64\nVersion: 6.1.76-1\nArchitecture: amd64\n\n" \
           b"Package: gcc-12\nVersion: 12.2.0-14\nArchitecture: amd64\n"
    write(tmp_path, {"dists/bookworm/main/binary-amd64/Packages.gz": gzip.compress(text)})
    assert ask(root, tmp_path, kernel="6.1.0-18-amd64", system="debian").ok()
    reply = ask(root, tmp_path, kernel="6.1.0-20-amd64", system="debian")
    assert missing(reply) == {"linux-headers-6.1.0-20-amd64": "linux-headers-6.1.0-18-amd64"}


def test_refused(root, tmp_path):
    for files, why in [({}, "has neither repodata/repomd.xml"),
                       ({"repodata/repomd.xml": b"<html/>"}, "does not begin with <repomd>"),
                       ({**repodata(WANTED), "repodata/primary.xml.gz": gzip.compress(primary(WANTED))[:-9]},
                        "its end is missing"),
                       ({"repodata/repomd.xml": b"<!DOCTYPE r [<!ENTITY a 'aaa'>]><repomd/>"}, "document type")]:
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        directory.mkdir()
        reply = ask(root, write(directory, files))
        assert reply.rc == 2 and why in next(iter(missing(reply).values())), reply
    assert ask(root, tmp_path, kernel="../../etc").rc == 64
    assert root.run("sluice", "doctor", "--system", "windows").rc == 64


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; a page that is a number is a status, one that is a text a redirection."""

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.asked = files, []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = self.server.files.get(self.path.lstrip("/"), 404)
        self.server.asked.append(self.path)
        self.send_response(200 if isinstance(page, bytes) else 302 if isinstance(page, str) else page)
        if isinstance(page, str):
            self.send_header("Location", page)
        body = page if isinstance(page, bytes) else b"<html>never this</html>"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *arguments):
        pass


@pytest.fixture(name="serve")
def serve_fixture(root):
    servers = []

    def serve(files):
        servers.append(Server(files))
        return servers[-1]
    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_addresses(root, serve):
    server = serve({f"rhel/{name}": data for name, data in repodata(OLD).items()})
    assert set(missing(ask(root, f"{server.url}/rhel/"))) == {"kernel-devel-5.14.0-427.13.1.el9_4"}
    index = b"Package: linux-headers-6.1.0-18-amd64\nVersion: 6.1.76-1\nArchitecture: amd64\n"
    reply = ask(root, server.url.replace("//", "//reader:pass@word@") + "/nothing")
    assert reply.rc == 2 and "pass" not in reply.out and f"{server.url}/nothing" in reply.out
    server = serve({"debian/dists/bookworm/main/binary-amd64/Packages.xz": lzma.compress(index)})
    reply = ask(root, f"{server.url}/debian bookworm main", kernel="6.1.0-18-amd64", system="debian")
    assert not missing(reply)
    assert "/debian/dists/bookworm/main/binary-amd64/Packages.gz" in server.asked
    # a mirror
    server = serve({"moved/repodata/repomd.xml": f"{serve(repodata(WANTED)).url}/repodata/repomd.xml",
                    "moved/repodata/primary.xml.gz": gzip.compress(primary(WANTED))})
    assert not missing(ask(root, f"{server.url}/moved"))


def test_hostile_servers(root, serve, tmp_path):
    secret = write(tmp_path, repodata(WANTED))
    for files, why in [({}, "has neither repodata/repomd.xml nor Packages.gz"),
                       ({"repodata/repomd.xml": 403}, "answers 403"),
                       ({"repodata/repomd.xml": 500}, "answers 500"),
                       ({"repodata/repomd.xml": f"file://{secret}/repodata/repomd.xml"}, "file"),
                       ({"repodata/repomd.xml": "/repodata/repomd.xml"}, "redirects"),
                       ({"repodata/repomd.xml": b"<repomd><data type='primary'><location "
                                                b"href='http://elsewhere/x'/></data></repomd>"}, "not a path within"),
                       ({"repodata/repomd.xml": gzip.compress(b"\n" * (64 << 20))}, "too long")]:
        reply = ask(root, serve(files).url)
        assert reply.rc == 2 and why in next(iter(missing(reply).values())), (why, reply)
    # nobody there
    reply = ask(root, "http://127.0.0.1:1/x")
    assert reply.rc == 2 and "127.0.0.1:1" in next(iter(missing(reply).values()))
