# SPDX-License-Identifier: Apache-2.0
"""sluice under the name nvidia-container-cli: what it prints is what NVIDIA's program of that name
prints."""

import os
import pathlib
import shutil
import socket
import struct

import pytest

from conftest import SLUICE

NAME = "nvidia-container-cli"
PROFILES = ["dgx1", "dgx2", "dgx-a100", "hgx-h100", "t4x1", "t4x4", "workstation", "a100-mig", "h100-mig"]
CONTROL = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"]
PROC = "/proc/driver/nvidia/capabilities"
# libnvidia-container's order
LIBRARIES = """nvidia-ml nvidia-cfg nvidia-nscq cuda cudadebugger nvidia-opencl nvidia-gpucomp
    nvidia-ptxjitcompiler nvidia-fatbinaryloader nvidia-allocator nvidia-compiler nvidia-pkcs11
    nvidia-pkcs11-openssl3 nvidia-nvvm nvidia-tileiras nvidia-ngx vdpau_nvidia nvidia-encode
    nvidia-opticalflow nvcuvid nvidia-eglcore nvidia-glcore nvidia-tls nvidia-glsi nvidia-fbc
    nvidia-ifr nvidia-rtcore nvoptix GLX_nvidia EGL_nvidia GLESv2_nvidia GLESv1_CM_nvidia
    nvidia-glvkspirv nvidia-cbl""".split()
BINARIES = """nvidia-smi nvidia-debugdump nvidia-persistenced nv-fabricmanager nvidia-cuda-mps-control
    nvidia-cuda-mps-server""".split()
LABELS = ["Device Index", "Device Minor", "Model", "Brand", "GPU UUID", "Bus Location", "Architecture"]


@pytest.fixture
def cli(machine, tmp_path):
    """Calls it by a link of that name, on the machine."""
    link = tmp_path / NAME
    link.symlink_to(SLUICE)

    def call(*arguments, **more):
        return machine.run(link, *arguments, **more)
    return call


def bus(gpu):
    """NVML's form: eight digits of the domain."""
    return f"0000{gpu['bus']}".lower()


@pytest.mark.parametrize("profile, brand, architecture", [
    ("dgx-a100", "Nvidia", "8.0"), ("t4x4", "Tesla", "7.5"), ("workstation", "GeForce", "8.9"),
    ("a100-mig", "Nvidia", "8.0")])
def test_info(machine, cli, profile, brand, architecture):
    machine.start(profile)
    truth = machine.run("sluice", "devices", "--output", "json").ok().json
    rows = [[str(gpu["index"]), str(gpu["minor"]), gpu["name"], brand, gpu["uuid"], bus(gpu),
             architecture] for gpu in truth["gpus"]]
    versions = [truth["driver_version"], truth["cuda_version"]]

    head = f"NVRM version:   {versions[0]}\nCUDA version:   {versions[1]}\n"
    blocks = ["".join(f"{label + ':':15} {value}\n" for label, value in zip(LABELS, row))
              for row in rows]
    assert cli("info").ok().out == "\n".join([head, *blocks])
    assert cli("-k", "-d", "/dev/tty", "-r", "/", "info").ok().out == "\n".join([head, *blocks])

    table = [["NVRM version", "CUDA version"], versions, [], LABELS, *rows]
    csv = "".join(",".join(row) + "\n" for row in table)
    assert cli("--load-kmods", "info", "--csv").ok().out == csv


def test_no_configure(machine, cli):
    """However it is called, one sentence and nothing done."""
    machine.start("t4x1")
    for before in ([], ["-k", "--user", "--no-pivot"], ["--ldcache=/etc/ld.so.cache", "-u0:0"]):
        reply = cli(*before, "configure", "--ldconfig=@/sbin/ldconfig", "--device=all", "--pid=1", "/")
        assert reply.rc == 64 and reply.out == ""
        assert len(reply.err.splitlines()) == 1 and "'sluice cdi generate'" in reply.err


