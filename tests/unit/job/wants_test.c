/* SPDX-License-Identifier: Apache-2.0 */
#include "job/wants.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

/* All of a job's wishes, each at another value than its zero. */
static const char full[] =
    "priority=-100\nhold=2\ncpu_milli=1500\npids=7\nmem_bytes=18446744073709551615\nisolation=3\n"
    "retries=1000\nretry_lost=1\nretry_delay_ns=10\ntime_ns=11\nidle_ns=12\nhas_ttl=1\nttl_ns=13\n"
    "gpu_memory_bytes=14\narray=2\narray_count=10000\narray_parallel=3\narray_apart=1\n"
    "after=12,ok:13\nprefer=0,GPU-1\ngpu_type=*A100*\nproject=vision\n";
static const char gang[] = "launcher=4\nworkers=256\nworker_gpus=8\nworker_slots=9\n"
			   "launcher_is_worker=1\nmerge=1\noversubscribe=1\n";

static int parse(const char *text, struct wants *out, struct err *err)
{
	return wants_parse(text, strlen(text), out, err);
}

static void check_round(const char *text)
{
	struct wants wants _cleanup_wants_, copy _cleanup_wants_;
	struct buf out _cleanup_buf_;
	buf_init(&out, WANTS_TEXT_MAX);
	assert_int_equal(parse(text, &wants, NULL), 0);
	assert_int_equal(wants_format(&wants, &out), 0);
	assert_string_equal(buf_text(&out), text);
	wants_init(&copy);
	assert_int_equal(wants_copy(&wants, &copy), 0);
	assert_true(wants_are_equal(&wants, &copy));
	wants_done(&wants);
	assert_int_equal(wants_check(&copy, NULL), 0);
	assert_false(wants_are_equal(&wants, &copy) && text[0]);
}

static void what_is_written_is_read(void **state)
{
	check_round("");
	check_round(full);
	check_round(gang);
	check_round("priority=100\n");
}

static void each_line_makes_a_difference(void **state)
{
	struct wants whole _cleanup_wants_;
	assert_int_equal(parse(full, &whole, NULL), 0);
	for (const char *line = full; *line;) {
		size_t length = strcspn(line, "\n") + 1, before = (size_t)(line - full);
		char text[sizeof(full)];
		memcpy(text, full, before);
		memcpy(text + before, line + length, strlen(line + length) + 1);
		struct wants less _cleanup_wants_;
		if (parse(text, &less, NULL) == 0) /* an array needs its members */
			assert_false(wants_are_equal(&whole, &less));
		line += length;
	}
}

static void what_cannot_be_meant_is_refused(void **state)
{
	static const char *const bad[] = {
	    "priority=101\n",
	    "priority=-101\n",
	    "priority=--1\n",
	    "priority=\n",
	    "priority=1",
	    "priority=1 \n",
	    "priority\n",
	    "Priority=1\n",
	    "=1\n",
	    "\n",
	    "nonsense=1\n",
	    "hold=3\n",
	    "retries=1001\n",
	    "retry_lost=2\n",
	    "array=1\n",
	    "array_count=3\n",
	    "launcher=1\n",
	    "workers=1\n",
	    "after=\n",
	    "after=12,\n",
	    "after=0\n",
	    "after=x\n",
	    "after=ok:\n",
	    "after=,1\n",
	    "after=-1\n",
	    "gpu_type=a\x01b\n",
	    "project=\x7f\n",
	    "retries=1\nretries=1\n",
	    "array=4\narray_count=1\n",
	    "array=1\narray_count=10001\n",
	    "array=1\narray_count=2\nlauncher=1\nworkers=2\n",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct wants wants _cleanup_wants_;
		struct err err = {.code = 0};
		if (parse(bad[i], &wants, &err) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
		assert_true(err.text[0] != '\0');
	}
	struct wants wants _cleanup_wants_;
	assert_int_equal(wants_parse("project=a\0b\n", 12, &wants, NULL), -EINVAL);
}

static void what_is_too_long_is_refused(void **state)
{
	struct wants wants _cleanup_wants_;
	struct buf text _cleanup_buf_;
	buf_init(&text, 2 * WANTS_TEXT_MAX);
	assert_int_equal(buf_printf(&text, "project="), 0);
	while (text.length < WANTS_NAME_MAX + 8)
		assert_int_equal(buf_add(&text, "a", 1), 0);
	assert_int_equal(buf_add(&text, "\n", 1), 0);
	assert_int_equal(wants_parse(text.data, text.length, &wants, NULL), -EINVAL);
	while (text.length <= WANTS_TEXT_MAX)
		assert_int_equal(buf_add(&text, "a", 1), 0);
	assert_int_equal(wants_parse(text.data, text.length, &wants, NULL), -EINVAL);
	buf_done(&text);
	buf_init(&text, 2 * WANTS_TEXT_MAX);
	assert_int_equal(buf_printf(&text, "after=1"), 0);
	for (int i = 0; i < WANTS_AFTER_MAX - 1; i++)
		assert_int_equal(buf_printf(&text, ",%d", i + 2), 0);
	assert_int_equal(buf_printf(&text, "\n"), 0);
	assert_int_equal(wants_parse(text.data, text.length, &wants, NULL), 0);
	wants_done(&wants);
	text.length--;
	assert_int_equal(buf_printf(&text, ",9\n"), 0);
	assert_int_equal(wants_parse(text.data, text.length, &wants, NULL), -EINVAL);
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

static void isolations_have_names(void **state)
{
	for (uint32_t i = 0; i < WANTS_ISOLATION_COUNT; i++) {
		uint32_t back = WANTS_ISOLATION_COUNT;
		assert_int_equal(wants_isolation_from_string(wants_isolation_to_string(i), &back),
				 0);
		assert_int_equal(back, i);
	}
	uint32_t none;
	assert_null(wants_isolation_to_string(WANTS_ISOLATION_COUNT));
	assert_int_equal(wants_isolation_from_string("", &none), -EINVAL);
}

static int there_and_back(void *context)
{
	struct wants wants _cleanup_wants_, copy _cleanup_wants_;
	struct buf text _cleanup_buf_;
	wants_init(&copy);
	buf_init(&text, WANTS_TEXT_MAX);
	int rc = parse(full, &wants, NULL);
	if (rc == 0)
		rc = wants_copy(&wants, &copy);
	if (rc == 0)
		rc = wants_format(&copy, &text);
	return rc;
}

static void without_memory_it_says_so(void **state)
{
	assert_true(failmalloc_each(there_and_back, NULL) > 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(each_line_makes_a_difference),
	    cmocka_unit_test(what_cannot_be_meant_is_refused),
	    cmocka_unit_test(what_is_too_long_is_refused),
	    cmocka_unit_test(the_jobs_to_wait_for_come_one_by_one),
	    cmocka_unit_test(isolations_have_names),
	    cmocka_unit_test(without_memory_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
