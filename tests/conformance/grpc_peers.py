# SPDX-License-Identifier: Apache-2.0
"""Our gRPC layer against gRPC for Python, Go and JavaScript, in both roles, over unix sockets.

Every peer serves grpc/peer.proto and asks it: our server is asked by their clients, their servers by
ours. A client prints a line for each of its cases; its last one tells the server to end."""

import hashlib
import os
import pathlib
import re
import select
import shutil
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "grpc"
PROTO = PEERS / "peer.proto"
START = 30  # seconds until a server listens
CLIENT = 180  # seconds for all cases of a client
END = 20  # seconds for a server to end

# What each client must have tried: one that ends early must not look as if all was well.
BOTH = ("unary", "empty message", "many calls", "parallel calls", "stream", "empty stream", "every status",
        "status after messages", "deadline", "cancel", "cancel a stream", "large message", "unknown method", "shutdown")
THEIRS = (*BOTH, "several connections", "slow reader", "client stream", "empty client stream", "both stream",
          "message over the cap", "compressed request", "garbage", "authority is the socket path", "headers",
          "headers over the cap")
OURS = (*BOTH, "stream of large messages", "request over the cap", "reply over the cap", "who is there", "nobody there")
# What a client must notice when our server gives wrong answers.
WRONG = ("unary", "empty message", "many calls", "parallel calls", "stream", "every status", "status after messages",
         "large message", "shutdown")


def python():
    """The distribution's, which has the distribution's python3-grpcio."""
    return os.environ.get("PYTHON", "/usr/bin/python3")


def go_is_new(go):
    """Whether this Go builds the newer release, as new.mod says."""
    wanted = re.search(r"^go (\d+)\.(\d+)", (PEERS / "go/new.mod").read_text(), re.MULTILINE)
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", said.strip())
    return bool(found) and tuple(map(int, found.groups())) >= tuple(map(int, wanted.groups()))


def release(file, module):
    return re.search(re.escape(module) + r"[\" ]*[: ]*\"?v?([0-9.]+)", (PEERS / file).read_text()).group(1)


class Peers:
    """What it takes to start each of them; made by install()."""

    def __init__(self, build):
        self.build = build
        self.theirs = {}  # name: the command, to which "server" or "client" and the rest are added
        self.notes = []

    def install(self, folder, step, unavailable):
        """`step` runs a command or raises `unavailable`. A language that is missing is no reason to
        leave it out: it raises, too."""
        for role in ("server", "client"):
            if not (self.program(role)).exists():
                raise unavailable(f"there is no {self.program(role)}: build first")
        descriptors = folder / "peer.desc"
        step([python(), "-m", "grpc_tools.protoc", f"-I{PEERS}", f"--descriptor_set_out={descriptors}", PROTO.name],
             PEERS, "describing peer.proto (is python3-grpc-tools installed?)")
        step([python(), "-c", "import grpc"], HERE, "loading gRPC for Python (is python3-grpcio installed?)")
        self.theirs["python"] = lambda role, *rest: [python(), PEERS / "python" / f"{role}.py", descriptors, *rest]
        self.install_js(folder, step, unavailable)
        self.install_go(folder, step, unavailable, descriptors)

    def install_js(self, folder, step, unavailable):
        node, npm = shutil.which("node"), shutil.which("npm")
        if not node or not npm:
            raise unavailable("node and npm are not installed: apt install nodejs npm")
        target = folder / "js"
        mark = hashlib.sha256(b"".join(file.read_bytes() for file in sorted((PEERS / "js").iterdir()))).hexdigest()
        stamp = target / "stamp"
        if not stamp.exists() or stamp.read_text() != mark:
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(PEERS / "js", target)
            step([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], target,
                 "installing grpc-js (is there a network?)")
            stamp.write_text(mark)
        name = f"grpc-js {release('js/package.json', '@grpc/grpc-js')}"
        self.theirs[name] = lambda role, *rest: [node, target / "peer.js", role, PROTO, *rest]

    def install_go(self, folder, step, unavailable, descriptors):
        go = shutil.which("go")
        if not go:
            raise unavailable("Go is not installed: apt install golang-go")
        for file in ("go.mod", "new.mod"):
            name = f"grpc-go {release('go/' + file, 'google.golang.org/grpc')}"
            if file == "new.mod" and not go_is_new(go):
                self.notes.append(f"{name} is left out: this Go is older than it wants")
                continue
            program = folder / f"grpc-{file.removesuffix('.mod')}"
            step([go, "build", f"-modfile={file}", "-o", str(program), "."], PEERS / "go",
                 f"building the peer on {name} (is there a network?)")
            self.theirs[name] = lambda role, *rest, program=program: [program, role, descriptors, *rest]

    def program(self, role):
        return pathlib.Path(self.build, "tests/conformance/grpc", f"grpc-peer-{role}")

    def ours(self, role, *rest):
        return [self.program(role), *rest]


