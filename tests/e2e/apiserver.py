# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a Kubernetes API server that does what a test wants: one Node, its list and watch, and
Events, over TLS, by sockets alone, so that every byte and every pause is the test's. Its ordinary
behaviour is the real one's (https://kubernetes.io/docs/reference/using-api/api-concepts/); a test puts
functions into `script`, and each is what becomes of the next request of its kind."""

import json
import pathlib
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

from conftest import DEADLINE_S, wait_until

NODE = "node-1"
LABEL = "nvidia.com/device-plugin.config"
NFD = "/apis/nfd.k8s-sigs.io/v1alpha1"
TRACKED = "nfd.node.kubernetes.io/feature-labels"


class Certificates:
    """An authority, a server's certificate for 127.0.0.1, a client's, and another authority with its own."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        for authority in ("ca", "other-ca"):
            self._openssl("req", "-x509", *self._key(authority), "-days", "2", "-subj", f"/CN={authority}",
                          "-out", self.path(f"{authority}.crt"))
        self._sign("server", "ca", "subjectAltName=IP:127.0.0.1,DNS:localhost")
        self._sign("elsewhere", "ca", "subjectAltName=DNS:elsewhere.example")
        self._sign("foreign", "other-ca", "subjectAltName=IP:127.0.0.1")
        self._sign("client", "ca", "extendedKeyUsage=clientAuth")

    def path(self, name):
        return str(self.directory / name)

    def _key(self, name):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-keyout", self.path(f"{name}.key"))

    def _sign(self, name, authority, extension):
        self._openssl("req", *self._key(name), "-subj", f"/CN={name}", "-out", self.path(f"{name}.csr"))
        (self.directory / f"{name}.ext").write_text(extension + "\n")
        self._openssl("x509", "-req", "-in", self.path(f"{name}.csr"), "-days", "2",
                      "-CA", self.path(f"{authority}.crt"), "-CAkey", self.path(f"{authority}.key"),
                      "-CAcreateserial", "-extfile", self.path(f"{name}.ext"),
                      "-out", self.path(f"{name}.crt"))

    @staticmethod
    def _openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=DEADLINE_S)


class Request:
    """One request as it came, and the connection that answers it."""

    def __init__(self, connection, method, target, headers, body):
        self.connection, self.method, self.headers, self.body = connection, method, headers, body
        self.time = time.monotonic()
        self.path, _, query = target.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query))
        if self.path.endswith("/nodes"):
            self.kind = "watch" if "watch" in self.query else "list"
        elif self.path.startswith(NFD) or "/nodes/" in self.path or "/pods/" in self.path:
            what = "group" if self.path == NFD else "feature" if self.path.startswith(NFD) else (
                "pod" if "/pods/" in self.path else "node")
            self.kind = f"{method.lower()} {what}"
        else:
            self.kind = method.lower()

    @property
    def json(self):
        return json.loads(self.body)

    def send(self, data):
        self.connection.sendall(data)

    def reply(self, status, body=b"", **headers):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.send(f"HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\n{lines}"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def refuse(self, status, message="", **headers):
        self.reply(status, {"kind": "Status", "status": "Failure", "code": status, "message": message},
                   **headers)

    def stream(self):
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data):
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def event(self, kind, thing):
        self.chunk(json.dumps({"type": kind, "object": thing}).encode() + b"\n")

    def end(self):
        self.send(b"0\r\n\r\n")


