/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_format.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "unit/unit.h"

static const struct log_field fields[] = {
    {"GPU_UUID", "GPU-1"}, {"lower", "left out"}, {"_HIDDEN", "left out"}, {"NOTHING", NULL},
    {"JOB", "two words"},  {"MESSAGE", "taken"},  {"EMPTY", ""},	   {NULL, NULL},
};

static struct log_entry entry_of(const char *message)
{
	return (struct log_entry){
	    .level = LOG_LEVEL_WARNING,
	    .message = message,
	    .fields = fields,
	    .program = "sluice-agent",
	    .when = {.tv_sec = 1763677800, .tv_nsec = 123456789},
	};
}

static void test_text(void **state)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, 1000);
	struct log_entry entry = entry_of("GPU lost\nfake line\x1b[2J");
	assert_int_equal(log_format_text(&out, &entry, LOG_TEXT_PLAIN), 0);
	assert_string_equal(buf_text(&out),
			    "2025-11-20T22:30:00.123Z warning: GPU lost\\x0afake line\\x1b[2J "
			    "gpu_uuid=GPU-1 job=\"two words\" message=taken empty=\"\"\n");
	buf_clear(&out);
	entry.fields = NULL;
	entry.message = "x";
	assert_int_equal(log_format_text(&out, &entry, LOG_TEXT_PREFIXED), 0);
	assert_string_equal(buf_text(&out), "<4>x\n");
	buf_clear(&out);
	assert_int_equal(setenv("TZ", "UTC", 1), 0);
	assert_int_equal(log_format_text(&out, &entry, LOG_TEXT_COLOURED), 0);
	assert_string_equal(buf_text(&out), "22:30:00 \x1b[1;33mwarning:\x1b[0m x\n");
	buf_clear(&out);
	entry.level = LOG_LEVEL_INFO;
	assert_int_equal(log_format_text(&out, &entry, LOG_TEXT_COLOURED), 0);
	assert_string_equal(buf_text(&out), "22:30:00 info: x\n");
}

static void test_json(void **state)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, 1000);
	struct log_entry entry = entry_of("line\nbreak \xff");
	assert_int_equal(log_format_json(&out, &entry), 0);
	assert_int_equal(strcspn(buf_text(&out), "\n"), out.length - 1);
	json_t *line = json_loads(buf_text(&out), 0, NULL);
	assert_non_null(line);
	assert_int_equal(json_object_size(line), 6);
	assert_string_equal(json_string_value(json_object_get(line, "time")),
			    "2025-11-20T22:30:00.123Z");
	assert_string_equal(json_string_value(json_object_get(line, "level")), "warning");
	assert_string_equal(json_string_value(json_object_get(line, "message")),
			    "line\nbreak \xef\xbf\xbd");
	assert_string_equal(json_string_value(json_object_get(line, "gpu_uuid")), "GPU-1");
	json_decref(line);
}

static void test_journal(void **state)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, 1000);
	struct log_entry entry = entry_of("two\nlines");
	entry.fields = (const struct log_field[]){{"GPU_UUID", "GPU-1"}, {0}};
	assert_int_equal(log_format_journal(&out, &entry), 0);
	static const char expected[] = "PRIORITY=4\nSYSLOG_IDENTIFIER=sluice-agent\n"
				       "MESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\nGPU_UUID=GPU-1\n";
	assert_int_equal(out.length, sizeof(expected) - 1);
	assert_memory_equal(out.data, expected, sizeof(expected) - 1);
}

static void test_too_small(void **state)
{
	struct log_entry entry = entry_of("message");
	for (size_t max = 0; max < 60; max++) {
		_cleanup_buf_ struct buf out;
		buf_init(&out, max);
		assert_int_equal(log_format_text(&out, &entry, LOG_TEXT_PLAIN), -ENOSPC);
		buf_clear(&out);
		assert_int_equal(log_format_json(&out, &entry), -ENOSPC);
		buf_clear(&out);
		assert_int_equal(log_format_journal(&out, &entry), -ENOSPC);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_text),
	    cmocka_unit_test(test_json),
	    cmocka_unit_test(test_journal),
	    cmocka_unit_test(test_too_small),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