def test_wrong_command_lines(machine, cli):
    machine.start("t4x1")
    for words in ([], ["-k"], ["inof"], ["info", "x"], ["info", "--frob"], ["--frob", "info"],
                  ["info", "-k"], ["-r"]):
        reply = cli(*words)
        assert reply.rc == 64 and reply.out == "" and reply.err.startswith(NAME), reply
    assert "did you mean 'info'?" in cli("inof").err
    assert "Usage: nvidia-container-cli" in cli("--help").ok().out
    assert "--csv" in cli("info", "--help").ok().out
    assert cli("-V").ok().out.startswith("cli-version: ")


def test_no_driver(machine, cli):
    machine.start("t4x1")
    machine.sim("inject", "no-driver")
    for command in (["info"], ["list"], ["list", "-l"], ["list", "-d", "none"]):
        reply = cli(*command)
        assert reply.rc == 69 and reply.out == "" and "driver" in reply.err, reply


# ---- list


def lines(reply):
    text = reply.ok().out
    assert text == "" or text.endswith("\n")
    return text.splitlines()


def minors(machine):
    """{"gpu0/gi1": 12, "gpu0/gi1/ci0": 13, "config": 1, ...}"""
    try:
        text = machine.read("/proc/driver/nvidia-caps/mig-minors")
    except FileNotFoundError:
        return {}
    return {name.removesuffix("/access"): number for name, number in
            (line.split() for line in text.splitlines())}


def mig_lines(machine, gpu, mig):
    gi, ci = f"gi{mig['gi']}", f"ci{mig['ci']}"
    caps = minors(machine)
    return [f"{PROC}/gpu{gpu['minor']}/mig/{gi}/access", f"{PROC}/gpu{gpu['minor']}/mig/{gi}/{ci}/access",
            *[f"/dev/nvidia-caps/nvidia-cap{caps[name]}" for name in
              (f"gpu{gpu['minor']}/{gi}", f"gpu{gpu['minor']}/{gi}/{ci}")]]


def files_below(machine, directory, names):
    return [f"{directory}/{name}" for name in names if machine.path(f"{directory}/{name}").is_file()]


def expected(machine):
    """What the whole list has to be, from the machine's files."""
    seen = machine.run("sluice", "devices", "--output", "json").ok().json
    version = seen["driver_version"]
    nodes = CONTROL + [f"/dev/nvidia{gpu['minor']}" for gpu in seen["gpus"]]
    for gpu in seen["gpus"]:
        for mig in gpu["mig"]["devices"]:
            nodes += mig_lines(machine, gpu, mig)
    libraries = []
    for name in LIBRARIES:
        libraries += [path for directory in ("/usr/lib64", "/usr/lib/x86_64-linux-gnu")
                      for path in files_below(machine, directory, [f"lib{name}.so.{version}",
                                                                   f"vdpau/lib{name}.so.{version}"])]
    firmware = files_below(machine, f"/lib/firmware/nvidia/{version}", ["gsp_ga10x.bin", "gsp_tu10x.bin"])
    return nodes + files_below(machine, "/usr/bin", BINARIES) + libraries + firmware


@pytest.mark.parametrize("profile", PROFILES)
def test_list_is_everything_in_order(machine, cli, profile):
    machine.start(profile)
    found = lines(cli("list"))
    assert found == expected(machine)
    assert lines(machine.run("sluice", "devices", "--files")) == found
    migs = [line for line in found if line.startswith(PROC)]
    assert (len(migs) > 0) == profile.endswith("-mig")


def test_libraries_without_a_place_in_the_order_come_last(machine, cli):
    machine.start("t4x1")
    known = next(machine.root.rglob("libnvidia-fbc.so.*.*"))
    before = lines(cli("list", "-l"))
    for name in ("libnvidia-zzz", "libnvidia-aaa"):
        new = known.with_name(known.name.replace("libnvidia-fbc", name))
        new.write_bytes(known.read_bytes().replace(b"libnvidia-fbc", name.encode()))
    after = lines(cli("list", "-l"))
    assert after[:-2] == before
    assert [path.split("/")[-1].split(".")[0] for path in after[-2:]] == ["libnvidia-aaa", "libnvidia-zzz"]


