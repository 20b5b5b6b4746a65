# SPDX-License-Identifier: Apache-2.0
"""Asks MLCommons' checker of training logs; runs under the interpreter that has it installed.

usage: ask.py RULESET DIRECTORY          accepted or not, for each *.log
       ask.py rcp DIRECTORY              the reference convergence points of each */table.json beside its result_*.txt

Prints one JSON object: a name, and what was said."""

import contextlib
import io
import json
import logging
import pathlib
import sys

logging.disable(logging.CRITICAL)


def compliance(ruleset, directory):
    from mlperf_logging.compliance_checker import mlp_compliance
    told = {}
    for path in sorted(directory.glob("*.log")):
        checker = mlp_compliance.make_checker("training", ruleset, True, False)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                told[path.name] = bool(checker.check_file(str(path), f"training_{ruleset}/common.yaml"))
        except (TypeError, FileNotFoundError):  # it breaks over a null, or the name of a benchmark
            told[path.name] = False
    return told


def convergence(directory):
    from mlperf_logging.rcp_checker import rcp_checker
    told = {}
    for table in sorted(directory.glob("*/table.json")):
        for records in ("pruned_rcps", "full_rcps"):
            with open(table, encoding="utf-8") as file:
                passed, said, factor = rcp_checker.check_directory(
                    str(table.parent), "training", "1.1.0", False, False, rcp_file=file, rcp_pass=records)
            told[f"{table.parent.name}/{records}"] = [bool(passed), said, float(factor)]
    return told


def main():
    what, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    json.dump(convergence(directory) if what == "rcp" else compliance(what, directory), sys.stdout)


if __name__ == "__main__":
    main()
