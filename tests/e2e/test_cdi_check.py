# SPDX-License-Identifier: Apache-2.0
"""`sluice cdi list` and `sluice cdi check`: each way in which a specification goes stale, and what
is said of names that runtimes call unresolvable."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes are made by root")

VERSION = "580.105.08"


def own(machine):
    return machine.root / "var/run/cdi/sluice.sim-gpu.json"


def generate(machine):
    machine.run("sluice", "cdi", "generate", "--output", own(machine)).ok()


def foreign(machine, name="acme.yaml", kind="acme.com/nic", devices=("x",), version="0.5.0",
            node=None, edits=None):
    """A file of somebody else's in /etc/cdi."""
    path = machine.root / "etc/cdi" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    node = node or {"path": "/dev/nvidiactl"}
    path.write_text(json.dumps({
        "cdiVersion": version, "kind": kind, "containerEdits": edits or {},
        "devices": [{"name": device, "containerEdits": {"deviceNodes": [node]}}
                    for device in devices]}))
    return path


def check(machine, *options, rc, **how):
    """The findings by id."""
    reply = machine.run("sluice", "cdi", "check", "--output", "json", *options, **how)
    assert reply.rc == rc, reply
    assert reply.json["verdict"] == ["fresh", "stale", "unreadable"][rc]
    found = {}
    for finding in reply.json["findings"]:
        found.setdefault(finding["id"], []).append(finding)
    return found


def mend(machine, finding):
    """Does what the finding says."""
    command = shlex.split(finding["fix"])
    assert command[0] == "sluice", finding
    machine.run(*command).ok()


def remove(machine):
    machine.sim("stop")
    shutil.rmtree(machine.root)  # what it did not make stays


@pytest.fixture
def sim(machine):
    machine.start("dgx-a100", "--gpus", "2")
    generate(machine)
    return machine


# -- list


def test_list(sim):
    uuid = sim.show()["gpus"][0]["uuid"]
    reply = sim.run("sluice", "cdi", "list").ok()
    lines = reply.out.splitlines()
    assert f"sluice.sim/gpu=0\t{own(sim)}" in lines and f"sluice.sim/gpu={uuid}\t{own(sim)}" in lines
    assert len(lines) == 5 and "5 of these are simulated" in reply.err
    hidden = foreign(sim, kind="sluice.sim/gpu", devices=["0"])
    foreign(sim, "a.json", devices=["x", "y"])
    foreign(sim, "b.json", devices=["x", "y"])
    (sim.root / "etc/cdi/bad.yaml").write_text("cdiVersion: 0.5.0\nkind: a.b/c\nhooks: []\n")
    reply = sim.run("sluice", "cdi", "list")
    assert reply.rc == 1 and reply.out.splitlines() == lines
    assert "bad.yaml:3:1: specification: has no such field" in reply.err
    for name in "xy":
        assert f"b.json: acme.com/nic={name} is also in {sim.root}/etc/cdi/a.json" in reply.err
    reply = sim.run("sluice", "cdi", "list", "--output", "json")
    assert reply.rc == 1
    states = {(entry["file"], entry["name"]): entry["state"] for entry in reply.json["devices"]}
    assert states[str(hidden), "0"] == "hidden" and states[str(own(sim)), "0"] == "found"
    assert states[f"{sim.root}/etc/cdi/a.json", "y"] == "conflict"
    assert [file["error"] is None for file in reply.json["files"]] == [True, True, True, False, True]
    reply = sim.run("sluice", "cdi", "list", "--cdi-dir", own(sim).parent).ok()
    assert reply.out.splitlines() == lines
    for wrong in (own(sim), ""):
        for command, rc in (("list", 1), ("check", 2)):
            reply = sim.run("sluice", "cdi", command, "--cdi-dir", wrong)
            assert reply.rc == rc and f"--cdi-dir: '{wrong}' is no directory" in reply.err, reply


def test_nothing_there(machine):
    machine.start("t4x1")
    directory = machine.root / "var/run/cdi"
    for made in (False, True):  # no directory, and an empty one
        if made:
            directory.mkdir(parents=True)
        reply = machine.run("sluice", "cdi", "list").ok()
        assert reply.out == "" and "no CDI file" in reply.err
        found = check(machine, rc=1)
        assert list(found) == ["nothing-there"]
        assert machine.run("sluice", "cdi", "check").out.endswith("0 simulated devices in 0 files looked at\n")
        assert machine.run("sluice", "cdi", "check", "--output", "json").json["simulated"]
    mend(machine, found["nothing-there"][0])
    assert not check(machine, rc=0)


