# SPDX-License-Identifier: Apache-2.0
"""The modules in packaging/selinux, compiled against the types that they refer to. What an enforcing kernel makes of
them is seen only where one runs."""

import re
import shutil
import subprocess

import pytest

from conftest import DEADLINE_S, ROOT

MODULES = [ROOT / "packaging" / "selinux" / name for name in ("sluice.cil", "sluice-gpu.cil", "sluice-jobs.cil")]
BASE = ROOT / "tests" / "selinux" / "base.cil"
UDICA = ROOT / "tests" / "selinux" / "udica.cil"
# What the service's type may write to, and whom it may speak with.
WRITTEN = {"container_var_lib_t", "container_file_t", "xserver_misc_device_t", "var_lib_t", "var_run_t", "kubernetes_file_t",
           "sluice.socket", "tmpfs_t"}
SPOKEN_TO = {"kubelet_t", "unconfined_service_t"}
SOCKETS = ("unix_stream_socket", "tcp_socket")
OPTIONAL = ("initrc_t", "kubelet_t", "unconfined_service_t", "infiniband_device_t", "kubernetes_file_t")

pytestmark = pytest.mark.skipif(not shutil.which("secilc"), reason="needs secilc")


def compiled(tmp_path, *files, program="secilc", out="policy"):
    command = [program, "-o", str(tmp_path / out), *(["-f", str(tmp_path / "contexts")] if program == "secilc" else [])]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False, timeout=DEADLINE_S)


def rules(tmp_path, *files):
    done = compiled(tmp_path, *files, program="secil2conf", out="policy.conf")
    assert done.returncode == 0, done.stderr + done.stdout
    found = []
    for line in (tmp_path / "policy.conf").read_text(encoding="utf-8").splitlines():
        match = re.match(r"allow (\S+) (\S+) : (\S+) \{ (.*) \};", line)
        if match:
            found.append((match[1], match[2], match[3], set(match[4].split())))
    return found


def test_they_compile(tmp_path):
    done = compiled(tmp_path, BASE, UDICA, *MODULES)
    assert done.returncode == 0, done.stderr + done.stdout
    assert (tmp_path / "policy").stat().st_size > 0


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_policy_without_that_type_takes_them_too(tmp_path, name):
    base = tmp_path / "base.cil"
    text = BASE.read_text(encoding="utf-8")
    base.write_text(text.replace(f"(type {name})\n", "").replace(f" {name}", ""), encoding="utf-8")
    done = compiled(tmp_path, base, UDICA, *MODULES)
    assert done.returncode == 0, done.stderr + done.stdout


def test_the_service_may_what_it_needs_and_no_more(tmp_path):
    found = rules(tmp_path, BASE, UDICA, MODULES[0])
    ours = [(target, kind, may) for source, target, kind, may in found if source == "sluice.process"]
    assert {target for target, kind, _ in ours if kind == "unix_stream_socket"} == SPOKEN_TO  # both are optional
    assert {target for target, kind, may in ours if "write" in may and kind not in SOCKETS} == WRITTEN
    assert not [may for _, kind, may in ours if kind == "tcp_socket" and may & {"connect", "name_connect"}]  # it calls nobody
    assert not [may for _, kind, may in ours if kind == "file" and may & {"execute", "entrypoint"}]
    assert ("infiniband_device_t", "chr_file", {"getattr"}) in ours


def test_containers_may_open_gpus_and_adapters_and_nothing_else(tmp_path):
    without = rules(tmp_path, BASE, UDICA, MODULES[0])
    more = [rule for rule in rules(tmp_path, BASE, UDICA, *MODULES[:2]) if rule not in without]
    assert {(source, target, kind) for source, target, kind, _ in more} == {
        ("container_domain", "xserver_misc_device_t", "chr_file"), ("container_domain", "infiniband_device_t", "chr_file")}
    assert all({"open", "read", "write", "ioctl", "map"} <= may for *_, may in more)


def test_supervisors_may_watch_their_pipes_and_nothing_else(tmp_path):
    without = rules(tmp_path, BASE, UDICA, *MODULES[:2])
    more = [rule for rule in rules(tmp_path, BASE, UDICA, *MODULES) if rule not in without]
    assert sorted(more) == [(name, name, "fifo_file", {"watch"}) for name in ("initrc_t", "unconfined_service_t")]


@pytest.mark.parametrize("rule", ["(allow sluice.process shadow_t (file (read)))",
                                  "(allow container_domain fixed_disk_device_t (chr_file (open)))"])
def test_what_never_may_be_is_refused(tmp_path, rule):
    spoilt = tmp_path / "spoilt.cil"
    spoilt.write_text(rule + "\n", encoding="utf-8")
    done = compiled(tmp_path, BASE, UDICA, *MODULES, spoilt)
    assert done.returncode != 0 and "neverallow" in done.stderr + done.stdout
