# SPDX-License-Identifier: Apache-2.0
"""`sluice config`: files of the documents, files that are wrong, and what it prints can be given again."""

import json
import os
import subprocess

import pytest

from conftest import ROOT, SLUICE

DOCUMENTS = ROOT / "tests" / "documents" / "config"
GOLDEN = sorted(path for path in DOCUMENTS.iterdir() if ".yaml." in path.name)
PRINTED = sorted(DOCUMENTS.glob("*.printed.yaml"))
ACCEPTED = sorted(path for path in DOCUMENTS.glob("*.yaml") if path.name != "mps.yaml" and path not in PRINTED)


def sluice(*arguments, **options):
    return subprocess.run([SLUICE, *map(str, arguments)], capture_output=True, text=True,
                          check=False, timeout=60, **options)


def resources(machine, file):
    """The table below the headline, which names a path of this machine."""
    reply = machine.run("sluice", "config", "resources", file).ok()
    headline, _, table = reply.out.partition("\n\n")
    assert "simulated" in headline
    return table


@pytest.mark.parametrize("file", ACCEPTED, ids=lambda path: path.name)
def test_documents_are_accepted_without_a_warning(file):
    reply = sluice("config", "check", "--strict", file)
    assert (reply.returncode, reply.stdout) == (0, f"{file}: ok\n")


@pytest.mark.parametrize("file", PRINTED, ids=lambda path: path.name)
def test_documents_as_printed_are_refused(file):
    """A here-document's last word, and dots for what was left out, are no part of a file: the place of them is told."""
    lines = file.read_text(encoding="utf-8").rstrip("\n").split("\n")
    column = len(lines[-1]) - len(lines[-1].lstrip()) + 1
    reply = sluice("config", "check", file)
    says = "ends what a shell reads" if lines[-1] == "EOF" else "stands for what was left out in print"
    assert reply.returncode == 1 and reply.stdout.startswith(f"{file}:{len(lines)}:{column}: '{lines[-1].strip()}' {says}"), reply
    completed = file.with_name(file.name.replace(".printed", ""))
    rest = "\n".join(lines[1:-1]).replace("- name: \n      replicas: ", "- name: nvidia.com/gpu\n      replicas: 5")
    rest = rest.replace("Default: \n", "Default: false\n").replace("One: \n", "One: false\n")
    assert completed.read_text(encoding="utf-8").rstrip("\n").split("\n", 1)[1] == rest


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name)
def test_documents_give_their_resources(machine, golden):
    name, profile = golden.name.split(".yaml.")
    profile, _, layout = profile.partition("+")
    machine.start(profile, *(["--mig", layout] if layout else []))
    table = resources(machine, DOCUMENTS / f"{name}.yaml")
    if os.environ.get("SLUICE_WRITE_GOLDEN"):
        golden.write_text(table, encoding="utf-8")
    assert table == golden.read_text(encoding="utf-8")


def test_every_document_has_a_golden_result():
    with_result = {path.name.split(".yaml.")[0] + ".yaml" for path in GOLDEN}
    assert with_result == {path.name for path in ACCEPTED}


def test_mps_is_refused_and_says_what_to_do():
    reply = sluice("config", "check", DOCUMENTS / "mps.yaml")
    assert reply.returncode == 1
    assert reply.stdout.endswith(
        ": sharing.mps is not supported yet; remove it or keep NVIDIA's plugin on this node\n")


@pytest.mark.parametrize("file", ACCEPTED, ids=lambda path: path.name)
def test_what_show_prints_can_be_given_again(file, tmp_path):
    first = sluice("config", "show", file)
    assert first.returncode == 0, first.stderr
    again = tmp_path / "again.yaml"
    again.write_text(first.stdout, encoding="utf-8")
    second = sluice("config", "show", "--strict", again)
    assert second.returncode == 0, second.stderr

    def without_comments(text):
        return [line.split("#")[0].rstrip() for line in text.splitlines()]
    assert without_comments(first.stdout) == without_comments(second.stdout)


