/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of jobs against random submissions, cancels, holds, releases, retries and ends of the
 * agent: no job is lost or stays where it is, no attempt's command runs twice, and whatever waits
 * says truly for what.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue_rig.h"

enum { MODEL_JOBS = 24, MODEL_STEPS = 160, MODEL_SEEDS = 3 };
#define MS UINT64_C(1000000)

struct model_job {
	uint64_t id, after; /* after: has to succeed first; 0 */
	bool fails, cancelled;
	uint32_t retries;
};

struct model {
	struct model_job jobs[MODEL_JOBS + 1]; /* by id */
	size_t count;
	bool is_draining;
};

static uint64_t random_state;

static uint64_t model_random(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

static void on_edited(int result, size_t changed, const struct err *err, void *context)
{
	*(int *)context = result;
}

static void on_drained(int result, const struct err *err, void *context)
{
	*(int *)context = result;
}

static void model_submit(struct model *model)
{
	if (model->count == MODEL_JOBS)
		return;
	struct model_job *job = &model->jobs[model->count + 1];
	char key[32], command[512], name[32], after[32];
	*job =
	    (struct model_job){.fails = model_random(3) == 0, .retries = (uint32_t)model_random(3)};
	if (model->count > 0 && model_random(3) == 0)
		job->after = 1 + model_random(model->count);
	(void)snprintf(key, sizeof(key), "key-%zu", model->count);
	(void)snprintf(name, sizeof(name), "ran-%zu", model->count + 1);
	(void)snprintf(command, sizeof(command), "echo x >> %s; exit %d",
		       unit_path(fixture->tmp, name), job->fails ? 3 : 0);
	(void)snprintf(after, sizeof(after), "ok:%d", (int)job->after);
	fixture->wants = (struct wants){.hold = model_random(4) == 0,
					.retries = job->retries,
					.retry_delay_ns = MS,
					.after = job->after ? after : NULL};
	job->id = submit(key, command, (uint32_t)model_random(3));
	fixture->wants = (struct wants){0};
	model->count++;
	assert_int_equal(job->id, model->count);
}

static bool reason_is_true(const struct model *model, const struct job *job)
{
	if (job->state == JOB_HELD)
		return job->reason == JOB_REASON_USER;
	if (job->state != JOB_PENDING)
		return true;
	if (job->reason == JOB_REASON_DEPENDENCY)
		return queue_find(fixture->queue, model->jobs[job->id].after);
	if (job->reason == JOB_REASON_BACKOFF)
		return job->failed_attempts > 0;
	if (job->reason == JOB_REASON_DRAINING)
		return model->is_draining;
	return job->reason != JOB_REASON_NONE;
}

static bool reasons_are_true(const struct model *model)
{
	for (const struct job *job = queue_first(fixture->queue); job;
	     job = queue_next(fixture->queue, job))
		if (!reason_is_true(model, job))
			return false;
	return true;
}

/* What waits has a reason, and as soon as the queue has looked it is true. */
static void model_check(const struct model *model)
{
	for (const struct job *job = queue_first(fixture->queue); job;
	     job = queue_next(fixture->queue, job)) {
		assert_in_range(job->id, 1, model->count);
		assert_false(job_state_is_final(job->state));
	}
	wait_for(reasons_are_true(model));
}

static void model_step(struct model *model)
{
	uint64_t id = model->count > 0 ? 1 + model_random(model->count) : 1;
	int result = 1;
	struct answer answer;
	switch (model_random(8)) {
	case 0:
	case 1:
		model_submit(model);
		return;
	case 2: {
		const struct queue_edit edit = {.hold = model_random(2) ? QUEUE_EDIT_HOLD
									: QUEUE_EDIT_RELEASE};
		queue_edit(fixture->queue, 1000, id, false, &edit, "", on_edited, &result);
		wait_for(result <= 0);
		assert_true(result == 0 || result == -ESRCH || result == -EBUSY);
		return;
	}
	case 3:
		answer = ask(id);
		/* The supervisor of these tests hears of no cancel: of what waits alone. */
		if (answer.result == 0 &&
		    (answer.state == JOB_PENDING || answer.state == JOB_HELD) &&
		    model_random(3) == 0) {
			answer = cancel(id);
			assert_int_equal(answer.result, 0);
			model->jobs[id].cancelled = true;
		}
		return;
	case 4:
		queue_retry(fixture->queue, 1000, id, false, on_edited, &result);
		wait_for(result <= 0);
		assert_true(result == 0 || result == -ENOENT || result == -EINVAL);
		return;
	case 5:
		model->is_draining = model_random(2) == 0;
		queue_drain(fixture->queue, model->is_draining, on_drained, &result);
		wait_for(result == 0);
		return;
	case 6:
		if (model_random(3) == 0)
			reopen();
		return;
	default:
		(void)loop_pass(fixture->loop, MS, NULL);
	}
}

/* Nothing keeps them any more: all come to an end. */
static void model_end(struct model *model)
{
	int result = 1;
	queue_drain(fixture->queue, false, on_drained, &result);
	wait_for(result == 0);
	model->is_draining = false;
	for (uint64_t id = 1; id <= model->count; id++) {
		result = 1;
		queue_edit(fixture->queue, 1000, id, false,
			   &(const struct queue_edit){.hold = QUEUE_EDIT_RELEASE}, "", on_edited,
			   &result);
		wait_for(result <= 0);
	}
	for (uint64_t id = 1; id <= model->count; id++) {
		const struct model_job *job = &model->jobs[id];
		struct answer end = ended(id);
		char name[32];
		(void)snprintf(name, sizeof(name), "ran-%d", (int)id);
		size_t runs = lines(name), results = 0;
		for (int attempt = 1; attempt < 200; attempt++) {
			char file[64];
			(void)snprintf(file, sizeof(file), "j/%d/result.%d", (int)id, attempt);
			results += there(file);
		}
		assert_true(runs <= results); /* at most once each */
		if (end.state == JOB_SUCCEEDED)
			assert_false(job->fails);
		if (end.state == JOB_FAILED)
			assert_true(job->fails);
		if (end.state == JOB_CANCELLED)
			assert_true(job->cancelled || end.reason == JOB_REASON_DEPENDENCY_FAILED);
		if (end.reason == JOB_REASON_DEPENDENCY_FAILED)
			assert_true(job->after != 0);
		if (end.state == JOB_FAILED && job->retries > 0)
			assert_int_equal(end.reason, JOB_REASON_BACKOFF_LIMIT_EXCEEDED);
	}
}

static void whatever_is_asked_every_job_comes_to_its_end(void **state)
{
	struct model model = {.count = 0};
	open_queue();
	for (int step = 0; step < MODEL_STEPS; step++) {
		model_step(&model);
		model_check(&model);
	}
	model_end(&model);
}

static int setup_seed(void **state)
{
	static uint64_t seed;
	random_state = UINT64_C(0x9e3779b97f4a7c15) * (++seed + (uint64_t)getpid());
	print_message("seed state %llx\n", (unsigned long long)random_state);
	return setup(state);
}

int main(void)
{
	place_in_memory();
	struct CMUnitTest tests[MODEL_SEEDS];
	for (size_t i = 0; i < MODEL_SEEDS; i++)
		tests[i] = (struct CMUnitTest)cmocka_unit_test_setup_teardown(
		    whatever_is_asked_every_job_comes_to_its_end, setup_seed, teardown);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
