# SPDX-License-Identifier: Apache-2.0
"""What `sluice web` answers, at its socket. test_web_hostile.py has those who mean it no good."""

import gzip
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

import conftest
from conftest import wait_until
from webfeed import WEB, Stream, Web


@pytest.fixture(scope="module", name="web")
def one_web():
    with Web() as web:
        yield web


def test_healthz_is_always_there(web):
    answer = web.get("/healthz")
    assert (answer.status, answer.text) == (200, "ok\n")


@pytest.mark.parametrize("path", ["/metrics", "/metrics?set=native", "/metrics?set=dcgm", "/metrics?set=all"])
def test_metrics(web, path):
    answer = web.get(path)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_page(web):
    answer = web.get("/")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.text.startswith("<!doctype html>")


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/", "/nothing"])
def test_head_has_what_get_has_but_the_body(web, path):
    get, head = web.get(path), web.get(path, method="HEAD")
    assert head.status == get.status and head.body == b""
    assert head.headers["Content-Length"] == str(len(get.body))


def test_headers_of_every_answer(web):
    for path in ("/healthz", "/metrics", "/", "/nothing"):
        headers = web.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in headers


def test_unknown_path(web):
    for path in ("/metrics/", "//", "/%6detrics", "/api", "/metrics/../"):
        assert web.get(path).status == 404, path


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO"])
def test_other_methods(web, method):
    answer = web.get("/metrics", method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_gzip_when_it_is_accepted(web):
    plain = web.get("/")
    packed = web.get("/", Accept_Encoding="br, gzip")
    if len(plain.body) >= 512:
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.body) == plain.body
    assert "Content-Encoding" not in web.get("/", Accept_Encoding="gzip;q=0").headers


@pytest.mark.parametrize("query, named", [
    ("set=prometheus", "set"), ("set=", "set"), ("set", "set"), ("sets=all", "sets"),
    ("set=all&set=all", "set"), ("series=power_mw", "series"), ("%73et=all", "?73et"),
    ("a" * 500 + "=1", "a" * 63),
])
def test_bad_query_names_the_parameter(web, query, named):
    answer = web.get("/metrics?" + query)
    assert answer.status == 400 and f"'{named}'" in answer.text


# -- the interface for programs

def test_state(web):
    state = web.get("/api/v1/state").json
    assert state["schema"] == 1 and state["simulated"] is True and state["stale"] is False
    assert state["age_seconds"] < 5
    assert state["node"]["host"] == "gpu7" and state["node"]["cuda"] == "12.4"
    assert len(state["gpus"]) == 8 and len(state["holders"]) == 16 and len(state["jobs"]) == 4
    gpu = state["gpus"][3]
    assert gpu["uuid"] == "GPU-00000000-0000-0000-0000-000000000003" and gpu["index"] == 3
    assert gpu["health"] == "healthy" and gpu["state"] == "ok" and gpu["throttle"] == ["sw_power_cap"]
    assert gpu["values"]["memory_total_bytes"] == 80 << 30
    assert state["holders"][9]["uuid"] == state["gpus"][1]["uuid"]
    assert state["holders"][9]["namespace"] == "team-4" and state["holders"][9]["slot"] == 1
    assert state["adapters"][0]["rate_bits"] == 200 * 10**9
    assert state["resources"][0]["units"] == 8 * 48


def test_what_is_not_known_is_not_there(web):
    state = web.get("/api/v1/state").json
    assert "activity_gr_engine" not in json.dumps(state)
    assert "state_reason" not in state["gpus"][0] and "mig" not in state["gpus"][0]
    assert "started_unix" not in state["jobs"][1] and "problem" not in state["node"]


def test_processes_and_events(web):
    processes = web.get("/api/v1/processes").json["processes"]
    assert len(processes) == 16
    assert processes[0]["pid"] == 1000 and processes[0]["pod"] == "train-0" and processes[0]["type"] == ["compute"]
    web.say("event", 79)
    events = wait_until(lambda: web.get("/api/v1/events").json["events"])
    assert events[-1]["xid"] == 79 and events[-1]["health"] == "unhealthy" and events[-1]["advice"]


def test_json_headers(web):
    headers = web.get("/api/v1/state").headers
    assert headers["Content-Type"].startswith("application/json")
    assert headers["Cache-Control"] == "no-store"
    packed = web.get("/api/v1/state", Accept_Encoding="gzip")
    assert json.loads(gzip.decompress(packed.body))["schema"] == 1


