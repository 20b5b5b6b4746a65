# SPDX-License-Identifier: Apache-2.0
"""tools/check-style finds a violation of each of its rules and leaves a clean tree alone."""

import shutil

import pytest

from conftest import LICENCE

SOURCE = "src/base/text.c"
HEADER = "src/base/text.h"


def body(text):
    return LICENCE + '#include "base/text.h"\n\nint text_length(size_t length)\n{\n' + text + "}\n"


def findings(tree, *arguments):
    result = tree.run("check-style", *(arguments or ("--skip", "alone", "--skip", "format")))
    lines = result.stdout.splitlines()
    found = [line for line in lines if not line.startswith("check-style:")]
    assert lines[-1] == f"check-style: {len(found)} findings"
    assert result.returncode == (1 if found else 0), result.stderr
    return found


def test_a_clean_tree_passes(tree):
    assert findings(tree, "--skip", "format") == []


@pytest.mark.parametrize("call", [
    "strcpy(a, b)", "sprintf (a, b)", "atoi(a)", "strtol(a, 0, 10)", "strtok(a, b)", "sscanf(a, b)",
    "alloca(3)", "system(a)",
])
def test_banned_calls(tree, call):
    tree.write(SOURCE, body(f"\treturn {call};\n"))
    found = findings(tree)
    assert len(found) == 1
    assert found[0].startswith(f"{SOURCE}:6: ") and found[0].endswith("[calls]")


def test_banned_words_that_are_not_calls(tree):
    tree.write(SOURCE, body('\t/* not atoi(x) */\n\tlog("sprintf(");\n\tfile->system(3);\n'
                            "\tmy_strcpy(1);\n\treturn snprintf(0, 0, 0);\n"))
    assert findings(tree) == []


@pytest.mark.parametrize("length", ["4", 'strlen("GPU-")', 'sizeof("GPU-") - 1'])
def test_a_counted_prefix(tree, length):
    tree.write(SOURCE, body(f'\treturn strncmp(a->name, "GPU-", {length}) == 0;\n'))
    assert findings(tree) == [f'{SOURCE}:6: text_starts_with() counts "GPU-" itself [prefix]']
    tree.write(SOURCE, body('\treturn strncmp(a, "GPU-", size) == 0;\n'))
    assert findings(tree) == []


def test_time_has_one_place(tree):
    tree.write(SOURCE, body("\tclock_gettime(CLOCK_REALTIME, &now);\n\treturn time(NULL) + my_time(1) + a.time(2);\n"))
    assert findings(tree) == [f"{SOURCE}:6: clock_gettime() is for base/clock.c, which has every clock [clock]",
                              f"{SOURCE}:7: time() is for base/clock.c, which has every clock [clock]"]
    tree.write("perf/thing.c", LICENCE + "int a = time(NULL);\n")
    tree.write(SOURCE, body("\treturn clock_unix_s();\n"))
    assert findings(tree) == []


def test_the_domain_has_one_place(tree):
    text = '\tputs("sluice.dev/gpu");\n\tputs("sluice.devices"); /* "sluice.dev/NAME" */\n\treturn length;\n'
    tree.write(SOURCE, body(text))
    assert findings(tree) == [f"{SOURCE}:6: sluice.dev is SLUICE_DOMAIN of base/domain.h [domain]"]
    tree.write(SOURCE, body(text.replace('"sluice.dev/gpu"', 'SLUICE_DOMAIN "/gpu"')))
    tree.write("src/base/domain.h", LICENCE + '#define SLUICE_DOMAIN "sluice.dev"\n')
    assert findings(tree) == []


def test_the_own_header_comes_first(tree):
    tree.write(SOURCE, LICENCE + '#include <errno.h>\n\n#include "base/text.h"\n')
    assert findings(tree) == [f"{SOURCE}: includes errno.h before text.h [own]"]
    tree.write(SOURCE, LICENCE + '#include "base/text.h"\n\n#include <errno.h>\n')
    assert findings(tree) == []


def test_a_test_may_call_what_it_likes(tree):
    tree.write("tests/unit/base/text_test.c", LICENCE + "int x = atoi(y);\n")
    assert findings(tree) == []


