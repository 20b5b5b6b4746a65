# SPDX-License-Identifier: Apache-2.0
"""tools/check and .ci/run count truthfully and fail when anything fails. Meson, make and the fuzzer
are pretended here; the scripts are the real ones."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import TOOLS

SUMMARY = "printf 'Ok:                 {ok}   \\nExpected Fail:      0   \\nFail:               {bad}   \\n" \
          "Unexpected Pass:    0   \\nSkipped:            {skip}   \\nTimeout:            {late}   \\n'"


class Project:
    def __init__(self, root):
        self.root = root
        self.bin = root / "bin"
        for folder in ("bin", "tools", ".ci", "build"):
            (root / folder).mkdir()
        for tool in ("check", "failures", "again", "durations"):
            shutil.copy(os.path.join(TOOLS, tool), root / "tools")
        shutil.copy(os.path.join(TOOLS, "..", ".ci", "run"), root / ".ci")
        (root / "build" / "build.ninja").write_text("")
        self.program("bin/clang", "exit 0")
        self.program("bin/gcc", "exit 0")
        self.program("tools/setup", "exit 0")
        self.program("tools/sanitized-build", "exit 0")
        (root / "build/src/cmd").mkdir(parents=True)
        self.program("build/src/cmd/sluice", 'echo "$*" >>"$0.calls"')
        (root / "tests/conformance").mkdir(parents=True)
        self.program("tests/conformance/run", 'echo "$*" >>"$0.calls"')
        self.fuzz()
        self.meson()
        self.make()

    def program(self, name, text):
        path = self.root / name
        path.write_text("#!/bin/bash\n" + text + "\n")
        path.chmod(0o755)

    def fuzz(self, passed=2, failed=0):
        self.program("tools/fuzz", f"echo '{passed} passed, {failed} failed'; exit {min(failed, 1)}")

    def meson(self, ok=5, bad=0, skip=0, late=0, compiles=True, status=None):
        """`meson test` in build/ answers as said; in build-asan/ three tests pass."""
        status = (1 if bad or late else 0) if status is None else status
        tests = SUMMARY.format(ok=ok, bad=bad, skip=skip, late=late)
        sanitized = SUMMARY.format(ok=3, bad=0, skip=0, late=0)
        self.program("bin/meson", f"""
