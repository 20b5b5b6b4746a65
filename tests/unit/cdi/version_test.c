/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "tests/unit/unit.h"

static int setup(void **state)
{
	*state = unit_tmp_new();
	return 0;
}

static int teardown(void **state)
{
	*state = unit_tmp_free(*state);
	return 0;
}

static void test_parse(void **state)
{
	(void)state;
	static const struct {
		const char *text, *version;
		uint32_t major, minor, patch;
	} cases[] = {
	    {"podman version 4.3.1\n", "4.3.1", 4, 3, 1},
	    {"Docker version 28.2.1, build 879ac3f\n", "28.2.1", 28, 2, 1},
	    {"containerd github.com/containerd/containerd/v2 v2.0.0 207ad711\n", "2.0.0", 2, 0, 0},
	    {"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n",
	     "1.6.20~ds1", 1, 6, 20},
	    {"containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da\n", "1.7.27",
	     1, 7, 27},
	    {"containerd github.com/containerd/containerd/v2 v2.1.0-rc.1 x\n", "2.1.0-rc.1", 2, 1,
	     0},
	    {"crio version 1.30.0\nVersion: 1.30.0\n", "1.30.0", 1, 30, 0},
	    {"1.7", "1.7", 1, 7, UINT32_MAX},
	    {"1.7-dev", "1.7-dev", 1, 7, UINT32_MAX},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct version version;
		assert_int_equal(version_parse(cases[i].text, strlen(cases[i].text), &version), 0);
		assert_string_equal(version.text, cases[i].version);
		assert_int_equal(version.major, cases[i].major);
		assert_int_equal(version.minor, cases[i].minor);
		assert_int_equal(version.patch, cases[i].patch);
	}
	static const char *const bad[] = {"",	"podman",	 "v.1",	     "1",
					  "1.", "99999999999.1", "1.2\x1b[m"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct version version;
		assert_int_equal(version_parse(bad[i], strlen(bad[i]), &version), -EINVAL);
	}
}

static void test_order(void **state)
{
	(void)state;
	const struct version version = {28, 2, 1, ""}, open = {1, 7, UINT32_MAX, ""};
	assert_true(version_is_at_least(&version, 28, 2, 1));
	assert_true(version_is_at_least(&version, 28, 1, 9));
	assert_true(version_is_at_least(&version, 27, 9, 9));
	assert_false(version_is_at_least(&version, 28, 2, 2));
	assert_false(version_is_at_least(&version, 28, 3, 0));
	assert_false(version_is_at_least(&version, 29, 0, 0));
	assert_true(version_is_at_least(&open, 1, 7, 2));
	assert_false(version_is_at_least(&open, 2, 0, 0));
}

/* A program of this text. */
static const char *program(void **state, const char *text)
{
	const char *path = unit_path(*state, "program");
	unit_write(path, text);
	assert_int_equal(chmod(path, 0755), 0);
	return path;
}

static void test_ask(void **state)
{
	struct version version;
	struct err err = {0};
	const char *path = program(state, "#!/bin/sh\necho noise 9.9 >&2\nread x && exit 1\n"
					  "[ \"$1\" = --version ] && echo x version 1.2.3\n");
	if (version_ask(path, 10000, &version, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(version.text, "1.2.3");
	path = program(state, "#!/bin/sh\necho nothing\n");
	assert_int_equal(version_ask(path, 10000, &version, &err), -EINVAL);
	path = program(state, "#!/bin/sh\necho 1.2.3\nexit 1\n");
	assert_int_equal(version_ask(path, 10000, &version, &err), -EIO);
	path =
	    program(state, "#!/bin/sh\nwhile :; do echo 0123456789012345678901234567890; done\n");
	assert_int_equal(version_ask(path, 10000, &version, &err), -ENOSPC);
	assert_int_equal(version_ask(unit_path(*state, "none"), 10000, &version, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/none'"));
}

/* One that hangs is killed, whether its output is open or not. */
static void test_ask_hangs(void **state)
{
	struct version version;
	struct err err = {0};
	static const char *const texts[] = {
	    "#!/bin/sh\nexec sleep 1000\n",
	    "#!/bin/sh\nsleep 1000\n",
	    "#!/bin/sh\necho 1.2.3\nexec sleep 1000 >/dev/null\n",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *path = program(state, texts[i]);
		assert_int_equal(version_ask(path, 100, &version, &err), -ETIMEDOUT);
		assert_non_null(strstr(err.text, "did not end within 100 ms"));
	}
}

/* All that it started is killed with it. */
static void test_ask_hangs_in_a_child(void **state)
{
	char text[512], line[64] = "";
	const char *number = unit_path(*state, "number");
	(void)snprintf(text, sizeof(text), "#!/bin/sh\nsleep 1000 &\necho $! >%s\nwait\n", number);
	struct version version;
	struct err err = {0};
	/* Long enough that the number is written. */
	assert_int_equal(version_ask(program(state, text), 2000, &version, &err), -ETIMEDOUT);
	FILE *file = fopen(number, "re");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	(void)fclose(file);
	uint64_t pid;
	assert_int_equal(parse_u64_span(line, strspn(line, "0123456789"), 2, INT32_MAX, &pid), 0);
	/* Whoever inherits it may be slow to reap it. */
	char path[64], stat[256] = "";
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	for (uint64_t end_ns = unit_now_ns() + 10 * CLOCK_NS_PER_S;;) {
		file = fopen(path, "re");
		if (!file || !fgets(stat, sizeof(stat), file) || strstr(stat, ") Z "))
			break;
		(void)fclose(file);
		file = NULL;
		assert_true(unit_now_ns() < end_ns);
	}
	if (file)
		(void)fclose(file);
}

static void test_find_program(void **state)
{
	char path[FILE_PATH_MAX];
	struct err err = {0};
	const char *made = program(state, "#!/bin/sh\n");
	assert_int_equal(setenv("PATH", *state, 1), 0);
	assert_int_equal(version_find_program("program", path, &err), 0);
	assert_string_equal(path, made);
	/* Directories of system programs are looked at as well. */
	assert_int_equal(version_find_program("sh", path, &err), 0);
	assert_int_equal(chmod(made, 0644), 0);
	assert_int_equal(version_find_program("program", path, &err), -ENOENT);
	assert_non_null(strstr(err.text, "'program'"));
	assert_int_equal(mkdir(unit_path(*state, "directory"), 0755), 0);
	assert_int_equal(version_find_program("directory", path, &err), -ENOENT);
	/* Never what a relative directory holds. */
	assert_int_equal(chmod(made, 0755), 0);
	assert_int_equal(chdir(*state), 0);
	assert_int_equal(setenv("PATH", ":.:", 1), 0);
	assert_int_equal(version_find_program("program", path, &err), -ENOENT);
	assert_int_equal(chdir("/"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_parse),
	    cmocka_unit_test(test_order),
	    cmocka_unit_test_setup_teardown(test_ask, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_ask_hangs, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_ask_hangs_in_a_child, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_find_program, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
