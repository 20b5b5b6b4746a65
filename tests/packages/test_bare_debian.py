# SPDX-License-Identifier: Apache-2.0
"""The package in a bare Debian 12, without systemd's tools and with them: installed, used, replaced under running jobs,
removed, purged. In this order: each test goes on where the one before it stopped."""

import json
import os
import shutil

from conftest import needs, package, run, wait_until

# What installing anything changes, and what no package owns.
NOT_OURS = ("/var/lib/dpkg/", "/var/lib/apt/", "/var/cache/", "/var/log/", "/etc/ld.so.cache", "/proc/", "/sys/",
            "/dev/", "/tmp/", "/var/tmp/")


def files(bare):
    text = bare.run("find", "/", "-xdev", "-print0").out
    return {path for path in text.split("\0") if path and not (path + "/").startswith(NOT_OURS)
            and not path.startswith(NOT_OURS)}


def owned(bare):
    """What packages that are installed own, under the names of this merged /usr."""
    names = bare.run("sh", "-c", "cat /var/lib/dpkg/info/*.list").out.split("\n")
    return set(names) | {"/usr" + name for name in names}


BEFORE = set()


def simulated(bare, *command, **how):
    return bare.run("sluice", "sim", "exec", "--", *command, **how)


def test_installs(bare):
    BEFORE.clear()
    BEFORE.update(files(bare))
    said = bare.install()
    assert "Setting up sluice" in said.out
    state = bare.run("dpkg-query", "-W", "-f", "${db:Status-Status}", "sluice").out
    assert state == "installed"
    assert bare.run("dpkg", "--verify", "sluice").out == ""


def test_the_account_is_made(bare):
    said = bare.run("getent", "passwd", "sluice", rc=0 if bare.has_systemd else 2).out
    assert (said.split(":")[4:5] == ["Page and metrics of sluice"]) == bare.has_systemd


def test_no_service_was_started_and_one_will_be(bare):
    assert bare.run("pidof", "sluice", rc=None).rc == 1
    wanted = bare.path("/etc/systemd/system/multi-user.target.wants/sluice.service")
    assert os.readlink(wanted) == "/lib/systemd/system/sluice.service"
    assert not bare.path("/etc/systemd/user/default.target.wants").exists()


