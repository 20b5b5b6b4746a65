# SPDX-License-Identifier: Apache-2.0
"""Options at the head of a script: `sluice run train.sh` takes its lines #SLUICE."""

import re

import pytest

from conftest import ROOT


@pytest.fixture
def lab(machine):
    machine.start("dgx-a100")
    machine.agent()
    return machine


def write(machine, text, name="train.sh", mode=0o755):
    path = machine.directory / name
    path.write_text(text)
    path.chmod(mode)
    return path


def submitted(machine, *words):
    return machine.job(int(machine.run("sluice", "run", "-d", *words, cwd=machine.directory).ok().out))


def test_its_options_count_and_those_typed_count_more(lab):
    path = write(lab, "#!/bin/sh\n# trains\n#SLUICE -g 2 --name 'from-script'\n#SLUICE --time 1h -e A=script -e B=script\n"
                      'echo "$A $B $*"\n')
    job = submitted(lab, path)
    assert job["gpus_wanted"] == 2 and job["name"] == "from-script"
    job = submitted(lab, "-g", "1", "--name", "typed", "-e", "A=typed", path, "an argument")
    assert job["gpus_wanted"] == 1 and job["name"] == "typed"
    lab.job_in(job["id"], "Succeeded")
    assert lab.run("sluice", "logs", job["id"]).ok().out == "typed script an argument\n"


def test_a_script_of_this_directory_as_sbatch_takes_it(lab):
    write(lab, "#!/bin/sh\n#SLUICE -g 0\necho \"$0\"\n", mode=0o644)  # not to be executed
    job = submitted(lab, "train.sh")
    assert job["name"] == "train-sh"
    lab.job_in(job["id"], "Succeeded")
    assert lab.run("sluice", "logs", job["id"]).ok().out == f"{lab.directory}/train.sh\n"
    # What is in PATH has the name: nothing of this directory is run in its place.
    write(lab, "#!/bin/sh\n#SLUICE -g 0\necho wrong\n", name="true")
    job = submitted(lab, "-g", "0", "true")
    lab.job_in(job["id"], "Succeeded")
    assert lab.run("sluice", "logs", job["id"]).ok().out == ""


def test_errors_name_the_line(lab):
    for line, says in (("-g 2 --frobnicate", "train.sh:3: #SLUICE: unknown option '--frobnicate'"), ("-g two", "train.sh:3: #SLUICE: "),
                       ("-g 2 'x", "train.sh:3:14: the quote is not closed"), ("-g 2 train", "train.sh:3: #SLUICE: 'train' is no option"),
                       ("--image debian", "train.sh:3: #SLUICE: --image is for the command line"), ("--help", "train.sh:3:")):
        write(lab, f"#!/bin/sh\n\n#SLUICE {line}\ntrue\n")
        reply = lab.run("sluice", "run", "-d", "./train.sh", cwd=lab.directory)
        assert reply.rc == 65 and says in reply.err, reply
    assert lab.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"] == []


def test_slurms_lines_are_told_of_and_not_obeyed(lab):
    path = write(lab, "#!/bin/sh\n#SBATCH --gres=gpu:2\n#SBATCH -p gpu\n#SBATCH --frob\n#SLUICE -g 1\ntrue\n#SLUICE -g 3\n")
    reply = lab.run("sluice", "run", "-d", path).ok()
    assert lab.job(int(reply.out))["gpus_wanted"] == 1
    assert f"{path}:2: '#SBATCH --gres=gpu:2' has no effect; write '#SLUICE --gpus 2'\n" in reply.err
    assert f"{path}:3: '#SBATCH -p gpu' has no effect: a machine has one queue\n" in reply.err
    assert f"{path}:4: '#SBATCH --frob' has no effect\n" in reply.err
    assert f"{path}:7: #SLUICE after the first command has no effect\n" in reply.err
    assert "SBATCH" not in lab.run("sluice", "run", "-d", "-q", path).ok().err


def test_what_is_no_script_is_left_alone(lab):
    path = write(lab, "#SLUICE -g 2\ntrue\n")  # no "#!"
    assert lab.run("sluice", "run", "-g", "0", "sh", path).ok().err == ""
    plain = write(lab, "#!/bin/sh\necho \"$0\"\n", name="plain.sh")
    reply = lab.run("sluice", "run", "-g", "0", "./plain.sh", cwd=lab.directory).ok()
    assert reply.out == "./plain.sh\n"
    plain.chmod(0o644)
    assert lab.run("sluice", "run", "-g", "0", "./plain.sh", cwd=lab.directory).rc == 126


def test_the_page_for_those_who_know_slurm_names_options_that_there_are(machine):
    rows = (ROOT / "man/sluice-slurm.7.scd").read_text().split("# OPTIONS")[1].split("\n# ")[0]
    named = {option for row in re.findall(r"^:\[ (?!none)(.*)$", rows, re.MULTILINE)
             for option in re.findall(r"\*(--[a-z-]+)", row)}
    there = set(re.findall(r"--[a-z-]+", machine.run("sluice", "run", "--help").ok().out))
    assert len(named) > 20 and named - there <= {"--stderr"}, named - there