def test_what_show_prints_of_our_section_can_be_given_again(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("sluice: {devices: {exclude: [3]}, doors: {queue: {devices: [1]}, kubelet: "
                    "{inject: peer, devices: [0]}}, cdi: {vendor: example.com}, allocEnv: true}\n"
                    "resources: {gpus: [{pattern: '*', name: some}]}\n", encoding="utf-8")
    first = sluice("config", "show", file)
    assert first.returncode == 0 and first.stdout.count("sluice:") == 1, first.stdout
    file.write_text(first.stdout, encoding="utf-8")
    second = sluice("config", "show", "--strict", file)
    assert (second.returncode, second.stderr) == (0, "")
    for part in ("inject: peer", "devices: [0]", "devices: [1]", "exclude: [3]", "allocEnv: true",
                 'vendor: "example.com"', 'pattern: "*"'):
        assert part in second.stdout, part


def test_show_says_where_values_come_from(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("flags: {migStrategy: single, gdsEnabled: true, mofedEnabled: true}\n",
                    encoding="utf-8")
    reply = sluice("config", "show", "--mig-strategy", "mixed", "--output", "json", file,
                   env={**os.environ, "GDS_ENABLED": "false", "MIG_STRATEGY": "none"})
    assert reply.returncode == 0, reply.stderr
    settings = {row["path"]: (row["value"], row["source"])
                for row in json.loads(reply.stdout)["settings"]}
    assert settings["flags.migStrategy"] == ("mixed", "flag")
    assert settings["flags.gdsEnabled"] == ("false", "environment")
    assert settings["flags.mofedEnabled"] == ("true", "file")
    assert settings["flags.gdrcopyEnabled"] == ("false", "default")


@pytest.mark.parametrize("command", [("config", "show"), ("config", "resources"), ("labels",)], ids=" ".join)
def test_the_services_file_counts_where_none_is_named(machine, command):
    machine.start("dgx-a100", "--gpus", "1", "--mig", "single")
    file = machine.path("/etc/sluice/config.yaml")
    file.parent.mkdir(parents=True)
    file.write_text("flags: {migStrategy: mixed}\n", encoding="utf-8")
    machine.env.pop("CONFIG_FILE", None)
    machine.env.pop("SLUICE_CONFIG", None)

    mixed = {"show": "migStrategy: mixed", "resources": "mig-1g.5gb", "labels": "mig-1g.5gb.count=7"}[command[-1]]
    reply = machine.run("sluice", *command).ok()
    assert mixed in reply.out, reply
    assert command[-1] != "show" or str(file) in reply.out, reply

    named = machine.directory / "named.yaml"
    named.write_text("flags: {migStrategy: none}\n", encoding="utf-8")
    assert mixed not in machine.run("sluice", *command, env={"CONFIG_FILE": str(named)}).ok().out
    assert mixed in machine.run("sluice", *command, env={"CONFIG_FILE": ""}).ok().out


def test_show_without_a_file_says_where_it_looked(machine):
    machine.start("t4x1")
    machine.env.pop("CONFIG_FILE", None)
    machine.env.pop("SLUICE_CONFIG", None)
    shown = machine.run("sluice", "config", "show").ok().out
    assert f"# file: none (looked for {machine.root}/etc/sluice/config.yaml)\n" in shown, shown


def refusal(tmp_path, content):
    """What `config check` says of these bytes, without the file's name."""
    file = tmp_path / "c.yaml"
    file.write_bytes(content)
    reply = sluice("config", "check", file)
    assert reply.returncode == 1 and reply.stderr == ""
    assert len(reply.stdout.splitlines()) == 1
    assert reply.stdout.startswith(str(file))
    return reply.stdout[len(str(file)):].strip()


@pytest.mark.parametrize("content,message", [
    (b"\xef\xbb\xbfversion: v1\n", ":1:1: the file begins with a byte-order mark"),
    (b"flags:\n\tmigStrategy: none\n", ":2:1: a tab"),
    (b"version: v1\0\n", ":1:12: a NUL byte"),
    (b"version: v1\nversion: v1\n", ":2:1: the key 'version' is here a second time"),
    (b"a: &a [1]\nb: &b [" + b"*a," * 5000 + b"]\nc: [" + b"*b," * 500 + b"]\n",
     ":3:"),
    (b"version: [" * 40, ":1:"),
    (b"sharing: {timeSlicing: {resources: [{name: gpu, replicas: -2}]}}", ":1:59: "),
    (b"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1000000000000000000}]}}",
     ":1:59: "),
], ids=["bom", "tab", "nul", "twice", "laughs", "deep", "negative", "huge"])
def test_wrong_files_are_refused_where_they_are_wrong(tmp_path, content, message):
    assert refusal(tmp_path, content).startswith(message)


def test_a_file_of_a_gigabyte_costs_nothing(tmp_path):
    file = tmp_path / "big.yaml"
    with open(file, "wb") as sparse:
        sparse.truncate(1 << 30)
    reply = sluice("config", "check", file)
    assert reply.returncode == 1
    assert "larger than" in reply.stdout


def test_missing_files_and_directories(tmp_path):
    reply = sluice("config", "check", tmp_path / "none", tmp_path)
    assert reply.returncode == 1
    first, second = reply.stdout.splitlines()
    assert f"cannot open '{tmp_path}/none': No such file or directory" in first
    assert str(tmp_path) in second


def test_devices_that_are_not_here_are_a_warning(machine, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: [9]}]}}\n",
                    encoding="utf-8")
    machine.start("t4x4")
    table = resources(machine, file)
    assert "nvidia.com/gpu  queue      4  0-3\n" in table
    assert ("warning: line 1, column 72: sharing entry 1 (nvidia.com/gpu): device '9' is not here "
            "now") in table
    strict = machine.run("sluice", "config", "resources", "--strict", file)
    assert strict.rc == 1
    assert f"{file}: line 1, column 72: sharing entry 1" in strict.err


