# SPDX-License-Identifier: Apache-2.0
"""`sluice controller convert`: MPIJobs of older versions as v2beta1."""

import yaml

from conftest import ROOT

MANIFESTS = ROOT / "tests" / "documents" / "manifests"


def test_the_file_of_2020(machine):
    old = MANIFESTS / "mpijob-v1alpha2.yaml"
    reply = machine.run("sluice", "controller", "convert", "-f", old).ok()
    new = yaml.safe_load(reply.out)
    wanted = yaml.safe_load((MANIFESTS / "mpijob-v2beta1.yaml").read_text())
    assert new["metadata"].pop("annotations") == {"sluice.dev/transport": "exec"}
    assert new == wanted
    assert f"# {old}:3: kubeflow.org/v1alpha2 becomes kubeflow.org/v2beta1" in reply.err.splitlines()
    again = machine.run("sluice", "controller", "convert", input=reply.out).ok()
    assert (again.out, again.err) == (reply.out, "")


def test_a_policy_moves(machine):
    text = (MANIFESTS / "mpijob-v1alpha2.yaml").read_text().replace("spec:\n", "spec:\n  cleanPodPolicy: Running\n", 1)
    reply = machine.run("sluice", "controller", "convert", "-f", "-", input=text).ok()
    assert yaml.safe_load(reply.out)["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
    assert "# standard input:8: spec.cleanPodPolicy moves to spec.runPolicy.cleanPodPolicy" in reply.err.splitlines()


def test_other_documents_are_kept(machine):
    text = "a: [1, '2', \"x: y\", \"\", null]\n---\n" + (MANIFESTS / "mpijob-v1alpha2.yaml").read_text()
    reply = machine.run("sluice", "controller", "convert", "-f", "-", input=text).ok()
    first, second = yaml.safe_load_all(reply.out)
    assert first == {"a": [1, "2", "x: y", "", None]} and second["apiVersion"] == "kubeflow.org/v2beta1"
    assert "# standard input:1: no MPIJob: kept as it is" in reply.err


def test_what_cannot_be_converted(machine):
    for text, wanted in (("kind: MPIJob\napiVersion: kubeflow.org/v1alpha1\n", ":2:13: MPIJob v1alpha1 cannot be"),
                         ("kind: MPIJob\napiVersion: kubeflow.org/v3\n", "no version of MPIJob"),
                         ("a: [", "standard input:")):
        reply = machine.run("sluice", "controller", "convert", input=text)
        assert (reply.rc, reply.out) == (65, "") and wanted in reply.err, reply