# -- what goes stale


def test_fresh(sim):
    reply = sim.run("sluice", "cdi", "check").ok()
    assert reply.out == "fresh: 5 simulated devices in 1 file looked at\n"
    sim.sim("reload-driver")
    assert not check(sim, rc=0)
    assert not check(sim, "sluice.sim/gpu=1", "sluice.sim/gpu=all", rc=0)
    link = sim.directory / "link"
    link.symlink_to(sim.root)
    assert not check(sim, rc=0, env={"SLUICE_ROOT": str(link)})


def test_a_new_driver(sim):
    remove(sim)
    sim.start("dgx-a100", "--gpus", "2", "--driver", "535.230.02")
    generate(sim)
    text = own(sim).read_text()
    remove(sim)
    sim.start("dgx-a100", "--gpus", "2")
    own(sim).parent.mkdir(parents=True)
    own(sim).write_text(text)
    found = check(sim, rc=1)
    assert set(found) == {"module-version", "mount-missing"}
    assert "535.230.02" in found["module-version"][0]["text"]
    assert found["module-version"][0]["count"] > 20
    mend(sim, found["mount-missing"][0])
    assert not check(sim, rc=0)


def test_the_module_is_older_than_the_libraries(sim):
    """After an update without a reboot."""
    for path in (sim.root / "usr/lib/x86_64-linux-gnu").rglob(f"*.so.{VERSION}"):
        path.rename(str(path).replace(VERSION, "590.10.01"))
    found = check(sim, rc=1)
    assert f"kernel module is {VERSION}" in found["driver-unfit"][0]["text"]
    assert "reboot" in found["driver-unfit"][0]["fix"]
    assert found["mount-missing"][0]["count"] > 20


def test_no_driver(sim):
    sim.sim("inject", "no-driver")
    found = check(sim, rc=1)
    assert found["module-missing"][0]["fix"] == "modprobe nvidia" and "node-missing" in found
    sim.sim("heal")
    sim.sim("inject", "version-mismatch")
    assert "driver-unfit" in check(sim, rc=1)


def test_a_gpu_goes_and_comes(sim):
    uuid = sim.show()["gpus"][1]["uuid"]
    sim.sim("inject", "hotunplug", "--gpu", "1")
    found = check(sim, rc=1)
    assert [finding["device"] for finding in found["gpu-gone"]] == [
        "sluice.sim/gpu=1", f"sluice.sim/gpu={uuid}"]
    assert "node-missing" in found and found["node-missing"][0]["count"] == 3
    assert not check(sim, "sluice.sim/gpu=0", rc=0)
    assert "gpu-gone" in check(sim, "sluice.sim/gpu=1", rc=1)
    mend(sim, found["gpu-gone"][0])
    assert not check(sim, rc=0)
    sim.sim("inject", "hotplug", "--gpu", "1")
    found = check(sim, rc=1)
    assert list(found) == ["gpu-new"] and uuid in found["gpu-new"][0]["text"]
    mend(sim, found["gpu-new"][0])
    assert not check(sim, rc=0)


def test_gpus_change_places(sim):
    own(sim).write_text(own(sim).read_text().replace("/dev/nvidia0", "/dev/nvidia7")
                        .replace("/dev/nvidia1", "/dev/nvidia0").replace("nvidia7", "nvidia1"))
    found = check(sim, rc=1)
    assert list(found) == ["gpu-moved"] and len(found["gpu-moved"]) == 4


def test_mig_changes(machine):
    machine.start("dgx-a100", "--gpus", "1")
    generate(machine)
    machine.sim("inject", "mig", "single")
    found = check(machine, rc=1)
    assert set(found) == {"gpu-mig", "mig-new"} and len(found["mig-new"]) == 7
    mend(machine, found["mig-new"][0])
    assert not check(machine, rc=0)
    machine.sim("inject", "mig", "hetero")
    found = check(machine, rc=1)
    assert "mig-gone" in found and "mig-new" in found
    mend(machine, found["mig-gone"][0])
    assert not check(machine, rc=0)
    machine.sim("inject", "mig", "none")
    assert "mig-gone" in check(machine, rc=1)


def test_a_node_vanishes(sim):
    (sim.root / "dev/nvidia-uvm").unlink()
    (sim.root / "dev/nvidia1").rename(sim.root / "dev/elsewhere")
    found = check(sim, rc=1)
    assert [finding["fix"] for finding in found["node-missing"]] == [
        "nvidia-modprobe -u", "nvidia-modprobe -c 1"]
    assert list(check(sim, "sluice.sim/gpu=0", rc=1)) == ["node-missing"]
    (sim.root / "dev/nvidia1").write_text("")
    assert "node-type" in check(sim, rc=1)


