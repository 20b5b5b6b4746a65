# SPDX-License-Identifier: Apache-2.0
"""`sluice logs`: from the files, from the agent, while it is written, and without an agent."""

import json
import os
import pty
import subprocess

import pytest

from conftest import DEADLINE_S, SLUICE, wait_until


def submit(machine, script, *options):
    return machine.submit("sh", "-c", script, options=options)


def finished(machine, script):
    number = submit(machine, script)
    machine.run("sluice", "jobs", "wait", number)
    return number


def stop(machine):
    machine.service.kill()
    machine.service.wait()


def test_both_outputs_and_tails(served):
    number = finished(served, "seq 1 5; printf 'no line end'; echo oops >&2")
    text = "1\n2\n3\n4\n5\nno line end"
    assert served.run("sluice", "logs", number).ok().out == text + "oops\n"
    assert served.run("sluice", "logs", "-o", number).ok().out == text
    assert served.run("sluice", "logs", "--stderr", number).ok().out == "oops\n"
    assert served.run("sluice", "logs", "-o", "--tail", "2", number).ok().out == "5\nno line end"
    assert served.run("sluice", "logs", "--tail", "0", number).ok().out == ""
    reply = served.run("sluice", "logs", "--attempt", "2", number)
    assert reply.rc == 64 and f"job {number} has no attempt 2" in reply.err
    assert served.run("sluice", "logs", "-o", "--tail", "99", number).ok().out == text
    number = finished(served, "seq 1 5")
    assert served.run("sluice", "logs", "-n", "2", number).ok().out == "4\n5\n"
    number = finished(served, "seq 1 100000")
    lines = served.run("sluice", "logs", "--tail", "30000", number).ok().out.splitlines()
    assert lines == [str(i) for i in range(70001, 100001)]


def test_bytes_are_passed_on(served):
    number = finished(served, "printf '\\000\\377\\033[31m'")
    done = subprocess.run([SLUICE, "logs", str(number)], env=served.env, capture_output=True,
                          check=True)
    assert done.stdout == b"\x00\xff\x1b[31m"


HOSTILE = "\x1b[2J\x1b]0;title\x07 \x9b2J \u202egnp.exe\u2069 \x08 "
SHOWN = r"\x1b[2J\x1b]0;title\x07 \u009b2J \u202egnp.exe\u2069 \x08 "


def on_terminal(machine, *command, **how):
    """What a program writes to a terminal."""
    ours, its = pty.openpty()
    child = machine.spawn(*command, stdin=subprocess.DEVNULL, stdout=its, stderr=its, **how)
    os.close(its)
    out = b""
    try:
        while data := os.read(ours, 65536):
            out += data
    except OSError:  # EIO: nobody has it open any more
        pass
    os.close(ours)
    assert child.wait(DEADLINE_S) == 0
    return out.decode().replace("\r\n", "\n")


def test_a_terminal_is_given_nothing_to_obey(served):
    """What a job writes moves no cursor and turns no text around; colours and progress bars stay. A pipe gets the bytes."""
    line = f"{HOSTILE}\x1b[31mred\x1b[0m 10%\r\x1b[K20%\n"
    number = finished(served, f"printf '%s' '{line}'; printf '\\355\\n\\342\\200'")
    shown = f"{SHOWN}\x1b[31mred\x1b[0m 10%\r\x1b[K20%\n\\xed\n\\xe2\\x80\x1b[0m"
    assert on_terminal(served, "sluice", "logs", number) == shown
    raw = subprocess.run([SLUICE, "logs", str(number)], env=served.env, capture_output=True, timeout=DEADLINE_S, check=True)
    assert raw.stdout == line.encode() + b"\xed\n\xe2\x80"
    # While it is written, and by way of the agent.
    number = submit(served, f"printf '%s' '{line}'; sleep 0.3; printf '%s' '{line}'")
    expected = f"{SHOWN}\x1b[31mred\x1b[0m 10%\r\x1b[K20%\n" * 2 + "\x1b[0m"
    assert on_terminal(served, "sluice", "logs", "--follow", number) == expected
    if os.geteuid() == 0:
        hide = f"mount -t tmpfs none {served.state_dir}; exec \"$0\" logs {number}"
        assert on_terminal(served, "unshare", "-m", "sh", "-c", hide, SLUICE) == expected