def test_length_of_files(tree):
    tree.write(HEADER, LICENCE + "\n" * 900 + "/* told */\n" * 900 + "int a;\n" * 800)
    assert findings(tree) == []
    tree.write(HEADER, LICENCE + "int a;\n" * 801)
    assert findings(tree) == [f"{HEADER}: 801 lines, at most 800 [length]"]


def test_length_of_functions(tree):
    tree.write(SOURCE, body("\tcall();\n\t/* told */\n\n" * 75))
    assert findings(tree) == []
    tree.write(SOURCE, body("\tcall();\n\n" * 76))
    assert findings(tree) == [f"{SOURCE}:5: a function of 76 lines, at most 75 [length]"]


def test_the_steps_of_a_function(tree):
    tree.write(SOURCE, body("\tcall();\n" * 15 + "\n" + "\tcall();\n\t/* told */\n" * 15))
    assert findings(tree) == []
    tree.write(SOURCE, body("\tcall();\n\n" + "\tcall();\n" * 16))
    assert findings(tree) == [f"{SOURCE}:8: 16 lines without an empty one, at most 15 [steps]"]


def test_what_is_no_step(tree):
    rows = "\tstruct row rows[] = {\n" + "\t\t{1},\n" * 8 + "\t};\n"
    cases = "\tswitch (a) {\n" + "\tcase A:\n\t\tcall();\n\t\tbreak;\n" * 7 + "\t}\n"
    further = "\tcall(a,\n" + "\t     b,\n" * 7 + "\t     c);\n"
    tree.write(SOURCE, body(rows + "\tcall();\n" * 13 + "\n" + cases + "\n" + further + "\tcall();\n" * 14))
    assert findings(tree) == []
    tree.write(SOURCE, body(rows + "\tcall();\n" * 15))
    assert findings(tree) == [f"{SOURCE}:6: 16 lines without an empty one, at most 15 [steps]"]


@pytest.mark.parametrize("line", ["int result = call();", "int wanted = 0, result;", "int32_t ret;", "\tlong retval = call(\n1);"])
def test_what_a_call_returned_is_rc(tree, line):
    name = next(name for name in ("result", "retval", "ret") if name in line)
    tree.write(SOURCE, body(f"\t{line}\n\treturn 0;\n"))
    assert findings(tree) == [f"{SOURCE}:6: what a call returned is rc, not {name} [rc]"]


def test_what_may_be_called_a_result(tree):
    tree.write(SOURCE, LICENCE + '#include "base/text.h"\n\nstruct text {\n\tint result;\n};\n\nint text_length(size_t length)\n{\n'
               "\tstruct text result = {0};\n\tint rc = call(&result), results;\n\treturn result.result;\n}\n")
    assert findings(tree) == []


def test_names_are_unique(tree):
    tree.write("src/web/text.c", LICENCE + '#include "web/text.h"\n\nstatic int text_own(void)\n{\n}\n\n'
               "int text_length(size_t length)\n{\n}\n\nstruct text {\n\tint a;\n};\n")
    tree.write("src/web/text.h", LICENCE + "struct text;\nint text_length(size_t length);\nenum text { TEXT_A };\n")
    tree.write("tests/unit/web/text_test.c", LICENCE + "struct text {\n\tint a;\n};\nint text_length(void)\n{\n}\n")
    tree.write("sim/text.c", LICENCE + "int text_length(size_t length)\n{\n}\n")
    tree.write("sim/text.h", LICENCE)
    tree.write("tests/unit/sim/text_test.c", LICENCE)
    assert findings(tree) == ["src/web/text.c:8: text_length() is in src/base/text.c as well [names]"]
    tree.write("src/web/text.c", LICENCE + '#include "web/text.h"\n\nstatic int text_length(void)\n{\n}\n\nstruct text {\n};\n')
    assert findings(tree) == []
    tree.write("src/web/page.h", LICENCE + "enum other { OTHER_A };\nstatic const struct text {\n\tint b;\n} texts[] = {{1}};\n")
    assert findings(tree) == ["src/web/text.c:8: struct text is in src/web/page.h as well [names]"]


