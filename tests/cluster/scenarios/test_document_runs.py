# SPDX-License-Identifier: Apache-2.0
"""Manifests and job files of tests/documents that can, run to their end on the cluster, with an image that the nodes have;
so do jobs that `sluice run --export` prints, with the result that they have without a cluster."""

import json
import re

import pytest
import yaml

from conftest import cleaned, wait
from test_documents import files, table

# What each file that runs says at its end, in the logs of its pods; `phase`: how they end.
RUNS = {
    "cron.yaml": (r"\d\d:\d\d:\d\d UTC 20\d\d", "Succeeded"),
    "failure-policy.yaml": (r"^$", "Failed"),
    "fixed-count.yaml": (r"^(five-times-\S+ \$\(MY_NAME\)\n){5}$", "Succeeded"),
    "indexed.yaml": (r"^bar\nbaz\nfoo\nqux\nxyz\n$", "Succeeded"),
    "rdma-test-pod.yaml": (r"uverbs", "Running"),
    "macvlan-pod.yaml": (r"uverbs", "Succeeded"),
}


def test_the_page_says_which_run():
    assert {name.rsplit("/", 1)[1] for name, (outcome, _) in table().items() if outcome == "runs"} == set(RUNS)


# --- to the end ------------------------------------------------------------------------------------


def run_here(thing):
    """The object with an image that the nodes have, in the place of one that a registry has."""
    text = json.dumps(thing)
    text = re.sub(r'"image": "[^"]*"', '"image": "localhost/box:1"', text)
    text = re.sub(r'"imagePullPolicy": "[^"]*"', '"imagePullPolicy": "Never"', text)
    thing = json.loads(text)
    thing["metadata"].pop("namespace", None)
    thing["metadata"].setdefault("labels", {})["scenario"] = "yes"
    for holder in (thing, thing["spec"].get("jobTemplate", {})):
        template = holder.get("spec", {}).get("template")
        if template:
            template.setdefault("metadata", {}).setdefault("labels", {})["scenario"] = "yes"
            holder["spec"].pop("suspend", None)
            for container in template["spec"]["containers"]:
                container.setdefault("imagePullPolicy", "Never")
    return thing


@pytest.fixture
def adapters(cluster):
    """The service with RDMA adapters under the names of the documents."""
    config = {"version": "v1", "sluice": {"rdma": {"configList": [
        *({"resourceName": f"shared_ib{number}", "rdmaHcaMax": 100, "devices": [f"ib{number}"]} for number in range(3)),
        {"resourceName": "shared_ib3", "rdmaHcaMax": 100, "devices": ["ib3"]},
        {"resourceName": "rdma_shared_device_a", "rdmaHcaMax": 100, "devices": ["ib4"]}]}}}
    with cleaned(cluster):
        cluster.install(f"--set-literal=config.map.default={json.dumps(config)}")
        yield cluster


@pytest.mark.parametrize("name", RUNS)
def test_it_runs(adapters, name):
    wanted, phase = RUNS[name]
    [path] = [one for one in files() if one.name == name]
    thing = run_here(next(one for one in yaml.safe_load_all(path.read_text()) if one))
    created = json.loads(adapters.kubectl("create", "-o", "json", "-f", "-", input=json.dumps(thing)))
    try:
        if thing["kind"] == "CronJob":
            adapters.kubectl("create", "job", "cron-now", f"--from=cronjob/{created['metadata']['name']}")
            adapters.kubectl("label", "job", "cron-now", "scenario=yes")
        wait(lambda: f"{name} is {phase}: {phases(adapters)}", 120, lambda: is_at_end(adapters, thing, phase), every=0.5)
        said = "".join(sorted(adapters.kubectl("logs", "-l", "scenario=yes", "--tail=100").splitlines(keepends=True)))
        assert re.search(wanted, said), said
    finally:
        adapters.kubectl("delete", "jobs,cronjobs", "-l", "scenario=yes", "--wait=true", timeout=120)
        adapters.clear()


def phases(cluster):
    return [pod["status"].get("phase") for pod in cluster.get("pods", selector="scenario=yes")]


def is_at_end(cluster, thing, phase):
    count = thing["spec"].get("completions", 1) if phase == "Succeeded" else 1
    return phases(cluster).count(phase) >= count


# --- what `sluice run --export` prints --------------------------------------------------------------

# Without GPUs: on a node of a cluster these belong to the kubelet, and a job beside it gets none.
EXPORTS = {
    "words": (["--gpus", "0", "--env", "A=1", "--env", "B=$(A)$$"], ["sh", "-c", "echo \"$A $B $(echo x)\" 'a  b' '$(A)'"], 0),
    "code": (["--gpus", "0"], ["sh", "-c", "echo before; exit 3"], 3),
}


def exit_code(cluster):
    pods = cluster.get("pods", selector="job-name")
    states = [one.get("state", {}).get("terminated") for pod in pods for one in pod["status"].get("containerStatuses", [])]
    return states[0]["exitCode"] if states and states[0] else None


@pytest.mark.parametrize("name", EXPORTS)
def test_an_exported_job_ends_as_it_does_here(service, node, name):
    options, command, code = EXPORTS[name]
    exported = node.sluice("run", "--export", "--image", "localhost/box:1", *options, "--", *command).stdout
    here = node.sluice("run", *options, "--", *command)
    assert here.returncode == code, here
    made = json.loads(service.kubectl("create", "-o", "json", "-f", "-", input=exported))
    try:
        wait(lambda: f"the job ends: {phases(service)}", 120, lambda: exit_code(service) is not None, every=0.5)
        assert exit_code(service) == code
        said = service.kubectl("logs", "-l", f"job-name={made['metadata']['name']}", "--tail=100")
        assert said == here.stdout, (said, here.stdout)
    finally:
        service.kubectl("delete", "job", made["metadata"]["name"], "--wait=true", timeout=60)