def test_json_escapes_what_a_terminal_would_obey(served):
    number = served.submit("sh", "-c", f": {HOSTILE}")
    said = subprocess.run([SLUICE, "jobs", str(number), "--output", "json"], env=served.env, capture_output=True,
                          timeout=DEADLINE_S, check=True).stdout.decode()
    assert json.loads(said)["command"][2] == f": {HOSTILE}"
    assert r"\u009b" in said and r"\u202e" in said
    assert not [c for c in said if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2069")]
    for command in (["run", "--dry-run", "--gpus", "0", "--output", "json", "--", "echo", HOSTILE], ["jobs", str(number)]):
        done = subprocess.run([SLUICE, *command], env=served.env, capture_output=True, timeout=DEADLINE_S, check=False)
        assert not set(done.stdout.decode()) & set("\x9b\u202e\x1b"), done


def test_following_to_the_end(served):
    number = submit(served, "echo one; while ! test -e $0.go; do sleep 0.01; done; echo two",
                    "--env", "X=1")
    # $0 is "sh": relative to the job's directory, which is ours
    follow = served.spawn("sluice", "logs", "-f", number, stdout=subprocess.PIPE)
    assert follow.stdout.readline() == "one\n"
    assert follow.poll() is None
    served.run("sluice", "cancel", number).ok()
    out, _ = follow.communicate(timeout=DEADLINE_S)
    assert out == "" and follow.returncode == 0


def test_following_one_that_waits(machine):
    machine.start("t4x1")
    machine.agent()
    holder = int(machine.run("sluice", "run", "-d", "--", "sleep", "1000").ok().out)
    number = int(machine.run("sluice", "run", "-d", "--", "echo", "at last").ok().out)
    assert "has not started yet" in machine.run("sluice", "logs", number).ok().err
    follow = machine.spawn("sluice", "logs", "--follow", number, stdout=subprocess.PIPE)
    machine.run("sluice", "cancel", holder).ok()
    out, _ = follow.communicate(timeout=DEADLINE_S)
    assert out == "at last\n" and follow.returncode == 0


def test_without_an_agent(served):
    number = finished(served, "seq 1 5; echo oops >&2")
    stop(served)
    assert served.run("sluice", "logs", "-o", number).ok().out == "1\n2\n3\n4\n5\n"
    assert served.run("sluice", "logs", "--stderr", "-f", number).ok().out == "oops\n"
    reply = served.run("sluice", "logs", "--attempt", "2", number)
    assert reply.rc == 64 and f"job {number} has no attempt 2" in reply.err
    reply = served.run("sluice", "logs", 99)
    assert reply.rc == 64 and "no agent answers" in reply.err


def test_following_without_an_agent(served):
    flag = served.directory / "go"
    number = submit(served, f"echo one; while ! test -e {flag}; do sleep 0.01; done; echo two")
    wait_until(lambda: served.run("sluice", "logs", number).out == "one\n")
    stop(served)
    follow = served.spawn("sluice", "logs", "-f", number, stdout=subprocess.PIPE)
    assert follow.stdout.readline() == "one\n"
    flag.touch()
    out, _ = follow.communicate(timeout=DEADLINE_S)
    assert out == "two\n" and follow.returncode == 0


def test_following_while_the_agent_is_killed(served):
    flag = served.directory / "go"
    number = submit(served, f"echo one; while ! test -e {flag}; do sleep 0.01; done; echo two")
    follow = served.spawn("sluice", "logs", "-f", number, stdout=subprocess.PIPE)
    assert follow.stdout.readline() == "one\n"
    stop(served)
    served.agent()
    flag.touch()
    out, _ = follow.communicate(timeout=DEADLINE_S)
    assert out == "two\n" and follow.returncode == 0


def test_a_reader_that_has_enough(served):
    number = finished(served, "seq 1 1000000")
    done = subprocess.run(f"{SLUICE} logs {number} | head -1", shell=True, env=served.env,
                          capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_ones_own_files_and_nobody_elses(served):
    nobody = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
    if subprocess.run([SLUICE, "--version"], check=False, capture_output=True, **nobody).returncode:
        pytest.skip("the build cannot be read by another user")
    roots = finished(served, "echo roots")
    own = int(served.run("sluice", "run", "-d", "--gpus", "0", "--", "echo", "own",
                         **nobody).ok().out)
    served.run("sluice", "jobs", "wait", own).ok()
    for agent_runs in (True, False):
        if not agent_runs:
            stop(served)
        assert served.run("sluice", "logs", own, **nobody).ok().out == "own\n"
        reply = served.run("sluice", "logs", roots, **nobody)
        assert reply.rc == 77 and "roots" not in reply.out
        assert served.run("sluice", "logs", own).ok().out == "own\n"  # root reads all