@pytest.mark.parametrize("options", [
    ("--driver", "470.256.02"), ("--driver", "535.183.06"), ("--driver", "590.48.01"),
    ("--layout", "rhel"), ("--minors", "1,0")])
def test_list_of_other_machines(machine, cli, options):
    machine.start("dgx-a100", "--gpus", "2", *options)
    found = lines(cli("list"))
    assert found == expected(machine)
    assert any("/libcuda.so." in line for line in found)
    if "--minors" in options:
        assert [line for line in found if line.startswith("/dev/nvidia") and line[-1].isdigit()] == [
            "/dev/nvidia1", "/dev/nvidia0"]


def test_parts(machine, cli):
    machine.start("a100-mig")
    version = machine.run("sluice", "devices", "--output", "json").ok().json["driver_version"]
    whole = lines(cli("list"))
    libraries, binaries, firmware = (lines(cli("list", option)) for option in ("-l", "-b", "-f"))
    assert [path for path in whole if path.endswith(f".so.{version}")] == libraries
    assert [path for path in whole if path.startswith("/usr/bin/")] == binaries
    assert [path for path in whole if path.startswith("/lib/firmware/")] == firmware
    assert lines(cli("list", "-bl")) == binaries + libraries
    assert lines(cli("list", "--libraries", "--binaries")) == binaries + libraries
    assert lines(cli("list", "--compat32")) == []
    assert lines(cli("list", "-i")) == []
    assert lines(cli("list", "--device", "all")) == whole[:len(whole) - len(
        libraries + binaries + firmware)]
    for options in (["--libraries"], ["--binaries"], ["--firmwares"], ["--device", "0:1"]):
        assert lines(machine.run("sluice", "devices", "--files", *options)) == lines(
            cli("list", *options))


def test_devices(machine, cli):
    machine.start("a100-mig", "--seed", "3")
    gpu = machine.run("sluice", "devices", "--output", "json").ok().json["gpus"][0]
    migs = gpu["mig"]["devices"]
    node = [f"/dev/nvidia{gpu['minor']}"]
    assert lines(cli("list", "-d", "none")) == lines(cli("list", "-d", "")) == CONTROL
    for name in ("0", gpu["uuid"], gpu["uuid"].upper(), bus(gpu), "0:" + gpu["bus"][5:]):
        assert lines(cli("list", "-d", name)) == CONTROL + node, name
    for index in (0, 1):
        for name in (f"0:{index}", migs[index]["uuid"]):
            assert lines(cli("list", "-d", name)) == CONTROL + node + mig_lines(
                machine, gpu, migs[index]), name
    both = CONTROL + node + mig_lines(machine, gpu, migs[1]) + mig_lines(machine, gpu, migs[0])
    assert lines(cli("list", "-d", "0:1,,0", "-d", "0:0")) == both


@pytest.mark.parametrize("which", ["config", "monitor"])
def test_who_may_change_or_watch_mig(machine, cli, which):
    machine.start("a100-mig")
    caps = minors(machine)
    of_gpu = [f"/dev/nvidia-caps/nvidia-cap{cap}" for name, cap in caps.items() if name.startswith("gpu0/")]
    wanted = [f"{PROC}/mig/{which}", f"/dev/nvidia-caps/nvidia-cap{caps[which]}", f"{PROC}/gpu0",
              "/dev/nvidia-caps", *of_gpu]
    assert lines(cli("list", "-d", "all", f"--mig-{which}", "all")) == CONTROL + ["/dev/nvidia0"] + wanted
    assert lines(cli("list", "-d", "0", f"--mig-{which}", "all")) == CONTROL + ["/dev/nvidia0"] + wanted
    assert lines(cli("list", f"--mig-{which}", "all")) == []  # of no device
    for device, value in (("all", "0"), ("0:1", "all"), ("all", "none")):
        reply = cli("list", "-d", device, f"--mig-{which}", value)
        assert reply.rc == 65 and reply.out == "" and f"mig-{which} error: {value}: " in reply.err