def test_numbers_drift(sim):
    """NVIDIA's generator states major and minor; the uvm driver gets another at each load."""
    real = (sim.root / "dev/nvidia-uvm").stat().st_rdev
    node = {"path": "/dev/nvidia-uvm", "type": "c", "major": os.major(real),
            "minor": os.minor(real)}
    foreign(sim, node=node)
    assert not check(sim, rc=0)
    foreign(sim, node={**node, "major": os.major(real) + 1})
    found = check(sim, rc=1)
    assert list(found) == ["node-number"]
    assert f"states {os.major(real) + 1}:{os.minor(real)}" in found["node-number"][0]["text"]
    foreign(sim, node={**node, "type": "b"})
    assert list(check(sim, rc=1)) == ["node-type"]


def test_a_mount_goes(sim):
    (sim.root / "usr/bin/nvidia-smi").unlink()
    found = check(sim, rc=1)
    assert list(found) == ["mount-missing"]
    mend(sim, found["mount-missing"][0])
    assert not check(sim, rc=0)


def test_a_library_is_replaced(sim):
    libraries = sim.root / "usr/lib/x86_64-linux-gnu"
    shutil.copy(libraries / f"libcuda.so.{VERSION}", libraries / f"libcuda.so.{VERSION}.1")
    (libraries / "libcuda.so.1").unlink()
    (libraries / "libcuda.so.1").symlink_to(f"libcuda.so.{VERSION}.1")
    found = check(sim, rc=1)
    assert "libcuda.so.1' is another file now" in found["library-replaced"][0]["text"]
    (libraries / "libcuda.so.1").unlink()
    (libraries / "libcuda.so.1").symlink_to(f"libcuda.so.{VERSION}")
    assert not check(sim, rc=0)
    (libraries / f"libcuda.so.{VERSION}").write_text("half of it")
    assert "was the driver installed to its end" in check(sim, rc=1)["library-replaced"][0]["text"]


def test_a_hook_goes(sim):
    path = foreign(sim, "nvidia.yaml", "nvidia.com/gpu", ["0"], node={"path": "/dev/nvidia0"},
                   edits={"hooks": [{"hookName": "createContainer",
                                     "path": "/usr/bin/nvidia-cdi-hook"}]})
    found = check(sim, "nvidia.com/gpu=0", rc=1)
    assert found["hook-missing"][0]["fix"] == f"nvidia-ctk cdi generate --output {path}"


# -- other files


def test_two_files_claim_a_device(sim):
    shutil.copy(own(sim), own(sim).parent / "copy.json")
    found = check(sim, rc=1)
    assert found["device-conflict"][0]["count"] == 5
    assert found["device-conflict"][0]["fix"] == f"rm {own(sim)}"
    assert "copy.json" in check(sim, "sluice.sim/gpu=0", rc=1)["device-conflict"][0]["text"]


def test_a_broken_file(sim):
    bad = sim.root / "etc/cdi/nvidia.yaml"
    bad.parent.mkdir(parents=True, exist_ok=True)
    bad.write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: '0'\n")
    found = check(sim, rc=2)
    assert f"{bad}:4:3: devices: needs 'containerEdits'" in found["file-rejected"][0]["text"]
    # It has only its own devices: those of others work.
    assert not check(sim, "sluice.sim/gpu=0", rc=0)
    assert not check(sim, "--cdi-dir", own(sim).parent, rc=0)
    assert set(check(sim, "nvidia.com/gpu=0", rc=2)) == {"kind-unknown", "file-rejected"}
    for text in (b"\x00\xff", b"[" * 40, b"a: &a [*a]", b"{}" + b" " * (4 << 20)):
        bad.write_bytes(text)
        assert "file-rejected" in check(sim, rc=2)
    bad.unlink()
    os.mkfifo(bad)  # nobody waits for its other end
    assert not check(sim, rc=0)


def test_names(sim):
    foreign(sim, kind="nvidia.com/gpu", devices=["0", "1"])
    found = check(sim, "nvidia.com/gpu=7", "nvidia.com/gpus=0", "/dev/nvidia0", rc=1)
    assert "it has 0, 1" in found["device-unknown"][0]["text"]
    assert "did you mean 'nvidia.com/gpu'" in found["kind-unknown"][0]["text"]
    assert "path of a device" in found["name-invalid"][0]["text"]
    uuid = sim.show()["gpus"][0]["uuid"]
    near = uuid[:-1] + ("0" if uuid[-1] != "0" else "1")
    text = check(sim, f"sluice.sim/gpu={near}", rc=1)["device-unknown"][0]["text"]
    assert f"did you mean '{uuid}'" in text


