# SPDX-License-Identifier: Apache-2.0
"""The configuration of a running agent: read again, refused, applied, and never at a job's cost."""

import json
import os
import signal
import time

import pytest

from agent_client import Agent, code_of, pb
from conftest import DEADLINE_S, wait_until

SHARED = """version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""
INVALID = """version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: many
"""
TWO_DOORS = """version: v1
sluice:
  doors:
    kubelet: {devices: [0]}
    queue: {devices: [%s, 1]}
"""


@pytest.fixture
def config(machine):
    machine.start("dgx-a100", "--gpus", "4", "--dev-style", "file")
    return machine.directory / "config.yaml"


def start(machine, config, text="version: v1\n"):
    config.write_text(text)
    agent = Agent(machine, "--config", str(config))
    assert agent.is_ready, agent.text()
    wait_until(lambda: agent.client().status().gpus == 4)
    return agent


def test_a_valid_one_is_applied(machine, config):
    agent = start(machine, config)
    client = agent.client()
    share = {"gpus": 1, "share_numerator": 1, "share_denominator": 4}
    running = client.submit("sleep", "100", gpus=4)
    client.wait(running.id, (pb.RUNNING,))
    assert code_of(client.submit, "true", **share)[0] == "FAILED_PRECONDITION"
    before = client.status().configured_unix_ns
    config.write_text(SHARED)
    # How many are changed depends on whether the agent has noticed by itself before.
    assert "changed" in machine.run("sluice", "agent", "reload").ok().out
    assert client.status().configured_unix_ns > before
    job = client.submit("sleep", "100", **share)
    assert client.get(running.id).state == pb.RUNNING
    client.cancel(running.id)
    client.wait(running.id)
    [grant] = client.wait(job.id, (pb.RUNNING,)).attempt.grants
    assert grant.slot_count == 4 and len(grant.slots) == 1
    agent.logged("nvidia.com/gpu")
    client.cancel(job.id)
    client.wait(job.id)
    assert agent.end() == 0


def test_an_invalid_one_is_refused(machine, config):
    agent = start(machine, config, SHARED)
    client = agent.client()
    share = {"gpus": 1, "share_numerator": 1, "share_denominator": 4}
    job = client.submit("sleep", "100", **share)
    client.wait(job.id, (pb.RUNNING,))
    config.write_text(INVALID)
    reply = machine.run("sluice", "agent", "reload")
    assert reply.rc == 65 and f"{config}:6:17" in reply.err, reply
    status = client.status()
    assert f"{config}:6:17" in status.configuration_error
    assert client.get(job.id).state == pb.RUNNING
    other = client.submit("sleep", "100", **share)  # what was before still holds
    client.wait(other.id, (pb.RUNNING,))
    assert "6:17" in machine.run("sluice", "agent", "status").out
    config.write_text(SHARED)
    os.kill(agent.pid, signal.SIGHUP)
    wait_until(lambda: not client.status().configuration_error)
    for number in (job.id, other.id):
        client.cancel(number)
        client.wait(number)
    assert agent.end() == 0


def test_a_signal_with_an_invalid_one(machine, config):
    agent = start(machine, config)
    config.write_text(INVALID)
    os.kill(agent.pid, signal.SIGHUP)
    wait_until(lambda: "6:17" in agent.client().status().configuration_error)
    agent.logged("config.yaml:6:17")
    config.unlink()
    os.kill(agent.pid, signal.SIGHUP)
    wait_until(lambda: "No such file" in agent.client().status().configuration_error)
    assert agent.end() == 0


def test_a_device_of_two_doors_is_refused(machine, config):
    agent = start(machine, config)
    gpus = wait_until(lambda: next(agent.client().node.Watch(pb.WatchRequest(once=True), timeout=DEADLINE_S)).gpus,
                      what="the GPUs")
    # By the file alone, and only with the machine beside it.
    for name in ("0", gpus[0].uuid):
        config.write_text(TWO_DOORS % name)
        reply = machine.run("sluice", "agent", "reload")
        assert reply.rc == 65 and name in reply.err, reply
        assert agent.client().status().configuration_error
    assert agent.client().submit("true", gpus=4, dry_run=True).gpus == 4
    assert agent.end() == 0


def test_a_device_leaves_when_its_job_has_ended(machine, config):
    agent = start(machine, config)
    client = agent.client()
    job = client.submit("sleep", "100", gpus=1, gpu_ids="3")
    client.wait(job.id, (pb.RUNNING,))
    config.write_text("version: v1\nsluice:\n  doors:\n    queue: {devices: [0, 1]}\n")
    machine.run("sluice", "agent", "reload").ok()
    [warning] = [text for text in client.status().warnings if "not the queue's" in text]
    assert "GPU 3" in warning and str(job.id) in warning
    assert client.get(job.id).state == pb.RUNNING
    assert code_of(client.submit, "true", gpus=3)[0] == "FAILED_PRECONDITION"
    two = client.submit("true", gpus=2)
    assert client.wait(two.id).state == pb.SUCCEEDED
    client.cancel(job.id)
    client.wait(job.id)
    wait_until(lambda: not [text for text in client.status().warnings if "not the queue's" in text])
    assert agent.end() == 0


def test_a_file_that_comes_later_in_the_usual_place(machine, config):
    del config
    agent = Agent(machine)
    client = agent.client()
    assert client.status().configuration == ""
    usual = machine.root / "etc/sluice/config.yaml"
    usual.parent.mkdir(parents=True)
    usual.write_text(SHARED)
    machine.run("sluice", "agent", "reload").ok()
    assert client.status().configuration == str(usual)
    usual.unlink()
    usual.parent.rmdir()
    machine.run("sluice", "agent", "reload").ok()
    assert client.status().configuration == ""
    assert agent.end() == 0


@pytest.mark.parametrize("text", [INVALID, None], ids=["invalid", "missing"])
def test_one_that_is_wrong_at_the_start(machine, config, text):
    if text:
        config.write_text(text)
    reply = machine.run("sluice", "agent", "--config", config)
    assert reply.rc == 65 and str(config) in reply.err, reply


def test_many_at_once(machine, config):
    agent = start(machine, config)
    client = agent.client()
    for i in range(40):
        config.write_text(SHARED if i % 2 else "version: v1\n")
        os.kill(agent.pid, signal.SIGHUP)
        client.node.Reload.future(pb.ReloadRequest(), timeout=DEADLINE_S)
    assert machine.run("sluice", "agent", "reload").ok()
    assert client.status().pid == agent.pid
    assert agent.end() == 0


# --- noticed by itself -----------------------------------------------------------------------------

# What is asked for is a second; a machine that runs other tests as well may be late.
NOTICED_S = 10


class ConfigMap:
    """A directory as the kubelet keeps it for a ConfigMap: every change is the swap of one link."""

    def __init__(self, directory, **files):
        self.directory, self.generation = directory, 0
        directory.mkdir()
        self.write(**files)

    def write(self, **files):
        self.generation += 1
        new = self.directory / f"..2026_11_22_{self.generation}"
        new.mkdir()
        for name, text in files.items():
            (new / name).write_text(text)
        (self.directory / "..data_tmp").symlink_to(new.name)
        (self.directory / "..data_tmp").replace(self.directory / "..data")
        for name in files:
            if not (self.directory / name).is_symlink():
                (self.directory / name).symlink_to(f"..data/{name}")
        for link in self.directory.glob("[a-z]*"):
            if link.name not in files:
                link.unlink()
        for old in self.directory.glob("..2026*"):
            if old != new:
                for file in old.iterdir():
                    file.unlink()
                old.rmdir()


def with_strategy(strategy):
    return f"flags: {{migStrategy: {strategy}}}\n"


def told(agent, words, since=0):
    """Waits until `words` are in the log, and returns how long that took."""
    begin = time.monotonic()
    wait_until(lambda: words in agent.text()[since:], NOTICED_S, f"'{words}' in the log")
    return time.monotonic() - begin


@pytest.mark.parametrize("way", ["write", "rename", "swap", "link"])
def test_new_content_is_noticed(machine, config, way):
    directory = machine.directory / "volume"
    volume = ConfigMap(directory, **{"config.yaml": with_strategy("none")})
    if way == "swap":
        config = directory / "config.yaml"
    elif way == "link":
        config = machine.directory / "link.yaml"
        config.symlink_to(machine.directory / "target.yaml")
    if way != "swap":
        config.write_text(with_strategy("none"))
    agent = Agent(machine, "--config", str(config))
    assert agent.is_ready, agent.text()
    for strategy in ("single", "mixed", "none"):
        begin = len(agent.text())
        if way == "swap":
            volume.write(**{"config.yaml": with_strategy(strategy)})
        elif way == "rename":
            (machine.directory / "new").write_text(with_strategy(strategy))
            (machine.directory / "new").rename(config)
        else:
            config.write_text(with_strategy(strategy))
        told(agent, "flags.migStrategy: was", begin)
        told(agent, f"is '{strategy}'", begin)
    assert agent.text().count("configuration read again") == 3, agent.text()
    assert agent.end() == 0


def test_invalid_content_is_refused_and_the_old_stays(machine, config):
    agent = start(machine, config, SHARED)
    client = agent.client()
    share = {"gpus": 1, "share_numerator": 1, "share_denominator": 4}
    config.write_text(INVALID)
    wait_until(lambda: f"{config}:6:17" in client.status().configuration_error, NOTICED_S)
    job = client.submit("true", **share)  # what was before still holds
    assert client.wait(job.id).state == pb.SUCCEEDED
    config.write_text(SHARED)
    wait_until(lambda: not client.status().configuration_error, NOTICED_S)
    assert agent.text().count("was refused") == 1, agent.text()
    assert agent.end() == 0


def test_strict_refuses_what_is_not_known(machine, config):
    agent = start(machine, config)
    agent.end()
    agent = Agent(machine, "--config", str(config), "--config-strict")
    assert agent.is_ready, agent.text()
    config.write_text("flag: {migStrategy: none}\n")
    wait_until(lambda: "unknown key 'flag'" in agent.client().status().configuration_error,
               NOTICED_S)
    assert agent.end() == 0


def test_one_of_several(machine):
    volume = ConfigMap(machine.directory / "all", default=with_strategy("none"),
                       other=with_strategy("mixed"))
    agent = Agent(machine, "--config-file-srcdir", str(volume.directory))
    assert agent.is_ready, agent.text()
    client = agent.client()
    status = client.status()
    assert (status.configuration_name, status.configuration_missing) == ("default", "")
    assert status.configuration == str(volume.directory / "default")
    # Another content under the same name, ...
    volume.write(default=with_strategy("single"), other=with_strategy("mixed"))
    told(agent, "flags.migStrategy: was 'none', is 'single'")
    # ... one that is wrong, ...
    volume.write(default=with_strategy("sngle"), other=with_strategy("mixed"))
    wait_until(lambda: "default:1:22: " in client.status().configuration_error, NOTICED_S)
    # ... and none.
    volume.write(other=with_strategy("mixed"), another="")
    told(agent, "migStrategy: was 'single', is 'none'")
    assert client.status().configuration_name == ""
    reply = machine.run("sluice", "agent", "status", "--output", "json").ok().json
    assert reply["configuration_name"] is None and reply["configuration_missing"] is None
    assert agent.end() == 0


def test_one_that_is_not_there(machine):
    volume = ConfigMap(machine.directory / "all", a=with_strategy("single"),
                       b=with_strategy("mixed"))
    options = ("--config-file-srcdir", str(volume.directory), "--node-name", "here")
    agent = Agent(machine, *options, "--default-config", "b")
    assert agent.client().status().configuration_name == "b"
    assert agent.end() == 0
    agent = Agent(machine, *options, env={"DEFAULT_CONFIG": "c"})
    status = agent.client().status()
    # Not the fallback: it counted before the restart.
    assert (status.configuration_name, status.configuration_missing) == ("b", "c")
    text = machine.run("sluice", "agent", "status").ok().out
    assert "specified config c does not exist" in text and "chosen         b" in text
    told(agent, "specified config c does not exist")
    assert "specified config c does not exist" in machine.run("sluice", "agent", "reload").ok().err
    volume.write(a=with_strategy("single"), b=with_strategy("mixed"), c=with_strategy("none"))
    wait_until(lambda: agent.client().status().configuration_name == "c", NOTICED_S)
    assert not agent.client().status().configuration_missing
    assert agent.end() == 0
    reply = machine.run("sluice", "agent", "--config-file-srcdir", "/nothing/here")
    assert reply.rc == 65 and "/nothing/here" in reply.err


def test_the_label_is_remembered(machine):
    """The API server may be away when the agent starts."""
    volume = ConfigMap(machine.directory / "all", a=with_strategy("single"),
                       b=with_strategy("mixed"))
    machine.state_dir.mkdir(parents=True, exist_ok=True)
    (machine.state_dir / "configuration").write_text("configuration b\nlabel b\n")
    options = ("--config-file-srcdir", str(volume.directory), "--default-config", "a")
    agent = Agent(machine, *options, "--node-name", "here", "--kubeconfig", "/nowhere/kubeconfig")
    assert agent.client().status().configuration_name == "b"
    wait_until(lambda: agent.client().status().kubernetes_error)
    assert agent.end() == 0
    # Where nobody is there to tell a label, none counts.
    agent = Agent(machine, *options)
    assert agent.client().status().configuration_name == "a"
    assert agent.end() == 0


@pytest.mark.parametrize("option", ["--oneshot", "--send-signal", "--signal=1",
                                    "--process-to-signal=x", "--config-file-dst=/x"])
def test_what_a_config_manager_needs_is_refused(machine, option):
    reply = machine.run("sluice", "agent", option)
    assert reply.rc == 64 and "not needed: sluice reloads by itself" in reply.err, reply


# --- who decides -----------------------------------------------------------------------------------

SOURCES = ("default", "file", "environment", "flag")


def values_of(setting):
    """A value for each source, each another than that of the source below it."""
    words = setting["values"].split("|")
    default = setting["default"]
    if setting["key"] == "sluice.web.address":
        return default, "127.0.0.1:0", "off", "localhost:0"
    if words == ["text"]:
        return default, "/f", "/e", "/c"
    if words == ["0"]:  # an empty variable is not set
        return default, "0", "0", ""
    if setting["list"]:
        return default, "volume-mounts", "envvar,volume-mounts", "envvar"
    first, second = ([word for word in words if word != default] * 2)[:2]
    return default, first, default, second


def enter(tree, path, value):
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


@pytest.mark.parametrize("turn", range(4))
def test_precedence_of_every_setting(machine, config, turn):
    """Command line, environment, file, default: by every name that there is. In each of the four turns
    each setting is decided by another of them, and the lower ones say something else."""
    keys = machine.run("sluice", "config", "keys", "--output", "json").ok().json
    # Those of flags.gfd are options of `sluice labels`.
    keys = [key for key in keys if key["flag"] and not key["key"].startswith("flags.gfd.")]
    assert len(keys) >= 19 and all(key["variable"] for key in keys)
    tree, flags, env, expected = {}, [], {}, {}
    del machine.env["SLUICE_WEB_ADDRESS"]
    for number, key in enumerate(keys):
        level = (number + turn) % 4
        default, in_file, in_environment, in_flags = values_of(key)
        expected[key["key"]] = ((default, in_file, in_environment, in_flags)[level], SOURCES[level])
        if level >= 1:
            value = {"true": True, "false": False}.get(in_file, in_file)
            enter(tree, key["key"].split("."), [value] if key["list"] else value)
        if level >= 2:
            env[key["variable"]] = in_environment
        if level >= 3:
            name = (key["other_flag"] if turn % 2 else None) or key["flag"]
            flags.append(f"--{name}={in_flags}")
    config.write_text(json.dumps(tree))
    agent = Agent(machine, f"--config-file={config}", *flags, env=env)
    assert agent.is_ready, agent.text()
    text = agent.text()
    for path, (value, source) in expected.items():
        if source == "default":
            assert f" {path}: '" not in text, text
        else:
            assert f" {path}: '{value}' ({source})" in text, f"{path}: {value} ({source})\n{text}"
    # What the command line and the environment say is not the file's to change.
    begin = len(text)
    config.write_text("{}")
    told(agent, "configuration read again", begin)
    changes = agent.text()[begin:]
    for path, (_, source) in expected.items():
        assert (f" {path}: was" in changes) == (source == "file"), f"{path} {source}\n{changes}"
    assert agent.end() == 0


def test_a_flag_without_a_value_and_one_that_is_wrong(machine):
    agent = Agent(machine, "--gds-enabled", "--device-list-strategy", "envvar",
                  "--device-list-strategy=volume-mounts", "--cdi-disable-hooks=all",
                  env={"MOFED_ENABLED": "1", "CDI_FEATURE_FLAGS": "x"})
    for words in ("flags.gdsEnabled: 'true' (flag)", "flags.mofedEnabled: 'true' (environment)",
                  "flags.plugin.deviceListStrategy: 'envvar,volume-mounts' (flag)",
                  "--cdi-disable-hooks are accepted and not used"):
        assert words in agent.text()
    assert agent.end() == 0
    for option, env, words in (
            ("--mig-strategy=some", {}, "--mig-strategy: unknown MIG strategy: some"),
            ("--device-list-strategy=cdi", {}, "--device-list-strategy: invalid "
             "--device-list-strategy option: invalid strategy: cdi"),
            ("--device-id-strategy=x", {}, "invalid --device-id-strategy option: x"),
            ("--shared-devices-allocation-policy=x", {},
             "invalid --shared-devices-allocation-policy option: x"),
            ("--imex-channel-ids=1", {}, "channelIDs must be [] or [0]; found 1"),
            ("--config-strict", {"DEVICE_DISCOVERY_STRATEGY": "x"}, "environment variable "
             "DEVICE_DISCOVERY_STRATEGY: invalid --device-discovery-strategy option x")):
        reply = machine.run("sluice", "agent", option, env=env)
        assert reply.rc == 65 and words in reply.err, reply
    reply = machine.run("sluice", "agent", "--fallback-strategies=named,sinle")
    assert reply.rc == 64 and "did you mean 'single'" in reply.err, reply


# --- failOnInitError -------------------------------------------------------------------------------

@pytest.fixture
def driverless(machine):
    """A machine with GPUs and no driver, and the directory of a kubelet."""
    machine.start("dgx-a100", "--gpus", "2", "--dev-style", "file")
    empty = machine.directory / "nothing"
    empty.mkdir()
    machine.env["LD_LIBRARY_PATH"] = str(empty)
    machine.path("/var/lib/kubelet/device-plugins").mkdir(parents=True)
    return machine


def test_a_gpu_for_a_kubelet_without_a_driver(driverless):
    reply = driverless.run("sluice", "agent")
    assert reply.rc == 1, reply
    assert "there is an NVIDIA GPU at 0000:" in reply.err and "no driver" in reply.err, reply


def test_who_waits_for_a_driver(driverless):
    for option, env in ("--fail-on-init-error=false", {}), (None, {"FAIL_ON_INIT_ERROR": "false"}):
        agent = Agent(driverless, *([option] if option else []), env=env)
        wait_until(lambda: "no " in agent.client().status().driver_error)
        assert agent.client().status().driver_error
        assert agent.process.poll() is None
        assert agent.end() == 0
    # No GPU: a node of a cluster that has some elsewhere.
    (driverless.root / "sys").rename(driverless.root / "no-sys")
    agent = Agent(driverless)
    agent.logged("no NVIDIA GPU on the PCI bus")
    assert agent.end() == 0
    (driverless.root / "no-sys").rename(driverless.root / "sys")
    # A workstation: nobody but its own users needs it.
    driverless.path("/var/lib/kubelet/device-plugins").rmdir()
    agent = Agent(driverless)
    job = agent.client().submit("true")
    assert agent.client().wait(job.id).state == pb.SUCCEEDED
    assert agent.process.poll() is None
    assert agent.end() == 0
