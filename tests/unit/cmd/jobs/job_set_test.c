/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_set.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "job/wants.h"
#include "unit/unit.h"

static void test_numbers(void **state)
{
	static const struct {
		const char *text;
		enum job_set_kind kind;
		uint64_t first, last, array_id;
	} rows[] = {
	    {"17", JOB_SET_ID, 17, 17, 0},	   {"12-20", JOB_SET_RANGE, 12, 20, 0},
	    {"12-12", JOB_SET_RANGE, 12, 12, 0},   {"17.3", JOB_SET_MEMBERS, 3, 3, 17},
	    {"17.0-9", JOB_SET_MEMBERS, 0, 9, 17},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct job_set_item item;
		struct err err;
		assert_int_equal(job_set_read(rows[i].text, &item, &err), 0);
		assert_int_equal(item.kind, rows[i].kind);
		assert_true(item.first == rows[i].first && item.last == rows[i].last &&
			    item.array_id == rows[i].array_id && item.text == rows[i].text);
	}
}

static void test_names(void **state)
{
	static const char *const names[] = {"train", "train-*", "3d-unet", "-x", "[a-c]x", "1,2"};
	for (size_t i = 0; i < array_length(names); i++) {
		struct job_set_item item;
		struct err err;
		assert_int_equal(job_set_read(names[i], &item, &err), 0);
		assert_int_equal(item.kind, JOB_SET_NAME);
	}

	struct job_set_item item;
	struct err err;
	assert_int_equal(job_set_read_name("17", &item, &err), 0);
	assert_int_equal(item.kind, JOB_SET_NAME);
}

static void test_wrong(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
	    {"", "empty name"},
	    {"0", "character 1 is out of range"},
	    {"20-12", "ends before it begins"},
	    {"12-", "missing at character 4"},
	    {"12--20", "missing at character 4"},
	    {"17.", "missing at character 4"},
	    {"17.9-3", "ends before it begins"},
	    {"17.3.4", "from character 5 on"},
	    {"1-2-3", "from character 4 on"},
	    {"99999999999999999999", "character 1 is out of range"},
	    {"1-99999999999999999999", "character 3 is out of range"},
	    {"17.4294967296", "character 4 is out of range"},
	    {"a[b", "character 2"},
	    {"a\\", "backslash"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct job_set_item item;
		struct err err = {0};
		assert_int_equal(job_set_read(rows[i].text, &item, &err), -EINVAL);
		if (!strstr(err.text, rows[i].says))
			fail_msg("'%s': %s", rows[i].text, err.text);
	}

	char text[JOB_SET_NAME_MAX + 2];
	struct job_set_item item;
	struct err err;
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(job_set_read(text, &item, &err), -EINVAL);
	text[JOB_SET_NAME_MAX] = '\0';
	assert_int_equal(job_set_read(text, &item, &err), 0);
}

static bool has(const char *text, uint64_t id, uint64_t array_id, uint32_t index, const char *name)
{
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	struct job_set_item item;
	struct err err;
	job.id = id;
	job.array_id = array_id;
	job.array_index = index;
	job.name = (char *)name;
	assert_int_equal(job_set_read(text, &item, &err), 0);
	return job_set_has(&item, &job);
}

static void test_has(void **state)
{
	assert_true(has("17", 17, 0, 0, "") && has("17", 19, 17, 2, ""));
	assert_true(has("19", 19, 17, 2, "")); /* one member, by its own number */
	assert_false(has("18", 17, 0, 0, ""));
	assert_true(has("12-20", 12, 0, 0, "") && has("12-20", 25, 20, 5, ""));
	assert_false(has("21-30", 25, 20, 5, "")); /* nobody sees it by that number */
	assert_true(has("20.5", 25, 20, 5, "") && has("20.3-5", 25, 20, 5, ""));
	assert_false(has("20.6-9", 25, 20, 5, "") || has("21.5", 25, 20, 5, ""));
	assert_true(has("train-*", 3, 0, 0, "train-9"));
	assert_false(has("train-*", 3, 0, 0, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_numbers),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_wrong),
	    cmocka_unit_test(test_has),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
