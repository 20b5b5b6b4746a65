/* SPDX-License-Identifier: Apache-2.0 */
#include "base/storage.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { JOBS = 200, DEADLINE_S = 20 };

struct scene {
	struct loop *loop;
	struct storage *storage;
	unsigned worked; /* storage thread only, then read after done() */
	unsigned done;
	pthread_t loop_thread;
	sem_t gate; /* a job may wait for it */
};

struct job {
	struct storage_job job; /* first */
	struct scene *scene;
	unsigned number;
	unsigned worked_as;
};

static struct scene scene;
static struct job jobs[JOBS];

static int setup(void **state)
{
	memset(&scene, 0, sizeof(scene));
	memset(jobs, 0, sizeof(jobs));
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.loop_thread = pthread_self();
	assert_int_equal(sem_init(&scene.gate, 0, 0), 0);
	scene.storage = scene.loop ? storage_new(scene.loop, JOBS, NULL) : NULL;
	return scene.loop && scene.storage ? 0 : -1;
}

static int teardown(void **state)
{
	scene.storage = storage_close(scene.storage);
	scene.loop = loop_free(scene.loop);
	(void)sem_destroy(&scene.gate);
	return 0;
}

static int work(void *context)
{
	struct job *job = context;
	assert_false(pthread_equal(pthread_self(), job->scene->loop_thread));
	job->worked_as = job->scene->worked++;
	return -(int)job->number;
}

static int work_at_gate(void *context)
{
	struct job *job = context;
	while (sem_wait(&job->scene->gate) < 0)
		;
	return work(context);
}

static void done(void *context, int result)
{
	struct job *job = context;
	assert_true(pthread_equal(pthread_self(), job->scene->loop_thread));
	assert_int_equal(job->worked_as, job->number); /* in the order of handing in */
	assert_int_equal(result, -(int)job->number);
	assert_int_equal(job->scene->done, job->number);
	job->scene->done++;
}

static int submit(unsigned number, int (*how)(void *))
{
	struct job *job = &jobs[number];
	*job = (struct job){.scene = &scene, .number = number};
	job->job = (struct storage_job){.work = how, .done = done, .context = job};
	return storage_submit(scene.storage, &job->job, NULL);
}

static void run_until_done(unsigned count)
{
	uint64_t deadline = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	while (scene.done < count && unit_now_ns() < deadline)
		assert_int_equal(loop_pass(scene.loop, CLOCK_NS_PER_S, NULL), 0);
	assert_int_equal(scene.done, count);
}

static void test_in_order_off_the_loop(void **state)
{
	for (unsigned i = 0; i < JOBS; i++)
		assert_int_equal(submit(i, work), 0);
	run_until_done(JOBS);
	assert_int_equal(storage_pending(scene.storage), 0);
}

static void test_queue_is_bounded(void **state)
{
	for (unsigned i = 0; i < JOBS; i++)
		assert_int_equal(submit(i, i == 0 ? work_at_gate : work), 0);
	struct storage_job more = {.work = work, .done = done};
	struct err err = {0};
	assert_int_equal(storage_submit(scene.storage, &more, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "200"));
	assert_int_equal(storage_pending(scene.storage), JOBS);
	assert_int_equal(sem_post(&scene.gate), 0);
	run_until_done(JOBS);
}

static void test_close_drains(void **state)
{
	for (unsigned i = 0; i < JOBS; i++)
		assert_int_equal(submit(i, i == 0 ? work_at_gate : work), 0);
	assert_int_equal(scene.done, 0);
	assert_int_equal(sem_post(&scene.gate), 0);
	scene.storage = storage_close(scene.storage);
	assert_int_equal(scene.done, JOBS);
}

static void done_then_next(void *context, int result)
{
	struct job *job = context;
	done(context, result);
	if (job->number + 1 < 10) {
		struct job *next = &jobs[job->number + 1];
		*next = (struct job){.scene = &scene, .number = job->number + 1};
		next->job =
		    (struct storage_job){.work = work, .done = done_then_next, .context = next};
		assert_int_equal(storage_submit(scene.storage, &next->job, NULL), 0);
	}
}

static void test_done_may_hand_in_the_next(void **state)
{
	jobs[0] = (struct job){.scene = &scene};
	jobs[0].job =
	    (struct storage_job){.work = work, .done = done_then_next, .context = &jobs[0]};
	assert_int_equal(storage_submit(scene.storage, &jobs[0].job, NULL), 0);
	run_until_done(10);
}

struct closing {
	unsigned groups, jobs, largest; /* storage thread only, then read after done() */
	unsigned done_before;		/* jobs of it that were reported before it was closed */
	int result;			/* what close() makes of results */
};

static void close_group(struct storage_job *first, void *context)
{
	struct closing *closing = context;
	unsigned count = 0;

	closing->groups++;
	for (struct storage_job *job = first; job; job = job->next) {
		struct job *one = job->context;
		closing->done_before += scene.done > one->number;
		job->result = closing->result ? closing->result : job->result;
		count++;
	}

	closing->jobs += count;
	closing->largest = count > closing->largest ? count : closing->largest;
}

static void done_failed(void *context, int result)
{
	assert_int_equal(result, -EIO);
	scene.done++;
}

static void submit_grouped(unsigned number, const struct storage_group *group, bool waits)
{
	struct job *job = &jobs[number];
	const struct closing *closing = group ? group->context : NULL;

	*job = (struct job){.scene = &scene, .number = number};
	job->job = (struct storage_job){.work = waits ? work_at_gate : work,
					.done = closing && closing->result ? done_failed : done,
					.context = job,
					.group = group};
	assert_int_equal(storage_submit(scene.storage, &job->job, NULL), 0);
}

