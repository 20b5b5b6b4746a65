# SPDX-License-Identifier: Apache-2.0
"""Asks MLCommons' checker of training logs; runs under the interpreter that has it installed.

usage: ask.py RULESET DIRECTORY [strict] accepted or not, for each *.log
       ask.py tables RULESET             what its tables want: {division: {benchmark: {"keys": [], "tensors": []}}}
       ask.py rcp DIRECTORY              the reference convergence points of each */table.json beside its result_*.txt

Prints one JSON object: a name, and what was said."""

import ast
import contextlib
import functools
import io
import json
import logging
import pathlib
import sys

logging.disable(logging.CRITICAL)


def compliance(ruleset, directory, strict):
    from mlperf_logging.compliance_checker import mlp_compliance
    load = mlp_compliance.yaml.load
    read = functools.lru_cache(None)(lambda text: load(text, Loader=mlp_compliance.yaml.BaseLoader))
    mlp_compliance.yaml.load = lambda file, Loader: read(file.read())  # its tables again for each log take minutes
    told = {}
    for path in sorted(directory.glob("*.log")):
        checker = mlp_compliance.make_checker("training", ruleset, not strict, strict)
        mlp_compliance.enqueued_configs.clear()  # what an exception left there
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                told[path.name] = bool(checker.check_file(str(path), f"training_{ruleset}/common.yaml"))
        except (TypeError, KeyError, IndexError, FileNotFoundError):  # over a null, or the name of a benchmark
            told[path.name] = False
    return told


def texts(code):
    """The texts in a list of tensors."""
    return [node.value for node in ast.walk(ast.parse(code.strip())) if isinstance(node, ast.Constant)
            and isinstance(node.value, str) and node.value != "initialized_tensors"]


def tables(ruleset):
    import yaml
    from mlperf_logging import compliance_checker
    folder = pathlib.Path(compliance_checker.__file__).parent / f"training_{ruleset}"
    told = {}
    for path in sorted(folder.glob("*_*.yaml")):
        division, benchmark = path.stem.split("_", 1)
        rows = yaml.load(path.read_text(), Loader=yaml.BaseLoader) or []
        told.setdefault(division, {})[benchmark] = {
            "keys": [row["KEY"]["NAME"] for row in rows if "KEY" in row],
            "tensors": [text for row in rows if "END" in row for text in texts(row["END"]["CHECK"])]}
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
    what, where = sys.argv[1:3]
    if what == "tables":
        told = tables(where)
    elif what == "rcp":
        told = convergence(pathlib.Path(where))
    else:
        told = compliance(what, pathlib.Path(where), "strict" in sys.argv[3:])
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
