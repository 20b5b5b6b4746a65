# SPDX-License-Identifier: Apache-2.0
"""podman and containerd with sluice-runtime as their OCI runtime: what a privileged container gets by
NVIDIA_VISIBLE_DEVICES, that neither variables nor annotations of an image give anybody a GPU, and who shows errors."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from conftest import SLUICE, Reply, wait_until
from containers import image, needs, simulated
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


@pytest.fixture
def ctr(podman):
    """ctr(ARGUMENTS) of a containerd of the test's own, with the machine of the other tests."""
    if not shutil.which("containerd") or not shutil.which("ctr"):
        pytest.skip("containerd is not installed, and tools/setup leaves it out: its package starts a service")
    machine, directory = podman.machine, podman.machine.directory / "containerd"
    directory.mkdir()
    configuration, socket = directory / "config.toml", directory / "sock"
    configuration.write_text(f'version = 2\nroot = "{directory}/root"\nstate = "{directory}/state"\n'
                             f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{socket}"\n')
    daemon = subprocess.Popen(["containerd", "--config", configuration], env=machine.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_until(socket.exists, what="the socket of containerd")
        yield lambda *arguments: machine.run("ctr", "--address", socket, *arguments)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(timeout=30)


def test_containerd(podman, ctr):
    """Also 1.6, which does not know CDI: its shims hand the machine's variables on."""
    root = image(podman.machine.directory / "plain")
    wrapper = podman.machine.directory / "sluice-runtime"

    def run(number, *options):
        return ctr("run", "--rm", "--runc-binary", wrapper, *options, "--rootfs", root,
                   f"sluice-test-{os.getpid()}-{number}", "/bin/sh", "-c", "ls /dev/nvidia* 2>/dev/null; true")

    variable = ("--env", "NVIDIA_VISIBLE_DEVICES=1")
    assert nodes(run(0, "--cap-add", "CAP_SYS_ADMIN", *variable).ok()) == ["/dev/nvidia1"]
    assert run(1, *variable).ok().out == ""
    reply = run(2, "--cap-add", "CAP_SYS_ADMIN", "--env", "NVIDIA_VISIBLE_DEVICES=9")
    assert reply.rc != 0
    assert "OCI runtime create failed: sluice-runtime: CDI device 'sluice.sim/gpu=9': no such device" in reply.err
