#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes C and linker scripts from functions.list.

gen.py FUNCTIONS.LIST impl.h entry.c AGE.map... table.h
The names of the outputs say what each is: "impl.h" prototypes and numbers, "entry.c" the exported
functions, "exports-AGE.map" the version script of one age, "table.h" the rows of the
call-every-symbol test.
"""
import os
import re
import sys

AGES = (470, 535, 580, 590)
KINDS = ("own", "read", "write", "free", "stub")
HANDLES = ("device", "gpu", "gi", "ci")
LINE = re.compile(r"(nvml\w+) (\d+)(\+|-\d+) (\w+)(?::(\w+))? \((.*)\)$")


class Argument:
    def __init__(self, text):
        self.needed = text.endswith("!")
        text = text.rstrip("!").strip()
        self.handle = text if text in HANDLES else None
        self.pointer = text.endswith("*") or text == "handle" or self.handle is not None
        self.string = text == "const char *"
        self.type = "void *" if self.handle or text == "handle" else text
        self.type = re.sub(r"\buint64\b", "uint64_t", self.type)
        self.type = re.sub(r"\bulong\b", "unsigned long", self.type)

    def declare(self, name):
        return self.type + ("" if self.type.endswith("*") else " ") + name


class Function:
    def __init__(self, line, where):
        match = LINE.match(line)
        if not match:
            sys.exit(f"{where}: not a function: {line}")
        self.name, since, until, self.kind, impl, arguments = match.groups()
        self.since = int(since)
        self.until = AGES[-1] if until == "+" else int(until[1:])
        if self.since not in AGES or self.until not in AGES or self.kind not in KINDS:
            sys.exit(f"{where}: unknown age or kind: {line}")
        self.arguments = [Argument(a.strip()) for a in arguments.split(",") if a.strip()]
        self.impl = "impl_" + (impl or self.name[4:])
        self.handle = self.arguments[0].handle if self.arguments else None

    def in_age(self, age):
        return self.since <= age <= self.until

    def body_arguments(self):
        return self.arguments[1:] if self.handle else self.arguments

    def prototype(self):
        rest = [a.declare("").strip() for a in self.body_arguments()]
        return f"unsigned {self.impl}({', '.join(['struct call *call'] + rest)});"

    def entry(self):
        names = [f"a{i}" for i in range(len(self.arguments))]
        declared = ", ".join(a.declare(n) for a, n in zip(self.arguments, names)) or "void"
        handle = names[0] if self.handle else "NULL"
        missing = " || ".join(f"!{n}" for a, n in zip(self.arguments, names) if a.needed) or "false"
        passed = ["&call"] + (names[1:] if self.handle else names)
        return (
            f"API unsigned {self.name}({declared})\n{{\n\tstruct call call;\n"
            f"\tif (call_begin(&call, FUNCTION_{self.name}, {handle}, {missing}))\n"
            f"\t\tcall.result = {self.impl}({', '.join(passed)});\n"
            f"\treturn call_end(&call);\n}}\n"
        )

    def stub(self):
        handle = "handle" if self.handle else "NULL"
        return (
            f"API unsigned {self.name}(void *handle)\n{{\n"
            f"\treturn call_stub(FUNCTION_{self.name}, {handle});\n}}\n"
        )


def read_functions(path):
    functions = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if line and not line.startswith("#"):
                functions.append(Function(line, f"{path}:{number}"))
    names = [f.name for f in functions]
    if names != sorted(set(names)):
        sys.exit(f"{path}: names must be sorted and unique")
    return functions


def impl_header(functions):
    out = ["/* Made by gen.py from functions.list. */", '#include "api.h"', "struct call;", "enum function {"]
    out += [f"\tFUNCTION_{f.name}," for f in functions]
    out += ["\tFUNCTION_COUNT,", "};"]
    seen = {}
    for f in functions:
        if f.kind in ("read", "write", "free"):
            if seen.setdefault(f.impl, f.prototype()) != f.prototype():
                sys.exit(f"{f.name}: another function shares {f.impl} with different arguments")
    out += seen.values()
    return "\n".join(out) + "\n"


def entry_source(functions):
    out = ["/* Made by gen.py from functions.list. */", '#include "call.h"', '#include "impl.h"']
    # Both compilers know these pragmas: the prototypes are the callers', and the names one string.
    out += [f'#pragma GCC diagnostic ignored "-W{w}"' for w in ("missing-prototypes", "overlength-strings")]
    offset = 0
    rows = []
    for f in functions:
        handle = (f.handle or "none").upper()
        rows.append(f"\t{{{offset}, KIND_{f.kind.upper()}, HANDLE_{handle}}},")
        offset += len(f.name) - len("nvml") + 1
    out += ["const struct function_row function_row[] = {"] + rows + ["};"]
    out += ["const char function_names[] ="] + [f'\t"{f.name[4:]}\\0"' for f in functions] + [";"]
    for f in functions:
        if f.kind == "stub":
            out.append(f.stub())
        elif f.kind != "own":
            out.append(f.entry())
    return "\n".join(out) + "\n"


def exports(functions, age):
    names = "".join(f"\t\t{f.name};\n" for f in functions if f.in_age(age))
    return f"{{\n\tglobal:\n{names}\tlocal:\n\t\t*;\n}};\n"


def table(functions):
    """One row per symbol: name, ages, kind, and one letter per argument: d g c handles of the
    named kinds, h another handle, s string, p pointer that is checked, q optional pointer,
    i integer of 32 bits, l of 64."""
    letters = {"device": "d", "gpu": "d", "gi": "g", "ci": "c"}
    out = ["/* Made by gen.py from functions.list. */"]
    for f in functions:
        signature = ""
        for a in f.arguments:
            if a.handle:
                signature += letters[a.handle]
            elif a.string:
                signature += "s"
            elif a.pointer:
                signature += "h" if a.type == "void *" and not a.needed else "p" if a.needed else "q"
            else:
                signature += "l" if "64" in a.type or "long" in a.type else "i"
        out.append(f'{{"{f.name}", {f.since}, {f.until}, "{f.kind}", "{signature}"}},')
    return "\n".join(out) + "\n"


def main():
    functions = read_functions(sys.argv[1])
    for path in sys.argv[2:]:
        name = os.path.basename(path)
        match = re.fullmatch(r"exports-(\d+)\.map", name)
        if match:
            text = exports(functions, int(match.group(1)))
        else:
            text = {"impl.h": impl_header, "entry.c": entry_source, "table.h": table}[name](functions)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


main()
