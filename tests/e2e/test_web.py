# SPDX-License-Identifier: Apache-2.0
"""What `sluice web` answers, at its socket. test_web_hostile.py has those who mean it no good."""

import gzip

import pytest

from webfeed import Web


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
