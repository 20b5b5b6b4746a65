# SPDX-License-Identifier: Apache-2.0
"""Manifests that people copied from published documents (tests/documents/manifests), read by the code of the newest
Kubernetes and of the MPI operator: the printed ones have exactly the errors beside them, the completed ones none. The
types of MPIJob v1alpha2 cannot be built any more (a module that they need is gone), so those are converted first."""

import pathlib

import yaml

DOCUMENTS = pathlib.Path(__file__).resolve().parents[1] / "documents" / "manifests"
NOT_OBJECTS = {"several-configs-values.yaml"}  # values of a chart


def as_v2beta1(job):
    """What `kubectl apply` of the newer version needs: one field has moved."""
    job = {**job, "apiVersion": "kubeflow.org/v2beta1", "spec": dict(job["spec"])}
    job["spec"]["runPolicy"] = {"cleanPodPolicy": job["spec"].pop("cleanPodPolicy")}
    return job


def text_of(path):
    found = [one for one in yaml.safe_load_all(path.read_text()) if one]
    if found[0]["apiVersion"] == "kubeflow.org/v1alpha2":
        return yaml.safe_dump_all([as_v2beta1(one) for one in found]), len(found)
    return path.read_text(), len(found)


def read(manifests, path):
    text, count = text_of(path)
    problems, seen = manifests.read("newest", text, "default")
    golden = path.with_name(path.name + ".errors")
    wanted = golden.read_text().splitlines() if golden.exists() else []
    problems = [problem.partition(": ")[2] for problem in problems]  # without the release
    if seen != count:
        return [f"{count} objects, {seen} read"], ""
    if problems != wanted:
        return [f"says {problems}, should be {wanted}"], ""
    if path.name.endswith(".printed.yaml") and not wanted:
        return ["printed with a fault, and none is found"], ""
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
    run.check("documents MPIJob v1alpha2 and v2beta1", converted, DOCUMENTS / "mpijob-v1alpha2.yaml",
              DOCUMENTS / "mpijob-v2beta1.yaml")
