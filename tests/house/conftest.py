# SPDX-License-Identifier: Apache-2.0
"""A small tree that keeps every rule, for the tests to break in one place."""

import os
import shutil
import subprocess

import pytest

TOOLS = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "tools"))

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"


class Tree:
    def __init__(self, root):
        self.root = root

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def run(self, tool, *arguments):
        return subprocess.run([os.path.join(TOOLS, tool), "--root", str(self.root), *arguments],
                              capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path):
    tree = Tree(tmp_path)
    tree.write("README.md", "A tree.\n")
    tree.write("src/base/text.h", LICENCE + "#include <stddef.h>\n\nint text_length(size_t length);\n")
    tree.write("src/base/text.c", LICENCE + '#include "base/text.h"\n\n'
               "int text_length(size_t length)\n{\n\treturn length > 3;\n}\n")
    tree.write("src/base/calls.def", "CALL(text_length)\n")
    tree.write("tests/unit/base/text_test.c", LICENCE + '#include "base/text.h"\n')
    shutil.copy(os.path.join(TOOLS, "..", ".clang-format"), tmp_path)
    return tree
