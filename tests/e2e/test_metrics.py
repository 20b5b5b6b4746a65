# SPDX-License-Identifier: Apache-2.0
"""The pages of metrics as their readers see them: promtool, Python's prometheus_client, a parser of this file's own,
and the tables against man page, alerts and dashboard."""

import os
import re
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import conftest

BUILD = conftest.BUILD
PAGE = os.environ.get("METRICS_PAGE", str(BUILD / "tests" / "e2e" / "metrics_page"))
SAMPLE = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)(?:\{(.*)\})? (-?[0-9]+(?:\.[0-9]+)?)\Z', re.S)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|\Z)', re.S)


def page(set_="all", dcgm="old", *what):
    done = subprocess.run([PAGE, set_, dcgm, *map(str, what or ["full"])], capture_output=True, check=True, timeout=60)
    return done.stdout.decode()  # strict: what is no UTF-8 fails here


def labels_of(text):
    found, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, text
        name, value, _ = match.groups()
        assert name not in found, text
        found[name] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], value)
        at = match.end()
    return found


def parse(text):
    """{family: (type, {labels: value})}; the families in the order of the page."""
    families, current = {}, None
    assert not text or text.endswith("\n")
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in families, f"{current} stands in two pieces"
            families[current] = [None, {}]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and kind in ("gauge", "counter")
            families[name][0] = kind
        else:
            match = SAMPLE.match(line)
            assert match and match[1] == current, line
            labels = tuple(sorted(labels_of(match[2] or "").items()))
            assert labels not in families[current][1], f"twice: {line}"
            families[current][1][labels] = match[3]
    return families


def tables():
    lines = subprocess.run([PAGE, "families"], capture_output=True, check=True, text=True).stdout.splitlines()
    ours = [line for line in lines if " " not in line]
    return ours, [line.split(" ") for line in lines if " " in line]


def test_promtool_has_nothing_to_say():
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("SKIPPED: needs promtool: tools/setup check")
    done = subprocess.run([promtool, "check", "metrics"], input=page("native"), capture_output=True, text=True,
                          check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_family_of_the_tables_is_served_when_all_is_known():
    ours, dcgm = tables()
    assert list(parse(page("native"))) == ours
    assert list(parse(page("dcgm", "old"))) == [old for old, _ in dcgm]
    assert list(parse(page("dcgm", "new"))) == [new for _, new in dcgm]
    assert list(parse(page("all", "old"))) == ours + [old for old, _ in dcgm]
    assert page("dcgm", "off") == "" and page("all", "off") == page("native")


def test_the_manual_has_every_family_and_no_other():
    path = BUILD / "man" / "sluice-metrics.7"
    if not path.exists() or not shutil.which("man"):
        pytest.skip("SKIPPED: needs scdoc and man: tools/setup")
    text = subprocess.run(["man", "--local-file", "--encoding=utf8", path], capture_output=True, text=True, check=True,
                          env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""}).stdout
    ours, dcgm = tables()
    entries = re.findall(r"^       ((?:sluice|process|DCGM)_\w+)$", text, re.M)
    assert entries == ours + [old for old, _ in dcgm]
    for old, new in dcgm:
        assert new == old or f"new name {new}" in text


@pytest.mark.parametrize("path", ["packaging/prometheus/sluice.rules.yaml", "packaging/grafana/sluice-gpu.json"])
def test_alerts_and_dashboard_ask_for_what_is_served(path):
    ours, dcgm = tables()
    known = set(ours) | {name for row in dcgm for name in row}
    text = (conftest.ROOT / path).read_text(encoding="utf-8")
    asked = set(re.findall(r"(?<![\w:])(?:sluice_\w+|DCGM_FI_(?:DEV|PROF)_\w+)", text))
    assert asked and asked <= known, asked - known


def test_dcgm_labels_in_the_order_of_dcgm_exporter():
    text = page("dcgm")
    line = next(line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_FB_USED{") and "GPU_I_ID" in line)
    assert re.findall(r'(\w+)="', line) == ["gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE",
                                            "GPU_I_ID", "Hostname", "DCGM_FI_DRIVER_VERSION"]
    types = {name: kind for name, (kind, _) in parse(text).items()}
    counters = {name for name, kind in types.items() if kind == "counter"}
    assert {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"} <= counters
    assert not {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_XID_ERRORS"} & counters


def test_prometheus_client_reads_the_same():
    parser = pytest.importorskip("prometheus_client.parser", reason="needs python3-prometheus-client: tools/setup check")
    text = page()
    theirs = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            theirs[(sample.name, tuple(sorted(sample.labels.items())))] = sample.value
    # It gives every counter the ending _total, those of DCGM's names too.
    ours = {(name if kind == "gauge" or name.endswith("_total") else name + "_total", labels): float(value)
            for name, (kind, series) in parse(text).items() for labels, value in series.items()}
    assert ours == theirs and len(ours) > 400


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(min_value=0, max_value=2**64 - 1), dcgm=st.sampled_from(["old", "new", "off"]))
def test_any_view_gives_a_page_that_can_be_read(seed, dcgm):
    families = parse(page("all", dcgm, "seed", seed))
    for name, (_, series) in families.items():
        assert series, f"{name} has a head and no series"
        if name.startswith("sluice_"):
            assert max(len(labels) for labels in series) <= 12
