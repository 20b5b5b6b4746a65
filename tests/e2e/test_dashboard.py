# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard in packaging/grafana: what can be said of it without Grafana, which no distribution packages.
That its expressions return data is test_prometheus.py's business."""

import json
import re

import pytest

from conftest import ROOT

DASHBOARD = json.loads((ROOT / "packaging" / "grafana" / "sluice-gpu.json").read_text(encoding="utf-8"))
RULES = (ROOT / "packaging" / "prometheus" / "sluice.rules.yaml").read_text(encoding="utf-8")
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = [(panel, target) for panel in PANELS for target in panel["targets"]]
ROWS = {
    "Utilisation": ["Utilisation now", "Utilisation"],
    "Memory": ["Memory used", "Memory used"],
    "Temperature and power": ["Hottest GPU", "Temperature", "Power of all", "Power"],
    "Engines, clocks, links": ["Engines active", "SM clock", "PCIe and NVLink"],
    "Who uses the GPUs": ["GPU time by container or job", "GPU memory by container or job"],
    "Health": ["Xids of the last day", "GPUs not healthy", "Uncorrectable memory errors", "Time held back, by reason"],
}


def test_it_is_what_the_manual_says():
    assert (DASHBOARD["uid"], DASHBOARD["schemaVersion"], DASHBOARD["refresh"]) == ("sluice-gpu", 38, "5s")
    assert DASHBOARD["time"] == {"from": "now-30m", "to": "now"} and DASHBOARD["graphTooltip"] == 1
    assert "id" not in DASHBOARD and "__inputs" not in DASHBOARD  # nothing of a Grafana that had it
    rows, found = [], {}
    for panel in DASHBOARD["panels"]:
        if panel["type"] == "row":
            rows.append(panel["title"])
        else:
            found.setdefault(rows[-1], []).append(panel["title"])
    assert found == ROWS and len(PANELS) == 17


def test_panels_are_numbered_and_do_not_overlap():
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_variables_choose_several_or_all():
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "job", "instance", "gpu", "namespace"]
    assert variables["datasource"]["query"] == "prometheus"
    assert variables["instance"]["label"] == "Node"
    for name in ("job", "instance", "gpu", "namespace"):
        one = variables[name]
        assert one["multi"] and one["includeAll"] and one["allValue"] == ".*"
        metric = "sluice_container_gpu_allocated" if name == "namespace" else "sluice_gpu_utilization_ratio"
        assert re.fullmatch(rf"label_values\({metric}(\{{[^}}]*\}})?, {name}\)", one["query"]["query"])


def selectors(expression):
    """(metric, labels) of each selector."""
    return re.findall(r"\b([a-zA-Z_][a-zA-Z0-9_:]*)(\{[^}]*\})", expression)


@pytest.mark.parametrize("panel, target", TARGETS, ids=[f"{panel['title']} {target['refId']}" for panel, target in TARGETS])
def test_every_expression_filters_on_the_variables(panel, target):
    assert panel["datasource"]["uid"] == target["datasource"]["uid"] == "${datasource}"
    names = re.findall(r"\b((?:sluice|DCGM)[a-zA-Z0-9_:]*)", target["expr"])
    assert names and len(names) == len(selectors(target["expr"]))  # none without braces
    for metric, labels in selectors(target["expr"]):
        wanted = ["job", "instance", "gpu"] + (["namespace"] if metric.startswith("sluice_container_") else [])
        for name in wanted:
            assert f'{name}=~"${name}"' in labels, (metric, labels)


def test_series_can_be_isolated_and_compared():
    for panel in PANELS:
        assert panel["description"]
        if panel["type"] == "timeseries":
            legend = panel["options"]["legend"]
            assert legend == {"displayMode": "table", "placement": "right", "showLegend": True,
                              "calcs": ["lastNotNull", "mean", "max"]}
            for target in panel["targets"]:
                assert "{{gpu}}" in target["legendFormat"]
    who = [target["legendFormat"] for panel, target in TARGETS if "container or job" in panel["title"]]
    assert who == ["{{namespace}}/{{pod}}/{{container}}{{job_id}} GPU {{gpu}}"] * 2


def test_xids_are_marked_at_their_time():
    mark = DASHBOARD["annotations"]["list"][0]
    assert mark["useValueForTime"] and mark["expr"].endswith("* 1000")
    assert mark["titleFormat"] == "Xid {{xid}} GPU {{gpu}}"


def test_its_recording_rules_are_there():
    for _, target in TARGETS:
        for metric, _ in selectors(target["expr"]):
            assert ":" not in metric or f"record: {metric}\n" in RULES
