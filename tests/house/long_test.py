# SPDX-License-Identifier: Apache-2.0
"""tools/long: what ran is written down, and what is missing, failed or out of date is noticed."""

import subprocess

import pytest

PAGE = "Before.\n<!-- made by tools/long -->\n<!-- end of tools/long -->\nAfter.\n"
TABLE = "# comment\none | src/a | echo 3 passed; echo; echo see the log\ntwo | src/a src/b | sh -c 'echo broke; exit 3'\n"


@pytest.fixture
def long(tree):
    tree.write("tests/long/table", TABLE.replace("sh -c 'echo broke; exit 3'", "echo fine"))
    tree.write("doc/measurements.md", PAGE)
    tree.write("src/a/a.c", "a")
    tree.write("src/b/b.c", "b")
    tree.git = lambda *words, date="2026-01-01": subprocess.run(
        ["git", "-C", tree.root, "-c", "user.name=n", "-c", "user.email=e", *words], check=True, capture_output=True,
        env={"PATH": "/usr/bin:/bin", "GIT_COMMITTER_DATE": f"{date}T12:00:00Z", "GIT_AUTHOR_DATE": f"{date}T12:00:00Z"})
    tree.page = lambda: (tree.root / "doc/measurements.md").read_text()
    return tree


def commit(long, date):
    long.git("add", "-A")
    long.git("commit", "-qm", "c", "--allow-empty", date=date)


def record(long, date):
    """Both ran on that day."""
    rows = "".join(f"| {name} | {date} | abc | 1.0 | ok: x |\n" for name in ("one", "two"))
    long.write("doc/measurements.md", PAGE.replace("<!-- end of", f"{rows}<!-- end of"))


def test_a_run_is_written_down(long):
    assert long.run("long", "--check").stdout.count("it has no record") == 2
    assert long.run("long", "all").returncode == 0
    assert long.page().startswith("Before.\n") and long.page().endswith("-->\nAfter.\n")
    assert "| unknown | 0.0 | ok: 3 passed |" in long.page() and long.page().index("| one |") < long.page().index("| two |")
    result = long.run("long", "--check")
    assert result.returncode == 0 and result.stdout.count("is not known here") == 2, result.stdout


def test_a_failure_is_written_down_and_is_none_the_less_one(long):
    long.write("tests/long/table", TABLE)
    result = long.run("long", "all")
    assert (result.returncode, result.stdout.splitlines()[-1]) == (1, "1 passed, 1 failed")
    assert "| FAILED (3): broke |" in long.page()
    assert "two: at unknown it ended with: FAILED (3): broke" in long.run("long", "--check").stdout


@pytest.mark.parametrize("date, stale", [("2026-03-02", 0), ("2026-03-03", 1)])
def test_a_record_holds_thirty_days_beyond_a_change(long, date, stale):
    long.git("init", "-q")
    commit(long, "2026-01-01")
    record(long, "2026-01-31")
    long.write("src/b/b.c", "other")
    commit(long, date)
    result = long.run("long", "--check")
    assert result.returncode == stale, result.stdout
    assert result.stdout.count("two: it ran on 2026-01-31") == stale
    assert "one: when src/a was changed last is not known here; it ran on 2026-01-31" in result.stdout  # by a commit without a parent


def test_names_that_do_not_match(long):
    record(long, "2026-01-01")
    long.write("tests/long/table", "one | src/a | true\nthree | src/none | true\n")
    result = long.run("long", "--check")
    assert result.returncode == 1
    assert "three: it guards src/none, which is not there" in result.stdout and "two: doc/measurements.md has a record" in result.stdout
    assert long.run("long", "four").returncode != 0