class ApiServer:
    def __init__(self, certificates, name="server", tls=None, client_ca=None):
        self.certificates, self.tls, self.client_ca = certificates, tls or {}, client_ca
        self.lock = threading.Condition(threading.RLock())
        self.requests, self.script = [], {}
        self.version, self.labels, self.is_there = 100, {}, True
        self.history = []  # (version, type, node)
        self.objects = {}  # path: what it answers there, whatever the method; a number: refuses with it
        self.date = None  # of answers from there
        self.token = None  # the only one that is let in; None: any
        self.handshakes_failed = 0
        self.features, self.has_nfd = {}, True  # NodeFeatures by name; whether their CRD is served
        self.applied, self.annotations = {}, {}  # by us to the node, and what NFD remembers
        self.discovery = None  # a stand-in for nfd-master
        self.gaps, self.expected = [], set()  # keys that must never be missing, and when they were
        self.connections = []
        self.name = name
        self.port = 0
        self.listener = None
        self.start()

    # -- its life

    def start(self):
        """Also after stop(): at the same port."""
        self.listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def stop(self):
        listener, self.listener = self.listener, None
        if listener:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self.lock:
            connections, self.connections = self.connections, []
            self.lock.notify_all()
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
                connection.close()
            except OSError:
                pass

    def _context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificates.path(f"{self.name}.crt"),
                                self.certificates.path(f"{self.name}.key"))
        for name, value in self.tls.items():
            setattr(context, name, value)
        if self.client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.certificates.path(self.client_ca))
        return context

    def _accept(self, listener):
        while self.listener is listener:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain):
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self._context().wrap_socket(plain, server_side=True)
        except (OSError, ssl.SSLError):
            self.handshakes_failed += 1
            plain.close()
            return
        with self.lock:
            self.connections.append(connection)
        try:
            reader = connection.makefile("rb")
            while self._one(connection, reader):
                pass
        except (OSError, ValueError, ssl.SSLError):
            pass
        finally:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()

    def _one(self, connection, reader):
        line = reader.readline().decode()
        if not line:
            return False
        method, target, _ = line.split()
        headers = {}
        while (line := reader.readline().decode().strip()):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", 0)))
        request = Request(connection, method, target, headers, body)
        with self.lock:
            self.requests.append(request)
            self.lock.notify_all()
            steps = self.script.get(request.kind, [])
            step = steps.pop(0) if steps else None
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            request.refuse(401, "Unauthorized")
        elif request.path in self.objects:
            self._object(request)
        elif step:
            return step(request) is not False  # False: the connection is to be cut
        else:
            getattr(self, "_" + request.kind.replace(" ", "_"))(request)
        return True

    # -- what a server does

    def _object(self, request):
        thing = self.objects[request.path]
        if isinstance(thing, int):
            request.refuse(thing, "no")
        else:
            request.reply(201 if request.method == "POST" else 200, thing(request) if callable(thing) else thing,
                          **({"Date": self.date} if self.date else {}))

    def node(self):
        fields = [{"manager": "kubelet", "operation": "Update"}]
        if self.applied:
            fields.append({"manager": "sluice-agent", "operation": "Apply"})
        return {"metadata": {"name": NODE, "resourceVersion": str(self.version),
                             "labels": {"kubernetes.io/hostname": NODE, **self.labels},
                             "annotations": dict(self.annotations), "managedFields": fields}}

    def change(self, kind="MODIFIED", **labels):
        """The node is another: labels as in `config="a100"`, None takes one away."""
        with self.lock:
            self.version += 1
            self.is_there = kind != "DELETED"
            for name, value in labels.items():
                key = LABEL if name == "config" else name
                self.labels.pop(key, None)
                if value is not None:
                    self.labels[key] = value
            self.history.append((self.version, kind, self.node()))
            self.lock.notify_all()

    def bookmark(self, version):
        with self.lock:
            self.version = version
            self.history.append((version, "BOOKMARK", {"metadata": {"resourceVersion": str(version)}}))
            self.lock.notify_all()

    def _list(self, request):
        with self.lock:
            body = {"kind": "NodeList", "metadata": {"resourceVersion": str(self.version)},
                    "items": [self.node()] if self.is_there else []}
        request.reply(200, body)

    def _watch(self, request, seconds=None):
        """Everything after the version that was asked for, until its time is over."""
        seen = int(request.query["resourceVersion"])
        end = time.monotonic() + (seconds or float(request.query["timeoutSeconds"]))
        request.stream()
        while time.monotonic() < end and request.connection in self.connections:
            with self.lock:
                news = [entry for entry in self.history if entry[0] > seen]
                if not news:
                    self.lock.wait(min(0.2, max(0, end - time.monotonic())))
                    continue
            for version, kind, thing in news:
                request.event(kind, thing)
                seen = version
        request.end()

    def _get(self, request):
        request.refuse(404, "the server could not find the requested resource")

    def _post(self, request):
        request.reply(201, request.json)

    _patch = _post

    # -- labels: NodeFeatures, and what is applied to the node

    def relabel(self, labels):
        """The node's labels are these now, in one step."""
        with self.lock:
            gone = {key for key in self.expected if key not in labels}
            if gone:
                self.gaps.append((time.monotonic(), gone))
            if labels != self.labels:
                self.version += 1
                self.labels = labels
                self.history.append((self.version, "MODIFIED", self.node()))
            self.lock.notify_all()

    def _get_group(self, request):
        if self.has_nfd:
            request.reply(200, {"kind": "APIResourceList", "resources": [{"name": "nodefeatures"}]})
        else:
            request.refuse(404, "the server could not find the requested resource")

    def _get_pod(self, request):
        name = request.path.rpartition("/")[2]
        request.reply(200, {"metadata": {"name": name, "uid": "pod-uid", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "sluice", "uid": "set-uid",
             "controller": True, "blockOwnerDeletion": True}]}})

    def _get_feature(self, request):
        with self.lock:
            found = self.features.get(request.path)
        request.reply(200, found) if found and self.has_nfd else request.refuse(404, "not found")

    def put_feature(self, path, thing):
        with self.lock:
            self.version += 1
            thing["metadata"]["resourceVersion"] = str(self.version)
            self.features[path] = thing
        if self.discovery:
            self.discovery.reconcile()
        return thing

    def _post_feature(self, request):
        thing = request.json
        path = f"{request.path}/{thing['metadata']['name']}"
        if not self.has_nfd:
            request.refuse(404, "the server could not find the requested resource")
        elif path in self.features:
            request.refuse(409, "already exists")
        else:
            request.reply(201, self.put_feature(path, thing))

    def _put_feature(self, request):
        thing = request.json
        with self.lock:
            version = self.features[request.path]["metadata"]["resourceVersion"]
        if thing["metadata"]["resourceVersion"] != version:
            request.refuse(409, "the object has been modified")
        else:
            request.reply(200, self.put_feature(request.path, thing))

    def _delete_feature(self, request):
        with self.lock:
            found = self.features.pop(request.path, None)
        if self.discovery:
            self.discovery.reconcile()
        request.reply(200, {"kind": "Status"}) if found else request.refuse(404, "not found")

    def _get_node(self, request):
        with self.lock:
            node = self.node()
        request.reply(200, node)

    def _patch_node(self, request):
        kind, body = request.headers["content-type"], request.json
        if kind == "application/apply-patch+yaml":
            assert request.query == {"fieldManager": "sluice-agent", "force": "true"}
            assert set(body) == {"apiVersion", "kind", "metadata"} and set(body["metadata"]) == {"name", "labels"}
            new = body["metadata"]["labels"]
            self.relabel({**{key: value for key, value in self.labels.items()
                             if key in new or key not in self.applied}, **new})
            self.applied = new
        elif kind == "application/merge-patch+json":
            with self.lock:
                if body["metadata"]["resourceVersion"] != str(self.version):
                    return request.refuse(409, "the object has been modified")
                for key, value in body["metadata"]["annotations"].items():
                    self.annotations.pop(key, None)
                    if value is not None:
                        self.annotations[key] = value
        else:
            with self.lock:
                [test, remove] = body
                number = int(remove["path"].rpartition("/")[2])
                assert self.node()["metadata"]["managedFields"][number]["manager"] == test["value"]
                self.applied = {}
        return request.reply(200, self.node())

    # -- what a test asks it

    def plan(self, kind, *steps):
        with self.lock:
            self.script.setdefault(kind, []).extend(steps)

    def of(self, *kinds):
        with self.lock:
            return [request for request in self.requests if request.kind in kinds]

    def wait_for(self, kind, count=1):
        """The requests of a kind, once there are so many."""
        return wait_until(lambda: (found := self.of(kind))[count - 1:count] and found,
                          what=f"{count} requests to {kind}")


