# SPDX-License-Identifier: Apache-2.0
"""Collectives between simulated GPUs by the simulated NCCL, as a user types them; and what goes wrong with the real
one in containers: each has its exit status, and says what to look at."""

import json
import re
import socket

import pytest

from conftest import SLUICE, wait_until

LONG_S = 120
ROW = re.compile(r"^ +(\d+) +(\d+) +(\w+) +(\w+) +(-?\d+)((?: +[0-9.e+]+| +N/A){8}) *$", re.MULTILINE)


@pytest.fixture
def dgx1(machine):
    machine.start("dgx1")
    return machine


def collectives(machine, *arguments, fault=None, env=None):
    return machine.run("sluice", "sim", "exec", "--", SLUICE, "bench", "collectives", *arguments, "--backend", "nccl",
                       timeout=LONG_S, env={**(env or {}), **({"SLUICE_SIM_NCCL_FAULT": fault} if fault else {})})


def test_the_call_of_the_slides(dgx1):
    """-b 8 -e 256M -f 2 -g 8, but for the largest sizes."""
    done = collectives(dgx1, "all_reduce", "-g", "8", "-b", "8", "-e", "1M", "-f", "2", "-n", "2", "-w", "0")
    assert done.rc == 0, done
    rows = ROW.findall(done.out)
    assert [int(row[0]) for row in rows] == [8 << step for step in range(18)]
    assert all(row[5].split()[3] == row[5].split()[7] == "0" for row in rows), done.out
    # whoever reads it must not take it for a measurement
    assert "# Simulated: the times are those of this machine's processors, of no GPU\n" in done.out
    assert "NCCL 2.21.5 (simulated)" in done.out and "CUDA 13.0 (simulated)" in done.out
    # the cube mesh: 16 of 28 pairs have a link
    assert "# NCCL: network IB\n" in done.out
    assert "# NCCL: P2P: 16 pairs: 0-1 0-2 0-3 0-4" in done.out
    assert "# NCCL: SHM: 12 pairs:" in done.out
    assert "# PASS transport IB" in done.out


def test_every_operation(dgx1):
    done = collectives(dgx1, "all", "-g", "4", "-b", "1000", "-e", "1000", "-n", "1", "-w", "0", "--memory", "registered",
                       "--timing", "stream")
    assert done.rc == 0, done
    assert len(ROW.findall(done.out)) == 11
    assert "Out of bounds values : 0 OK" in done.out


def test_a_wrong_element_is_named(dgx1):
    done = collectives(dgx1, "-g", "2", "-b", "1K", "-e", "1K", "-n", "1", fault="wrong=1:7")
    assert done.rc == 2, done
    assert "on rank 1 element 7 is " in done.err
    assert "Out of bounds values : 2 FAILED" in done.out


def test_one_that_hangs_is_given_up_and_everybody_is_named(dgx1):
    done = collectives(dgx1, "-g", "2", "-b", "512", "-e", "1K", "-f", "2", "-n", "1", "-T", "1", fault="hang=1024")
    assert done.rc == 2, done
    for rank in range(2):
        assert re.search(rf"rank {rank}: all_reduce of 1024 bytes", done.err), done
    assert [row[0] for row in ROW.findall(done.out)] == ["512"]


def test_an_error_behind_the_calls_ends_the_run(dgx1):
    done = collectives(dgx1, "-g", "2", "-b", "1K", "-e", "1K", "-n", "1", fault="async=1024")
    assert done.rc == 2, done
    assert re.search(r"rank [01]: .*(remote process exited|has given up)", done.err), done


def test_no_room_in_dev_shm_has_a_hint(dgx1):
    done = collectives(dgx1, "-g", "2", "-b", "1K", "-e", "1K", fault="shm")
    assert done.rc == 2, done
    assert "No space left on device" in done.err
    assert "NCCL may need 40 MiB for 2 ranks" in done.err and "--shm-size" in done.err


def test_socket_beside_infiniband_is_slow(dgx1):
    done = collectives(dgx1, "-g", "2", "-b", "1K", "-e", "1K", "-n", "1", "--format", "json", fault="socket")
    assert done.rc == 1, done
    assert json.loads(done.out)["config"]["simulated"] is True
    check = next(check for check in json.loads(done.out)["checks"] if check["name"] == "transport")
    assert check["status"] == "SLOW" and check["target"] == "Socket"
    assert "mlx5_0 port 1 (InfiniBand" in check["reason"]
    # which of them it is depends on where the test runs
    assert any(word in check["reason"] for word in ("IPC_LOCK", "/dev/infiniband", "NCCL_IB_DISABLE"))


def test_socket_is_right_where_there_is_nothing_else(machine):
    machine.start("t4x4")
    done = collectives(machine, "-g", "2", "-b", "1K", "-e", "1K", "-n", "1")
    assert done.rc == 0, done
    assert "# PASS transport Socket" in done.out


def test_ranks_that_somebody_else_starts_meet_by_themselves(dgx1):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = ["sluice", "sim", "exec", "--", SLUICE, "bench", "collectives", "--backend", "nccl", "-b", "1K", "-e", "1K",
               "-n", "1"]
    ranks = []
    for rank in range(2):
        log = open(dgx1.directory / f"rank{rank}", "w", encoding="utf-8")
        ranks.append(dgx1.spawn(*command, stdout=log, stderr=log, env={
            "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port)}))
        log.close()
    wait_until(lambda: all(rank.poll() is not None for rank in ranks), LONG_S, "the end of the ranks")
    texts = [(dgx1.directory / f"rank{rank}").read_text(encoding="utf-8") for rank in range(2)]
    assert [rank.returncode for rank in ranks] == [0, 0], texts
    assert len(ROW.findall(texts[0])) == 1 and "0 OK" in texts[0]
    assert not ROW.findall(texts[1])


def test_ranks_without_a_place_to_meet_are_told(dgx1):
    done = collectives(dgx1, "-b", "1K", "-e", "1K", env={"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"})
    assert done.rc == 64, done
    assert "MASTER_ADDR" in done.err and "SLUICE_NCCL_ID_FILE" in done.err


def test_what_no_gpu_has_room_for_is_refused_at_the_start(dgx1):
    done = collectives(dgx1, "-g", "2", "-b", "1K", "-e", "1T", "-f", "2", "-n", "1")
    assert done.rc == 64, done
    assert re.search(r"buffers take 20971\d\d MiB on each GPU, and on that of rank [01] \d+ MiB are free", done.err), done
    assert not ROW.findall(done.out)


def test_no_library_no_statement(dgx1):
    done = collectives(dgx1, "-g", "2", "-b", "1K", "-e", "1K", "--library", "/no/such/libnccl.so.2")
    assert done.rc == 3, done
    assert "cannot load /no/such/libnccl.so.2: " in done.err
