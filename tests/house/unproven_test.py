# SPDX-License-Identifier: Apache-2.0
"""tools/unproven: the page lists what the profiles mark, and a difference is noticed."""

PROFILE = """# A machine. Guesses are marked "unverified".
[machine]
name = two
bus = 01 02	# unverified
numa = 0 0
[model a]	# this one is known
memory_mib = 100	# unverified: from an advertisement
clock = 5	# from a data sheet
clock = 6	# unverified
[model b]	# unverified
memory_mib = 7
"""
PAGE = "Before.\n<!-- made by tools/unproven --write -->\n{}<!-- end -->\nAfter.\n"
TABLE = """| profile | section | figures that nobody has compared with hardware |
|---|---|---|
| two | machine | bus |
|  | model a | memory_mib, clock |
|  | model b | all of it |
"""


def test_the_page_follows_the_profiles(tree):
    tree.write("sim/profiles/two.profile", PROFILE)
    tree.write("doc/unproven.md", PAGE.format(""))
    assert tree.run("unproven").returncode == 1
    assert tree.run("unproven", "--write").returncode == 0
    assert (tree.root / "doc/unproven.md").read_text() == PAGE.format(TABLE)
    assert tree.run("unproven").returncode == 0
    tree.write("sim/profiles/two.profile", PROFILE.replace("numa = 0 0", "numa = 0 0  # unverified"))
    result = tree.run("unproven")
    assert result.returncode == 1 and "run tools/unproven --write" in result.stdout


def test_a_profile_that_is_a_guess_as_a_whole(tree):
    tree.write("sim/profiles/one.profile", "# One.\n# All of it is unverified: a guess.\n[machine]\nbus = 1\n")
    tree.write("doc/unproven.md", PAGE.format(""))
    tree.run("unproven", "--write")
    assert "| one | everything | all of it |" in (tree.root / "doc/unproven.md").read_text()


def test_a_page_without_the_marks(tree):
    tree.write("doc/unproven.md", "Nothing.\n")
    assert tree.run("unproven", "--write").returncode == 1
