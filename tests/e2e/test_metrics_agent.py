# SPDX-License-Identifier: Apache-2.0
"""/metrics of a whole service on a simulated machine: test_metrics.py has what the text itself must be."""

import json
import shutil
import subprocess
import time
import urllib.request

import pytest

from conftest import wait_until
from test_metrics import parse


class Service:
    def __init__(self, machine, *options):
        self.machine = machine
        machine.agent("--web-address", "127.0.0.1:0", *options)
        wait_until(self.address, what="the address of the service")
        wait_until(lambda: "sluice_gpu_power_watts" in self.families(), what="a first reading")

    def address(self):
        web = self.machine.run("sluice", "agent", "status", "--output", "json").ok().json.get("web") or {}
        return web.get("address") if web.get("pid") else None

    def text(self, set_="all"):
        with urllib.request.urlopen(f"http://{self.address()}/metrics?set={set_}", timeout=20) as answer:
            return answer.read().decode()

    def families(self, set_="all"):
        return parse(self.text(set_))

    def series(self, name, **labels):
        """{labels: value} of a family, of those with these labels."""
        _, series = self.families().get(name, ("", {}))
        return {key: float(value) for key, value in series.items() if labels.items() <= dict(key).items()}


@pytest.fixture(name="service")
def one_service(machine):
    machine.start("dgx-a100", "--mig", "half")
    return Service(machine)


def test_what_the_machine_is(service):
    truth = service.machine.show()
    families = service.families()
    uuids = {gpu["uuid"] for gpu in truth["gpus"]}
    info = [dict(labels) for labels in families["sluice_gpu_info"][1]]
    assert {labels["uuid"] for labels in info} == uuids and len(info) == len(truth["gpus"])
    assert families["sluice_gpus"][1][()] == "8"
    assert {dict(labels)["UUID"] for labels in families["DCGM_FI_DEV_GPU_TEMP"][1]} == uuids
    build = [dict(labels) for labels in families["sluice_build_info"][1]]
    assert [labels["simulated"] for labels in build] == ["true"]
    # GPUs in MIG mode: their instances, and no use of the whole.
    instances = {mig["uuid"] for gpu in truth["gpus"] for mig in gpu["mig"]["instances"]}
    migs = [dict(labels) for labels in families["sluice_mig_info"][1]]
    split = {labels["uuid"] for labels in migs}
    assert len(split) == 4 and {labels["mig_uuid"] for labels in migs} == instances
    assert {dict(labels)["uuid"] for labels in families["sluice_gpu_utilization_ratio"][1]} == uuids - split
    memory = [dict(labels) for labels in families["DCGM_FI_DEV_FB_USED"][1]]
    assert {labels["UUID"] for labels in memory if "GPU_I_ID" in labels} == split
    assert {labels["UUID"] for labels in memory if "GPU_I_ID" not in labels} == uuids - split
    # An A100 has no GPM, and says nothing of what its engines do.
    assert "sluice_gpu_activity_ratio" not in families and "DCGM_FI_PROF_SM_ACTIVE" not in families


def test_promtool_reads_the_page_of_a_service(service):
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("SKIPPED: needs promtool: tools/setup check")
    done = subprocess.run([promtool, "check", "metrics"], input=service.text("native"), capture_output=True, text=True,
                          check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_an_xid_and_a_job(service):
    job = service.machine.submit("sleep", "1000", gpus=1)
    wait_until(lambda: service.series("sluice_container_gpu_allocated", job_id=str(job)), what="the job's series")
    assert service.series("sluice_jobs", state="running") == {(("state", "running"),): 1}
    # No kubelet knows what the queue hands out.
    families = service.families()
    assert list(families["sluice_resource_units"][1]) == [(("resource", "jobs"),)]
    assert "sluice_resource_registered" not in families and "sluice_resource_refused_total" not in families
    before = time.time()
    service.machine.sim("inject", "xid", "79", "--gpu", "3")
    wait_until(lambda: service.series("sluice_gpu_xid_errors_total", gpu="3", xid="79"), what="the XID")
    (when,) = service.series("sluice_gpu_xid_last_timestamp_seconds", gpu="3", xid="79").values()
    assert abs(when - before) < 60
    wait_until(lambda: list(service.series("sluice_gpu_health", gpu="3", state="unhealthy").values()) == [1],
               what="the verdict")
    (dcgm,) = service.series("DCGM_FI_DEV_XID_ERRORS", gpu="3").items()
    assert dcgm[1] == 79 and dict(dcgm[0])["err_code"] == "79"
    assert "bus" in dict(dcgm[0])["err_msg"]
    assert list(service.series("DCGM_FI_DEV_XID_ERRORS", gpu="2").values()) == [0]
    assert service.series("sluice_gpu_health_reason", gpu="3", xid="79")


def test_counters_of_rdma_ports(machine):
    machine.start("dgx1")
    config = machine.path("/k8s-rdma-shared-dev-plugin/config.json")
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"configList": [
        {"resourceName": "hca", "rdmaHcaMax": 4, "selectors": {"vendors": ["15b3"]}}]}))
    service = Service(machine)
    port = {"device": "mlx5_1", "port": "1"}

    def counter(name):
        return list(service.series(f"sluice_rdma_port_{name}_total", **port).values())

    wait_until(lambda: counter("link_downed") == [0], what="a counter of a port")
    assert counter("xmit_data_bytes") == [2000000] and counter("np_cnp_sent") == [0]
    machine.sim("inject", "rdma", "1", "down")
    wait_until(lambda: counter("link_downed") == [1], what="a port that was down once")
    # What is not there, or is no number, has no series.
    counters = machine.path("/sys/class/infiniband/mlx5_1/ports/1/counters")
    (counters / "symbol_error").unlink()
    (counters / "port_rcv_data").unlink()
    (counters / "port_rcv_data").write_text("N/A (no PMA)\n")
    wait_until(lambda: counter("symbol_error") == counter("rcv_data_bytes") == [], what="counters that are not known")
    assert counter("xmit_data_bytes") == [2000000]
    assert list(service.series("sluice_rdma_port_symbol_error_total", device="mlx5_0").values()) == [0]


def test_a_driver_that_hangs_makes_pages_stale_and_not_slow(service):
    assert list(service.series("sluice_collect_stale").values()) == [0]
    service.machine.sim("inject", "hang", "any")
    slowest = 0

    def is_stale():
        nonlocal slowest
        begin = time.monotonic()
        text = service.text("native")
        slowest = max(slowest, time.monotonic() - begin)
        return "\nsluice_collect_stale 1\n" in text

    wait_until(is_stale, what="pages that say that they are stale")
    assert slowest < 5  # bench/metrics has the gate; this machine may be busy
    assert "sluice_gpu_power_watts" in service.families()  # the last reading
