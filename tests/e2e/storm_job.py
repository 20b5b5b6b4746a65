#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of the kill storm, and its outside witness.

usage: storm_job.py HELD_DIRECTORY MILLISECONDS plain|daemon|closing

Takes a lock of its own for each GPU that it was given, which all of its processes share: if one is
taken already, two jobs live on one GPU, and that is written into HELD_DIRECTORY/violations.
"daemon" leaves a daemonised process behind; "closing" as well, one that closes every descriptor
but the witness's.
"""

import fcntl
import os
import sys
import time


def main():
    held, seconds, kind = sys.argv[1], int(sys.argv[2]) / 1000, sys.argv[3]
    locks = []
    for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(","):
        lock = os.open(os.path.join(held, gpu), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with open(os.path.join(held, "violations"), "a", encoding="utf-8") as file:
                file.write(f"pid {os.getpid()}: {gpu} belongs to another living job\n")
        locks.append(lock)
    if kind != "plain" and os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        if kind == "closing":
            for name in os.listdir("/proc/self/fd"):
                if int(name) not in locks:
                    try:
                        os.close(int(name))
                    except OSError:
                        pass
        seconds *= 3  # outlives its job
    time.sleep(seconds)  # the job's work; nothing waits for it by the clock


if __name__ == "__main__":
    main()
