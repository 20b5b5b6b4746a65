# SPDX-License-Identifier: Apache-2.0
"""The commands of doc/migrate-queue.md, as they stand there."""

import pathlib
import re

from conftest import SLUICE

DOCUMENT = pathlib.Path(__file__).parents[2] / "doc" / "migrate-queue.md"


def commands():
    """Of the right column of its tables."""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and "`sluice " in line:
            yield from re.findall(r"`(sluice [^`]*)`", line.replace(r"\|", "/").rsplit("|", 2)[1])


def test_every_command_works(machine):
    machine.start("dgx-a100", "--gpus", "2")
    machine.agent()
    (machine.directory / "gpu_commands.txt").write_text("true\necho $SLUICE_GPUS\n")
    found = list(commands())
    assert len(found) >= 20
    path = f"{pathlib.Path(SLUICE).parent}:{machine.env['PATH']}"
    for command in found:
        done = machine.submit("true", gpus=0)
        machine.job_in(done, "Succeeded")
        if "set ID" in command:  # of one that waits
            machine.run("sluice", "jobs", "drain").ok()
            done = machine.submit("true", gpus=0)
        line = re.sub(r"\bID\b", str(done), command)
        reply = machine.run("sh", "-c", line, env={"PATH": path}, cwd=machine.directory)
        assert reply.rc == 0, (line, reply)
        if "drain" in command or "set ID" in command:
            machine.run("sluice", "jobs", "resume").ok()
