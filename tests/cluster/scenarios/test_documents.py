# SPDX-License-Identifier: Apache-2.0
"""Manifests and job files of tests/documents, given to a real API server as `kubectl apply --server-side` does it; the table
"On a cluster" of doc/documents.md says of each what comes of it, and is held to it here."""

import re

import pytest

import programs
from conftest import wait
from place import ROOT

DOCUMENTS = ROOT / "tests/documents"
PAGE = ROOT / "doc/documents.md"
NAMESPACE = "documents"
# Those that the files themselves name.
NAMESPACES = (NAMESPACE, "experiments", "nvidia", "name-of-the-project", "gpu-operator-resources")
MPI = "github.com/kubeflow/mpi-operator"
# No objects: values of a chart, and parts of one that a page prints below it.
NOT_OBJECTS = {"several-configs-values.yaml", "mpijob-launcher.printed.yaml", "mpijob-worker.printed.yaml"}


def files():
    found = [*DOCUMENTS.glob("manifests/*.yaml"), *DOCUMENTS.glob("jobs/*.yaml"), *DOCUMENTS.glob("jobs/*.json")]
    return sorted((one for one in found if one.name not in NOT_OBJECTS), key=lambda one: (one.parent.name, one.name))


def table():
    """File -> (outcome, words of the answer), of the page."""
    text = PAGE.read_text(encoding="utf-8").partition("## On a cluster")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \[[^]]*\]\(\.\./tests/documents/(\S+)\) \| (\w+) \| (.*) \|$", text, re.M)
    return {name: (outcome, re.findall(r"`([^`]+)`", why)) for name, outcome, why in rows}


@pytest.fixture(scope="module")
def asked(cluster):
    """The cluster with the namespaces of the files and the kinds of which a module ships the definition."""
    cluster.kubectl("apply", "--server-side", "-f", programs.source(MPI, "crds") / "manifests/base/kubeflow.org_mpijobs.yaml")
    for name in NAMESPACES:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    wait("the API server knows MPIJobs", 30, lambda: "mpijobs" in cluster.kubectl("api-resources", "--api-group=kubeflow.org"))
    yield cluster
    cluster.kubectl("delete", "crd", "mpijobs.kubeflow.org", "--ignore-not-found")
    cluster.kubectl("delete", "namespace", *NAMESPACES, "--ignore-not-found", timeout=180)


def place(path):
    """Where an object goes whose file does not say it."""
    return [] if re.search(r"^  namespace:", path.read_text(), re.M) else ["-n", NAMESPACE]


def answer(cluster, path):
    """(outcome, what the server says): applied, partly or refused."""
    # A name that the server makes can only be created.
    verb = ["create"] if "generateName" in path.read_text() else ["apply", "--server-side", "--force-conflicts"]
    code, said = cluster.kubectl_try(*verb, "--validate=strict", *place(path), "-f", path)
    cluster.kubectl_try("delete", *place(path), "-f", path, "--ignore-not-found", "--grace-period=0", "--timeout=30s")
    if code == 0:
        return "applied", said
    return ("partly" if re.search(r"(created|configured|serverside-applied)$", said, re.M) else "refused"), said


def test_every_file_has_its_row():
    names = {f"{one.parent.name}/{one.name}" for one in files()}
    assert set(table()) == names, set(table()) ^ names


@pytest.mark.parametrize("path", files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_api_server_takes_what_the_page_says(asked, path):
    outcome, said = answer(asked, path)
    wanted, words = table().get(f"{path.parent.name}/{path.name}", ("", []))
    print(f"document {path.parent.name}/{path.name}: {outcome}: {' '.join(said.split())[:300]}")
    assert outcome == ("applied" if wanted == "runs" else wanted), said
    if wanted in ("refused", "partly"):
        assert words and all(word in said for word in words), said
