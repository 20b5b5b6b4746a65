/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/list/job_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

#define STATE(name) SLUICE__V1__JOB_STATE__##name

enum { ME = 1000, BOB = 1001, CAROL = 1002 };

static struct job_list_options options_of(const char *columns)
{
	struct job_list_options options = {.uid = ME, .no_header = true};
	assert_int_equal(job_columns_parse(columns, &options.columns, NULL), 0);
	return options;
}

static Sluice__V1__Job job_of(uint64_t id, uint32_t uid, Sluice__V1__JobState state, uint64_t place)
{
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	job.id = id;
	job.uid = uid;
	job.state = state;
	job.place = place;
	return job;
}

static void expect(struct job_list *list, const char *text)
{
	char *out = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&out, &size);
	assert_non_null(stream);
	assert_non_null(list);
	assert_int_equal(job_list_print(list, stream, NULL), 0);
	(void)fclose(stream);
	assert_string_equal(out, text);
	free(out);
	(void)job_list_free(list);
}

static struct job_list *some_jobs(const struct job_list_options *options)
{
	const Sluice__V1__Job jobs[] = {
	    job_of(1, BOB, STATE(RUNNING), 0), job_of(2, ME, STATE(FAILED), 0),
	    job_of(3, ME, STATE(HELD), 0),     job_of(4, ME, STATE(PENDING), 9),
	    job_of(5, ME, STATE(PENDING), 2),  job_of(6, ME, STATE(PENDING), 0),
	    job_of(7, ME, STATE(STOPPING), 0), job_of(8, CAROL, STATE(PENDING), 1),
	    job_of(9, BOB, STATE(PENDING), 3), job_of(10, ME, (Sluice__V1__JobState)99, 0),
	};
	struct job_list *list = job_list_new(options);
	for (size_t i = 0; list && i < sizeof(jobs) / sizeof(jobs[0]); i++)
		job_list_add(list, &jobs[i]);
	return list;
}

/* One's own first; what runs, what waits by its place, what is held, what has ended. */
static void test_order(void **state)
{
	struct job_list_options options = options_of("id");
	expect(some_jobs(&options), " 7\n10\n 5\n 4\n 6\n 3\n 2\n 1\n 8\n 9\n");
	options.uid = CAROL;
	expect(some_jobs(&options), " 8\n 1\n 7\n10\n 5\n 9\n 4\n 6\n 3\n 2\n");
}

/* Others get what is left of the screen, and the shell its line. */
static void test_height(void **state)
{
	struct job_list_options options = options_of("id");
	options.height = 11;
	expect(some_jobs(&options), " 7\n10\n 5\n 4\n 6\n 3\n 2\n 1\n 8\n 9\n");
	options.height = 10;
	expect(some_jobs(&options),
	       " 7\n10\n 5\n 4\n 6\n 3\n 2\n 1\n"
	       "and 2 more jobs of 2 users (0 run, 2 wait): sluice jobs --wide\n");
	options.height = 1; /* one's own are all there nevertheless */
	options.width = 20;
	expect(some_jobs(&options), " 7\n10\n 5\n 4\n 6\n 3\n 2\nand 3 more jobs of …\n");
}

static void test_array(void **state)
{
	char reason[] = "WaitingForGPU", text[] = "have 0, need 1";
	struct job_list_options options = options_of("id,state,start,reason");
	struct job_list *list = job_list_new(&options);
	assert_non_null(list);
	for (uint32_t i = 0; i < 6; i++) {
		Sluice__V1__Job job =
		    job_of(20 + i, ME, i < 2 ? STATE(RUNNING) : STATE(PENDING), i < 2 ? 0 : 10 - i);
		job.array_id = 20;
		job.array_index = i;
		job.array_count = 10;
		job.reason = i < 2 ? job.reason : reason;
		job.reason_text = i < 2 ? job.reason_text : text;
		job_list_add(list, &job);
		Sluice__V1__Job other = job_of(40 + i, BOB, STATE(SUCCEEDED), 0);
		other.array_id = 40; /* of an agent that does not tell how many there are */
		job_list_add(list, &other);
	}
	expect(list,
	       "20  Running    #5  2 of 10 run, 4 wait, 4 ended: WaitingForGPU (have 0, need 1)\n"
	       "40  Succeeded  -   6 succeeded\n");

	options.is_filtered = true; /* what is not there need not have ended */
	list = job_list_new(&options);
	assert_non_null(list);
	Sluice__V1__Job job = job_of(23, ME, STATE(FAILED), 0);
	job.array_id = 20;
	job.array_count = 10;
	job_list_add(list, &job);
	expect(list, "20  Failed  1 of 10 failed\n");

	options.members = true;
	list = job_list_new(&options);
	assert_non_null(list);
	job.array_index = 3;
	job_list_add(list, &job);
	expect(list, "20.3  Failed  -\n");
}

