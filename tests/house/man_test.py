# SPDX-License-Identifier: Apache-2.0
"""tools/man-page puts a page together from the command table and a hand-written part;
tools/check-man finds pages that are missing, stale or broken."""

import json
import os
import shutil
import subprocess

import pytest

from conftest import TOOLS

COMMAND = {
    "name": "count_gpus", "path": "sluice count_gpus", "summary": "Count *all* the GPUs",
    "description": "First part\nof it.\n\n#2 is no heading, nor is this - a list.", "group": "machine",
    "usage": ["sluice count_gpus [OPTION...] [NAME...]"],
    "options": [
        {"name": "output", "letter": "o", "kind": "choice", "value": "table|json", "words": [],
         "required": False, "repeats": True, "help": "how to print a_b_c"},
        {"name": "help", "letter": "h", "kind": "flag", "value": None, "words": [],
         "required": False, "repeats": False, "help": "show this text"}],
    "exits": [{"code": 0, "meaning": "it worked"}, {"code": 3, "meaning": "none of them"}],
    "examples": [{"line": "sluice count_gpus | wc -l", "what": "how many"}],
    "commands": [],
}
VERB = dict(COMMAND, name="now", path="sluice count_gpus now",
            usage=["sluice count_gpus now [OPTION...]"])
HAND_WRITTEN = "It goes on.\n\n# FILES\n\n_/proc_\n\tThe processes.\n"

needs = pytest.mark.skipif(not (shutil.which("scdoc") and shutil.which("man")),
                           reason="scdoc or man is not installed")


def make(folder, *commands, hand_written=HAND_WRITTEN, page="count_gpus"):
    dump, source = folder / "dump.json", folder / "page.scd"
    dump.write_text(json.dumps({"program": "sluice", "version": "1", "commands": commands,
                                "exits": [{"code": 65, "meaning": "it cannot be read"}]}))
    source.write_text(hand_written)
    arguments = [page] if page else []
    return subprocess.run([os.path.join(TOOLS, "man-page"), dump, source, *arguments],
                          capture_output=True, text=True, check=False)


def build(folder, name, scdoc_text):
    pages = folder / "pages"
    pages.mkdir(exist_ok=True)
    built = subprocess.run(["scdoc"], input=scdoc_text, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (pages / name).write_text(built.stdout)
    return pages


def check(folder):
    return subprocess.run([os.path.join(TOOLS, "check-man"), folder / "dump.json", folder / "pages"],
                          capture_output=True, text=True, check=False)


def both_pages(tmp_path, command):
    result = make(tmp_path, command, page=None)
    build(tmp_path, "sluice.1", result.stdout)
    return build(tmp_path, "sluice-count_gpus.1", make(tmp_path, command).stdout)


@needs
def test_a_page_says_what_the_table_says(tmp_path):
    pages = both_pages(tmp_path, dict(COMMAND, commands=[VERB]))
    text = subprocess.run(["man", "-l", pages / "sluice-count_gpus.1"], capture_output=True,
                          text=True, check=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}).stdout
    lines = [line.strip() for line in text.splitlines()]
    for expected in ["sluice-count_gpus - Count *all* the GPUs",
                     "sluice count_gpus [OPTION...] [NAME...]", "First part of it.",
                     "#2 is no heading, nor is this - a list.", "It goes on.",
                     "-o, --output table|json", "How to print a_b_c. May be given more than once.",
                     "The processes.", "3", "None of them.", "sluice count_gpus | wc -l",
                     "sluice count_gpus now", "sluice count_gpus now [OPTION...]"]:
        assert expected in lines, text
    assert lines.index("OPTIONS") < lines.index("FILES") < lines.index("EXIT STATUS")
    result = check(tmp_path)
    assert (result.returncode, result.stdout) == (0, "check-man: 1 commands, 0 findings\n")


@needs
def test_the_overview_has_the_codes_of_all_commands(tmp_path):
    made = make(tmp_path, hand_written="All of it.\n\n# EXIT STATUS\n\n@EXITS@\n", page=None)
    assert (made.returncode, made.stderr) == (0, "")
    assert "# EXIT STATUS\n\n*65*\n\tIt cannot be read.\n" in made.stdout


def test_missing_and_stale_pages(tmp_path):
    pages = both_pages(tmp_path, COMMAND)
    (pages / "sluice-count_gpus.1").rename(pages / "sluice-count.1")
    result = check(tmp_path)
    assert result.returncode == 1
    assert "sluice-count_gpus.1: there is no such page" in result.stdout
    assert "sluice-count.1: there is no such command" in result.stdout


@needs
def test_pages_of_files_are_rendered_too(tmp_path):
    pages = both_pages(tmp_path, COMMAND)
    build(tmp_path, "sluice.yaml.5", "sluice.yaml(5)\n\n# NAME\n\nsluice.yaml - a file\n")
    assert check(tmp_path).returncode == 0
    (pages / "sluice.yaml.5").write_text((pages / "sluice.yaml.5").read_text() + "\n.nosuchmacro\n")
    assert "sluice.yaml.5: " in check(tmp_path).stdout


@needs
def test_a_warning_of_the_formatter_is_a_finding(tmp_path):
    pages = both_pages(tmp_path, COMMAND)
    page = pages / "sluice-count_gpus.1"
    page.write_text(page.read_text() + "\n.nosuchmacro\n")
    result = check(tmp_path)
    assert result.returncode == 1
    assert "sluice-count_gpus.1: " in result.stdout and "nosuchmacro" in result.stdout


def test_a_page_without_a_command(tmp_path):
    result = make(tmp_path, COMMAND, page="nothing")
    assert result.returncode == 1
    assert "sluice has no command 'nothing'" in result.stderr