@pytest.mark.parametrize("query, named", [
    ("", "series"), ("series=x", "series"), ("series=power_mw&since=yesterday", "since"),
    ("series=power_mw&since=-5", "since"), ("series=power_mw&resolution=5", "resolution"),
    ("series=power_mw&set=all", "set"),
])
def test_bad_history(web, query, named):
    answer = web.get("/api/v1/history?" + query)
    assert answer.status == 400 and f"'{named}'" in answer.text


def test_history(web):
    web.say("tick")
    power = web.get("/api/v1/state").json["gpus"][2]["values"]["power_mw"]
    history = wait_until(lambda: history_with(web, 2, power))
    assert history["series"] == "power_mw" and history["resolution_seconds"] == 1
    assert abs(history["end_unix"] - time.time()) < 3
    assert len(history["gpus"]) == 8
    since = time.time() - 30
    values = web.get(f"/api/v1/history?series=power_mw&since={since}").json["gpus"][0]["values"]
    assert 28 <= len(values) <= 31 and None in values
    coarse = web.get(f"/api/v1/history?series=power_mw&since={time.time() - 3600}").json
    assert coarse["resolution_seconds"] == 10 and 358 <= len(coarse["gpus"][0]["values"]) <= 361


def history_with(web, gpu, value):
    history = web.get("/api/v1/history?series=power_mw&resolution=1").json
    last = [v for v in history["gpus"][gpu]["values"] if v is not None][-1]
    return history if abs(last - value) <= value / 4096 else None


# -- the stream

def merge(state, sample):
    """What a page does with a sample."""
    for key, value in sample.items():
        if key != "gpus":
            state[key] = value
    for gpu in sample.get("gpus", []):
        mine = next(g for g in state["gpus"] if g["uuid"] == gpu["uuid"])
        for key, value in gpu.items():
            if key == "values":
                mine["values"].update(value)
                mine["values"] = {k: v for k, v in mine["values"].items() if v is not None}
            elif value is None:
                mine.pop(key, None)
            else:
                mine[key] = value


def without_time(state):
    state = json.loads(json.dumps(state))
    for key in ("time_unix", "age_seconds", "events"):
        state.pop(key)
    state["node"].pop("uptime_seconds")
    for holder in state["holders"]:
        holder.pop("busy_ratio", None)
    return state


def test_stream_adds_up_to_the_state(web):
    with Stream(web) as stream:
        assert stream.status == 200 and stream.headers["content-type"].startswith("text/event-stream")
        assert stream.next() == {"retry": "2000"}
        first = stream.next()
        assert first["event"] == "state"
        state = first["data"]
        for _ in range(3):
            web.say("tick")
            sample = stream.next()
            assert sample["event"] == "sample" and sample["id"] != first["id"]
            assert "name" not in sample["data"]["gpus"][0] and "events" not in sample["data"]
            assert "memory_total_bytes" not in sample["data"]["gpus"][0]["values"]
            merge(state, sample["data"])
        assert without_time(state) == without_time(web.get("/api/v1/state").json)


def test_stream_alert(web):
    with Stream(web) as stream:
        stream.next(), stream.next()
        web.say("event", 48)
        alert, sample = stream.next(), stream.next()
        assert alert["event"] == "alert" and alert["data"]["xid"] == 48 and "id" not in alert
        assert sample["event"] == "sample" and "id" in sample


def say_and_see(web, *words):
    before = web.get("/api/v1/state").json["sequence"]
    web.say(*words)
    wait_until(lambda: web.get("/api/v1/state").json["sequence"] > before)


def test_stream_resumes(web):
    with Stream(web) as stream:
        stream.next(), stream.next()
        web.say("tick")
        last = stream.next()["id"]
    say_and_see(web, "tick")
    say_and_see(web, "event", 63)
    with Stream(web, Last_Event_ID=last) as stream:
        assert stream.next() == {"retry": "2000"}
        assert stream.next()["event"] == "sample"
        assert stream.next()["event"] == "alert"
    for unknown in ("0-0", "x", last + "0", "ff-" + last.split("-")[1]):
        with Stream(web, Last_Event_ID=unknown) as stream:
            stream.next()
            assert stream.next()["event"] == "state", unknown


def test_stream_with_other_gpus_begins_anew(web):
    with Stream(web) as stream:
        stream.next(), stream.next()
        web.say("gpus", 7)
        block = stream.next()
        if block.get("event") != "state":
            block = stream.next()
        assert block["event"] == "state" and len(block["data"]["gpus"]) == 7
        web.say("gpus", 8)


