#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a unit test program with its 1st, 2nd, ... nth allocation failing (see failmalloc.h).

usage: failmalloc.py PROGRAM [SECONDS]

The cases of the program may fail, as they meet a NULL. A crash, a hang or a word from a sanitizer is
an error here. A program with more allocations than fit into SECONDS (default 8) has them tried evenly
spread, from another start each day; the numbers that were tried are printed. FAILMALLOC_ALL=1 tries
every one.
"""

import os
import subprocess
import sys
import tempfile
import time

RUN_LIMIT_S = 30
CRASH_MARKS = ("Test failed with exception", "ERROR: AddressSanitizer", "ThreadSanitizer",
               "runtime error:", "Assertion `")


def run(program, at, report):
    """Returns (allocations made or None, what was wrong or None)."""
    environment = dict(os.environ, FAILMALLOC_AT=str(at), FAILMALLOC_REPORT=report)
    # A case that fails leaves its memory behind: leaks are what failmalloc_each() looks for.
    options = environment.get("ASAN_OPTIONS", "")
    environment["ASAN_OPTIONS"] = f"{options}:detect_leaks=0:handle_abort=1".lstrip(":")
    try:
        os.unlink(report)
    except FileNotFoundError:
        pass
    try:
        done = subprocess.run([program], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=RUN_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        return None, f"hung for {RUN_LIMIT_S} s\n{(error.stdout or b'').decode(errors='replace')}"
    output = done.stdout.decode(errors="replace")
    if done.returncode < 0:
        return None, f"died of signal {-done.returncode}\n{output}"
    for mark in CRASH_MARKS:
        if mark in output:
            return None, output
    try:
        with open(report, encoding="ascii") as file:
            return int(file.read()), None
    except (FileNotFoundError, ValueError):
        return None, f"ended without a report, exit code {done.returncode}\n{output}"


def pick(total, count):
    """`count` of the numbers 1..total, evenly spread, other ones each day."""
    if count >= total:
        return list(range(1, total + 1))
    step = total / count
    shift = (time.time() // 86400 * 0.618) % 1.0
    return sorted({min(total, 1 + int((index + shift) * step)) for index in range(count)})


def main():
    program = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 8.0
    with tempfile.TemporaryDirectory(prefix="sluice-failmalloc-") as directory:
        report = os.path.join(directory, "report")
        began = time.monotonic()
        total, wrong = run(program, 0, report)
        if wrong:
            print(f"with no allocation failing: {wrong}")
            return 1
        cost = max(time.monotonic() - began, 0.001)
        every = os.environ.get("FAILMALLOC_ALL") == "1"
        numbers = pick(total, total if every else max(10, int(seconds / cost)))
        print(f"{total} allocations, {len(numbers)} of them fail in turn", flush=True)
        tried = 0
        for at in numbers:
            if not every and time.monotonic() - began > seconds and tried >= 10:
                print(f"stopped at allocation {at} after {seconds:g} s")
                break
            _, wrong = run(program, at, report)
            tried += 1
            if wrong:
                print(f"when allocation {at} fails: {wrong}")
                print(f"again: FAILMALLOC_AT={at} {program}")
                return 1
        print(f"{tried} runs, no crash")
    return 0


if __name__ == "__main__":
    sys.exit(main())