def test_a_file_newer_than_the_runtime(sim):
    foreign(sim, version="0.7.0")
    programs = sim.directory / "bin"
    programs.mkdir()
    podman = programs / "podman"
    for version, rc in (("4.3.1", 1), ("5.4.2", 0)):
        podman.write_text(f"#!/bin/sh\necho podman version {version}\n")
        podman.chmod(0o755)
        found = check(sim, rc=rc, env={"PATH": f"{programs}:{os.environ['PATH']}"})
        assert list(found) == ["version-too-new"]
    found = check(sim, "--cdi-version", "0.6.0", rc=1)
    assert "reads up to 0.6.0" in found["version-too-new"][0]["text"]
    assert not check(sim, "--cdi-version", "1.1.0", rc=0)
    assert sim.run("sluice", "cdi", "check", "--cdi-version", "9").rc == 64
    # No question is left out without a word: the exit code would be that of another one.
    name = "sluice.sim/gpu=0"
    root, env = ("--image-root", "/"), ("--image-env", "/dev/null")
    apply = ("--apply", "config.json", "--device", name)
    for options in (root + env, root + apply, env + apply, (*root, name), (*apply, name)):
        assert sim.run("sluice", "cdi", "check", *options).rc == 64, options


# -- images


def image(machine, layout, *libraries):
    """An unpacked image of nothing but a C library and its loader; ldconfig has run in it."""
    root = machine.directory / "image"
    shutil.rmtree(root, ignore_errors=True)
    directory = root / {"debian": "usr/lib/x86_64-linux-gnu", "rhel": "usr/lib64"}[layout]
    directory.mkdir(parents=True)
    (root / "etc").mkdir()
    shutil.copy("/lib/x86_64-linux-gnu/libc.so.6", directory)
    (root / "lib64").mkdir()
    shutil.copy("/lib64/ld-linux-x86-64.so.2", root / "lib64")
    made = machine.root / f"usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}"
    for library in libraries:
        (root / library).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, root / library)
    subprocess.run(["/sbin/ldconfig", "-r", root, *{f"/{pathlib.Path(library).parent}"
                                                   for library in libraries}], check=True)
    return root


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="takes the C library of x86-64")
def test_images(machine):
    machine.start("t4x1")
    for layout in ("debian", "rhel"):
        root = image(machine, layout)
        reply = machine.run("sluice", "cdi", "check", "--image-root", root, "--output", "json").ok()
        assert (reply.json["libc"], reply.json["layout"]) == ("glibc", layout)
        own_library = image(machine, layout, "opt/cuda/libcuda.so.1") / "opt/cuda/libcuda.so.1"
        assert b"/opt/cuda/libcuda.so.1" in (root / "etc/ld.so.cache").read_bytes()
        found = check(machine, "--image-root", root, rc=1)
        assert found["image-library"][0]["path"] == "/opt/cuda/libcuda.so.1"
        own_library.unlink()
        own_library.symlink_to(machine.root / f"usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}")
        assert not check(machine, "--image-root", root, rc=0)  # there is nothing in the image
    shutil.rmtree(root)
    (root / "lib").mkdir(parents=True)
    (root / "lib/ld-musl-x86_64.so.1").write_text("")
    reply = machine.run("sluice", "cdi", "check", "--image-root", root)
    assert reply.rc == 1 and "musl" in reply.out and "would not all find" in reply.out
    assert machine.run("sluice", "cdi", "check", "--image-root", root / "no").rc == 2
    assert machine.run("sluice", "cdi", "check", "--image-root", root, "nvidia.com/gpu=0").rc == 64


# -- who looks, and where


NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}


def test_another_user(sim):
    if sim.run("sluice", "help", **NOBODY).rc != 0:
        pytest.skip("the build directory is closed for other users")
    assert not check(sim, "--no-driver", rc=0, **NOBODY)
    own(sim).chmod(0o600)
    found = check(sim, "--no-driver", rc=2, **NOBODY)
    assert found["file-unreadable"][0]["fix"] == f"chmod 644 {own(sim)}"
    own(sim).chmod(0o644)
    own(sim).parent.chmod(0o700)
    foreign(sim)
    found = check(sim, "--no-driver", rc=2, **NOBODY)
    assert found["directory-unreadable"][0]["fix"] == f"chmod 755 {own(sim).parent}"
    # What may be in there is told with the name that is not found.
    found = check(sim, "--no-driver", "sluice.sim/gpu=0", rc=2, **NOBODY)
    assert set(found) == {"kind-unknown", "directory-unreadable"}
    reply = sim.run("sluice", "cdi", "list", **NOBODY)
    assert reply.rc == 1 and "acme.com/nic=x\t" in reply.out and "Permission denied" in reply.err