def test_functions_that_nobody_calls(tree):
    text = 'int text_width(void);\n'
    tree.write(HEADER, LICENCE + "#include <stddef.h>\n\nint text_length(size_t length);\n" + text)
    tree.write(SOURCE, body("\treturn length;\n") + "\nint text_width(void)\n{\n\treturn 3;\n}\n")
    assert findings(tree) == [f"{SOURCE}:9: text_width() is called by nothing [used]"]
    tree.write("src/base/calls.def", "")
    tree.write("tests/unit/base/text_test.c", LICENCE + "int a = text_width();\nint b = text_length(1);\n")
    assert findings(tree) == [f"{SOURCE}:4: text_length() is called by nothing but tests [used]",
                              f"{SOURCE}:9: text_width() is called by nothing but tests [used]"]
    tree.write("src/base/calls.def", "CALL(text_length)\n")
    tree.write("tools/style-exceptions", f"used {SOURCE}:text_w* a reason\n")
    assert findings(tree) == []


def test_functions_of_one_file(tree):
    tree.write(SOURCE, body("\treturn text_width();\n").replace("int text_length", "static int text_length") +
               "\nint text_width(void)\n{\n\treturn 3;\n}\n")
    tree.write(HEADER, LICENCE + "/* text_width() */\nint text_width(void);\n")
    assert findings(tree) == [f"{SOURCE}:9: text_width() is called in this file only: make it static [used]"]
    tree.write("tests/unit/base/text_test.c", LICENCE + "int a = text_width();\n")
    assert findings(tree) == []


def test_licence_line(tree):
    tree.write(SOURCE, body("").replace(LICENCE, "/* mine */\n"))
    tree.write("tools/thing", "#!/bin/sh\nexit 0\n")
    assert [line.split(":")[0] for line in findings(tree)] == [SOURCE, "tools/thing"]


@pytest.mark.parametrize("mark", ["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"])
def test_unfinished_marks(tree, mark):
    tree.write(SOURCE, body(f"\t/* {mark}: later */\n\treturn 0;\n"))
    assert findings(tree) == [f"{SOURCE}:6: an unfinished mark [marks]"]


@pytest.mark.parametrize("text", ["/" + "work/main/build", "see https://pypi-" + "mirror.example/x"])
def test_private_paths(tree, text):
    tree.write("README.md", f"A tree.\nSee {text}\n")
    found = findings(tree)
    assert len(found) == 1 and found[0].startswith("README.md:2: ") and found[0].endswith("[marks]")


@pytest.mark.parametrize("text, fine", [
    ("typedef struct text text_t;", False),
    ("typedef struct text {\n\tint a;\n} text_t;", False),
    ("typedef enum { A } text_kind;", False),
    ("typedef unsigned int u32;", False),
    ("typedef int (*text_visit)(void *context);", True),
    ("typedef void text_visit(void *context);", True),
    ("typedef struct nvmlDevice_st *nvmlDevice_t;", True),
])
def test_typedefs(tree, text, fine):
    tree.write(HEADER, LICENCE + text + "\n")
    assert [line[-9:] for line in findings(tree)] == ([] if fine else ["[typedef]"])


def test_pages_that_are_not_there(tree):
    tree.write("README.md", "See doc/tour.md and https://example.org/other.md and README.md.\n")
    assert findings(tree) == ["README.md:1: mentions doc/tour.md, which is not in the tree [pages]"]
    tree.write("doc/tour.md", "A tour of `src/base/text.h`.\n")
    assert findings(tree) == []


def test_paths_that_are_not_there(tree):
    tree.write("README.md", "`src/base/text.c`, `src/base/`, `src/x/NAME.c`, `/dev/null`, `src/gone.c`\n")
    assert findings(tree) == ["README.md:1: mentions src/gone.c, which is not in the tree [pages]"]


def test_header_and_test_of_a_source(tree):
    tree.write("src/hardware/gpu.c", LICENCE)
    tree.write("sim/state.c", LICENCE)
    assert findings(tree) == [
        "sim/state.c: has no state.h [header]",
        "src/hardware/gpu.c: has no gpu.h [header]",
        "sim/state.c: has no tests/unit/sim/state_test.c [mirror]",
        "src/hardware/gpu.c: has no tests/unit/hardware/gpu_test.c [mirror]",
    ]


