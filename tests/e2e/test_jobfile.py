# SPDX-License-Identifier: Apache-2.0
"""`sluice run --file` and `--lines` on a simulated machine: jobs of files end to end, what is noted, refused and
impossible. Containers are not started: the commands run with --host."""

import json
import os
import signal
import subprocess
import textwrap

import pytest

from conftest import wait_until

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: nowhere.example.com/none:1
    command: [sh, -c, %s]
"""


def job(machine, name, script, spec="", more="", annotations="{}"):
    path = machine.directory / f"{name}.yaml"
    path.write_text(textwrap.dedent(f"""\
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: {name}, annotations: {annotations}}}
        spec: {{backoffLimit: 0, {spec} template: {{spec: {{restartPolicy: Never, containers: [
          {{name: c, image: i, command: [sh, -c, {json.dumps(script)}]{more}}}]}}}}}}
        """))
    return path


def pod(machine, name, script):
    path = machine.directory / f"{name}.yaml"
    path.write_text(POD % (name, json.dumps(script)))
    return path


def told(machine, number):
    listed = machine.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"]
    return next(one for one in listed if one["id"] == number)


@pytest.fixture
def ready(machine):
    machine.start("dgx-a100")
    machine.agent()
    return machine


def test_gpus_environment_and_exit_code(ready):
    path = job(ready, "two", "echo $CUDA_VISIBLE_DEVICES $NAME $SLUICE_JOB_NAME; exit 3",
               more=", env: [{name: NAME, value: val}], resources: {limits: {nvidia.com/gpu: 2}}")
    reply = ready.run("sluice", "run", "-f", path, "--host")
    assert reply.rc == 3, reply
    number, line = reply.out.splitlines()
    gpus, value, name = line.split()
    assert (len(gpus.split(",")), value, name) == (2, "val", "two")
    assert told(ready, int(number))["exit_code"] == 3


def test_no_limit_is_no_gpu(ready):
    """As on a cluster, and other than `sluice run` without a file."""
    reply = ready.run("sluice", "run", "-f", pod(ready, "none", "echo gpus=$CUDA_VISIBLE_DEVICES."), "--host").ok()
    assert reply.out.splitlines()[1] == "gpus=."


def test_several_documents_from_standard_input(ready):
    text = "---".join(POD % (name, json.dumps(f"echo {name}; exit {code}")) for name, code in (("a", 0), ("b", 5)))
    reply = ready.run("sluice", "run", "-f", "-", "--host", input=text)
    assert reply.rc == 5, reply
    assert reply.out.splitlines()[2:] == ["a", "b"] and len(set(reply.out.splitlines())) == 4


def test_a_mistake_in_the_second_leaves_the_first(ready):
    text = POD % ("a", "x") + "---" + POD.replace("image", "imaeg") % ("b", "x")
    reply = ready.run("sluice", "run", "-d", "-f", "-", "--host", input=text)
    assert reply.rc == 65 and "standard input:19:5: spec.containers[0].imaeg: unknown field; did you mean 'image'?" in reply.err
    assert ready.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"] == []


def test_an_impossible_second_leaves_the_first(ready):
    """Not only what is wrong in the file: also what the agent refuses."""
    wide = POD.replace("command:", "resources: {limits: {nvidia.com/gpu: 99}}\n    command:")
    reply = ready.run("sluice", "run", "-d", "-f", "-", "--host", input=POD % ("a", "x") + "---" + wide % ("b", "x"))
    assert reply.rc == 78 and reply.out == "" and "job 'b': needs 99 GPUs" in reply.err, reply
    assert ready.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"] == []


def test_members_are_called_by_their_numbers(ready):
    """As `sluice jobs` lists them, and not as the queue counts them."""
    path = job(ready, "members", "exit $JOB_COMPLETION_INDEX", "completionMode: Indexed, completions: 3,")
    reply = ready.run("sluice", "run", "-f", path, "--host")
    number = reply.out.strip()
    assert reply.rc == 1 and f"job {number}.2 was cancelled: BackoffLimitExceeded ({number}.1)" in reply.err, reply


def test_notes_and_quiet(ready):
    path = pod(ready, "noted", "true")
    path.write_text(path.read_text().replace("spec:", "spec:\n  nodeName: worker-0"))
    reply = ready.run("sluice", "run", "-f", path, "--host").ok()
    assert f"{path}:6: note: ignored here" in reply.err and "spec.nodeName" in reply.err
    assert ready.run("sluice", "run", "-q", "-f", path, "--host").ok().err == ""


@pytest.mark.parametrize("script, options, code, text", [
    ("x", ["--gpus", "1"], 64, "--gpus and --file exclude each other"),
    ("x", ["--volume", "here"], 65, "it is NAME=PATH"),
    ("x", ["--", "ls"], 64, "there is no command"),
    ("x", ["--lines", "-"], 64, "--lines and --file exclude each other"),
])
def test_wrong_calls(ready, script, options, code, text):
    reply = ready.run("sluice", "run", "-f", pod(ready, "wrong", script), "--host", *options)
    assert reply.rc == code and text in reply.err, reply


def test_more_than_the_machine_has(ready):
    path = job(ready, "wide", "true", more=", resources: {limits: {nvidia.com/gpu: 9}}")
    reply = ready.run("sluice", "run", "-f", path, "--host")
    assert reply.rc == 78 and "job 'wide'" in reply.err and "9" in reply.err and "8" in reply.err, reply


def test_workers_that_do_not_fit(ready):
    path = ready.directory / "mpi.yaml"
    path.write_text(textwrap.dedent("""\
        apiVersion: kubeflow.org/v2beta1
        kind: MPIJob
        metadata: {name: allreduce}
        spec:
          mpiReplicaSpecs:
            Launcher: {template: {spec: {containers: [{name: l, image: i, command: [mpirun, x]}]}}}
            Worker:
              replicas: 2
              template: {spec: {containers: [{name: w, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}}
        """))
    reply = ready.run("sluice", "run", "-f", path, "--host")
    assert reply.rc == 78 and "needs 2 workers x 8 GPUs" in reply.err and "has 8" in reply.err, reply


def test_dry_run_shows_the_job(ready):
    path = job(ready, "dry", "true", spec="completions: 3, completionMode: Indexed, suspend: true,")
    reply = ready.run("sluice", "run", "--dry-run", "-f", path, "--host").ok()
    shown, end = json.JSONDecoder().raw_decode(reply.out)
    assert shown["name"] == "dry" and shown["wants"]["array_count"] == "3" and shown["wants"]["hold"] == "2"
    assert reply.out[end:].strip().startswith("it would"), reply
    assert ready.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"] == []


def test_suspended_is_held(ready):
    path = job(ready, "later", "echo ran", spec="suspend: true,")
    number = int(ready.run("sluice", "run", "-d", "-f", path, "--host").ok().out)
    assert told(ready, number)["state"] == "Held"


def test_every_index_once(ready):
    path = job(ready, "indices", "echo index=$JOB_COMPLETION_INDEX",
               spec="completions: 3, parallelism: 2, completionMode: Indexed,")
    first = int(ready.run("sluice", "run", "-f", path, "--host").ok().out)
    for index in range(3):
        assert ready.run("sluice", "logs", f"{first}.{index}").ok().out == f"index={index}\n"


def test_a_file_of_this_machine(ready):
    path = pod(ready, "mounted", f"cat {ready.directory}/there")
    (ready.directory / "there").write_text("seen\n")
    mount = f"    volumeMounts: [{{name: v, mountPath: {ready.directory}}}]\n"
    volume = f"  volumes: [{{name: v, hostPath: {{path: {ready.directory}, type: %s}}}}]\n"
    plain = path.read_text()
    path.write_text(plain + mount + volume % "Directory")
    assert "seen" in ready.run("sluice", "run", "-f", path, "--host").ok().out
    path.write_text(plain + mount + volume % "Socket")
    reply = ready.run("sluice", "run", "-f", path, "--host")
    assert reply.rc == 65 and "is not of the type Socket" in reply.err


def test_export_is_a_file(ready):
    reply = ready.run("sluice", "run", "--export", "--image", "debian:12", "--gpus", "3", "--", "echo", "a b").ok()
    dry = ready.run("sluice", "run", "--dry-run", "-f", "-", input=reply.out).ok()
    shown, _ = json.JSONDecoder().raw_decode(dry.out)
    assert (shown["argv"], shown["image"], shown["gpus"]) == (["echo", "a b"], "debian:12", 3)
    assert ready.run("sluice", "run", "--export", "--", "ls").rc == 64


def test_export_keeps_dollars(ready):
    """What a shell is to see is not expanded by a cluster, nor here."""
    words = ["echo", "$$", "$(A)", "$x", "a$", "$$(A)", "$$$", "$("]
    reply = ready.run("sluice", "run", "--export", "--image", "i", "--env", "A=1", "--env", "B=$(A)$$", "--", *words).ok()
    dry = ready.run("sluice", "run", "--dry-run", "-f", "-", input=reply.out).ok()
    shown, _ = json.JSONDecoder().raw_decode(dry.out)
    assert shown["argv"] == words and shown["env"] == ["A=1", "B=$(A)$$"]


def test_logs_of_no_member(ready):
    path = job(ready, "few", "true", "completions: 2, completionMode: Indexed,")
    number = ready.run("sluice", "run", "-f", path, "--host").ok().out.strip()
    ready.run("sluice", "run", "--gpus", "0", "--", "echo", "another").ok()
    reply = ready.run("sluice", "logs", f"{number}.2")
    assert reply.rc == 64 and reply.out == "" and f"job {number} has no member 2" in reply.err, reply
    ready.run("sluice", "logs", f"{number}.1").ok()


def test_root_is_not_non_root(ready):
    path = job(ready, "nobody", "true", more=", securityContext: {runAsNonRoot: true}")
    reply = ready.run("sluice", "run", "-f", path, "--host")
    if os.geteuid() == 0:
        assert reply.rc == 65 and "runAsNonRoot: with --host the job runs as who submits it" in reply.err, reply
    else:
        assert reply.rc == 0, reply


def test_ctrl_c_ends_the_reading_of_lines(ready):
    """The jobs go on, and that is said."""
    client = ready.spawn("sluice", "run", "--gpus", "0", "--lines", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    client.stdin.write("sleep 100\n")
    client.stdin.flush()
    number = int(client.stdout.readline())
    client.send_signal(signal.SIGINT)
    client.wait(timeout=30)  # before its input ends
    err = client.stderr.read()
    assert client.returncode == 130 and "the jobs that were accepted go on" in err, err
    assert told(ready, number)["state"] in ("Pending", "Starting", "Running")


def test_lines(ready):
    lines = "echo one\n\n# nothing\n  echo two; exit 4\r\necho three"
    reply = ready.run("sluice", "run", "--gpus", "0", "--lines", "-", input=lines)
    assert reply.rc == 4, reply
    assert reply.out.splitlines()[3:] == ["one", "two", "three"]


def test_a_plain_line_needs_no_shell(ready):
    """It is the same job, without a process between it and its supervisor."""
    lines = "env 'A=b  c' printenv \"A\"\nexec no-such-command x\nPROBE=1 printenv PROBE\n"
    reply = ready.run("sluice", "run", "--gpus", "0", "--lines", "-", input=lines)
    assert reply.rc == 127 and reply.out.splitlines()[3:] == ["b  c", "1"], reply
    assert "no-such-command" in reply.err, reply
    held = ready.run("sluice", "run", "--gpus", "0", "-d", "--hold", "--lines", "-", input=lines).ok()
    assert [ready.job(number)["command"] for number in held.out.split()] == [
        ["env", "A=b  c", "printenv", "A"], ["no-such-command", "x"], ["sh", "-c", "PROBE=1 printenv PROBE"]]


def test_lines_that_failed_are_named(ready):
    lines = "\n".join(["true", "", "exit 4", "kill -9 $$"] + ["true"] * 40 + ["exit 3 # " + "é" * 60])
    reply = ready.run("sluice", "run", "--gpus", "0", "--lines", "-", input=lines)
    numbers = [int(number) for number in reply.out.split()]
    assert reply.rc == 4 and numbers == sorted(numbers) and len(numbers) == 44, reply
    assert "3 of 44 lines failed:" in reply.err, reply.err
    assert f"line 3, job {numbers[1]}, exit code 4: exit 4" in reply.err, reply.err
    assert f"line 4, job {numbers[2]}, Signal (9" in reply.err, reply.err
    assert f"line 45, job {numbers[-1]}, exit code 3: exit 3 # é" in reply.err and "..." in reply.err, reply.err
    many = ready.run("sluice", "run", "--gpus", "0", "--lines", "-", input="false\n" * 23)
    assert many.rc == 1 and many.err.count("exit code 1: false") == 20 and "and 3 more" in many.err, many.err
    assert ready.run("sluice", "run", "--quiet", "--gpus", "0", "--lines", "-", input="false\n").err == ""


def test_a_line_that_is_refused_is_named(ready):
    reply = ready.run("sluice", "run", "-d", "--gpus", "200", "--lines", "-", input="\ntrue\n")
    assert reply.rc != 0 and reply.out == "" and "line 2: " in reply.err, reply


def test_lines_are_submitted_as_they_come(ready):
    process = ready.spawn("sluice", "run", "--gpus", "0", "-d", "--lines", "-", stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE)
    process.stdin.write("true\n")
    process.stdin.flush()
    number = int(process.stdout.readline())  # before the end of the lines
    wait_until(lambda: told(ready, number)["state"] == "Succeeded", what="the first line's job")
    process.stdin.close()
    assert process.wait(20) == 0


def test_hostile_files(ready):
    large = ready.directory / "large.yaml"
    large.write_text("a: \"" + "x" * (10 << 20) + "\"")
    for text, wanted in (("[" * 40, "nested deeper"), ("a: b: c", ":1:5:"), ("", "no job in it"), ("\0", "NUL")):
        reply = ready.run("sluice", "run", "-f", "-", input=text)
        assert reply.rc == 65 and wanted in reply.err, reply
    reply = ready.run("sluice", "run", "-f", large)
    assert reply.rc == 65 and "larger than 1 MiB" in reply.err
    reply = ready.run("sluice", "run", "-f", ready.directory / "none.yaml")
    assert reply.rc == 65 and "none.yaml" in reply.err
