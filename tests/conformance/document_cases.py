# SPDX-License-Identifier: Apache-2.0
"""Manifests that people copied from published documents (tests/documents/manifests), read by the code of the newest
Kubernetes and of the MPI operator: the printed ones have exactly the errors beside them, the completed ones none. The
types of MPIJob v1alpha2 cannot be built any more (a module that they need is gone), so those are converted first."""

import pathlib

import yaml

DOCUMENTS = pathlib.Path(__file__).resolve().parents[1] / "documents" / "manifests"
NOT_OBJECTS = {"several-configs-values.yaml",  # values of a chart
               "macvlan-network.yaml",  # of the Network Operator, whose types are not built here
               "mpijob-launcher.printed.yaml", "mpijob-worker.printed.yaml",  # parts
               "ipc-lock-scc.printed.yaml"}
# What Kubernetes does not see: a blank within a volume handle, an image whose name is cut.
UNSEEN = {"volume-static.printed.yaml", "rdma-test-pod.printed.yaml"}


def as_v2beta1(job):
    """What `kubectl apply` of the newer version needs: one field has moved."""
    job = {**job, "apiVersion": "kubeflow.org/v2beta1", "spec": dict(job["spec"])}
    if "cleanPodPolicy" in job["spec"]:
        job["spec"]["runPolicy"] = {"cleanPodPolicy": job["spec"].pop("cleanPodPolicy")}
    return job


def elided(text):
    """Without the lines that stand for what was left out in print, and with a name for a name."""
    text = text.replace("[user-namespace]", "user-namespace")
    return "".join(line for line in text.splitlines(keepends=True) if line.strip() != "[...]")


def objects(text):
    """Those of a text, converted; a text that is no YAML stays as it is."""
    try:
        found = [one for one in yaml.safe_load_all(text) if one]
    except yaml.YAMLError:
        return text, 0
    if found[0]["apiVersion"] == "kubeflow.org/v1alpha2":
        return yaml.safe_dump_all([as_v2beta1(one) for one in found]), len(found)
    return text, len(found)


def read(manifests, path, change=str, suffix=".errors"):
    text, count = objects(change(path.read_text()))
    problems, seen = manifests.read("newest", text, "default")
    golden = path.with_name(path.name + suffix)
    wanted = golden.read_text().splitlines() if golden.exists() else []
    problems = [line for problem in problems for line in problem.partition(": ")[2].splitlines()]  # without the release
    if seen != count:
        return [f"{count} objects, {seen} read"], ""
    if problems != wanted:
        return [f"says {problems}, should be {wanted}"], ""
    if path.name.endswith(".printed.yaml") and change is str and bool(wanted) == (path.name in UNSEEN):
        return ["printed with a fault, and none is found, or one that nobody expects"], ""
    return [], "; ".join(problems)[:100] or f"{count} objects"


def converted(path, other):
    """The two completed versions are one job."""
    old, new = (yaml.safe_load(one.read_text()) for one in (path, other))
    return [] if as_v2beta1(old) == new else ["they differ"], ""


def check(run, manifests):
    if "newest" not in manifests.readers:
        return
    for path in sorted(DOCUMENTS.glob("*.yaml")):
        if path.name not in NOT_OBJECTS:
            run.check(f"documents {path.name}", read, manifests, path)
            if elided(path.read_text()) != path.read_text():
                run.check(f"documents {path.name}, elided", read, manifests, path, elided, ".elided-errors")
    run.check("documents MPIJob v1alpha2 and v2beta1", converted, DOCUMENTS / "mpijob-v1alpha2.yaml",
              DOCUMENTS / "mpijob-v2beta1.yaml")
