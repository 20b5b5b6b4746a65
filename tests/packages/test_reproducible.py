# SPDX-License-Identifier: Apache-2.0
"""Who builds the same tree gets the same bytes: in another directory, at another time, with other surroundings."""

import os
import pathlib
import shutil
import tempfile

import pytest

from conftest import BUILT, ROOT, needs, package, run


@pytest.fixture(scope="module")
def again():
    """The directory of a second build, whose surroundings are all other ones."""
    needs("dpkg-buildpackage")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-", dir="/var/tmp"))
    env = {**os.environ, "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "HOME": str(directory), "USER": "somebody"}
    try:
        run("sh", "-c", 'umask 077 && exec "$0" "$@"', ROOT / "tools/deb", "--work",
            directory / "elsewhere/and/deeper", "--output", directory / "out", env=env, timeout=900)
        yield directory / "out"
    finally:
        shutil.rmtree(directory)


@pytest.mark.parametrize("name", ["sluice", "sluice-dbgsym"])
def test_the_deb_is_the_same(again, name):
    first, = BUILT.glob(f"{name}_*.deb")
    second = again / first.name
    assert first.stat().st_mtime != second.stat().st_mtime
    is_same = first.read_bytes() == second.read_bytes()
    assert is_same, f"diffoscope {first} {second}"


def test_no_path_of_the_build_is_in_it(tmp_path):
    run("dpkg-deb", "--extract", package(), tmp_path)
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert str(ROOT).encode() not in path.read_bytes(), path
