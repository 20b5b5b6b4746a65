# SPDX-License-Identifier: Apache-2.0
"""tools/check-layers finds each kind of include that goes against the direction of the tree."""

import pytest

from conftest import LICENCE


def include(tree, path, *names):
    for name in names:
        if not (tree.root / name).exists():
            tree.write(name, LICENCE)
    lines = "".join(f'#include "{name[4:] if name.startswith("src/") else name}"\n' for name in names)
    tree.write(path, LICENCE + lines)


def test_a_tree_that_keeps_the_rules_passes(tree):
    include(tree, "src/hardware/gpu.c", "src/base/err.h", "src/hardware/gpu.h")
    include(tree, "src/policy/policy.c", "src/hardware/gpu.h", "src/base/err.h")
    include(tree, "src/units/ledger.c", "src/policy/policy.h")
    include(tree, "src/job/token.c", "src/units/ledger.h", "src/job/token.h")
    include(tree, "src/probe/probe.c", "src/hardware/nvml.h")
    include(tree, "src/web/page.c", "src/hardware/snapshot.h", "src/base/err.h")
    include(tree, "src/agent/agent.c", "src/job/token.h", "src/doors/cdi/cdi.h")
    include(tree, "src/cmd/jobs/run.c", "src/job/token.h", "src/probe/probe.h")
    include(tree, "src/cmd/sim/sim.c", "sim/machine.h")
    include(tree, "src/cmd/sim/sim_show.c", "sim/machine.h", "src/cmd/cmd.h")
    include(tree, "sim/nvml/init.c", "sim/machine.h", "sim/nvml/nvml.h")
    include(tree, "src/main.c", "src/cmd/cmd.h", "src/base/err.h")
    result = tree.run("check-layers")
    assert (result.returncode, result.stdout) == (0, "check-layers: 0 findings\n")


@pytest.mark.parametrize("path, name, reason", [
    ("src/base/err.c", "src/hardware/gpu.h", "base may include only base"),
    ("src/hardware/gpu.c", "src/policy/policy.h", "hardware may include only"),
    ("src/hardware/gpu.c", "src/wire/grpc.h", "hardware may include only"),
    ("src/policy/policy.c", "src/units/unit.h", "policy may include only"),
    ("src/units/unit.c", "src/job/token.h", "units may include only"),
    ("src/wire/grpc.c", "src/hardware/gpu.h", "wire may include only"),
    ("src/web/page.c", "src/hardware/gpu.h", "web may include only"),
    ("src/probe/probe.c", "src/policy/policy.h", "probe may include only"),
    ("src/job/token.c", "src/doors/cdi/cdi.h", "job may include only"),
    ("src/doors/queue/queue.c", "src/doors/cdi/keep.h", "doors never include each other"),
    ("src/job/file/jobfile.c", "src/job/spec.h", "job/file may include only job/file, base"),
    ("src/libexec/supervise/run.c", "src/doors/queue/queue.h", "libexec may include only"),
    ("src/job/token.c", "src/hardware/nvml.h", "only hardware/ and probe/ see NVML"),
    ("src/cmd/machine/devices.c", "src/hardware/nvml.h", "only hardware/ and probe/ see NVML"),
    ("src/cmd/machine/devices.c", "sim/machine.h", "only src/cmd/sim/ may include the simulator"),
    ("src/hardware/gpu.c", "sim/machine.h", "only src/cmd/sim/ may include the simulator"),
    ("sim/state.c", "src/base/err.h", "sim/ shares no code with src/"),
    ("src/novelty/thing.c", "src/base/err.h", "not in the table"),
    ("src/main.c", "src/hardware/gpu.h", "main.c may include only"),
])
def test_an_include_against_the_direction_is_reported(tree, path, name, reason):
    include(tree, path, name)
    result = tree.run("check-layers")
    assert result.returncode == 1
    assert f"{path}:2: includes {name[4:] if name.startswith('src/') else name}: " in result.stdout
    assert reason in result.stdout
    assert result.stdout.endswith("check-layers: 1 findings\n")


def test_a_room_has_an_end(tree):
    for number in range(31):
        tree.write(f"src/units/part{number}.c", LICENCE)
    result = tree.run("check-layers")
    assert (result.returncode, result.stdout.splitlines()[0].startswith("src/units: 31 .c files")) == (1, True), result.stdout


def test_the_simulator_takes_no_library_with_it(tree):
    tree.write("sim/state.c", LICENCE + "#include <pthread.h>\n#include <jansson.h>\n")
    result = tree.run("check-layers")
    assert result.returncode == 1
    assert "sim/state.c:3: includes jansson.h: sim/ uses libc and pthread only" in result.stdout


def test_an_include_in_a_comment_is_none(tree):
    tree.write("src/hardware/gpu.h", LICENCE)
    tree.write("src/base/err.c", LICENCE + '/*\n#include "hardware/gpu.h"\n*/\n')
    assert tree.run("check-layers").returncode == 0
