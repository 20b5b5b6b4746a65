# SPDX-License-Identifier: Apache-2.0
"""sluice under the name nvidia-container-cli: what it prints is what NVIDIA's program of that name
prints."""

import pytest

from conftest import SLUICE

NAME = "nvidia-container-cli"
LABELS = ["Device Index", "Device Minor", "Model", "Brand", "GPU UUID", "Bus Location", "Architecture"]


@pytest.fixture
def cli(machine, tmp_path):
    """Calls it by a link of that name, on the machine."""
    link = tmp_path / NAME
    link.symlink_to(SLUICE)

    def call(*arguments, **more):
        return machine.run(link, *arguments, **more)
    return call


def bus(gpu):
    """NVML's form: eight digits of the domain."""
    return f"0000{gpu['bus']}".lower()


@pytest.mark.parametrize("profile, brand, architecture", [
    ("dgx-a100", "Nvidia", "8.0"), ("t4x4", "Tesla", "7.5"), ("workstation", "GeForce", "8.9"),
    ("a100-mig", "Nvidia", "8.0")])
def test_info(machine, cli, profile, brand, architecture):
    machine.start(profile)
    truth = machine.run("sluice", "devices", "--output", "json").ok().json
    rows = [[str(gpu["index"]), str(gpu["minor"]), gpu["name"], brand, gpu["uuid"], bus(gpu),
             architecture] for gpu in truth["gpus"]]
    versions = [truth["driver_version"], truth["cuda_version"]]

    head = f"NVRM version:   {versions[0]}\nCUDA version:   {versions[1]}\n"
    blocks = ["".join(f"{label + ':':15} {value}\n" for label, value in zip(LABELS, row))
              for row in rows]
    assert cli("info").ok().out == "\n".join([head, *blocks])
    assert cli("-k", "-d", "/dev/tty", "-r", "/", "info").ok().out == "\n".join([head, *blocks])

    table = [["NVRM version", "CUDA version"], versions, [], LABELS, *rows]
    csv = "".join(",".join(row) + "\n" for row in table)
    assert cli("--load-kmods", "info", "--csv").ok().out == csv


def test_no_configure(machine, cli):
    """However it is called, one sentence and nothing done."""
    machine.start("t4x1")
    for before in ([], ["-k", "--user", "--no-pivot"], ["--ldcache=/etc/ld.so.cache", "-u0:0"]):
        reply = cli(*before, "configure", "--ldconfig=@/sbin/ldconfig", "--device=all", "--pid=1", "/")
        assert reply.rc == 64 and reply.out == ""
        assert len(reply.err.splitlines()) == 1 and "'sluice cdi generate'" in reply.err


def test_wrong_command_lines(machine, cli):
    machine.start("t4x1")
    for words in ([], ["-k"], ["inof"], ["info", "x"], ["info", "--frob"], ["--frob", "info"],
                  ["info", "-k"], ["-r"]):
        reply = cli(*words)
        assert reply.rc == 64 and reply.out == "" and reply.err.startswith(NAME), reply
    assert "did you mean 'info'?" in cli("inof").err
    assert "Usage: nvidia-container-cli" in cli("--help").ok().out
    assert "--csv" in cli("info", "--help").ok().out
    assert cli("-V").ok().out.startswith("cli-version: ")


def test_no_driver(machine, cli):
    machine.start("t4x1")
    machine.sim("inject", "no-driver")
    reply = cli("info")
    assert reply.rc == 69 and reply.out == "" and "driver" in reply.err
