# SPDX-License-Identifier: Apache-2.0
"""The rules in packaging/prometheus, by Debian's promtool: valid, each alert firing and not firing in
tests/prometheus/rules.test.yaml, and (RULES_MUTANTS=1, a suite of its own) those tests go red for every number,
comparison, label and wait that is changed in a rule."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT

yaml = pytest.importorskip("yaml", reason="needs python3-yaml")
PROMTOOL = shutil.which("promtool")
if not PROMTOOL:
    pytest.skip("SKIPPED: needs promtool: tools/setup check", allow_module_level=True)

RULES = ROOT / "packaging" / "prometheus" / "sluice.rules.yaml"
TESTS = ROOT / "tests" / "prometheus" / "rules.test.yaml"
RECORDED = {
    "sluice:gpu_utilization_ratio:avg5m", "sluice:gpu_busy_ratio:rate5m", "sluice:gpu_memory_used_ratio",
    "sluice:gpu_power_watts:rate1m", "node:sluice_gpu_utilization_ratio:avg", "namespace:sluice_gpu_busy_gpus:rate5m",
    "namespace:sluice_gpu_allocated",
}
ALERTS = {
    "SluiceDown": "warning", "SluiceCollectStale": "critical", "SluiceNeverRead": "warning",
    "GpuTemperatureHigh": "warning", "GpuTemperatureAbsolute": "warning", "GpuThermalThrottling": "warning", "GpuPowerBrake": "critical",
    "GpuXidFatal": "critical", "GpuXidAppBurst": "info", "GpuRecoveryActionNeeded": "critical",
    "GpuEccUncorrectable": "critical", "GpuRowRemapFailure": "critical", "GpuRowRemapOrPagePending": "warning",
    "GpuPcieReplayRate": "warning", "GpuNvlinkErrors": "warning", "GpuLost": "critical", "GpuAllocatedIdle": "info",
    "GpuMemoryAlmostFull": "info",
}
# Changes that mean the same: what is allocated is never 0, its series is not there.
SAME = {("GpuAllocatedIdle", "> 0", "> -100"), ("GpuAllocatedIdle", "> 0", "!= 0"), ("GpuAllocatedIdle", "> 0", ">= 0"),
        # a flag is 0 or 1, and a counter that has not moved is the same as one that has moved by nothing
        ("SluiceNeverRead", "== 0", "<= 0"), ("GpuRowRemapFailure", "== 1", ">= 1"), ("GpuRowRemapOrPagePending", "== 1", ">= 1")}


def load(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def rules():
    return [rule for group in load(RULES)["groups"] for rule in group["rules"]]


def promtool(*arguments):
    return subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)


def name_of(rule):
    return rule.get("alert") or rule["record"]


def test_the_rules_are_valid_and_are_those_of_the_manual():
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0 and "25 rules found" in done.stdout, done.stdout + done.stderr
    assert {rule["record"] for rule in rules() if "record" in rule} == RECORDED
    assert {rule["alert"]: rule["labels"]["severity"] for rule in rules() if "alert" in rule} == ALERTS
    manual = (ROOT / "doc" / "monitoring.md").read_text(encoding="utf-8")
    for name in [*RECORDED, *ALERTS]:
        assert f"`{name}`" in manual, f"doc/monitoring.md does not know {name}"


@pytest.mark.parametrize("rule", [rule for rule in rules() if "alert" in rule], ids=name_of)
def test_an_alert_says_what_where_how_much_and_what_to_do(rule):
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook"}
    whose = ["$labels.instance"] + (["$labels.gpu"] if rule["alert"].startswith("Gpu") and rule["alert"] != "GpuLost" else [])
    for word in whose:
        assert word in notes["summary"] and word in notes["description"]
    assert "$value" in notes["description"]
    assert "`" in notes["runbook"] or "owner" in notes["runbook"]


def test_every_rule_does_what_its_tests_say():
    done = promtool("test", "rules", TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


def vectors_of(name):
    return [test for test in load(TESTS)["tests"] if re.fullmatch(re.escape(name) + r"(: .*)?", test["name"])]


@pytest.mark.parametrize("rule", rules(), ids=name_of)
def test_every_rule_is_tested_both_ways(rule):
    found = vectors_of(name_of(rule))
    assert found, "no test"
    if "alert" in rule:
        seen = [bool(one["exp_alerts"]) for test in found for one in test["alert_rule_test"]
                if one["alertname"] == rule["alert"]]
        assert True in seen and False in seen
        for test in found:  # what is said is compared as well
            for one in test["alert_rule_test"]:
                for alert in one["exp_alerts"]:
                    assert set(alert["exp_annotations"]) == {"summary", "description", "runbook"}
    else:
        assert any(one["exp_samples"] for test in found for one in test["promql_expr_test"])


# --- and the tests can fail --------------------------------------------------------------------------


def mutants(rule):
    """(what was there, what is there now, the rule) for each single change."""
    text = rule["expr"]
    quoted = [match.span() for match in re.finditer(r"\{[^}]*\}|\[[^\]]*\]|\([a-z_, ]*\)", text)]

    def outside(match):
        return not any(start <= match.start() < end for start, end in quoted)

    def changed(match, now):
        return match.group(0), now, {**rule, "expr": text[:match.start()] + now + text[match.end():]}

    for match in re.finditer(r"(?<![\w:.])(\d+(?:\.\d+)?)(?![\w.])", text):
        if outside(match):
            number = float(match.group(1))
            before = re.search(r"(>|<|==|\*|-) *$", text[:match.start()])
            shown = (before.group(1) + " " if before else "") + match.group(1)
            for now in (number * 10 + 100, number / 10 if number else -100):
                _, _, mutant = changed(match, f"({now:g})")
                yield shown, f"{before.group(1) + ' ' if before else ''}{now:g}", mutant
    for match in re.finditer(r"==|>|<", text):
        if outside(match):
            number = re.match(r" *(\d+(?:\.\d+)?)", text[match.end():])
            tail = " " + number.group(1) if number else ""
            for now in {">": ("<=",), "<": (">=",), "==": ("!=",)}[match.group(0)]:
                _, _, mutant = changed(match, now)
                yield match.group(0) + tail, now + tail, mutant
    for match in re.finditer(r'(\w+)=~?"([^"]*)",?', text):
        for words in [None] if "|" not in match.group(2) else [None, *match.group(2).split("|")]:
            kept = [word for word in match.group(2).split("|") if word != words]
            yield changed(match, "" if words is None else f'{match.group(1)}=~"{"|".join(kept)}"'
                          + ("," if match.group(0).endswith(",") else ""))
    if "for" in rule:
        yield f"for: {rule['for']}", "for: 0", {key: value for key, value in rule.items() if key != "for"}
    if "record" in rule:
        yield text, f"2 * ({text})", {**rule, "expr": f"2 * ({text})"}
        yield text, f"-({text})", {**rule, "expr": f"0 - ({text})"}


@pytest.mark.skipif(not os.environ.get("RULES_MUTANTS"), reason="the suite rules_mutants does this")
@pytest.mark.parametrize("rule", rules(), ids=name_of)
def test_a_changed_rule_is_noticed(tmp_path, rule):
    groups = load(RULES)["groups"]
    found = vectors_of(name_of(rule))
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({
        "rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": found}), encoding="utf-8")
    survivors, count = [], 0
    for was, now, mutant in mutants(rule):
        if (name_of(rule), was, now) in SAME:
            continue
        # its own recording rules stay: GpuMemoryAlmostFull reads one
        broken = [{**group, "rules": [mutant if name_of(one) == name_of(rule) else one for one in group["rules"]
                                      if "record" in one or name_of(one) == name_of(rule)]} for group in groups]
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": broken}), encoding="utf-8")
        assert promtool("check", "rules", tmp_path / "rules.yaml").returncode == 0, (was, now, mutant["expr"])
        count += 1
        if promtool("test", "rules", tmp_path / "tests.yaml").returncode == 0:
            survivors.append(f"{was} -> {now}")
    assert count >= 2 and not survivors