def test_a_key_that_is_not_known_is_told_by_every_command(machine, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("version: v1\nflags: {migStrateggy: none}\n", encoding="utf-8")
    warning = f"{file}:2:9: warning: flags: unknown key 'migStrateggy'; did you mean 'migStrategy'?\n"
    assert warning in sluice("config", "check", file).stdout
    assert sluice("config", "show", file).stderr == warning
    machine.start("t4x4")
    reply = machine.run("sluice", "config", "resources", file).ok()
    assert reply.err == warning


def test_fair_share_does_not_send_its_reader_to_another_plugin(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("sharing: {fairShare: {}}\n", encoding="utf-8")
    reply = sluice("config", "check", file)
    assert reply.returncode == 1
    assert reply.stdout == f"{file}:1:22: sharing.fairShare is not supported yet; remove it\n"


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text('version: v1\n"a\\e[31m": 1\n', encoding="utf-8")
    assert sluice("config", "check", file).stdout == (
        f"{file}:2:1: warning: unknown key 'a\\x1b[31m'\n{file}: ok\n")
    file.write_text('version: "v\\e[31m"\n', encoding="utf-8")
    assert "unknown version: v\\x1b[31m " in sluice("config", "check", file).stdout
    assert "unknown version: v\\x1b[31m " in sluice("config", "show", file).stderr


def test_the_kubelet_gets_all_where_there_is_one(machine):
    machine.start("t4x4")
    machine.path("/var/lib/kubelet/device-plugins").mkdir(parents=True)
    reply = machine.run("sluice", "config", "resources", "-o", "json").ok().json
    assert reply["simulated"] is True
    assert [(row["name"], row["door"], len(row["units"])) for row in reply["resources"]] == [
        ("nvidia.com/gpu", "kubelet", 4)]


def test_a_gpu_of_two_doors(machine, tmp_path):
    file = tmp_path / "c.yaml"
    machine.start("t4x4")
    uuid = machine.show()["gpus"][1]["uuid"]
    file.write_text("sluice: {doors: {kubelet: {devices: [1]}, queue: {devices: [%s]}}}\n" % uuid,
                    encoding="utf-8")
    reply = machine.run("sluice", "config", "resources", file)
    assert reply.rc == 1
    assert f"GPU 1 ({uuid}) is given to both the kubelet and the queue" in reply.err


def test_every_key_can_be_set_from_its_own_default(tmp_path):
    """The table of keys is the parser's own: each key with its default is a file that is accepted."""
    keys = json.loads(sluice("config", "keys", "--output", "json").stdout)
    assert len(keys) > 20
    for row in keys:
        if row["key"].startswith("sharing."):
            continue  # a block without resources is refused
        text = json.dumps(row["default"]) if row["values"] in ("text", "names") else row["default"]
        for part in reversed(row["key"].split(".")):
            text = "{%s: %s}" % (part, text)
        file = tmp_path / "c.yaml"
        file.write_text(text + "\n", encoding="utf-8")
        reply = sluice("config", "check", "--strict", file)
        assert reply.returncode == 0, (row, reply.stdout)