static void test_a_group_is_closed_before_it_is_reported(void **state)
{
	struct closing closing = {0};
	const struct storage_group group = {
	    .close = close_group, .context = &closing, .jobs_max = 8, .ns_max = UINT64_MAX};

	for (unsigned i = 0; i < 21; i++) /* the first waits until all of them are there */
		submit_grouped(i, &group, i == 0);
	assert_int_equal(sem_post(&scene.gate), 0);
	run_until_done(21);
	assert_int_equal(closing.groups, 3); /* 8, 8 and 5 */
	assert_int_equal(closing.largest, 8);
	assert_int_equal(closing.jobs, 21);
	assert_int_equal(closing.done_before, 0);
}

static void test_a_group_ends_at_others_and_at_its_time(void **state)
{
	struct closing closing = {0}, hurried = {0};
	const struct storage_group group = {
	    .close = close_group, .context = &closing, .jobs_max = 100, .ns_max = UINT64_MAX};
	const struct storage_group short_one = {
	    .close = close_group, .context = &hurried, .jobs_max = 100, .ns_max = 0};

	for (unsigned i = 0; i < 10; i++)
		submit_grouped(i, i == 4 ? NULL : i < 8 ? &group : &short_one, i == 0);
	assert_int_equal(sem_post(&scene.gate), 0);
	run_until_done(10); /* in their order */
	assert_int_equal(closing.groups, 2);
	assert_int_equal(closing.jobs, 7);
	assert_int_equal(hurried.groups, 2);
}

static void test_a_close_that_fails_is_the_result_of_each(void **state)
{
	struct closing closing = {.result = -EIO};
	const struct storage_group group = {
	    .close = close_group, .context = &closing, .jobs_max = 4, .ns_max = UINT64_MAX};

	for (unsigned i = 0; i < 4; i++)
		submit_grouped(i, &group, i == 0);
	assert_int_equal(sem_post(&scene.gate), 0);
	run_until_done(4);
	assert_int_equal(closing.jobs, 4);
}

static void test_closing_the_thread_closes_the_group(void **state)
{
	struct closing closing = {0};
	const struct storage_group group = {
	    .close = close_group, .context = &closing, .jobs_max = 4, .ns_max = UINT64_MAX};

	for (unsigned i = 0; i < 6; i++)
		submit_grouped(i, &group, i == 0);
	assert_int_equal(sem_post(&scene.gate), 0);
	scene.storage = storage_close(scene.storage);
	assert_int_equal(scene.done, 6);
	assert_int_equal(closing.jobs, 6);
}

static void done_at_the_end(void *context, int result)
{
	struct err err = {0};
	done(context, result);
	struct storage_job late = {.work = work, .done = done};
	assert_int_equal(storage_submit(scene.storage, &late, &err), -ESHUTDOWN);
}

static void test_nothing_is_taken_while_closing(void **state)
{
	jobs[0] = (struct job){.scene = &scene};
	jobs[0].job =
	    (struct storage_job){.work = work, .done = done_at_the_end, .context = &jobs[0]};
	assert_int_equal(storage_submit(scene.storage, &jobs[0].job, NULL), 0);
	scene.storage = storage_close(scene.storage);
	assert_int_equal(scene.done, 1);
	assert_null(storage_close(NULL));
}

static int use_storage(void *context)
{
	struct err err = {0};
	struct storage *storage = storage_new(scene.loop, 4, &err);
	storage = storage_close(storage);
	return err.code;
}

static void test_out_of_memory(void **state)
{
	assert_true(failmalloc_each(use_storage, NULL) >= 1);
}

static void test_a_disk_that_does_not_answer_shows(void **state)
{
	assert_true(storage_busy_ns(scene.storage) == 0);
	jobs[0].scene = &scene;
	jobs[0].job = (struct storage_job){.work = work_at_gate, .done = done, .context = &jobs[0]};
	assert_int_equal(storage_submit(scene.storage, &jobs[0].job, NULL), 0);
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S, first = 0;
	while (first == 0 && unit_now_ns() < end_ns)
		first = storage_busy_ns(scene.storage);
	assert_true(first > 0);
	while (storage_busy_ns(scene.storage) <= first && unit_now_ns() < end_ns)
		;
	assert_true(storage_busy_ns(scene.storage) > first); /* it grows while it hangs */
	assert_int_equal(sem_post(&scene.gate), 0);
	while (scene.done == 0 && unit_now_ns() < end_ns)
		assert_int_equal(loop_pass(scene.loop, CLOCK_NS_PER_MS, NULL), 0);
	assert_true(storage_busy_ns(scene.storage) == 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_in_order_off_the_loop),
	    cmocka_unit_test_setup_teardown(test_a_disk_that_does_not_answer_shows, setup,
					    teardown),
	    TEST(test_queue_is_bounded),
	    TEST(test_close_drains),
	    TEST(test_done_may_hand_in_the_next),
	    TEST(test_a_group_is_closed_before_it_is_reported),
	    TEST(test_a_group_ends_at_others_and_at_its_time),
	    TEST(test_a_close_that_fails_is_the_result_of_each),
	    TEST(test_closing_the_thread_closes_the_group),
	    TEST(test_nothing_is_taken_while_closing),
	    TEST(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
