# SPDX-License-Identifier: Apache-2.0
"""tools/picture draws what a command printed, all of it and nothing else."""

import os
import subprocess
import xml.etree.ElementTree as xml

from conftest import TOOLS


def draw(tmp_path, script, *options):
    output = tmp_path / "out.svg"
    result = subprocess.run([os.path.join(TOOLS, "picture"), "--title", "a <run>", *options, output,
                             "--", "sh", "-c", script], capture_output=True, text=True, check=False)
    if not output.exists():
        return result, None
    texts = [element.text for element in xml.parse(output).iter("{http://www.w3.org/2000/svg}text")]
    return result, texts


def test_lines_as_printed(tmp_path):
    result, texts = draw(tmp_path, r"printf 'GPU  <0> & more\n\n\033[31mred\033[0m\n10 %%\r100 %%\n'; echo err >&2")
    assert result.returncode == 0, result.stderr
    assert texts == ["a <run>", "GPU  <0> & more", "red", "100 %", "err"]


def test_kept_lines_show_what_was_left_out(tmp_path):
    _, texts = draw(tmp_path, "seq 10", "--keep", "1:2", "--keep", "5:6")
    assert texts[1:] == ["1", "2", "…", "5", "6", "…"]
    _, texts = draw(tmp_path, "seq 3", "--keep", "1:9")
    assert texts[1:] == ["1", "2", "3"]
    _, texts = draw(tmp_path, "seq 9", "--keep", "1:2", "--keep=-2:-1")
    assert texts[1:] == ["1", "2", "…", "8", "9"]
    _, texts = draw(tmp_path, "seq 3", "--keep", "1:2", "--keep=-3:-1")
    assert texts[1:] == ["1", "2", "3"]


def test_a_command_that_fails_is_not_drawn(tmp_path):
    result, texts = draw(tmp_path, "echo no GPU; exit 3")
    assert (result.returncode, texts) == (1, None)
    assert "no GPU" in result.stderr
