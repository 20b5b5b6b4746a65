# SPDX-License-Identifier: Apache-2.0
"""Every point between two steps of the queue's protocol, once: the agent or a supervisor dies there as
by kill -9, is started again, and everything is as storm.py says it must be.

TORTURE_POINTS: only points whose name has this text.
"""

import os
import pathlib
import tempfile

from conftest import BUILD
from storm import Scenario

AGENT = str(BUILD / "tests" / "e2e" / "sluice-torture")
JOB = str(BUILD / "tests" / "e2e" / "torture-job")
SUPERVISOR = str(BUILD / "src" / "libexec" / "supervise" / "sluice-supervise-torture")
ONLY = os.environ.get("TORTURE_POINTS", "")

# Points of a supervisor at which nothing was claimed yet: the job must run after all.
BEFORE_CLAIM = {"supervisor.born", "supervisor.launch_read", "supervisor.listening",
                "supervisor.cgroup_made", "supervisor.tokens_taken", "supervisor.out_opened",
                "supervisor.err_opened"}
# At these the result is there: its supervisor is not needed any more.
AFTER_RESULT = {"jobdir.result_named", "supervisor.said_result", "supervisor.ending"}


def play(environment, may_lose=0):
    """What was broken, and the state directory."""
    scenario = Scenario(AGENT, SUPERVISOR, JOB, environment)
    scenario.storm.may_lose = may_lose
    broken = ["the scenario did not end"]
    try:
        scenario.play()
        broken = scenario.check()
    finally:
        scenario.agent.stop(keep=bool(broken))
    return broken, scenario.agent.state


def all_points(directory):
    log = directory / "points"
    broken, _ = play({"SLUICE_CRASH_LOG": str(log)})
    assert not broken, broken
    return sorted(set(tuple(line.split()) for line in log.read_text().splitlines()))


def test_every_crash_point():
    with tempfile.TemporaryDirectory(prefix="sluice-torture-") as name:
        directory = pathlib.Path(name)
        points = all_points(directory)
        programs = {program for program, _ in points}
        assert programs == {"sluice-torture", "sluice-supervise-torture"}, programs
        assert len(points) > 40, points
        findings, reached = [], 0
        for program, point in points:
            for number in (1, 2):
                if ONLY not in point:
                    continue
                once = directory / "once"
                once.touch()
                may_lose = int(program != "sluice-torture" and point not in BEFORE_CLAIM | AFTER_RESULT)
                broken, state = play({"SLUICE_CRASH_AT": f"{program}:{point}#{number}",
                                      "SLUICE_CRASH_ONCE": str(once)}, may_lose)
                was_reached = not once.exists()
                reached += was_reached
                if number == 1 and not was_reached:
                    broken = broken + ["never reached"]
                findings += [f"{program} {point}#{number}: {line} ({state})" for line in broken]
                print(f"{program} {point}#{number}: {'ok' if not broken else broken}"
                      f"{'' if was_reached else ', not reached'}", flush=True)
        print(f"{len(points)} points, {reached} deaths")
        assert not findings, "\n".join(findings)