/* Many arrays, their members mixed: each is found again. */
static void test_many_arrays(void **state)
{
	struct job_list_options options = options_of("id,reason");
	struct job_list *list = job_list_new(&options);
	assert_non_null(list);
	for (uint32_t i = 0; i < 3000; i++) {
		Sluice__V1__Job job = job_of(1 + i, ME, STATE(PENDING), 0);
		job.array_id = 1 + i % 1000;
		job_list_add(list, &job);
	}
	char *out = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&out, &size);
	assert_non_null(stream);
	assert_int_equal(job_list_print(list, stream, NULL), 0);
	(void)fclose(stream);
	size_t lines = 0;
	for (const char *at = out; *at; at = strchr(at, '\n') + 1, lines++)
		assert_memory_equal(at + 4, "  3 wait\n", 9);
	assert_int_equal(lines, 1000);
	free(out);
	(void)job_list_free(list);
}

/* GPUs in use outside the queue: below the jobs, and they take lines of the screen. */
static void test_outside(void **state)
{
	char label[] = "GPU 3", name[] = "py\x1bthon", user[] = "carol", holder[] = "podman 01234";
	Sluice__V1__GpuUse use = SLUICE__V1__GPU_USE__INIT;
	struct job_list_options options = options_of("id");
	use.label = label;
	use.pid = 4711;
	use.uid = 77;
	struct job_list *list = job_list_new(&options);
	assert_non_null(list);
	job_list_add_outside(list, &use);
	use.user = user;
	use.name = name;
	use.holder = holder;
	job_list_add_outside(list, &use);
	expect(list, "GPU 3 is in use outside the queue: uid 77, pid 4711\n"
		     "GPU 3 is in use outside the queue: carol, pid 4711 (py\\x1bthon), podman "
		     "01234\n");

	options.width = 20;
	options.height = 11;
	list = some_jobs(&options);
	assert_non_null(list);
	job_list_add_outside(list, &use);
	expect(list, " 7\n10\n 5\n 4\n 6\n 3\n 2\n 1\nand 2 more jobs of …\n"
		     "GPU 3 is in use out…\n");

	list = job_list_new(&options);
	assert_non_null(list);
	for (int i = 0; i < 100; i++)
		job_list_add_outside(list, &use);
	char *out = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&out, &size);
	assert_non_null(stream);
	assert_int_equal(job_list_print(list, stream, NULL), 0);
	(void)fclose(stream);
	assert_non_null(strstr(out, "\nand 92 more outside it\n"));
	free(out);
	(void)job_list_free(list);
}

/* Names that would move the cursor, or that are wider than they are long. */
static void test_hostile(void **state)
{
	char name[] = "\x1b[2J\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xff";
	char reason[] = "\xe2\x80\xae"
			"a\nb";
	struct job_list_options options = options_of("name,reason");
	for (size_t width = 1; width < 40; width++) {
		options.width = width;
		struct job_list *list = job_list_new(&options);
		assert_non_null(list);
		Sluice__V1__Job job = job_of(1, ME, STATE(FAILED), 0);
		job.name = name;
		job.reason = reason;
		job_list_add(list, &job);
		char *out = NULL;
		size_t size = 0;
		FILE *stream = open_memstream(&out, &size);
		assert_non_null(stream);
		assert_int_equal(job_list_print(list, stream, NULL), 0);
		(void)fclose(stream);
		size_t length = strlen(out);
		assert_int_equal(out[length - 1], '\n');
		assert_null(memchr(out, '\n', length - 1));
		assert_null(memchr(out, 0x1b, length));
		assert_true(text_width(out, length - 1) <= width);
		free(out);
		(void)job_list_free(list);
	}
}

static int use_list(void *context)
{
	const struct job_list_options *options = context;
	struct err err = {0};
	struct job_list *list = job_list_new(options);
	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < 200; i++) {
		Sluice__V1__Job job = job_of(1 + i, ME, STATE(PENDING), 0);
		job.array_id = i % 2 ? 1 + i : 0;
		job_list_add(list, &job);
	}
	FILE *null = fopen("/dev/null", "we");
	int rc = null ? job_list_print(list, null, &err) : -ENOMEM;
	if (null)
		(void)fclose(null);
	(void)job_list_free(list);
	return rc;
}

static void test_out_of_memory(void **state)
{
	struct job_list_options options = options_of("id,name,reason");
	assert_true(failmalloc_each(use_list, &options) > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_order),	  cmocka_unit_test(test_height),
	    cmocka_unit_test(test_array),	  cmocka_unit_test(test_many_arrays),
	    cmocka_unit_test(test_outside),	  cmocka_unit_test(test_hostile),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