def test_a_gpu_without_mig_has_none_to_change(machine, cli):
    machine.start("t4x1")
    assert lines(cli("list", "-d", "all", "--mig-config", "all", "--mig-monitor", "all")) == CONTROL + [
        "/dev/nvidia0"]


def test_a_device_that_is_not_there(machine, cli):
    machine.start("dgx-a100")
    for name in ("8", "-1", "0,8", "0x0", "0:0", "all0", "GPU-", "MIG-0", "00000000:ff:00.0", "../nvidia0",
                 "0\n1", "\x1b[2J", "7" * 5000):
        reply = cli("list", f"--device={name}")
        assert reply.rc == 65 and reply.out == "", reply
        assert "device error: " in reply.err and "unknown device" in reply.err
        assert "\x1b" not in reply.err and len(reply.err.splitlines()) == 2, reply  # the other: simulated
    reply = machine.run("sluice", "devices", "--files", "--device", "8")
    assert reply.rc == 65 and reply.out == "" and "device error: 8: unknown device" in reply.err


# The head of a 32-bit library.
ELF32 = (b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack(
    "<HHIIIIIHHHHHH", 3, 3, 1, 0, 0, 0, 0, 52, 32, 0, 40, 0, 0)).ljust(4096, b"\0")


def test_sockets_mps_and_32_bit_libraries(machine, cli):
    machine.start("t4x1")
    version = machine.run("sluice", "devices", "--output", "json").ok().json["driver_version"]
    sockets, held = [], []
    for service in ("nvidia-persistenced", "nvidia-fabricmanager"):
        path = machine.path(f"/run/{service}/socket")
        path.parent.mkdir()
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].bind(str(path))
        sockets.append(f"/run/{service}/socket")
    machine.path("/tmp/nvidia-mps").mkdir(parents=True)  # anybody could have made it: not listed
    machine.path("/run/pipes").mkdir()
    pipes = {"CUDA_MPS_PIPE_DIRECTORY": "/run/pipes"}
    old = [f"/usr/lib/i386-linux-gnu/lib{name}.so.{version}" for name in ("nvidia-ml", "cuda", "nvcuvid")]
    machine.path(old[0]).parent.mkdir(parents=True)
    for path in old:
        machine.path(path).write_bytes(ELF32)
    # neither a 32-bit library nor of this driver
    shutil.copy(next(machine.root.rglob(f"libnvidia-fbc.so.{version}")), machine.path("/usr/lib/i386-linux-gnu"))
    machine.path(f"/usr/lib/i386-linux-gnu/libnvidia-cfg.so.{version}").write_bytes(b"\x7fELF")
    machine.path("/usr/lib/i386-linux-gnu/libnvidia-glsi.so.1.2").write_bytes(ELF32)

    reply = cli("list", "-i")
    assert lines(reply) == sockets and "/tmp/nvidia-mps" in reply.err
    assert lines(cli("list", "-i", env=pipes)) == [*sockets, "/run/pipes"]
    libraries = lines(cli("list", "-l"))
    reply = cli("list", "-l", "--compat32")
    assert lines(reply) == libraries + old and "libnvidia-cfg" in reply.err
    whole = lines(cli("list", env=pipes))
    firmware = lines(cli("list", "-f"))
    assert whole[-len(firmware) - 3 - len(libraries + old):] == (
        libraries + old + sockets + ["/run/pipes"] + firmware)
    for each in held:
        each.close()


