# SPDX-License-Identifier: Apache-2.0
"""What the house tools share: which files belong to the tree, and C text without its comments."""

import os
import re
import subprocess

SOURCE_ROOTS = ("src", "sim", "libexec", "perf", "tests")

_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)

_ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\) ?(?!\))")


def without_comments(text, keep_strings=False):
    """C text with comments (and string contents) blanked; every line keeps its number."""

    def blank(match):
        token = match.group(0)
        if token[0] in "\"'":
            return token if keep_strings else token[0] * 2
        return re.sub(r"[^\n]", " ", token)

    return _TOKENS.sub(blank, text)


def functions(code):
    """The line of each function's opening brace, and the lines of its body; `code` has no comments."""
    lines = code.splitlines()
    opened = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            opened = number
        elif line == "}" and opened:
            yield opened, lines[opened:number - 1]
            opened = None


def definitions(code):
    """Name and line of each function that is not static; `code` has no comments."""
    lines = code.splitlines()
    for opened, _ in functions(code):
        first = opened - 1
        while first > 0 and lines[first - 1].strip() and not lines[first - 1].endswith((";", "}")) and lines[first - 1][0] != "#":
            first -= 1
        head = _ATTRIBUTE.sub("", " ".join(lines[first:opened - 1]))
        name = re.search(r"(\w+) ?\(", head)
        if name and not re.match(r"(static|ALWAYS_INLINE)\b", head):
            yield name.group(1), first + 1


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
