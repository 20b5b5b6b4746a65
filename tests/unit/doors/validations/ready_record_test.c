/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/validations/ready_record.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "unit/unit.h"

static void test_written_and_read(void **state)
{
	(void)state;
	struct ready_record record = {.count = 0}, again = {.count = 0};
	struct stat status = {.st_ino = 4711, .st_mtim = {1800000000, 123456789}};
	struct err err = {0};
	_cleanup_buf_ struct buf text;
	buf_init(&text, READY_RECORD_SIZE_MAX);
	assert_int_equal(ready_record_add(&record, "driver-ready", &status, &err), 0);
	int result = ready_record_format(&record, &text, &err);
	if (result == 0)
		result = ready_record_parse(buf_text(&text), text.length, &again, &err);
	assert_int_equal(result, 0);
	assert_true(ready_record_has(&again, "driver-ready", &status));
	assert_false(ready_record_has(&again, "plugin-ready", &status));
	status.st_mtim.tv_nsec++;
	assert_false(ready_record_has(&again, "driver-ready", &status));
	status.st_mtim.tv_nsec--;
	status.st_ino++;
	assert_false(ready_record_has(&again, "driver-ready", &status));
	while (record.count < READY_RECORD_MAX)
		assert_int_equal(ready_record_add(&record, "x", &status, &err), 0);
	assert_int_equal(ready_record_add(&record, "x", &status, &err), -E2BIG);
}

static void test_what_is_refused(void **state)
{
	(void)state;
	static const char *const rows[] = {
	    "",
	    "{",
	    "[]",
	    "{\"files\":{}}",
	    "{\"files\":[1]}",
	    "{\"files\":[{\"name\":\"a\",\"inode\":1}]}",
	    "{\"files\":[{\"name\":\"\",\"inode\":1,\"mtime_ns\":1}]}",
	    "{\"files\":[{\"name\":\"../a\",\"inode\":1,\"mtime_ns\":1}]}",
	    "{\"files\":[{\"name\":\"a\",\"inode\":-1,\"mtime_ns\":1}]}",
	    "{\"files\":[{\"name\":\"a\",\"inode\":\"1\",\"mtime_ns\":1}]}",
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ready_record record = {.count = 77};
		struct err err = {0};
		int result = ready_record_parse(rows[i], strlen(rows[i]), &record, &err);
		assert_true(result == -EINVAL || result == -ENOMEM);
		assert_int_equal(record.count, 77);
		if (result == -EINVAL)
			assert_non_null(strstr(err.text, "no record of validation files"));
	}
	static char large[READY_RECORD_SIZE_MAX + 1];
	memset(large, ' ', sizeof(large));
	struct ready_record record;
	struct err err = {0};
	assert_int_equal(ready_record_parse(large, sizeof(large), &record, &err), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_written_and_read),
	    cmocka_unit_test(test_what_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
