# SPDX-License-Identifier: Apache-2.0
"""Page and metrics of a running agent: the process that serves them, its socket and its token, what it is told, and
its end."""

import json
import os
import pathlib
import signal
import socket
import urllib.error
import urllib.request

from conftest import wait_until

END_S = 2  # after the agent's own end


class Web:
    """What `sluice agent status` says of it, and what it answers."""

    def __init__(self, machine, address="127.0.0.1:0", options=(), profile=("dgx-a100", "--gpus", "2")):
        self.machine = machine
        machine.start(*profile)
        self.agent = machine.agent("--web-address", address, *options)

    def status(self):
        return self.machine.run("sluice", "agent", "status", "--output", "json").ok().json["web"]

    def pid(self):
        """Of the process, once there is one."""
        return wait_until(lambda: self.status()["pid"], what="a web process")

    def get(self, path="/api/v1/state", token=None, address=None):
        request = urllib.request.Request(f"http://{address or self.status()['address']}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.read().decode()

    def code(self, path="/metrics", token=None):
        try:
            self.get(path, token)
            return 200
        except urllib.error.HTTPError as error:
            return error.code

    def state(self):
        return json.loads(self.get())

    def until(self, condition, what):
        """The first state that fulfils the condition."""
        found = []

        def look():
            state = self.state()
            if condition(state):
                found.append(state)
            return found

        wait_until(look, what=what)
        return found[0]


def is_alive(pid):
    """A zombie is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] not in "ZX"


def log_of(machine):
    return (machine.directory / "agent.err").read_text(errors="replace")


def test_who_it_is(machine):
    web = Web(machine)
    pid = web.pid()
    web.get("/healthz")
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    fields = {line.split(":")[0]: line.split(":")[1].split() for line in status.splitlines()}
    if os.geteuid() == 0:
        options = dict(zip(words[1::2], words[2::2]))
        assert int(options["--uid"]) > 0 and int(options["--gid"]) > 0
        assert fields["Uid"] == [options["--uid"]] * 4 and fields["Gid"] == [options["--gid"]] * 4
        assert fields["Groups"] == []
    else:
        assert len(words) == 2
    assert fields["CapPrm"] == ["0" * 16] and fields["NoNewPrivs"] == ["1"]
    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    assert b"SLUICE_SIM_STATE" not in environment  # it has no business with the machine
    assert {"role": "web", "pid": pid} in machine.run(
        "sluice", "agent", "status", "--output", "json").ok().json["processes"]
    text = machine.run("sluice", "agent", "status").ok().out
    assert f"page, metrics  {web.status()['address']}, process {pid}" in text


def test_it_comes_back_on_the_same_port(machine):
    web = Web(machine)
    address, pid = web.status()["address"], web.pid()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: web.status()["pid"] not in (None, pid), what="another web process")
    again = web.status()
    assert again["address"] == address and again["restarts"] == 1 and "SIGKILL" in again["problem"]
    assert web.state()["simulated"]


def test_it_ends_with_an_agent_that_is_killed(machine):
    web = Web(machine)
    pid = web.pid()
    web.get("/healthz")
    web.agent.kill()
    web.agent.wait(timeout=10)
    wait_until(lambda: not is_alive(pid), END_S, "the end of the web process")


def test_it_ends_with_an_agent_that_ends_while_the_driver_hangs(machine):
    web = Web(machine, options=("--call-timeout", "60s"))
    pid = web.pid()
    web.until(lambda state: state["gpus"], "a sample")
    machine.sim("inject", "hang", "any", "--gpu", "0")
    web.until(lambda state: state["age_seconds"] > 1, "an old sample")
    web.agent.send_signal(signal.SIGTERM)
    wait_until(lambda: not is_alive(pid), END_S, "the end of the web process")
    assert web.agent.wait(timeout=10) == 0


def test_a_stopped_one_does_not_outlive_the_agent(machine):
    web = Web(machine)
    pid = web.pid()
    web.get("/healthz")
    os.kill(pid, signal.SIGSTOP)
    web.agent.send_signal(signal.SIGTERM)
    assert web.agent.wait(timeout=10) == 0
    wait_until(lambda: not is_alive(pid), END_S, "the end of the web process")


def test_a_port_that_is_taken_hinders_nobody(machine):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        web = Web(machine, address)
        status = web.status()
        assert status["pid"] is None and status["address"] == address
        assert address in status["problem"] and "in use" in status["problem"]
        assert f"page, metrics  {address}, not served" in machine.run("sluice", "agent", "status").ok().out
        number = machine.submit("true", gpus=1)
        assert machine.job_in(number, "Succeeded")
        assert log_of(machine).count("page and metrics are not served") == 1


def test_the_next_agent_gets_the_port(machine):
    web = Web(machine)
    address, pid = web.status()["address"], web.pid()
    os.kill(pid, signal.SIGSTOP)  # it does not end by itself just now
    web.agent.kill()
    web.agent.wait(timeout=10)
    web.agent = machine.agent("--web-address", address)
    assert "in use" in web.status()["problem"]
    os.kill(pid, signal.SIGCONT)
    assert web.pid() != pid and web.status()["address"] == address
    assert web.code("/healthz") == 200 and web.status()["problem"] is None


def test_configuration(machine):
    config = machine.directory / "config.yaml"
    token = machine.directory / "token"
    token.write_text("a-token-for-this-test\n")
    token.chmod(0o600)

    def write(**web):
        config.write_text(json.dumps({"sluice": {"web": {"address": "127.0.0.1:0", **web}}}))
        machine.run("sluice", "agent", "reload").ok()

    config.write_text(json.dumps({"sluice": {"web": {"address": "127.0.0.1:0"}}}))
    machine.start("dgx-a100", "--gpus", "1")
    del machine.env["SLUICE_WEB_ADDRESS"]
    web = Web.__new__(Web)
    web.machine, web.agent = machine, machine.agent("--config", config)
    address, pid = web.status()["address"], web.pid()
    assert web.code() == 200

    # A token: at once, by the same process on the same socket.
    write(tokenFile=str(token))
    wait_until(lambda: web.code() == 401, what="that a token is wanted")
    wait_until(lambda: web.code(token="a-token-for-this-test") == 200, what="the token's use")
    assert web.status() == {"address": address, "pid": pid, "restarts": 0, "problem": None, "token": True}
    # Another: noticed without a word.
    other = machine.directory / "other"
    other.write_text("another-token")
    other.chmod(0o644)
    other.rename(token)
    wait_until(lambda: web.code(token="another-token") == 200, what="the other token's use")
    assert web.code(token="a-token-for-this-test") == 401
    assert "chmod 600" in web.status()["problem"] and str(token) in web.status()["problem"]
    token.unlink()
    wait_until(lambda: web.code(token="another-token") == 401, what="that nobody gets in")
    wait_until(lambda: str(token) in (web.status()["problem"] or ""), what="the problem")
    assert "another-token" not in log_of(machine)

    # Another address: another socket. What is wrong is refused, with its place.
    write()
    wait_until(lambda: web.code() == 200, what="that no token is wanted")
    config.write_text("sluice:\n  web:\n    address: gpu1.example:9400\n")
    refused = machine.run("sluice", "agent", "reload")
    assert refused.rc != 0 and ":3:14: sluice.web.address: 'gpu1.example'" in refused.err, refused
    assert web.until(lambda state: "config_error" in state["node"], "the error")
    config.write_text("sluice: {web: {address: 'off'}}")
    machine.run("sluice", "agent", "reload").ok()
    assert web.status()["address"] == "off" and web.status()["pid"] is None
    wait_until(lambda: not is_alive(pid), END_S, "the end of the web process")
    write()
    assert web.pid() != pid and web.code() == 200


def test_what_happens_is_told(machine):
    web = Web(machine)
    first = web.until(lambda state: len(state.get("gpus", [])) == 2 and
                      all(gpu["health"] == "healthy" for gpu in state["gpus"]), "both GPUs")
    assert [gpu["mode"] for gpu in first["gpus"]] == ["exclusive"] * 2
    assert [gpu["door"] for gpu in first["gpus"]] == ["queue"] * 2
    machine.sim("inject", "xid", "79", "--gpu", "1")
    state = web.until(lambda state: state["gpus"][-1]["health"] == "unhealthy", "an unhealthy GPU")
    assert [bool(event["advice"]) for event in state["events"] if event.get("xid") == 79] == [True]
    assert any(event["kind"] == "health" for event in state["events"])
    reasons = state["gpus"][-1]["reasons"]
    assert reasons and all(reason["advice"] for reason in reasons)
    text = wait_until(lambda: [line for line in web.get("/metrics?set=native").splitlines()
                               if line.startswith("sluice_gpu_xid_errors_total") and 'xid="79"' in line],
                      what="the counter")
    assert len(text) == 1 and text[0].endswith(" 1") and 'class="reboot"' in text[0]


def test_a_driver_that_hangs(machine):
    web = Web(machine, options=("--call-timeout", "1s"), profile=("dgx-a100", "--gpus", "1"))
    web.until(lambda state: state.get("gpus") and state["gpus"][0]["health"] == "healthy", "a sample")
    machine.sim("inject", "hang", "any", "--gpu", "0")
    state = web.until(lambda state: state["gpus"][0]["health"] == "unhealthy", "that it hangs")
    assert any(reason["cause"] == "hung" for reason in state["gpus"][0]["reasons"])
    assert web.until(lambda state: state["stale"] or state["age_seconds"] > 2, "an old sample")
    assert web.code("/healthz") == 200 and web.code("/metrics") == 200
    machine.sim("heal")


def test_jobs(machine):
    config = machine.directory / "config.yaml"
    config.write_text("{}")
    web = Web(machine, options=("--config", config))
    runs = machine.submit("sleep", "1000", gpus=2, options=("--name", "secret-name"))
    waits = machine.submit("true", gpus=1)
    state = web.until(lambda state: {job["state"] for job in state["jobs"]} == {"Running", "Pending"}, "both jobs")
    assert [job["id"] for job in state["jobs"]] == [waits, runs]
    assert state["jobs_pending"] == 1 and state["jobs_running"] == 1
    assert "secret-name" not in web.get()  # there is no token
    # With one there are names, also of jobs that have not changed since.
    token = machine.directory / "token"
    token.write_text("a-token-for-this-test\n")
    token.chmod(0o600)
    config.write_text(json.dumps({"sluice": {"web": {"tokenFile": str(token)}}}))
    machine.run("sluice", "agent", "reload").ok()
    wait_until(lambda: web.code() == 401, what="that a token is wanted")
    named = lambda: [job["name"] for job in json.loads(web.get(token="a-token-for-this-test"))["jobs"]]
    wait_until(lambda: "secret-name" in named(), what="the name of a job that was there before")
    config.write_text("{}")
    machine.run("sluice", "agent", "reload").ok()
    wait_until(lambda: web.code() == 200, what="that no token is wanted")
    assert "secret-name" not in web.get()
    machine.run("sluice", "cancel", runs).ok()
    web.until(lambda state: state["jobs_ended"] == 2 and not state["jobs"], "the end of both")
