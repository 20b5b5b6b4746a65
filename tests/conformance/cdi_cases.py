# SPDX-License-Identifier: Apache-2.0
"""CDI specifications of ours, and our reading of others', against what the CDI project has: its Go package, with which
containerd, CRI-O and podman read specifications, and its JSON schema. Then our specifications of simulated machines
against those of NVIDIA's own generator. cdi/differences lists where we mean to differ."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from machine import Failure, Machine

HERE = pathlib.Path(__file__).resolve().parent / "cdi"
DRIVER = "580.105.08"
MACHINES = [("dgx1", "none"), ("dgx2", "none"), ("dgx-a100", "none"), ("dgx-a100", "mixed"), ("dgx-a100", "single"),
            ("hgx-h100", "none"), ("hgx-h100", "mixed"), ("t4x1", "none"), ("t4x4", "none"), ("workstation", "none"),
            ("a100-mig", "mixed"), ("h100-mig", "hetero")]
OPTIONS = [(), ("--lib-layout", "debian"), ("--lib-layout", "rhel"), ("--versioned",), ("--no-all-device",),
           ("--capabilities", "utility"), ("--capabilities", "compute,utility,display"), ("--vendor", "example.com"),
           ("--device-name-strategy", "type-index"), ("--device-name-strategy", "uuid"),
           ("--dev-root", "/", "--device-name-strategy", "type-index")]
TOOLKIT_MINUTES = 15


class Cdi:
    """The programs; made by install()."""

    def __init__(self, build):
        self.sluice = os.path.join(build, "src/cmd/sluice")
        self.build = build
        self.library = self.schema = self.toolkit = None
        self.missing = []  # why some cannot be had
        self.differences, self.met = {}, set()
        for line in (HERE / "differences").read_text().splitlines():
            key, _, why = line.partition("  ")
            if key and not key.startswith("#"):
                self.differences[key] = why.strip()

    def install(self, folder, step, unavailable):
        go = shutil.which("go")
        if not go:
            raise unavailable("Go is not installed: apt install golang-go")
        readonly = {**os.environ, "GOFLAGS": "-mod=readonly"}
        for name in ("library", "schema"):
            program = folder / f"cdi-{name}"
            step([go, "build", "-buildvcs=false", "-o", str(program), "."], HERE / name,
                 f"building the program on the CDI project's {name} (is there a network?)", readonly)
            setattr(self, name, str(program))
        program = folder / "nvidia-ctk"
        print("building NVIDIA's container toolkit (minutes, the first time)", flush=True)
        try:
            step([go, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", str(program),
                  "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk"], HERE / "toolkit",
                 "building NVIDIA's container toolkit (is there a network?)", readonly, TOOLKIT_MINUTES * 60)
            self.toolkit = str(program)
        except unavailable as error:
            self.missing.append(str(error))

    def differs(self, key):
        """Whether cdi/differences has it."""
        if key in self.differences:
            self.met.add(key)
        return key in self.differences

    # -- the readers

    def read(self, *directories):
        """What the CDI project's package makes of these directories: devices with their files, errors of files."""
        done = subprocess.run([self.library, "list", *map(str, directories)], capture_output=True, text=True,
                              timeout=60)
        if done.returncode:
            raise Failure(f"the CDI package failed: {done.stderr or done.stdout}")
        answer = json.loads(done.stdout)
        return answer["devices"], answer["errors"]

    def ours(self, *directories):
        """The same of `sluice cdi list`."""
        arguments = [part for directory in directories for part in ("--cdi-dir", str(directory))]
        done = subprocess.run([self.sluice, "cdi", "list", "--output", "json", *arguments], capture_output=True,
                              text=True, timeout=60)
        if done.returncode not in (0, 1):
            raise Failure(f"sluice cdi list: exit {done.returncode}: {done.stderr}")
        answer = json.loads(done.stdout)
        devices = {f"{device['kind']}={device['name']}": device["file"] for device in answer["devices"]
                   if device["state"] == "found"}
        return devices, {entry["path"]: entry["error"] for entry in answer["files"] if entry["error"]}

    def refused(self, path):
        """What the JSON schema says against a file."""
        return subprocess.run([self.schema, str(path)], capture_output=True, text=True, timeout=60).stdout.strip()


