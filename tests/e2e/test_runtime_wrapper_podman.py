# SPDX-License-Identifier: Apache-2.0
"""podman with sluice-runtime as its OCI runtime: what a privileged container gets by NVIDIA_VISIBLE_DEVICES, and that
neither variables nor annotations that an image brings along give anybody a GPU."""

import json
import subprocess

import pytest

from conftest import SLUICE, Reply
from containers import needs, simulated
from test_cdi_podman import IMAGE, Podman, nodes

EVIL = "localhost/evil:1"


@pytest.fixture(scope="module")
def podman():
    needs("podman", "runc", "conmon")
    with simulated("t4x4", "--gpus", "2", "--dev-style", "nvidia") as machine:
        made = Podman(machine)
        try:
            (machine.directory / "sluice-runtime").symlink_to(SLUICE)
            recipe = machine.directory / "Dockerfile"
            recipe.write_text(f"FROM {IMAGE}\nENV NVIDIA_VISIBLE_DEVICES=all CUDA_VERSION=8.0.61\n"
                              "LABEL cdi.k8s.io/evil=sluice.sim/gpu=all\n")
            subprocess.run([*made.command(), "build", "--annotation", "cdi.k8s.io/evil=sluice.sim/gpu=all", "--tag", EVIL,
                            "--file", recipe, machine.directory / "podman"], env=made.env, check=True,
                           capture_output=True, timeout=120)
            yield made
        finally:
            made.remove()


def start(podman, image, *options):
    script = "ls /dev/nvidia* 2>/dev/null; cat /proc/self/mountinfo | grep libcuda; true"
    wrapper = str(podman.machine.directory / "sluice-runtime")
    command = [SLUICE, "sim", "exec", "--mounts", "--root", str(podman.machine.root), "--state",
               str(podman.machine.state), "--", *podman.command(), "--runtime", wrapper, "run", "--rm", *options, image,
               "/bin/sh", "-c", script]
    done = subprocess.run(command, env=podman.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=60, check=False)
    return Reply(command, done.returncode, done.stdout, done.stderr)


def test_a_container_that_may_ask(podman):
    reply = start(podman, IMAGE, "--cap-add", "SYS_ADMIN", "--env", "NVIDIA_VISIBLE_DEVICES=1").ok()
    assert nodes(reply) == ["/dev/nvidia1"]
    assert "libcuda.so.1" in reply.out


def test_an_image_chooses_nothing(podman):
    """podman copies the annotations of an image into config.json: they are no permission."""
    inspected = subprocess.run([*podman.command(), "image", "inspect", EVIL], env=podman.env, check=True,
                               capture_output=True, timeout=60)
    assert json.loads(inspected.stdout)[0]["Annotations"]["cdi.k8s.io/evil"] == "sluice.sim/gpu=all"
    assert start(podman, EVIL).ok().out == ""


def test_what_fails_is_shown(podman):
    reply = start(podman, IMAGE, "--cap-add", "SYS_ADMIN", "--env", "NVIDIA_VISIBLE_DEVICES=9")
    assert reply.rc != 0
    assert "sluice-runtime: CDI device 'sluice.sim/gpu=9': no such device" in reply.err
