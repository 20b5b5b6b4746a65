/* SPDX-License-Identifier: Apache-2.0 */
/* What is hard to see from outside: tests/e2e/test_runtime_configure.py has the many files. */
#include "cdi/runtime/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/runtime/runtime_internal.h"
#include "tests/unit/failmalloc.h"
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

/* A machine below the test's directory; the file `path` on it says `text`, NULL: is not there. */
static struct runtime_machine machine_new(const char *root, enum runtime_kind kind,
					  const char *version, const char *path, const char *text)
{
	struct runtime_machine machine = {.kind = kind, .root = root};
	assert_int_equal(version_parse(version, strlen(version), &machine.version), 0);
	char full[FILE_PATH_MAX];
	assert_int_equal(file_path(full, NULL, "%s%s", root, path), 0);
	char *slash = strrchr(full, '/');
	*slash = '\0';
	assert_int_equal(file_mkdirs(full, 0755, NULL), 0);
	*slash = '/';
	if (text)
		unit_write(full, text);
	return machine;
}

static void expect_text(const char *root, const char *path, const char *wanted)
{
	char full[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;
	buf_init(&text, 65536);
	assert_int_equal(file_path(full, NULL, "%s%s", root, path), 0);
	if (!wanted) {
		assert_false(file_exists(full));
		return;
	}
	assert_int_equal(file_read(full, &text, NULL), 0);
	assert_string_equal(buf_text(&text), wanted);
}

static void apply(const struct runtime_machine *machine)
{
	_cleanup_runtime_plan_ struct runtime_plan plan;
	struct err err = {0};
	assert_int_equal(runtime_plan(machine, &plan, &err), 0);
	assert_int_equal(plan.state, RUNTIME_CHANGE);
	assert_int_equal(runtime_apply(&plan, &err), 0);
}

#define COPY	RUNTIME_DOCKER_CONFIG RUNTIME_BACKUP
#define ONE	"{\"a\": 1}"
#define ONE_CDI "{\"a\": 1, \"features\": {\"cdi\": true}}"

/* Killed between the copy and the file, or between the file and the copy on the way back. */
static void test_cut_short(void **state)
{
	const char *root = *state;
	struct runtime_machine machine =
	    machine_new(root, RUNTIME_DOCKER, "27.0.0", RUNTIME_DOCKER_CONFIG, ONE);
	(void)machine_new(root, RUNTIME_DOCKER, "27.0.0", COPY, ONE);
	struct runtime_undone undone;
	struct err err = {0};
	assert_int_equal(runtime_undo(&machine, &undone, &err), 0);
	assert_string_equal(undone.path, "");
	expect_text(root, RUNTIME_DOCKER_CONFIG, ONE);
	expect_text(root, COPY, NULL);
	/* The same where there was no file. */
	assert_int_equal(unlink(unit_path(root, "etc/docker/daemon.json")), 0);
	apply(&machine);
	assert_int_equal(unlink(unit_path(root, "etc/docker/daemon.json")), 0);
	assert_int_equal(runtime_undo(&machine, &undone, &err), 0);
	expect_text(root, COPY, NULL);
}

/* The copy is what was there before the last change, not before the first. */
static void test_applied_again(void **state)
{
	const char *root = *state;
	struct runtime_machine machine =
	    machine_new(root, RUNTIME_DOCKER, "27.0.0", RUNTIME_DOCKER_CONFIG, ONE);
	apply(&machine);
	expect_text(root, RUNTIME_DOCKER_CONFIG, ONE_CDI);
	expect_text(root, COPY, ONE);
	static const char other[] = "{\"a\": 2, \"features\": {\"cdi\": false}}";
	unit_write(unit_path(root, "etc/docker/daemon.json"), other);
	apply(&machine);
	struct runtime_undone undone;
	struct err err = {0};
	assert_int_equal(runtime_undo(&machine, &undone, &err), 0);
	assert_non_null(strstr(undone.path, RUNTIME_DOCKER_CONFIG));
	expect_text(root, RUNTIME_DOCKER_CONFIG, other);
	expect_text(root, COPY, NULL);
}

/* Nothing of ours is in the file any more, and its copy is still there. */
static void test_gone_by_hand(void **state)
{
	const char *root = *state;
	struct runtime_machine machine =
	    machine_new(root, RUNTIME_DOCKER, "27.0.0", RUNTIME_DOCKER_CONFIG, ONE);
	apply(&machine);
	unit_write(unit_path(root, "etc/docker/daemon.json"), "{\"b\": 3}");
	struct runtime_undone undone;
	struct err err = {0};
	assert_int_equal(runtime_undo(&machine, &undone, &err), -EINVAL);
	assert_non_null(strstr(err.text, "what it was before is in"));
	expect_text(root, RUNTIME_DOCKER_CONFIG, "{\"b\": 3}");
	expect_text(root, COPY, ONE);
}

/* An own file with the text that we would have written is not ours. */
static void test_not_ours(void **state)
{
	const char *root = *state;
	static const char text[] = "{\n    \"features\": {\n        \"cdi\": true\n    }\n}\n";
	struct runtime_machine machine =
	    machine_new(root, RUNTIME_DOCKER, "27.0.0", RUNTIME_DOCKER_CONFIG, text);
	struct runtime_undone undone;
	struct err err = {0};
	assert_int_equal(runtime_undo(&machine, &undone, &err), 0);
	assert_string_equal(undone.path, "");
	expect_text(root, RUNTIME_DOCKER_CONFIG, text);
}

/* Imports that import each other, and too many of them. */
static void test_imports(void **state)
{
	const char *root = *state;
	struct runtime_machine machine =
	    machine_new(root, RUNTIME_CONTAINERD, "1.7.2", RUNTIME_CONTAINERD_CONFIG,
			"version = 2\nimports = ['a/*.toml', '" RUNTIME_CONTAINERD_CONFIG "']\n");
	(void)machine_new(root, RUNTIME_CONTAINERD, "1.7.2", "/etc/containerd/a/0.toml",
			  "imports = ['../config.toml', '0.toml']\n");
	_cleanup_runtime_plan_ struct runtime_plan plan;
	struct err err = {0};
	if (runtime_plan(&machine, &plan, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(plan.state, RUNTIME_CHANGE);
	runtime_plan_done(&plan);
	for (int i = 0; i < RUNTIME_FILES_MAX; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/etc/containerd/a/more%d.toml", i);
		(void)machine_new(root, RUNTIME_CONTAINERD, "1.7.2", path, "");
	}
	assert_int_equal(runtime_plan(&machine, &plan, &err), -E2BIG);
}

/* A root whose name looks like a pattern. */
static void test_root_is_no_pattern(void **state)
{
	char root[FILE_PATH_MAX];
	assert_int_equal(file_path(root, NULL, "%s/a[b]*?\\", (const char *)*state), 0);
	struct runtime_machine machine =
	    machine_new(root, RUNTIME_PODMAN, "5.0.0", "/etc/containers/oci/hooks.d/x.json",
			"{\"hook\": {\"path\": \"/usr/bin/nvidia-container-toolkit\"}}");
	_cleanup_runtime_plan_ struct runtime_plan plan;
	struct err err = {0};
	assert_int_equal(runtime_plan(&machine, &plan, &err), 0);
	assert_int_equal(plan.note_count, 2);
	assert_true(plan.notes[0].is_warning);
	assert_non_null(strstr(plan.notes[0].text, "/etc/containers/oci/hooks.d/x.json: NVIDIA"));
}

static int plan_once(void *context)
{
	const struct runtime_machine *machine = context;
	struct err err = {0};
	_cleanup_runtime_plan_ struct runtime_plan plan;
	return runtime_plan(machine, &plan, &err);
}

static void test_out_of_memory(void **state)
{
	const char *root = *state;
	struct runtime_machine machine =
	    machine_new(root, RUNTIME_CONTAINERD, "1.7.2", RUNTIME_CONTAINERD_CONFIG,
			"version = 2\nimports = ['a/*.toml']\n");
	(void)machine_new(root, RUNTIME_CONTAINERD, "1.7.2", "/etc/containerd/a/0.toml", "#\n");
	assert_true(failmalloc_each(plan_once, &machine) > 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_cut_short),     TEST(test_applied_again), TEST(test_gone_by_hand),
	    TEST(test_not_ours),      TEST(test_imports),	TEST(test_root_is_no_pattern),
	    TEST(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