def why_no_nodes():
    """Why device nodes cannot be made here, or None."""
    if os.geteuid() != 0:
        return "device nodes need root"
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.mknod(os.path.join(folder, "node"), 0o20600, os.makedev(195, 0))
        except PermissionError:
            return "device nodes may not be made here"
    return None


# What we write ------------------------------------------------------------------------------------

def same_devices(mine, theirs):
    problems = [f"{name}: in {mine.get(name)}, their package finds it in {theirs.get(name)}"
                for name in sorted(mine.keys() | theirs.keys()) if mine.get(name) != theirs.get(name)]
    return problems


def valid(cdi, machine):
    """Every option's specification: the schema and the package take it, and find in it what we do."""
    problems, count = [], 0
    for options in OPTIONS:
        folder = os.path.join(machine.directory, "cdi")
        os.makedirs(folder)
        path = os.path.join(folder, "made.json")
        mounts = ["--mounts"] if "--dev-root" in options else []  # the nodes have their final names there
        machine.command([cdi.sluice, "sim", "exec", *mounts, "--", cdi.sluice, "cdi", "generate", "--output", path,
                         *options])
        theirs, errors = cdi.read(folder)
        mine, own_errors = cdi.ours(folder)
        found = [*([cdi.refused(path)] if cdi.refused(path) else []), *errors.values(), *own_errors.values(),
                 *same_devices(mine, theirs), *([] if theirs else ["no device at all"])]
        if "hook" in pathlib.Path(path).read_text():
            found.append("there is a hook in it")
        problems += [f"{' '.join(options) or 'no option'}: {problem}" for problem in found]
        count += len(theirs)
        shutil.rmtree(folder)
    return problems, f"{len(OPTIONS)} specifications with {count} devices"


def noticed(cdi, machine):
    """The readers are no yes-men: what is broken in our own specification is found."""
    text = json.loads(machine.program(cdi.sluice, "cdi", "generate"))
    broken = {"no kind": {**text, "kind": ""}, "a version too low": {**text, "cdiVersion": "0.3.0"},
              "another field": {**text, "devics": []}}
    problems = []
    for what, wrong in broken.items():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "wrong.json")
            path.write_text(json.dumps(wrong))
            if not cdi.read(folder)[1]:
                problems.append(f"their package did not notice {what}")
            if not cdi.ours(folder)[1]:
                problems.append(f"we did not notice {what}")
    return problems, f"{len(broken)} broken specifications"


# What a container is told --------------------------------------------------------------------------

CONFIG = {
    "ociVersion": "1.0.2",
    "process": {"args": ["true"], "cwd": "/", "user": {"uid": 0, "gid": 0},
                "env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all", "A=old"]},
    "root": {"path": "rootfs"},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
               {"destination": "/usr/lib64/libcuda.so.1", "type": "bind", "source": "/other", "options": ["bind"]},
               {"destination": "/a/b/c/d/e/f", "type": "bind", "source": "/f", "options": ["bind"]},
               {"destination": "/a", "type": "tmpfs", "source": "tmpfs"}],
    "linux": {"devices": [{"path": "/dev/nvidia0", "type": "c", "major": 9, "minor": 9}],
              "resources": {"devices": [{"allow": False, "access": "rwm"}]}},
}
USER = {"uid": 1000, "gid": 1000, "additionalGids": [4]}
EDITED = {
    "plain": (CONFIG, ["0"]), "two": (CONFIG, ["0", "1"]), "other order": (CONFIG, ["1", "0"]),
    "all": (CONFIG, ["all"]),
    "twice": (CONFIG, ["0", "0"]), "user": ({**CONFIG, "process": {**CONFIG["process"], "user": USER}}, ["1"]),
    "empty": ({"ociVersion": "1.0.2"}, ["0"]),
}