class Server:
    """A server that listens, in a directory of its own."""

    def __init__(self, command, *extra):
        self.directory = tempfile.mkdtemp(prefix="sluice-grpc.")
        self.socket = os.path.join(self.directory, "socket")
        self.errors = open(os.path.join(self.directory, "errors"), "w+", encoding="utf-8")
        self.child = subprocess.Popen([*map(str, command("server", self.socket)), *extra], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        self.errors.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def said(self):
        self.errors.seek(0)
        return self.errors.read().strip()[-800:]

    def wait(self):
        """None, or why it does not listen."""
        ready, _, _ = select.select([self.child.stdout], [], [], START)
        if not ready or self.child.stdout.readline().strip() != "ready":
            return f"the server does not listen: {self.said()}"
        return None

    def ended(self):
        """After it was told to."""
        deadline = time.monotonic() + END
        try:
            code = self.child.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return ["the server still runs"]
        return [] if code == 0 else [f"the server ended with {code}", *self.said().splitlines()[-8:]]


def ask(client, server):
    """What a client says of its cases: {name: None or why it failed}, and how it ended."""
    try:
        done = subprocess.run([*map(str, client("client", server.socket, str(server.child.pid)))], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=CLIENT, check=False)
    except subprocess.TimeoutExpired as error:
        done = subprocess.CompletedProcess((), -1, (error.stdout or b"").decode(), f"not done after {CLIENT} s")
    results = {}
    for line in done.stdout.splitlines():
        if line.startswith("ok "):
            results[line[len("ok "):]] = None
        elif line.startswith("FAIL "):
            name, _, why = line[len("FAIL "):].partition(": ")
            results[name] = why
    problem = [] if done.returncode == 0 else [f"the client ended with {done.returncode}",
                                               *done.stderr.strip().splitlines()[-8:]]
    return results, problem


def pair(run, prefix, client, server_command, wanted):
    """Every case of one client against one server."""
    with Server(server_command) as server:
        problem = server.wait()
        if problem:
            run.report(prefix, problem.splitlines())
            return
        results, ended = ask(client, server)
        for name in wanted:
            if run.wanted(f"{prefix}: {name}"):
                why = results.get(name, "the client did not come to this case")
                run.report(f"{prefix}: {name}", [why] if why else [])
        if run.wanted(f"{prefix}: ends"):
            run.report(f"{prefix}: ends", [*ended, *server.ended()])
        for name in sorted(results.keys() - set(wanted)):
            run.report(f"{prefix}: {name}", ["a case that grpc_peers.py does not know"])


def honest(run, prefix, client, peers):
    """The cases themselves: against a server that is wrong they must fail."""
    with Server(peers.ours, "--wrong") as server:
        problem = server.wait()
        if problem:
            run.report(prefix, problem.splitlines())
            return
        results, _ = ask(client, server)
    unseen = [f"'{name}' did not notice" for name in WRONG if not results.get(name)]
    run.report(prefix, unseen, f"{sum(map(bool, results.values()))} cases noticed wrong answers")


def check(run, peers):
    """All pairs that were asked for."""
    def chosen(prefix):
        only = run.options.only
        return not only or only in prefix or only.startswith(prefix)

    for note in peers.notes:
        print(note)
    for name, command in {**peers.theirs, "our own": peers.ours}.items():
        wanted = OURS if command == peers.ours else THEIRS
        if chosen(f"grpc {name} client"):
            pair(run, f"grpc {name} client", command, peers.ours, wanted)
        if command != peers.ours and chosen(f"grpc {name} server"):
            pair(run, f"grpc {name} server", peers.ours, command, OURS)
        if chosen(f"grpc {name} honest"):
            honest(run, f"grpc {name} honest", command, peers)
