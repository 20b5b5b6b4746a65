/* SPDX-License-Identifier: Apache-2.0 */
#include "job/wants.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "job/schema.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

/* All of a job's wishes, each at another value than its zero. */
static struct wants full(void)
{
	return (struct wants){.priority = -100,
			      .hold = 2,
			      .cpu_milli = 1500,
			      .pids = 7,
			      .mem_bytes = UINT64_MAX,
			      .isolation = 3,
			      .retries = 1000,
			      .retry_lost = true,
			      .retry_delay_ns = 10,
			      .time_ns = 11,
			      .idle_ns = 12,
			      .begin_unix_ns = 15,
			      .has_ttl = true,
			      .ttl_ns = 13,
			      .gpu_memory_bytes = 14,
			      .outsiders = 2,
			      .array = 2,
			      .array_count = 10000,
			      .array_parallel = 3,
			      .array_apart = true,
			      .after = (char *)"12,ok:13",
			      .prefer = (char *)"0,GPU-1",
			      .gpu_type = (char *)"*A100*",
			      .project = (char *)"vision",
			      .array_indices = (char *)"3-20001:2"};
}

static struct wants gang(void)
{
	return (struct wants){.launcher = 4,
			      .workers = 256,
			      .worker_gpus = 8,
			      .worker_slots = 9,
			      .launcher_is_worker = true,
			      .merge = true,
			      .oversubscribe = true};
}

static int through_bytes(const struct wants *wants, struct wants *out)
{
	char *bytes = NULL;
	size_t length = 0;
	wants_init(out);
	int rc = wants_format(wants, &bytes, &length);
	if (rc == 0)
		rc = wants_parse(bytes, length, out, NULL);
	free(bytes);
	return rc;
}

static void check_round(struct wants wants)
{
	struct wants again _cleanup_wants_, copy _cleanup_wants_;
	assert_int_equal(through_bytes(&wants, &again), 0);
	assert_true(wants_are_equal(&wants, &again));
	wants_init(&copy);
	assert_int_equal(wants_copy(&again, &copy), 0);
	assert_true(wants_are_equal(&again, &copy));
	wants_done(&again);
	assert_int_equal(wants_check(&copy, NULL), 0);
	assert_true(wants_are_equal(&wants, &copy));
}

static void what_is_written_is_read(void **state)
{
	check_round((struct wants){.priority = 0});
	check_round(full());
	check_round(gang());
	check_round((struct wants){.priority = 100});
}

/* full() and gang() together have every field. */
static void each_field_makes_a_difference(void **state)
{
	const struct wants both[] = {full(), gang()};
	for (size_t i = 0; i < schema_wants_count; i++) {
		bool counts = false;
		for (size_t k = 0; k < 2; k++) {
			struct wants less = both[k];
			if (form_string(&schema_wants[i], &less))
				*(char **)((char *)&less + schema_wants[i].at) = NULL;
			else
				form_set_number(&schema_wants[i], &less, 0);
			counts = counts || !wants_are_equal(&both[k], &less);
		}
		if (!counts)
			fail_msg("%s", schema_wants[i].name);
	}
}

static void check_refused(struct wants wants, const char *says)
{
	struct wants none;
	struct err err = {.code = 0};
	char *bytes = NULL;
	size_t length = 0;
	assert_true(wants_check(&wants, &err) < 0);
	assert_non_null(strstr(err.text, says));
	/* The same in bytes, whoever wrote them. */
	assert_int_equal(wants_format(&wants, &bytes, &length), 0);
	err.text[0] = '\0';
	assert_int_equal(wants_parse(bytes, length, &none, &err), -EINVAL);
	if (!strstr(err.text, says))
		fail_msg("'%s' does not say '%s'", err.text, says);
	free(bytes);
}

