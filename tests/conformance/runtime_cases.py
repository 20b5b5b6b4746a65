# SPDX-License-Identifier: Apache-2.0
"""What `sluice runtime configure` makes of the files in tests/documents/runtimes, read by containerd's
own code of 1.7 and 2.0: it must find CDI switched on where we say so, and off again after --undo."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from kubelet_node import why_no_namespace

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENTS = HERE.parent / "documents" / "runtimes"
BUILD = 900  # seconds on a slow machine
# The files of the case in place of /etc, so that containerd finds what they import: before, then what
# we say, after --apply, and after --undo.
SCRIPT = """mount --bind "$1" /etc || exit 9
for step in "" --apply --undo; do
	"$2" "$3" /etc/containerd/config.toml 2>&1 || true; echo
	"$4" runtime configure --runtime containerd --runtime-version "$5" --output json $step 2>&1; echo "exit $?"
done
"$2" "$3" /etc/containerd/config.toml 2>&1 || true
"""


class Runtimes:
    """The reader; made by install()."""

    def __init__(self, build):
        self.sluice = os.path.join(build, "src/cmd/sluice")
        self.reader = None
        self.missing = []  # why it cannot be had

    def install(self, folder, step, unavailable):
        why, go = why_no_namespace(), shutil.which("go")
        if why or not go:
            self.missing.append(f"user namespaces are needed (unshare -Urm): {why}" if why
                                else "Go is not installed: apt install golang-go")
            return
        program = folder / "runtimes"
        try:
            step([go, "build", "-buildvcs=false", "-o", str(program), "."], HERE / "runtimes",
                 "building containerd's readers of its configuration (is there a network?)",
                 {**os.environ, "GOFLAGS": "-mod=readonly"}, BUILD)
            self.reader = program
        except unavailable as error:
            self.missing.append(str(error))


def is_on(text, reader):
    """What the reader found; a file that is not there is the default, which is on from 2.0 on."""
    text = text.strip()
    missing = text.endswith("/etc/containerd/config.toml: no such file or directory")
    return text == "true" or (reader == "containerd-2" and (text == "default" or missing))


def read(runtimes, name):
    """The four answers of the reader, and what we said and did before each of the last three."""
    version = name.partition("+")[0].removeprefix("containerd-")
    reader = "containerd-1" if version.startswith("1.") else "containerd-2"
    with tempfile.TemporaryDirectory() as directory:
        files = pathlib.Path(directory) / "etc"
        (files / "containerd").mkdir(parents=True)
        if (DOCUMENTS / name).is_dir():
            shutil.copytree(DOCUMENTS / name, directory, dirs_exist_ok=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
        done = subprocess.run(
            ["unshare", "-Urm", "/bin/sh", "-c", SCRIPT, "sh", str(files), str(runtimes.reader), reader,
             runtimes.sluice, version], capture_output=True, text=True, check=True, timeout=60, env=environment)
    found, said = [], []
    lines = []
    for line in done.stdout.splitlines():
        if line.startswith("exit "):
            said.append((int(line.split()[1]), "\n".join(lines)))
            lines = []
        elif not line and not lines:
            continue
        elif len(found) == len(said):
            found.append(line)
        else:
            lines.append(line)
    return reader, found, said


def one(runtimes, name):
    reader, found, said = read(runtimes, name)
    if len(found) != 4 or len(said) != 3:
        return [f"the script said: {found} {said}"], ""
    code, text = said[0]
    state = json.loads(text)["state"] if text.startswith("{") else "refused"
    on = [is_on(text, reader) for text in found]
    wanted = {"ready": [True] * 4, "change": [False, False, True, False]}.get(state, [False] * 4)
    problems = [] if on == wanted else [f"{reader} finds {found} where we say {state} ({code})"]
    if found[0] != found[1] or found[0] != found[3]:
        problems.append(f"it is not as it was: {found}")
    return problems, state


def check(run, runtimes):
    if not runtimes.reader:
        return
    for golden in sorted(DOCUMENTS.glob("containerd-*.out")):
        name = golden.name.removesuffix(".out")
        # Never read by a release that is there.
        if not name.startswith("containerd-1.6"):
            run.check(f"runtime {name}", one, runtimes, name)