def test_a_read_only_directory(sim):
    directory = own(sim).parent
    script = ('mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" || exit 99; '
              'rm -f "$1"; exec "$2" cdi check --output json')
    reply = sim.run("unshare", "-m", "sh", "-c", script, directory,
                    sim.root / "usr/bin/nvidia-smi", shutil.which("sluice", path=sim.env["PATH"]))
    if reply.rc == 99 or "unshare" in reply.err:
        pytest.skip(f"no mount namespace can be made: {reply.err}")
    assert reply.rc == 1, reply
    found = {finding["id"]: finding for finding in reply.json["findings"]}
    assert set(found) == {"mount-missing", "read-only"}
    assert found["read-only"]["fix"] == f"mount -o remount,rw {directory}"


def test_a_driver_that_hangs(sim):
    sim.sim("inject", "hang", "any")
    found = check(sim, "--timeout", "300ms", rc=0, timeout=30)
    assert list(found) == ["driver-silent"]
    assert not check(sim, "--no-driver", rc=0)


def test_many_files_and_devices(sim):
    for i in range(255):
        foreign(sim, f"{i}.json", f"acme.com/nic{i}", devices=range(200), node={"path": "/dev/no"})
    found = check(sim, rc=1)
    assert len(found["node-missing"]) == 255 and found["node-missing"][0]["count"] == 200
    reply = sim.run("sluice", "cdi", "list").ok()
    assert len(reply.out.splitlines()) == 255 * 200 + 5


def test_texts_of_others_are_shown_only(sim):
    foreign(sim, node={"path": "/dev/\x1b[31mred"})
    reply = sim.run("sluice", "cdi", "check")
    assert reply.rc == 1 and "\x1b" not in reply.out and "\\x1b[31mred" in reply.out


def test_the_text(sim):
    (sim.root / "dev/nvidia-uvm").unlink()
    reply = sim.run("sluice", "cdi", "check")
    assert reply.rc == 1
    assert reply.out.splitlines() == [
        f"stale: {own(sim)}: there is no device node '{sim.root}/dev/nvidia-uvm'",
        "    to mend it: nvidia-modprobe -u",
        "stale: 5 simulated devices in 1 file looked at"]
    foreign(sim)
    silent = ", and not compared with the driver's list of GPUs"
    for name, text in (("acme.com/nic=x", ""), ("sluice.sim/gpu=all", silent)):
        reply = sim.run("sluice", "cdi", "check", "--no-driver", name)
        assert reply.out.splitlines()[-1].partition(" looked at")[2] == text


def test_what_an_image_requires(machine, tmp_path):
    """--image-env: lines, and what podman prints; for each GPU, or for those that are named."""
    machine.start("t4x4", "--gpus", "2")
    env = tmp_path / "env"

    def ask(text, *names, stdin=None):
        env.write_text(text)
        return machine.run("sluice", "cdi", "check", "--image-env", env, *names)

    assert ask("PATH=/bin\nNVIDIA_REQUIRE_CUDA=cuda>=11.0 brand=tesla,arch>=9\n").ok().out == (
        "simulated GPU 0: met\nsimulated GPU 1: met\n")
    reply = ask(json.dumps([{"Config": {"Env": ["NVIDIA_REQUIRE_CUDA=cuda>=99"]}}]), "sluice.sim/gpu=1")
    assert reply.rc == 1
    assert reply.out.startswith("simulated GPU 1: NVIDIA_REQUIRE_CUDA needs 'cuda>=99'; here are cuda ")
    assert ask("NVIDIA_REQUIRE_CUDA=cuda>=99\nNVIDIA_DISABLE_REQUIRE=true\n").rc == 0
    reply = ask("NVIDIA_REQUIRE_CUDA=vgpu>=5,cuda>=11\n").ok()
    assert "left out: 'vgpu>=5' is of a property that is not known" in reply.err
    assert ask("NVIDIA_REQUIRE_CUDA=cuda>\n").rc == 2
    assert ask("NVIDIA_REQUIRE_CUDA=cuda>=11\n", "9").rc == 1
    assert ask("{").rc == 2
