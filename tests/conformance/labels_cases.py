# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's GPU feature discovery and `sluice labels`, side by side on simulated machines: the same keys with the same
values but for the timestamp. labels/differences lists where we mean to differ."""

import fnmatch
import json
import os
import pathlib
import shutil
import tempfile

from machine import Failure, Machine

PROFILES = pathlib.Path(__file__).resolve().parents[2] / "sim/profiles"
HERE = pathlib.Path(__file__).resolve().parent / "labels"
PROGRAM = "github.com/NVIDIA/k8s-device-plugin/cmd/gpu-feature-discovery"
VERSIONS = ("v0.17", "newest")  # v0.8.2 wants a commit of another module that nobody serves any more
DRIVER = "580.105.08"
BUILD_MINUTES = 15

# Name, profile, MIG layout, more options of `sluice sim start`.
MACHINES = [
    ("dgx1", "dgx1", "none", ()), ("dgx2", "dgx2", "none", ()), ("t4x1", "t4x1", "none", ()),
    ("t4x4", "t4x4", "none", ()), ("t4x4-vgpu", "t4x4", "none", ("--vgpu-guest",)),
    ("workstation", "workstation", "none", ()), ("dgx-a100", "dgx-a100", "none", ()),
    ("dgx-a100-single", "dgx-a100", "single", ()), ("dgx-a100-mixed", "dgx-a100", "mixed", ()),
    ("dgx-a100-2-hetero", "dgx-a100", "hetero", ("--gpus", "2")),
    ("hgx-h100", "hgx-h100", "none", ()), ("hgx-h100-fabric", "hgx-h100", "none", ("--fabric",)),
    ("hgx-h100-single", "hgx-h100", "single", ()), ("a100-mig", "a100-mig", "none", ()),
    ("h100-mig", "h100-mig", "hetero", ()),
]
ALL = '{"name": "nvidia.com/gpu", "replicas": 4}'
CONFIGS = {
    "plain": "",
    "shared": f"sharing: {{timeSlicing: {{resources: [{ALL}]}}}}",
    "renamed": f"sharing: {{timeSlicing: {{renameByDefault: true, resources: [{ALL}]}}}}",
    "each-one": f"sharing: {{timeSlicing: {{failRequestsGreaterThanOne: true, resources: [{ALL}]}}}}",
    "mig-shared": "sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.5gb, replicas: 3}, "
                  "{name: nvidia.com/gpu, replicas: 2}]}}",
}


class Labels:
    """The programs; made by install()."""

    def __init__(self, build):
        self.build, self.programs, self.missing = build, {}, []
        self.differences, self.met = [], set()
        for line in (HERE / "differences").read_text().splitlines():
            pattern, _, why = line.partition("  ")
            if pattern and not pattern.startswith("#"):
                self.differences.append((pattern, why.strip()))

    def install(self, folder, step, unavailable):
        go = shutil.which("go")
        if not go:
            raise unavailable("Go is not installed: apt install golang-go")
        readonly = {**os.environ, "GOFLAGS": "-mod=readonly"}
        print("building GPU feature discovery (minutes, the first time)", flush=True)
        for version in VERSIONS:
            program = folder / f"gfd-{version}"
            try:
                step([go, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", str(program), PROGRAM], HERE / version,
                     f"building GPU feature discovery {version} (is there a network?)", readonly, BUILD_MINUTES * 60)
                self.programs[version] = str(program)
            except unavailable as error:
                self.missing.append(str(error))

    def differs(self, case, what):
        """Whether labels/differences has it: "CASE: KEY ours|theirs|value"."""
        for pattern, _ in self.differences:
            if fnmatch.fnmatchcase(f"{case}: {what}", pattern):
                self.met.add(pattern)
                return True
        return False


def two_models(directory):
    """A profile of a machine with two A100 and two T4."""
    def model(profile, heading):
        text = (PROFILES / f"{profile}.profile").read_text().partition(heading)[2]
        return heading + text.partition("[mig")[0].replace("mig = yes", "mig = no")

    path = pathlib.Path(directory) / "two.profile"
    path.write_text("[machine]\nname = two\nproduct = Two\nlevels = else 30\nbus = 07 0f 47 4e\nnuma = 0 0 0 0\n"
                    "cpus_per_node = 4\nmodel = t4\n" + model("a100-mig", "[model a100-sxm4-40gb]") +
                    model("t4x1", "[model t4]") +
                    "[gpu 1]\nmodel = a100-sxm4-40gb\n[gpu 3]\nmodel = a100-sxm4-40gb\n")
    return str(path)


def parse(text):
    found = dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))
    found.pop("nvidia.com/gfd.timestamp", None)
    return found


def both(labels, version, machine, strategy, config):
    """Their labels and ours."""
    with tempfile.TemporaryDirectory(prefix="sluice-labels-") as directory:
        output, settings = pathlib.Path(directory) / "gfd", pathlib.Path(directory) / "config.yaml"
        settings.write_text(f"version: v1\n{CONFIGS[config]}\n")
        # The simulated /sys in place of the real one where that is permitted: their program knows no other.
        mounts = ["--mounts"] if os.geteuid() == 0 else []
        machine.command([machine.sluice, "sim", "exec", *mounts, "--", labels.programs[version], "--oneshot",
                         "--use-node-feature-api=false", "--no-timestamp", "--mig-strategy", strategy,
                         "--config-file", str(settings), "--output-file", str(output)])
        theirs = parse(output.read_text())
        reply = machine.program(machine.sluice, "labels", "--output", "json", "--mig-strategy", strategy,
                                "--config-file", str(settings))
    ours = json.loads(reply)["labels"]
    ours.pop("nvidia.com/gfd.timestamp")
    for found in () if mounts else (ours, theirs):
        found.pop("nvidia.com/gpu.mode", None)  # of the PCI devices of this machine
    return theirs, ours


def side_by_side(labels, version, name, machine, strategy, config):
    """(problems, detail) of one case."""
    case = f"{version} {name} {strategy} {config}"
    theirs, ours = both(labels, version, machine, strategy, config)
    problems = []
    for key in sorted(ours.keys() | theirs.keys()):
        what = "ours" if key not in theirs else "theirs" if key not in ours else "value"
        if ours.get(key) != theirs.get(key) and not labels.differs(case, f"{key} {what}"):
            problems.append(f"{key}: ours {ours.get(key)!r}, theirs {theirs.get(key)!r}")
    return problems, f"{len(theirs)} labels"


def several_models(labels, version):
    """Their labels change from run to run there; ours are always those of one of their runs."""
    with tempfile.TemporaryDirectory(prefix="sluice-labels-") as directory:
        with Machine(labels.build, two_models(directory), DRIVER) as machine:
            seen, ours = [], set()
            for _ in range(24):
                theirs, mine = both(labels, version, machine, "none", "plain")
                ours.add(json.dumps(mine, sort_keys=True))
                seen.append(theirs)
                if mine in seen and len(seen) > 3:
                    break
    problems = [] if len(ours) == 1 else [f"ours are {len(ours)} sets"]
    if json.loads(min(ours)) not in seen:
        problems.append(f"ours {min(ours)} is none of theirs: {seen[:3]}")
    kinds = len({json.dumps(theirs, sort_keys=True) for theirs in seen})
    return problems, f"{kinds} sets of theirs in {len(seen)} runs"


def check(run, labels):
    for name, profile, layout, options in MACHINES:
        has_mig = layout != "none" or "mig" in profile
        # Each strategy as it is; sharing where it makes a difference.
        pairs = [(strategy, "plain") for strategy in ("none", "single", "mixed")]
        pairs += [("none", "shared"), ("none", "renamed")]
        pairs += [("single", "shared"), ("mixed", "mig-shared"), ("mixed", "each-one")] if has_mig else []
        wanted = [(version, strategy, config) for version in labels.programs for strategy, config in pairs
                  if run.wanted(f"labels {version} {name} {strategy} {config}")]
        if not wanted:
            continue
        try:
            with Machine(labels.build, profile, DRIVER, mig=layout, extra=options) as machine:
                for version, strategy, config in wanted:
                    run.check(f"labels {version} {name} {strategy} {config}", side_by_side, labels, version, name,
                              machine, strategy, config)
        except Failure as error:
            run.report(f"labels {name}", str(error).splitlines())
    for version in labels.programs:
        run.check(f"labels {version} several models", several_models, labels, version)
    if not run.options.only or run.options.only == "labels":
        stale = [pattern for pattern, _ in labels.differences if pattern not in labels.met]
        if labels.programs and not labels.missing:
            run.report("labels: the list of differences", [f"no case shows '{pattern}'" for pattern in stale])