def test_missing_nodes(machine, cli):
    """The lines are NVIDIA's; what is not there is said beside them."""
    machine.start("dgx-a100", "--gpus", "2", "--break", "uvm-missing")
    assert lines(cli("list", "-d", "1")) == ["/dev/nvidiactl", "/dev/nvidia-modeset", "/dev/nvidia1"]
    machine.path("/dev/nvidia1").unlink()
    reply = cli("list", "-d", "all")
    assert lines(reply) == ["/dev/nvidiactl", "/dev/nvidia-modeset", "/dev/nvidia0", "/dev/nvidia1"]
    assert "there is no /dev/nvidia1" in reply.err and "/dev/nvidia0" not in reply.err


def test_half_a_driver(machine, cli):
    machine.start("t4x1")
    library = next(machine.root.rglob("libcuda.so.*.*"))
    library.unlink()
    for reply in (cli("list"), cli("list", "-l"), machine.run("sluice", "devices", "--files", "--ipcs")):
        assert reply.rc == 69 and reply.out == "" and "libcuda" in reply.err, reply
    assert lines(cli("list", "-d", "0")) == CONTROL + ["/dev/nvidia0"]  # no library is asked for


def test_a_library_that_anybody_may_write_is_not_listed(machine, cli):
    machine.start("t4x1")
    library = next(machine.root.rglob("libnvcuvid.so.*.*"))
    whole = lines(cli("list", "-l"))
    library.chmod(0o666)
    reply = cli("list", "-l")
    assert lines(reply) == [path for path in whole if "libnvcuvid" not in path]
    assert "libnvcuvid" in reply.err


def test_two_versions(machine, cli):
    machine.start("t4x1")
    machine.sim("inject", "version-mismatch")
    for command in (["info"], ["list"], ["list", "-l"]):
        reply = cli(*command)
        assert reply.rc == 69 and reply.out == "", reply


def test_a_lost_gpu(machine, cli):
    """NVIDIA's program says nothing of the others then; here they are listed, and it still fails."""
    machine.start("dgx-a100", "--gpus", "3")
    before = cli("info").ok().out
    machine.sim("inject", "lost", "--gpu", "1")
    info = cli("info")
    assert info.rc == 1 and "GPU 1 is not well" in info.err
    blocks, was = info.out.split("\n\n"), before.split("\n\n")
    assert len(blocks) == 4 and blocks[:2] == was[:2] and blocks[3] == was[3]
    assert blocks[2].splitlines()[0] == "Device Index:   1"
    listing = cli("list")
    assert listing.rc == 1 and "GPU 1 is not well" in listing.err
    assert {"/dev/nvidia0", "/dev/nvidia2"} < set(listing.out.splitlines())
    assert cli("list", "-d", "0,2").rc == 0


def test_driver_root(machine, cli, tmp_path):
    """The driver of a container: paths are those from inside of it."""
    machine.start("t4x1")
    whole = lines(cli("list", "-l"))
    link = pathlib.Path(tmp_path / "driver")
    link.symlink_to(machine.root)
    for root in (machine.root, link):
        assert lines(cli("-r", root, "list", "-l")) == whole
        assert lines(machine.run("sluice", "devices", "--files", "--libraries", "--driver-root", root)) == whole
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o755)
    assert cli("-r", empty, "list", "-l").rc == 69
    for root in ("relative", "/does/not/exist", SLUICE):
        reply = cli("-r", root, "list", "-l")
        assert reply.rc == 64 and reply.out == "", reply
    os.chmod(empty, 0o777)
    assert cli("-r", empty, "list", "-l").rc == 64


def test_the_two_forms_are_not_mixed(machine):
    machine.start("t4x1")
    for options in (["--info", "--files"], ["--csv"], ["--files", "--csv"], ["--device", "0"], ["--libraries"],
                    ["--info", "--device", "0"], ["--files", "-o", "json"], ["--info", "--output=json"],
                    ["--driver-root", "/"], ["--info", "x"]):
        reply = machine.run("sluice", "devices", *options)
        assert reply.rc == 64 and reply.out == "", reply
    assert machine.run("sluice", "devices", "--info").ok().out.startswith("NVRM version:   ")
    assert machine.run("sluice", "devices", "--info", "--csv").ok().out.startswith("NVRM version,CUDA")