def plain(value):
    """Without what JSON may leave out: empty lists and maps, false and null."""
    if isinstance(value, dict):
        kept = {key: plain(entry) for key, entry in value.items()}
        return {key: entry for key, entry in kept.items() if entry not in (None, False, "", [], {})}
    return [plain(entry) for entry in value] if isinstance(value, list) else value


def unequal(ours, theirs, where=""):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [line for key in sorted(ours.keys() | theirs.keys())
                for line in unequal(ours.get(key), theirs.get(key), f"{where}/{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [line for index, pair in enumerate(zip(ours, theirs)) for line in unequal(*pair, f"{where}/{index}")]
    return [] if ours == theirs else [f"{where}: ours {json.dumps(ours)[:200]}, theirs {json.dumps(theirs)[:200]}"]


def applied(cdi, folder, config, names):
    """The same configuration comes out of `sluice cdi check --apply` and of their package."""
    path = os.path.join(folder, "..", "config.json")
    pathlib.Path(path).write_text(json.dumps(config))
    theirs = subprocess.run([cdi.library, "inject", path, folder, "--", *names], capture_output=True, text=True,
                            timeout=60)
    arguments = [part for name in names for part in ("--device", name)]
    ours = subprocess.run([cdi.sluice, "cdi", "check", "--cdi-dir", folder, "--apply", path, *arguments],
                          capture_output=True, text=True, timeout=60)
    if theirs.returncode or ours.returncode:
        return [] if theirs.returncode and ours.returncode else [f"we say '{ours.stderr}', they say '{theirs.stderr}'"]
    pair = [plain(json.loads(reply.stdout)) for reply in (ours, theirs)]
    for config in pair:  # they allow twice what is asked for twice
        rules = config.get("linux", {}).get("resources", {}).get("devices", [])
        rules[:] = [rule for index, rule in enumerate(rules) if rule not in rules[index + 1:]]
    return unequal(*pair)


def edited(cdi, machine):
    problems = []
    folder = os.path.join(machine.directory, "cdi")
    os.makedirs(folder)
    machine.program(cdi.sluice, "cdi", "generate", "--output", os.path.join(folder, "made.json"))
    for what, (config, names) in EDITED.items():
        problems += [f"{what}: {problem}" for problem in
                     applied(cdi, folder, config, [f"sluice.sim/gpu={name}" for name in names])]
    problems += [f"unknown: {problem}" for problem in applied(cdi, folder, CONFIG, ["sluice.sim/gpu=99"])]
    pathlib.Path(folder, "full.json").write_text(json.dumps(FILES["applied"]))
    problems += [f"every field: {problem}" for problem in applied(cdi, folder, CONFIG, ["example.com/gpu=0"])]
    shutil.rmtree(folder)
    return problems, f"{len(EDITED) + 2} configurations"


# What others write --------------------------------------------------------------------------------

def specification(kind="example.com/gpu", device="0", version="1.0.0", **more):
    edits = {"deviceNodes": [{"path": "/dev/null"}]}
    return {"cdiVersion": version, "kind": kind, "devices": [{"name": device, "containerEdits": edits}], **more}


def with_edits(version="1.0.0", **edits):
    return specification(version=version, containerEdits=edits)


def node(**fields):
    return with_edits(deviceNodes=[{"path": "/dev/null", **fields}])


def hook(**fields):
    return with_edits(hooks=[{"hookName": "prestart", "path": "/bin/true", **fields}])


FILES = {
    "plain": specification(),
    "every field": with_edits(
        "1.1.0", env=["A=b"], mounts=[{"hostPath": "/a", "containerPath": "/b", "type": "bind", "options": ["ro"]}],
        deviceNodes=[{"path": "/dev/x", "hostPath": "/dev/y", "type": "c", "major": 1, "minor": 3, "fileMode": 432,
                      "permissions": "rw", "uid": 0, "gid": 4}],
        hooks=[{"hookName": "createRuntime", "path": "/bin/true", "args": ["true"], "env": ["A=b"], "timeout": 3}],
        additionalGids=[4], intelRdt={"closID": "x"}, netDevices=[{"hostInterfaceName": "eth0", "name": "net0"}]),
    "applied": with_edits(
        "1.0.0", env=["A=new", "B=c"], additionalGids=[4, 5, 0],
        mounts=[{"hostPath": "/tmp", "containerPath": "/proc", "options": ["ro"]},
                {"hostPath": "/etc", "containerPath": "/y/z", "type": "tmpfs"}],
        deviceNodes=[{"path": "/dev/null", "permissions": "r"},
                     {"path": "/dev/x", "hostPath": "/dev/zero", "fileMode": 432, "uid": 7, "gid": 8},
                     {"path": "/dev/given", "type": "c", "major": 1, "minor": 3}],
        hooks=[{"hookName": "createRuntime", "path": "/bin/true", "args": ["true"], "env": ["A=b"], "timeout": 3},
               {"hookName": "poststop", "path": "/bin/true"}]),
    "annotations": specification(annotations={"example.com/a": "b"}),
    "a field that nobody knows": specification(other=1),
    "no devices": {"cdiVersion": "1.0.0", "kind": "example.com/gpu"},
    "an empty list of devices": {**specification(), "devices": []},
    "empty edits of a device": {**specification(), "devices": [{"name": "0", "containerEdits": {}}]},
    "a device without a name": {**specification(), "devices": [{"containerEdits": {"env": ["A=b"]}}]},
    "the same device twice": {**specification(), "devices": specification()["devices"] * 2},
    "no version": {key: value for key, value in specification().items() if key != "cdiVersion"},
    "version 0.1.0": specification(device="x", version="0.1.0"),
    "version 0.9.0": specification(version="0.9.0"),
    "version 2.0.0": specification(version="2.0.0"),
    "version v1.0.0": specification(version="v1.0.0"),
    "a digit in 0.4.0": specification(version="0.4.0"),
    "a letter in 0.3.0": specification(device="x", version="0.3.0"),
    "a host path in 0.4.0": specification(device="x", version="0.4.0", containerEdits={
        "deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b"}]}),
    "annotations in 0.5.0": specification(version="0.5.0", annotations={"example.com/a": "b"}),
    "a dot in the class in 0.5.0": specification(kind="example.com/gpu.x", version="0.5.0"),
    "groups in 0.6.0": with_edits("0.6.0", additionalGids=[4]),
    "network devices in 1.0.0": with_edits("1.0.0", netDevices=[{"hostInterfaceName": "eth0", "name": "net0"}]),
    "no kind": specification(kind=""),
    "a kind without a class": specification(kind="example.com"),
    "a kind of three parts": specification(kind="example.com/gpu/x"),
    "a vendor that begins with a digit": specification(kind="1example.com/gpu"),
    "a class that ends with a dash": specification(kind="example.com/gpu-"),
    "a blank in a device": specification(device="a b"),
    "a device that begins with a dash": specification(device="-0"),
    "a colon in a device": specification(device="0:1"),
    "env without an equals sign": with_edits(env=["A"]),
    "env that begins with an equals sign": with_edits(env=["=A"]),
    "a node without a path": with_edits(deviceNodes=[{"hostPath": "/dev/null"}]),
    "permissions x": node(permissions="rx"),
    "permissions none": node(permissions="none"),
    "type x": node(type="x"),
    "type p": node(type="p"),
    "a mode of text": node(fileMode="0666"),
    "a negative mode": node(fileMode=-1),
    "a mode of 33 bits": node(fileMode=1 << 32),
    "a negative uid": node(uid=-1),
    "a gid of text": node(gid="video"),
    "a negative group": with_edits(additionalGids=[-1]),
    "a negative major": node(type="c", major=-1, minor=0),
    "a relative node": with_edits(deviceNodes=[{"path": "dev/null"}]),
    "dots in a node": with_edits(deviceNodes=[{"path": "/dev/../etc/passwd"}]),
    "a mount without a source": with_edits(mounts=[{"containerPath": "/b"}]),
    "a mount without a target": with_edits(mounts=[{"hostPath": "/a"}]),
    "a relative source": with_edits(mounts=[{"hostPath": "a", "containerPath": "/b"}]),
    "dots in a target": with_edits(mounts=[{"hostPath": "/a", "containerPath": "/b/../../etc"}]),
    "a hook of another stage": hook(hookName="later"),
    "a hook without a path": hook(path=""),
    "a relative hook": hook(path="bin/true"),
    "a hook that takes no time": hook(timeout=-1),
    "a hook with a broken env": hook(env=["A"]),
    "numbers as env": with_edits(env=[1]),
    "edits in a list": {**specification(), "containerEdits": [{"env": ["A=b"]}]},
    "devices in a map": {**specification(), "devices": {"name": "0"}},
    "no map": ["A"],
}
TEXTS = {
    "no JSON": "{", "nothing": "", "a number": "1", "bytes": "\x00\x01",
    "a key twice": json.dumps(specification()).replace('"kind"', '"kind": "example.com/other", "kind"'),
    "something after it": json.dumps(specification()) + " more",
    "deep": json.dumps(specification(annotations={})).replace("{}", "[" * 200 + "]" * 200),
}
YAML = {
    "yaml": "cdiVersion: \"0.5.0\"\nkind: example.com/gpu\ndevices:\n- name: \"0\"\n"
            "  containerEdits:\n    env: [A=b]\n",
    "yaml with an anchor": "cdiVersion: 0.5.0\nkind: &k example.com/gpu\ndevices:\n- name: x\n  containerEdits:\n"
                           "    env:\n    - A=b\n",
    "yaml with a tab": "cdiVersion: 0.5.0\n\tkind: example.com/gpu\n",
    "yaml of two documents": "cdiVersion: 0.5.0\nkind: a.b/c\ndevices:\n- name: x\n  containerEdits:\n    env: [A=b]\n"
                             "---\nkind: a.b/d\n",
}


