# SPDX-License-Identifier: Apache-2.0
"""What the house tools share: which files belong to the tree, and C text without its comments."""

import os
import re
import subprocess

SOURCE_ROOTS = ("src", "sim", "libexec", "perf", "tests")

_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)


def without_comments(text, keep_strings=False):
    """C text with comments (and string contents) blanked; every line keeps its number."""

    def blank(match):
        token = match.group(0)
        if token[0] in "\"'":
            return token if keep_strings else token[0] * 2
        return re.sub(r"[^\n]", " ", token)

    return _TOKENS.sub(blank, text)


def tree_files(root):
    """Paths below `root`, relative to it: what git tracks or would track; all files without git."""
    if os.path.exists(os.path.join(root, ".git")):
        listing = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"],
            check=True, capture_output=True).stdout.decode()
        paths = set(path for path in listing.split("\0") if path)
    else:
        paths = set()
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in (".git", "__pycache__")
                          and not name.startswith("build")]
            for name in names:
                paths.add(os.path.relpath(os.path.join(folder, name), root))
    return sorted(path for path in paths if os.path.isfile(os.path.join(root, path)))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def is_c(path):
    return path.endswith((".c", ".h"))


def in_source_roots(path):
    return path.split("/")[0] in SOURCE_ROOTS