case "$*" in
test*--timeout-multiplier*unit/steady_now) exit 0 ;;
test*--timeout-multiplier*unit/broken) exit 1 ;;
setup*) mkdir -p "$2"; : >"$2/build.ninja" ;;
compile*) exit {0 if compiles else 1} ;;
introspect*) echo '[{{"name": "unit/a", "suite": ["fast"]}}]' ;;
*build-asan*) {sanitized} ;;
test*slow*) mkdir -p build/meson-logs; {tests} | tee build/meson-logs/testlog.txt; exit {status} ;;
test*) {tests}; exit {status} ;;
esac""")

    def make(self, **answers):
        """What the targets of the Makefile print and how they end."""
        cases = "".join(f"{target}*) echo '{text}'; exit {status} ;;\n"
                        for target, (text, status) in answers.items())
        self.program("bin/make", f'case "$*" in\n{cases}esac\nexit 0')

    def run(self, script):
        return subprocess.run([self.root / script], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"})


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def last_line(result):
    return result.stdout.splitlines()[-1]


def test_check_adds_up_what_the_runners_counted(project):
    result = project.run("tools/check")
    # one for the build, five tests, three sanitized
    assert (result.returncode, last_line(result)) == (0, "9 passed, 0 failed"), result.stdout


@pytest.mark.parametrize("meson, expected", [
    ({"ok": 4, "bad": 1}, "8 passed, 1 failed"),
    ({"ok": 4, "late": 1}, "8 passed, 1 failed"),
    ({"ok": 5, "status": 1}, "9 passed, 1 failed"),  # the runner failed and named no test
    ({"compiles": False}, "0 passed, 1 failed"),
])
def test_check_fails_when_anything_fails(project, meson, expected):
    project.meson(**meson)
    result = project.run("tools/check")
    assert (result.returncode, last_line(result)) == (1, expected), result.stdout


def test_check_says_what_was_skipped(project):
    project.meson(ok=4, skip=2)
    assert "check: 2 skipped" in project.run("tools/check").stdout


def test_ci_prints_each_stage_and_the_sum(project):
    project.make(check=("7 passed, 0 failed", 0), soak=("seed 1\n6 passed, 0 failed", 0))
    result = project.run(".ci/run")
    # setup, configure, demo, programs, conformance, page and packages count as one each; five slow tests, two fuzz targets
    assert (result.returncode, last_line(result)) == (0, "27 passed, 0 failed"), result.stdout
    for gate in ("ci_demo N min <= 5", "ci_check N min <= 15", "ci_page N min <= 10", "ci_standing N min <= 50", "ci_total N min <= 60"):
        assert f"gate {gate} ok" in re.sub(r"\d+\.\d min", "N min", result.stdout)


def test_ci_checks_beside_a_machine_and_takes_it_away(project):
    assert project.run(".ci/run").returncode == 0
    calls = (project.root / "build/src/cmd/sluice.calls").read_text().splitlines()
    assert (calls[0], calls[-1]) == ("sim start --profile dgx-a100", "sim stop")
    assert sorted(calls[1:-1]) == ["agent", "agent stop"]


def test_ci_builds_what_conformance_needs_beside_the_slow_tests(project):
    said = project.run(".ci/run").stdout
    assert (project.root / "tests/conformance/run.calls").read_text() == "--install\n"
    stages = re.findall("^=== ([a-z]+)(?:: |, beside)", said, re.MULTILINE)
    assert stages.index("programs") < stages.index("slow") < stages.index("conformance")

    project.program("tests/conformance/run", "exit 2")
    result = project.run(".ci/run")
    assert (result.returncode, last_line(result).split(", ")[1]) == (1, "1 failed"), result.stdout


@pytest.mark.parametrize("answers, expected", [
    ({"check": ("6 passed, 1 failed", 1)}, "21 passed, 1 failed"),
    ({"check": ("7 passed, 0 failed", 1)}, "22 passed, 1 failed"),
    ({"demo": ("no GPU", 3)}, "15 passed, 1 failed"),
])
def test_ci_fails_when_a_stage_fails(project, answers, expected):
    project.make(**answers)
    result = project.run(".ci/run")
    assert (result.returncode, last_line(result)) == (1, expected), result.stdout


def test_check_fails_when_clang_warns(project):
    project.program("tools/sanitized-build", "exit 1")
    result = project.run("tools/check")
    assert (result.returncode, last_line(result)) == (1, "6 passed, 1 failed"), result.stdout


def test_ci_has_the_warnings_of_gcc_as_errors(project):
    assert "meson setup build --werror" in project.run(".ci/run").stdout


def test_ci_fuzzes_beside_the_slow_tests(project):
    project.program("tools/fuzz", "while [ ! -e slow ]; do sleep 0.01; done; echo '2 passed, 0 failed'")
    project.program("bin/meson", 'case "$*" in *slow*) : >slow ;; esac; exit 0')
    result = project.run(".ci/run")
    assert result.returncode == 0, result.stdout
    assert result.stdout.index("=== fuzz, beside") < result.stdout.index("=== slow") < result.stdout.index("=== fuzz, which")


def test_ci_fails_when_a_fuzzer_finds_something(project):
    project.fuzz(passed=1, failed=1)
    result = project.run(".ci/run")
    assert result.returncode == 1 and "1 failed" in last_line(result), result.stdout


def test_ci_names_at_its_end_what_failed(project):
    lines = [" 3/99 sluice:fast / e2e/probe   FAIL  30.1 s   exit status 1", "E       assert 1 == 2", "ok: e2e/other"]
    project.make(check=("\n".join(lines) + "\n6 passed, 1 failed", 1))
    said = project.run(".ci/run").stdout
    at_end = said[said.index("--- check\n"):]
    assert lines[0] in at_end and lines[1] in at_end and lines[2] not in at_end, said


@pytest.mark.parametrize("failed, expected", [
    (["unit/steady_now"], "22 passed, 0 failed"),
    (["unit/broken"], "21 passed, 1 failed"),
    (["unit/steady_now", "unit/broken"], "20 passed, 2 failed"),
    (["unit/steady_now"] * 3, "19 passed, 3 failed"),  # more than are allowed
])
def test_ci_tells_what_is_unsteady(project, failed, expected):
    (project.root / "build/meson-logs").mkdir()
    (project.root / "build/meson-logs/testlog.json").write_text("".join(
        f'{{"name": "sluice:fast / {name}", "result": "FAIL"}}\n' for name in failed))
    project.make(check=(f"{7 - len(failed)} passed, {len(failed)} failed", 1))
    result = project.run(".ci/run")
    assert last_line(result) == expected, result.stdout
    assert result.returncode == (0 if expected.endswith(" 0 failed") else 1)
    if result.returncode == 0:
        end = result.stdout[result.stdout.index("--- check-again\n"):]
        assert "unsteady: unit/steady_now\n" in end and "unsteady tests: 1 of 2 allowed" in end


def test_again_runs_the_cases_of_conformance_by_themselves(project):
    project.program("tests/conformance/run", 'echo "$*" >>"$0.calls"; [ "$2" != "cdi bad" ]')
    project.make(conformance=("ok   a: FAIL\nFAIL grpc odd case\n     why\n3 passed, 1 failed", 2))
    result = project.run(".ci/run")
    assert (result.returncode, "unsteady: grpc odd case" in result.stdout) == (0, True), result.stdout
    assert (project.root / "tests/conformance/run.calls").read_text().splitlines() == ["--install", "--only grpc odd case"]
    project.make(conformance=("FAIL cdi bad\n     this is why\n3 passed, 1 failed", 2))
    result = project.run(".ci/run")
    assert result.returncode == 1
    assert "FAIL cdi bad\n     this is why\n" in result.stdout[result.stdout.index("--- conformance\n"):]


def test_tests_that_take_long_are_named(project):
    (project.root / "build/meson-logs").mkdir()
    (project.root / "build/meson-logs/testlog.json").write_text(
        '{"name": "sluice:fast / e2e/long", "duration": 21.25}\n{"name": "sluice:fast / e2e/short", "duration": 19.9}\n'
        '{"name": "sluice:fast / e2e/longer", "duration": 40}\n')
    result = project.run("tools/check")
    named = [line for line in result.stdout.splitlines() if line.startswith("longest: ")]
    assert named == ["longest:   40.0 s e2e/longer", "longest:   21.2 s e2e/long"], result.stdout


def test_failures_names_no_log_without_one(tmp_path):
    good = tmp_path / "good"
    good.write_text("1/1 unit/a OK 0.1 s\nFail:               0   \n")
    result = subprocess.run([os.path.join(TOOLS, "failures"), good], capture_output=True, text=True, check=True)
    assert result.stdout == ""


def test_conformance_and_cluster_compile_one_kubernetes():
    """Of two releases Go would compile the same packages twice, which takes minutes."""
    def kubernetes(module):
        with open(os.path.join(TOOLS, "..", "tests", module, "go.mod"), encoding="utf-8") as file:
            return re.search(r"k8s.io/kubernetes (v[0-9.]+)", file.read()).group(1)

    wanted = kubernetes("cluster/go/k8s")
    assert {kubernetes(f"conformance/{kind}/newest") for kind in ("kubelet", "manifests")} == {wanted}
