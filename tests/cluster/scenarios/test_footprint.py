# SPDX-License-Identifier: Apache-2.0
"""What the service takes in a pod of its own, where no other program of the node shares its libraries."""

from conftest import wait

SERVICE_PSS_KB = 8000
# By the name that the kernel has of each.
OF_SERVICE = ("agent", "probe", "sluice-web")


def pss_kb(node):
    """PSS of each process of the service on the node, by its command line."""
    listed = node.run("sh", "-c", "for p in $(pgrep '^sluice'); do echo $(sed -n 's/^Pss: *//p' /proc/$p/smaps_rollup) "
                      "$(tr '\\0' ' ' </proc/$p/cmdline); done")
    return {" ".join(line.split()[2:]): int(line.split()[0]) for line in listed.splitlines()}


def sum_kb(node):
    return sum(kb for command, kb in pss_kb(node).items() if any(name in command for name in OF_SERVICE))


def test_the_service_fits_into_its_gate(service, node):
    # What a start takes for a moment is given back within half a minute.
    wait(lambda: f"agent, probe and web take {SERVICE_PSS_KB} kB, they take {pss_kb(node)}", 60,
         lambda: 0 < sum_kb(node) <= SERVICE_PSS_KB, every=2)
    print(f"gate service_pss_pod {sum_kb(node) / 1000:.2f} MB <= {SERVICE_PSS_KB // 1000} ok simulated, of {pss_kb(node)}")