def test_the_tour_has_every_header(tree):
    tree.write("src/base/text_fold.h", LICENCE)
    tree.write("src/web/page.h", LICENCE)
    tree.write("src/web/site.h", LICENCE)
    assert findings(tree) == []
    tree.write("doc/tour.md", "| `src/base/text.h` | texts |\n| `src/web/` | pages |\n")
    assert findings(tree) == []
    tree.write("doc/tour.md", "| `src/base/text.h` | texts |\n| `src/web/` | pages, `src/web/page.h` |\n")
    assert findings(tree) == ["src/web/site.h: is not in doc/tour.md, which is how a newcomer finds it [tour]"]
    tree.write("doc/tour.md", "| `src/web/page.h`, `site.h` | pages |\n")
    assert findings(tree) == [f"{path}: is not in doc/tour.md, which is how a newcomer finds it [tour]"
                              for path in (HEADER, "src/base/text_fold.h")]
    tree.write("doc/tour.md", "| `src/base/text.h` | texts |\n| `src/web/page.h`, `site.h` | pages |\n")
    assert findings(tree) == []
    tree.write("src/web/text_page.h", LICENCE)  # src/base/text.h is in a different folder
    assert findings(tree) == ["src/web/text_page.h: is not in doc/tour.md, which is how a newcomer finds it [tour]"]


def test_a_module_in_several_files_shares_header_and_test(tree):
    tree.write("src/base/text_fold.c", LICENCE)
    tree.write("src/base/text_fold_greek.c", LICENCE)
    assert findings(tree) == []
    tree.write("src/base/context_fold.c", LICENCE)
    assert [line.split(":")[0] for line in findings(tree)] == ["src/base/context_fold.c"] * 2


def test_a_test_may_look_from_outside(tree):
    tree.write("src/main.c", LICENCE)
    tree.write("src/cmd/machine/topo.c", LICENCE)
    tree.write("sim/trees.c", LICENCE)
    tree.write("sim/trees.h", LICENCE)
    assert findings(tree) == ["sim/trees.c: has no tests/unit/sim/trees_test.c [mirror]",
                              "src/cmd/machine/topo.c: has no tests/unit/cmd/machine/topo_test.c [mirror]"]
    tree.write("tests/e2e/test_topo.py", "# SPDX-License-Identifier: Apache-2.0\n")
    tree.write("tests/e2e/test_sim_trees_pci.py", "# SPDX-License-Identifier: Apache-2.0\n")
    assert findings(tree) == []


def test_exceptions_want_a_reason_and_a_use(tree):
    tree.write("src/hardware/gpu.c", LICENCE)
    tree.write("tools/style-exceptions",
               "# comment\n\nheader src/hardware/gpu.c declared in other.h\n"
               "mirror src/hardware/gpu.c\nmirror src/base/text.c there is one\n")
    assert findings(tree) == [
        "tools/style-exceptions:4: wants RULE PATH REASON [exceptions]",
        "tools/style-exceptions: 'mirror src/base/text.c' is not needed any more [exceptions]",
        "src/hardware/gpu.c: has no tests/unit/hardware/gpu_test.c [mirror]",
    ]


def test_parsers_are_fuzzed(tree):
    tree.write(HEADER, LICENCE + "#include <stddef.h>\n"
               "int text_parse(const char *text, size_t length, int *out);\n")
    assert findings(tree) == [
        f"{HEADER}: declares text_parse() but no target in tests/fuzz includes it [fuzz]"]
    tree.write("tests/fuzz/text_fuzz.c", LICENCE + '#include "base/text.h"\n')
    assert findings(tree) == []


def test_headers_compile_alone(tree):
    tree.write(HEADER, LICENCE + "int text_length(size_t length);\n")
    found = findings(tree, "--skip", "format")
    assert len(found) == 1 and found[0].startswith(f"{HEADER}: does not compile alone: ")


@pytest.mark.skipif(not shutil.which("clang-format"), reason="clang-format is not installed")
def test_formatting(tree):
    tree.write(SOURCE, body("\treturn  0;\n"))
    result = tree.run("check-style", "--skip", "alone")
    if "NOT checked" in result.stdout:
        pytest.skip(result.stdout)
    assert f"{SOURCE}:6: clang-format would change this [format]" in result.stdout
    assert result.returncode == 1