def one_file(cdi, key, text, name):
    """Refused by both or by neither, unless it is listed."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, name).write_text(text)
        theirs, errors = cdi.read(folder)
        mine, own_errors = cdi.ours(folder)
    verdict = f"we say {list(own_errors.values()) or 'nothing'}, their package {list(errors.values()) or 'nothing'}"
    if bool(errors) == bool(own_errors):
        return same_devices({key: "" for key in mine}, {key: "" for key in theirs}), verdict
    return [] if cdi.differs(f"file: {key}") else [verdict], verdict


CONFLICTS = {
    "the second directory wins": ({"a.json": specification()}, {"b.json": specification()}),
    "twice in one directory": ({"a.json": specification(), "b.json": specification()}, {}),
    "twice in one, once in a better one": ({"a.json": specification(), "b.json": specification()},
                                           {"c.json": specification()}),
    "twice in the better one": ({"a.json": specification()}, {"b.json": specification(), "c.json": specification()}),
    "some of each": ({"a.json": specification(device="0"), "b.json": specification(device="1")},
                     {"c.json": specification(device="1"), "d.json": specification(kind="other.com/gpu")}),
    "a broken file beside a good one": ({"a.json": specification(), "b.json": {"kind": "example.com/gpu"}}, {}),
    "other names": ({"a.JSON": specification(), "b.txt": specification(), "c.yml": specification(),
                     "d.json.bak": specification()}, {".e.json": specification(device="hidden")}),
    "a directory below": ({"below/a.json": specification(), "b.json": specification(device="x")}, {}),
}


def conflict(cdi, contents):
    with tempfile.TemporaryDirectory() as folder:
        directories = []
        for number, files in enumerate(contents):
            directories.append(pathlib.Path(folder, str(number)))
            directories[-1].mkdir()
            for name, content in files.items():
                path = directories[-1] / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(json.dumps(content))
        theirs, _ = cdi.read(*directories)
        mine, _ = cdi.ours(*directories)
    return same_devices(mine, theirs), f"{len(mine)} devices"


# NVIDIA's generator -------------------------------------------------------------------------------

# It loads the driver's own library from the driver root, where the simulator has a file with nothing in it.
TOOLKIT = """
mount --bind "${LD_LIBRARY_PATH%%:*}/libnvidia-ml.so.1" "$(readlink -f "$1"/usr/lib/*/libnvidia-ml.so.1)" || exit 1
exec "$2" --quiet cdi generate --driver-root="$1" --dev-root="$1" --mode=nvml --format=json --output="$3"
"""


def nodes_of(edits):
    return {entry["path"] for entry in edits.get("deviceNodes", [])}


def files_of(specification):
    """The files that containers see: mounts, and the links that hooks make."""
    edits = specification["containerEdits"]
    seen = {mount["containerPath"] for mount in edits.get("mounts", [])}
    for entry in edits.get("hooks", []):
        seen |= {word.split("::")[1] for word in entry.get("args", []) if "::" in word}
    return seen


def peer(cdi, machine):
    root = os.path.join(machine.directory, "root")
    paths = [os.path.join(machine.directory, name) for name in ("theirs.json", "ours.json")]
    machine.command([cdi.sluice, "sim", "exec", "--mounts", "--", "/bin/sh", "-c", TOOLKIT, "sh", root, cdi.toolkit,
                     paths[0]])
    machine.program(cdi.sluice, "cdi", "generate", "--versioned", "--lib-layout", "debian", "--output", paths[1])
    theirs, ours = (json.loads(pathlib.Path(path).read_text()) for path in paths)
    of_theirs, of_ours = (
        {entry["name"]: entry["containerEdits"] for entry in text["devices"]} for text in (theirs, ours))
    problems = [f"device {name} is only in {'theirs' if name in of_theirs else 'ours'}"
                for name in sorted(of_theirs.keys() ^ of_ours.keys())]
    for name in sorted(of_theirs.keys() & of_ours.keys()):
        different = nodes_of(of_theirs[name]) ^ nodes_of(of_ours[name])
        problems += [f"node {path} of {name} is given by one alone" for path in sorted(different)]
    different = nodes_of(theirs["containerEdits"]) ^ nodes_of(ours["containerEdits"])
    problems += [f"node {path} of all is given by one alone" for path in sorted(different)]
    for path in sorted(files_of(theirs) ^ files_of(ours)):
        whose = "theirs" if path in files_of(theirs) else "ours"
        if not cdi.differs(f"{whose}: {os.path.basename(path).replace(DRIVER, 'VERSION')}"):
            problems.append(f"{path} is only in {whose}")
    if theirs["cdiVersion"] != ours["cdiVersion"]:
        problems.append(f"version {ours['cdiVersion']}, theirs {theirs['cdiVersion']}")
    return problems, f"{len(of_ours)} devices, {len(files_of(ours))} files"


def check(run, cdi):
    for key, content in FILES.items():
        run.check(f"cdi file: {key}", one_file, cdi, key, json.dumps(content), "a.json")
    for key, text in TEXTS.items():
        run.check(f"cdi file: {key}", one_file, cdi, key, text, "a.json")
    for key, text in YAML.items():
        run.check(f"cdi file: {key}", one_file, cdi, key, text, "a.yaml")
    for key, contents in CONFLICTS.items():
        run.check(f"cdi conflict: {key}", conflict, cdi, contents)
    why = why_no_nodes()
    if why:
        cdi.missing.append(why)
        return
    for profile, mig in MACHINES:
        names = [f"cdi {what} {profile} {mig}" for what in ("valid", "toolkit", "honest", "applied")]
        if not any(map(run.wanted, names)):
            continue
        with Machine(cdi.build, profile, DRIVER, mig=mig, nodes="nvidia") as machine:
            run.check(names[0], valid, cdi, machine)
            if cdi.toolkit:
                run.check(names[1], peer, cdi, machine)
            if profile == "t4x1":
                run.check(names[2], noticed, cdi, machine)
            if profile == "dgx-a100":
                run.check(names[3], edited, cdi, machine)
    if not run.options.only or run.options.only == "cdi":
        unmet = sorted(cdi.differences.keys() - cdi.met) if cdi.toolkit else []
        run.report("cdi differences", [f"'{key}' in cdi/differences was not met: remove it" for key in unmet],
                   f"{len(cdi.met)} are meant")
