/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/cdi/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static int fill(struct state *state, struct err *err)
{
	memcpy(state->driver, "580.82.07", 10);
	memcpy(state->boot_id, "1b4f\"\\\n", 8);
	int rc = state_add_uuid(state, "GPU-1", err);
	if (rc == 0)
		rc = state_add_uuid(state, "MIG-2", err);
	/* More than is made room for at once. */
	for (int i = 0; rc == 0 && i < 40; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/usr/lib64/libä%d.so", i);
		rc = state_add_source(state, path, INT64_C(1763800000123456789) + i, err);
	}
	return rc == 0 ? state_add_file(state, "/var/run/cdi/a.json", "a.b/c", err) : rc;
}

static int parse(const char *text, struct state *out, struct err *err)
{
	return state_parse(text, strlen(text), "cdi.state", out, err);
}

static int round_trip(struct state *again)
{
	_cleanup_state_ struct state state = {.uuid_count = 0};
	_cleanup_buf_ struct buf text;
	buf_init(&text, STATE_SIZE_MAX);
	int rc = fill(&state, NULL);
	if (rc == 0)
		rc = state_format(&state, &text, NULL);
	return rc < 0 ? rc : parse(buf_text(&text), again, NULL);
}

static void test_what_is_written_is_read(void **state)
{
	(void)state;
	_cleanup_state_ struct state again = {.uuid_count = 0};
	assert_int_equal(round_trip(&again), 0);
	assert_string_equal(again.driver, "580.82.07");
	assert_string_equal(again.boot_id, "1b4f\"\\\n");
	assert_int_equal(again.uuid_count, 2);
	assert_string_equal(again.uuids[1], "MIG-2");
	assert_int_equal(again.source_count, 40);
	assert_string_equal(again.sources[39].path, "/usr/lib64/libä39.so");
	assert_int_equal(again.sources[39].mtime_ns, INT64_C(1763800000123456828));
	assert_int_equal(again.file_count, 1);
	assert_string_equal(again.files[0].path, "/var/run/cdi/a.json");
	assert_string_equal(again.files[0].kind, "a.b/c");
}

/* jansson calls some of what it has no memory for garbage, and leaves letters out of a text. */
static int scenario(void *context)
{
	(void)context;
	_cleanup_state_ struct state again = {.uuid_count = 0};
	int rc = round_trip(&again);
	return rc == -EINVAL ? -ENOMEM : rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	assert_true(failmalloc_each(scenario, NULL) > 0);
}

#define HEAD "{\"version\": 1, \"driver\": \"1\", \"boot_id\": \"\""

static void test_what_is_no_such_file(void **state)
{
	(void)state;
	static const char *const wrong[] = {
	    "",
	    "[]",
	    "{\"version\": 2, \"driver\": \"1\", \"boot_id\": \"\"}",
	    "{\"version\": 1, \"boot_id\": \"\"}",
	    "{\"version\": 1, \"driver\": [], \"boot_id\": \"\"}",
	    HEAD ", \"uuids\": [[]]}",
	    HEAD ", \"sources\": [1]}",
	    HEAD ", \"sources\": [{\"path\": \"/a\", \"mtime_ns\": \"soon\"}]}",
	    HEAD ", \"sources\": [{\"path\": \"/a\"}]}",
	    HEAD ", \"files\": [{\"path\": \"/a\"}]}",
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		_cleanup_state_ struct state read = {.uuid_count = 0};
		struct err err = {0};
		if (parse(wrong[i], &read, &err) != -EINVAL)
			fail_msg("%s was taken", wrong[i]);
		assert_non_null(strstr(err.text, "cdi.state"));
		assert_string_equal(read.driver, "");
	}
	_cleanup_state_ struct state read = {.uuid_count = 0};
	assert_int_equal(parse(HEAD ", \"later\": {\"a\": 1}}", &read, NULL), 0);
	assert_string_equal(read.driver, "1");
}

static void test_limits(void **state)
{
	(void)state;
	_cleanup_state_ struct state full = {.uuid_count = 0};
	struct err err = {0};
	for (int i = 0; i < STATE_FILES_MAX; i++)
		assert_int_equal(state_add_file(&full, "/a", "a/b", NULL), 0);
	assert_int_equal(state_add_file(&full, "/a", "a/b", &err), -E2BIG);
	assert_int_equal(full.file_count, STATE_FILES_MAX);
}

static void test_a_file(void **state)
{
	(void)state;
	char *top = unit_tmp_new();
	_cleanup_state_ struct state read = {.uuid_count = 0};
	assert_int_equal(state_read(unit_path(top, "cdi.state"), &read, NULL), -ENOENT);
	unit_write(unit_path(top, "cdi.state"), HEAD ", \"uuids\": [\"GPU-7\"]}");
	assert_int_equal(state_read(unit_path(top, "cdi.state"), &read, NULL), 0);
	assert_string_equal(read.uuids[0], "GPU-7");
	(void)unit_tmp_free(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_is_written_is_read),
	    cmocka_unit_test(test_out_of_memory),
	    cmocka_unit_test(test_what_is_no_such_file),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_a_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