def test_its_units_are_right(bare, tmp_path):
    """Read by the systemd of this machine; the bare one has none."""
    needs("systemd-analyze")
    for mode, path in (("--system", "/lib/systemd/system/sluice.service"),
                       ("--user", "/usr/lib/systemd/user/sluice.service")):
        unit = tmp_path / "sluice.service"
        text = bare.path(path).read_text()
        assert "ExecStart=/usr/bin/sluice " in text
        unit.write_text(text.replace("=/usr/bin/", f"={bare.root}/usr/bin/"))
        done = run("systemd-analyze", mode, "--man=no", "verify", unit, rc=None,
                   env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
        complaints = [line for line in done.err.splitlines() if "sluice" in line]
        assert (complaints, done.rc) == ([], 0)


def test_every_command_and_its_page(bare):
    commands = json.loads(bare.run("sluice", "__dump").out)["commands"]
    assert commands
    for command in commands:
        assert bare.run("sluice", command["name"], "--help").out
        assert bare.path(f"/usr/share/man/man1/sluice-{command['name']}.1.gz").exists()


def test_a_repository_is_read(bare):
    """By the program that has the libraries for it."""
    bare.path("/root/Packages").write_text("Package: linux-headers-6.1.0-1-amd64\nVersion: 1\nArchitecture: amd64\n"
                                           "Filename: a.deb\n")
    said = bare.run("sluice", "doctor", "--for", "driver-container", "--packages", "/root", "--system", "debian", "--kernel",
                    "6.1.0-1-amd64", "--output", "json", rc=None).out
    bare.path("/root/Packages").unlink()
    found = [finding["status"] for finding in json.loads(said)["findings"] if finding["id"] == "driver.packages"]
    assert found == ["ok", "warn"]  # the headers are there, the compiler is not


def test_a_simulated_machine(bare):
    bare.run("sluice", "sim", "start", "--profile", "t4x4")
    told = json.loads(simulated(bare, "sluice", "devices", "--output", "json").out)
    assert [gpu["name"] for gpu in told["gpus"]] == ["Tesla T4"] * 4
    assert told["simulated"] is True


def test_a_job(bare):
    """Nothing runs: the first `sluice run` starts the service."""
    said = simulated(bare, "sluice", "run", "--gpus", "2", "--", "sh", "-c", "echo gpus $CUDA_VISIBLE_DEVICES; exit 7",
                     rc=7)
    assert said.out.startswith("gpus GPU-")
    bare.run("sh", "-c", "kill $(pidof sluice)")
    wait_until(lambda: bare.run("pidof", "sluice", rc=None).rc == 1, "the end of the service")


def newer(directory):
    """The same package as another version, with another program in it."""
    tree = directory / "tree"
    run("dpkg-deb", "--raw-extract", package(), tree)
    control = tree / "DEBIAN/control"
    text = control.read_text()
    version = next(line for line in text.splitlines() if line.startswith("Version: "))
    control.write_text(text.replace(version, version + "+newer"))
    for name in ("usr/bin/sluice", "usr/libexec/sluice/sluice-supervise"):
        with open(tree / name, "ab") as file:
            file.write(b"newer")
    (tree / "DEBIAN/md5sums").unlink()
    made = directory / "newer.deb"
    run("dpkg-deb", "--root-owner-group", "--build", tree, made)
    shutil.rmtree(tree)
    return made


def jobs(bare):
    told = json.loads(simulated(bare, "sluice", "jobs", "--all", "--output", "json").out)
    return {job["id"]: job for job in told["jobs"]}


def has_ended(bare, job):
    attempt = jobs(bare)[job]["attempt"]
    return attempt and attempt["ended_unix"] is not None


def submit(bare, gpus, script):
    return int(simulated(bare, "sluice", "run", "--detach", "--gpus", gpus, "--", "sh", "-c", script).out)


def test_upgrade_under_running_jobs(bare, tmp_path):
    deb = newer(tmp_path)
    service = bare.agent()
    over = submit(bare, 1, "echo short")
    loop = "echo before {0}; while [ ! -e /root/go ]; do sleep 0.1; done; echo after {0}; exit {0}"
    running = {submit(bare, 1, loop.format(code)): code for code in (3, 4)}
    waiting = submit(bare, 4, "echo waited")
    wait_until(lambda: has_ended(bare, over), "the end of the first job")
    wait_until(lambda: all(jobs(bare)[job]["state"] == "Running" for job in running), "running jobs")
    assert "Setting up sluice" in bare.install(deb).out
    assert bare.path("/usr/bin/sluice").read_bytes().endswith(b"newer")
    assert service.poll() is None
    # the service is still the old program, and the new client speaks with it
    assert all(jobs(bare)[job]["state"] == "Running" for job in running)
    bare.stop(service)
    service = bare.agent()
    assert all(jobs(bare)[job]["state"] == "Running" for job in running)
    assert jobs(bare)[waiting]["state"] == "Pending"
    bare.run("touch", "/root/go")
    for job, code in running.items():
        wait_until(lambda job=job: has_ended(bare, job), f"the end of job {job}")
        assert jobs(bare)[job]["exit_code"] == code
        assert simulated(bare, "sluice", "logs", job).out == f"before {code}\nafter {code}\n"
    wait_until(lambda: has_ended(bare, waiting), "the end of the job that waited")
    assert simulated(bare, "sluice", "logs", waiting).out == "waited\n"
    assert simulated(bare, "sluice", "logs", over).out == "short\n"
    bare.stop(service)


FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"


def test_removed_it_leaves_its_state_and_purged_nothing(bare):
    """What others would find goes with the program. There is no GPU here, so it is made up as a service leaves it."""
    bare.run("sluice", "sim", "stop")
    bare.run("sluice", "run", "--", "true")
    bare.run("sh", "-c", "kill $(pidof sluice)")
    wait_until(lambda: bare.run("pidof", "sluice", rc=None).rc == 1, "the end of the service")
    bare.run("mkdir", "-p", FEATURES, "/run/cdi")
    bare.run("touch", "/run/cdi/sluice.dev-gpu.json", "/run/cdi/nvidia.json", f"{FEATURES}/gfd", f"{FEATURES}/other")
    bare.path("/var/lib/sluice/labels").write_text(f"file {FEATURES}/gfd\n")
    said = bare.run("apt-get", "-q", "remove", "-y", "sluice").out
    assert f"removed: '{FEATURES}/gfd'" in said and "removed: '/var/run/cdi/sluice.dev-gpu.json'" in said
    assert not bare.path("/usr/bin/sluice").exists()
    assert bare.path("/var/lib/sluice/queue.db").exists()
    bare.check_apt()
    assert bare.run("ls", FEATURES, "/run/cdi").out.split() == [f"{FEATURES}:", "other", "/run/cdi:", "nvidia.json"]
    bare.run("rm", "-r", "/root/go", "/etc/kubernetes", "/run/cdi")
    bare.run("apt-get", "-q", "purge", "-y", "sluice")
    bare.check_apt()
    left = files(bare) - BEFORE - owned(bare)
    # The account stays, as is usual; systemd-sysusers keeps the files as they were before.
    left -= {"/etc/.pwd.lock", *(f"/etc/{name}-" for name in ("passwd", "shadow", "group", "gshadow"))}
    assert not {path for path in left if "sluice" in path}, left
    assert not left
