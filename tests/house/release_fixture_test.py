# SPDX-License-Identifier: Apache-2.0
"""tools/release-fixture --check: a version whose files nobody has kept is noticed."""

WANTED = ("state.tar.xz", "jobs.json", "machine.profile", "launch/4.1", "config/agent.yaml")


def test_a_version_has_its_files(tree):
    tree.write("meson.build", "project('sluice', 'c',\n  version: '1.2.3',\n  meson_version: '>=0.61')\n")
    result = tree.run("release-fixture", "--check")
    assert result.returncode == 1 and "tests/fixtures/releases/1.2.3 has no state.tar.xz" in result.stdout
    for name in WANTED:
        tree.write(f"tests/fixtures/releases/1.2.3/{name}", "x")
    assert tree.run("release-fixture", "--check").returncode == 0
    tree.write("meson.build", "project('sluice', 'c',\n  version: '1.2.4',\n  meson_version: '>=0.61')\n")
    assert tree.run("release-fixture", "--check").returncode == 1


def test_an_incomplete_folder(tree):
    tree.write("meson.build", "project('sluice', 'c',\n  version: '1.2.3')\n")
    for name in WANTED[1:]:
        tree.write(f"tests/fixtures/releases/1.2.3/{name}", "x")
    result = tree.run("release-fixture", "--check")
    assert result.returncode == 1 and "has no state.tar.xz:" in result.stdout