class Discovery:
    """A stand-in for nfd-master: what NodeFeatures and feature files (as nfd-worker reads them) say becomes the
    node's labels, and what it remembers of that in an annotation and nobody says any more is taken away.
    https://kubernetes-sigs.github.io/node-feature-discovery/stable/usage/nfd-master.html"""

    def __init__(self, server, directory=None):
        self.server, self.directory, self.allows, self.over = server, directory, lambda key: True, threading.Event()
        self.lock = threading.Lock()
        server.discovery = self
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        """Of files, which is nfd-worker's part."""
        while self.directory and not self.over.wait(0.05):
            self.reconcile()

    def wanted(self):
        found = {}
        for path in sorted(self.directory.glob("[!.]*")) if self.directory else []:
            for line in path.read_text().splitlines():
                key, _, value = line.partition("=")
                if not line.startswith("#"):
                    found[key] = value
        for thing in list(self.server.features.values()):
            found.update(thing["spec"]["labels"])
        return {key: value for key, value in found.items() if self.allows(key)}

    def reconcile(self):
        with self.lock, self.server.lock:
            new = self.wanted()
            old = [key for key in self.server.annotations.get(TRACKED, "").split(",") if key]
            labels = {key: value for key, value in self.server.labels.items() if key not in old or key in new}
            # A value that is right already is not written, and so stays whose it was.
            self.server.relabel({**labels, **new})
            self.server.annotations[TRACKED] = ",".join(sorted(new))