static void what_cannot_be_meant_is_refused(void **state)
{
	check_refused((struct wants){.priority = 101}, "priority is 101: it can be -100 to 100");
	check_refused((struct wants){.priority = -101}, "priority is -101");
	check_refused((struct wants){.hold = 3}, "hold is 3");
	check_refused((struct wants){.isolation = ISOLATION_ASKED_COUNT}, "isolation is 7");
	check_refused((struct wants){.retries = 1001}, "retries is 1001: at most 1000");
	check_refused((struct wants){.array = 1}, "an array without members");
	check_refused((struct wants){.array_count = 3}, "members of no array");
	check_refused((struct wants){.array = 4, .array_count = 1}, "array is 4");
	check_refused((struct wants){.array = 1, .array_count = 10001}, "array_count is 10001");
	check_refused((struct wants){.launcher = 1}, "a launcher without workers");
	check_refused((struct wants){.workers = 1}, "workers of none");
	check_refused((struct wants){.array = 1, .array_count = 2, .launcher = 1, .workers = 2},
		      "an array of jobs with workers");

	static const char *const lists[] = {"12,", "0", "x", "ok:", ",1", "-1"};
	for (size_t i = 0; i < array_length(lists); i++)
		check_refused((struct wants){.after = (char *)lists[i]}, "wait");
	check_refused((struct wants){.gpu_type = (char *)"a\x01b"},
		      "gpu_type has a control character");
	check_refused((struct wants){.project = (char *)"\x7f"}, "project has a control character");
}

static void bytes_that_are_none_are_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
		const char *says;
	} bad[] = {
	    {"\x08", 1, "nothing that a job can want"},		/* priority without its value */
	    {"\xff\xff\xff", 3, "nothing that a job can want"}, /* no tag */
	    {"\xf8\x07\x01", 3, "field 127 is not known here"},
	};
	for (size_t i = 0; i < array_length(bad); i++) {
		struct wants wants;
		struct err err = {.code = 0};
		assert_int_equal(wants_parse(bad[i].bytes, bad[i].length, &wants, &err), -EINVAL);
		if (!strstr(err.text, bad[i].says))
			fail_msg("'%s' does not say '%s'", err.text, bad[i].says);
	}
	struct wants wants;
	char *large = calloc(WANTS_BYTES_MAX + 1, 1);
	assert_non_null(large);
	assert_int_equal(wants_parse(large, WANTS_BYTES_MAX + 1, &wants, NULL), -EINVAL);
	free(large);
}

static void what_is_too_long_is_refused(void **state)
{
	struct buf text _cleanup_buf_;
	buf_init(&text, 2 * WANTS_LIST_MAX);
	while (text.length < WANTS_NAME_MAX - 1)
		assert_int_equal(buf_add(&text, "a", 1), 0);
	check_round((struct wants){.project = (char *)buf_text(&text)});
	assert_int_equal(buf_add(&text, "a", 1), 0);
	check_refused((struct wants){.project = (char *)buf_text(&text)}, "longer than 127 bytes");

	buf_clear(&text);
	for (int i = 0; i < WANTS_AFTER_MAX; i++)
		assert_int_equal(buf_printf(&text, "%s%d", i > 0 ? "," : "", i + 1), 0);
	check_round((struct wants){.after = (char *)buf_text(&text)});
	assert_int_equal(buf_printf(&text, ",9"), 0);
	check_refused((struct wants){.after = (char *)buf_text(&text)}, "256 others");
}

static void the_jobs_to_wait_for_come_one_by_one(void **state)
{
	const char *list = "12,ok:13,9223372036854775807";
	struct wants_after after;
	assert_int_equal(wants_next_after(&list, &after, NULL), 1);
	assert_true(after.id == 12 && !after.has_to_succeed);
	assert_int_equal(wants_next_after(&list, &after, NULL), 1);
	assert_true(after.id == 13 && after.has_to_succeed);
	assert_int_equal(wants_next_after(&list, &after, NULL), 1);
	assert_true(after.id == INT64_MAX && !after.has_to_succeed);
	assert_null(list);
	assert_int_equal(wants_next_after(&list, &after, NULL), 0);
	list = "9223372036854775808";
	assert_int_equal(wants_next_after(&list, &after, NULL), -EINVAL);
}

static int there_and_back(void *context)
{
	struct wants wants _cleanup_wants_, copy _cleanup_wants_;
	const struct wants all = full();
	wants_init(&copy);
	int rc = through_bytes(&all, &wants);
	return rc == 0 ? wants_copy(&wants, &copy) : rc;
}

static void without_memory_it_says_so(void **state)
{
	assert_true(failmalloc_each(there_and_back, NULL) > 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(each_field_makes_a_difference),
	    cmocka_unit_test(what_cannot_be_meant_is_refused),
	    cmocka_unit_test(bytes_that_are_none_are_refused),
	    cmocka_unit_test(what_is_too_long_is_refused),
	    cmocka_unit_test(the_jobs_to_wait_for_come_one_by_one),
	    cmocka_unit_test(without_memory_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
