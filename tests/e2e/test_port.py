# SPDX-License-Identifier: Apache-2.0
"""Jobs that get a TCP port of the loopback."""

import socket
import urllib.request

from conftest import wait_until

SERVER = "exec python3 -u -m http.server --bind 127.0.0.1 $SLUICE_PORT"


def port_of(machine, number):
    wait_until(lambda: (machine.job(number)["attempt"] or {}).get("port"))
    return machine.job(number)["attempt"]["port"]


def answers(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as reply:
            return reply.status == 200
    except OSError:
        return False


def test_two_servers_beside_each_other(served):
    numbers = [served.submit("sh", "-c", SERVER, options=["--port", "0"]) for _ in range(2)]
    ports = [port_of(served, number) for number in numbers]
    assert ports[0] != ports[1]
    for port in ports:
        wait_until(lambda port=port: answers(port))
    assert f"http://127.0.0.1:{ports[0]}/" in served.run("sluice", "jobs", numbers[0]).ok().out
    # It is its own as long as it lives, and free then.
    reply = served.run("sluice", "run", "--gpus", "0", "--port", ports[0], "--", "true")
    assert reply.rc == 125 and f"port {ports[0]}" in reply.err
    served.run("sluice", "cancel", "--now", numbers[0]).ok()
    served.run("sluice", "jobs", "wait", numbers[0])
    done = served.run("sluice", "run", "--gpus", "0", "--port", ports[0], "--", "sh", "-c",
                      "echo $SLUICE_PORT; sleep 0.2").ok()
    assert done.out == f"{ports[0]}\n"


def test_a_port_on_which_somebody_listens(served):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        reply = served.run("sluice", "run", "--gpus", "0", "--port", port, "--", "true")
        assert reply.rc == 125 and "is not free" in reply.err
    reply = served.run("sluice", "run", "--gpus", "0", "--port", "http", "--", "true")
    assert reply.rc == 64, reply