def test_head_of_the_stream_ends(web):
    answer = web.get("/api/v1/stream", method="HEAD")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")


# -- who may ask

@pytest.mark.parametrize("host, status", [
    ("localhost", 200), ("127.0.0.1:9400", 200), ("[::1]", 200), ("gpu7", 200), ("GPU7:1", 200), ("10.9.8.7", 200),
    ("evil.example", 403), ("gpu7.evil.example", 403), ("localhost:x", 403), ("", 403),
])
def test_host(web, host, status):
    for path in ("/metrics", "/", "/healthz", "/api/v1/stream" if status == 403 else "/api/v1/state"):
        assert web.get(path, Host=host).status == status


def test_configured_host():
    with Web() as web:
        assert web.get("/metrics", Host="gpus.example").status == 403
        web.say("host", "gpus.example")
        assert wait_until(lambda: web.get("/metrics", Host="gpus.example").status == 200)
        web.say("host", "*")
        assert wait_until(lambda: web.get("/metrics", Host="any.example").status == 200)


def test_token():
    with Web() as web:
        web.say("token", "secret")
        answer = wait_until(lambda: (lambda a: a if a.status == 401 else None)(web.get("/metrics")))
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        for path in ("/metrics", "/api/v1/state", "/api/v1/history?series=power_mw", "/api/v1/processes",
                     "/api/v1/events", "/api/v1/stream"):
            assert web.get(path).status == 401
            assert web.get(path, Authorization="Bearer secreT").status == 401
            assert web.get(path + "?token=secret").status in (400, 401)
        for path in ("/metrics", "/api/v1/state"):
            assert web.get(path, Authorization="Bearer secret").status == 200
        assert web.get("/healthz").status == 200
        page = web.get("/")
        assert page.status == 200 and "GPU-0000" not in page.text and "gpu7" not in page.text
        assert "gpu7" in web.get("/", Authorization="Bearer secret").text
        with Stream(web, Authorization="Bearer secret") as stream:
            assert stream.status == 200
            stream.next(), stream.next()
            web.say("token", "other")
            assert wait_until(lambda: web.get("/metrics", Authorization="Bearer secret").status == 401)
            assert stream.next() is None or stream.next() is None  # whoever had the old one is sent away


# -- the driver hangs, the agent goes

def test_hung_driver_is_stale_and_quick():
    with Web() as web:
        web.say("hang")
        web.say("run")
        wait_until(lambda: web.get("/api/v1/state").json["stale"], 15)
        state = web.get("/api/v1/state").json
        assert state["age_seconds"] > 5
        times = []
        for _ in range(100):
            start = time.monotonic()
            assert web.get("/metrics").status == 200
            times.append(time.monotonic() - start)
        assert sorted(times)[50] < 0.05
        assert web.get("/healthz").status == 200


def test_hung_service_is_told_to_readers_of_the_stream():
    """No view comes at all, so there is nothing to say but this: what was said is old."""
    with Web() as web, Stream(web) as stream:
        blocks = [stream.next() for _ in range(2)]
        assert blocks[1]["event"] == "state" and not blocks[1]["data"]["stale"]
        told = stream.next()
        assert told["event"] == "sample" and told["id"] == blocks[1]["id"]
        assert told["data"]["stale"] is True and told["data"]["age_seconds"] > 5
        web.say("tick")
        assert stream.next()["data"]["stale"] is False


def test_a_view_half_written_leaves_the_one_before():
    with Web() as web:
        before = web.get("/api/v1/state").json["sequence"]
        web.say("half")
        assert web.get("/api/v1/state").json["sequence"] == before
        web.say("tick")
        wait_until(lambda: web.get("/api/v1/state").json["sequence"] > before)


def test_ends_with_the_agent_and_on_sigterm():
    with Web() as web:
        with Stream(web) as stream:
            stream.next(), stream.next()
            os.kill(web.pid, signal.SIGTERM)
            assert stream.next() is None
        wait_until(lambda: not alive(web))
        web.say("web")
        assert web.get("/healthz").status == 200
        web.say("end")
        wait_until(lambda: not alive(web))


def alive(web):
    try:
        return "Z" not in pathlib.Path(f"/proc/{web.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def test_not_started_by_the_service():
    done = subprocess.run([WEB], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 64 and "sluice agent" in done.stderr


def test_sluice_web_becomes_the_program():
    with Web("web", program=(conftest.SLUICE,)) as web:
        assert web.get("/healthz").status == 200
        assert os.readlink(f"/proc/{web.pid}/exe").endswith("sluice-web")
