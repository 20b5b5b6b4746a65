#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of the soak: holds a lock of its own for each GPU that it was given, for a moment.

usage: job.py HELD_DIRECTORY MILLISECONDS WANTED

The locks are the soak's, not sluice's: when one is taken already, two jobs have the same GPU, and
that is written down in HELD_DIRECTORY/violations.
"""

import fcntl
import os
import sys
import time


def main():
    held, milliseconds, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    problems = []
    if len(set(gpus)) != wanted:
        problems.append(f"wanted {wanted} GPUs and got '{','.join(gpus)}'")
    locks = []
    for gpu in gpus:
        lock = open(os.path.join(held, gpu.replace("/", "_")), "a", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problems.append(f"{gpu} is held by another job")
        locks.append(lock)
    if problems:
        with open(os.path.join(held, "violations"), "a", encoding="utf-8") as file:
            file.write("".join(f"job {os.getpid()}: {problem}\n" for problem in problems))
    time.sleep(milliseconds / 1000)  # the job's work; nothing waits for it by the clock
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
