/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are not to start before a moment of the wall clock. */
#include "doors/queue/queue.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "doors/queue/queue_internal.h"
#include "job/moment.h"
#include "queue_rig.h"

#define HOUR_NS (3600 * CLOCK_NS_PER_S)
#define SOON_NS (300 * CLOCK_NS_PER_MS)

static void on_edited(int result, size_t changed, const struct err *err, void *context)
{
	struct answer *answer = context;
	answer->done = true;
	answer->result = result;
	answer->jobs = changed;
}

static void begin(uint64_t id, uint64_t unix_ns)
{
	struct answer answer = {.done = false};
	const struct queue_edit edit = {.has_begin = true, .begin_unix_ns = unix_ns};
	queue_edit(fixture->queue, 1000, id, false, &edit, "alice", on_edited, &answer);
	wait_for(answer.done);
	assert_int_equal(answer.result, 0);
}

static uint64_t in_ns(uint64_t ns)
{
	return (uint64_t)clock_unix_ns() + ns;
}

static uint64_t submit_for(const char *key, const char *command, uint32_t gpus, uint64_t begin_ns)
{
	fixture->wants = (struct wants){.begin_unix_ns = begin_ns};
	uint64_t id = submit(key, command, gpus);
	fixture->wants = (struct wants){0};
	return id;
}

static enum job_reason reason_of(uint64_t id)
{
	const struct job *job = queue_find(fixture->queue, id);
	return job ? job->reason : JOB_REASON_NONE;
}

static void a_job_starts_when_its_moment_has_come(void **state)
{
	open_queue();
	uint64_t at = in_ns(SOON_NS);
	uint64_t id = submit_for("k1", append("ran", "true"), 1, at);
	wait_for(reason_of(id) == JOB_REASON_BEGIN_TIME);
	assert_int_equal(state_of(id), JOB_PENDING);
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
	assert_true((uint64_t)clock_unix_ns() >= at);
	assert_int_equal(lines("ran"), 1);
}

static void it_says_when_and_keeps_nobody_waiting(void **state)
{
	open_queue();
	char text[MOMENT_SHOWN_MAX];
	uint64_t at = in_ns(HOUR_NS);
	uint64_t id = submit_for("k1", append("late", "true"), 2, at);
	uint64_t next = submit("k2", append("next", "true"), 2);
	assert_int_equal(ended(next).state, JOB_SUCCEEDED);
	assert_int_equal(reason_of(id), JOB_REASON_BEGIN_TIME);
	assert_string_equal(queue_find(fixture->queue, id)->reason_text,
			    moment_format((int64_t)at, text));

	/* Now means now, and later later. */
	begin(id, in_ns(2 * HOUR_NS));
	wait_for(reason_of(id) == JOB_REASON_BEGIN_TIME);
	assert_string_not_equal(queue_find(fixture->queue, id)->reason_text, text);
	begin(id, 0);
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
	assert_int_equal(lines("late"), 1);
}

static void it_waits_across_a_restart(void **state)
{
	open_queue();
	uint64_t id = submit_for("k1", append("ran", "true"), 0, in_ns(HOUR_NS));
	wait_for(reason_of(id) == JOB_REASON_BEGIN_TIME);
	reopen();
	wait_for(reason_of(id) == JOB_REASON_BEGIN_TIME);
	begin(id, in_ns(SOON_NS));
	reopen();
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
	assert_int_equal(lines("ran"), 1);

	/* Over while no agent was there. */
	id = submit_for("k2", append("missed", "true"), 0, in_ns(CLOCK_NS_PER_MS));
	reopen();
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
	assert_int_equal(lines("missed"), 1);
}

/* Nobody can set the clock of a machine for a test. The kernel tells what it was asked for: a timer
 * of the wall clock that also tells when somebody sets it. */
static void the_kernel_is_asked_to_tell_of_a_clock_that_is_set(void **state)
{
	open_queue();
	uint64_t id = submit_for("k1", "true", 0, in_ns(HOUR_NS));
	wait_for(reason_of(id) == JOB_REASON_BEGIN_TIME);

	char path[64];
	struct buf text;
	buf_init(&text, 4096);
	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fixture->queue->begin_fd);
	assert_int_equal(file_read(path, &text, NULL), 0);
	assert_non_null(strstr(buf_text(&text), "clockid: 0\n")); /* CLOCK_REALTIME */
	assert_non_null(strstr(buf_text(&text), "settime flags: 03\n"));
	buf_done(&text);
	assert_int_equal(cancel(id).result, 0);
}

/* What a pass makes of another time. */
static void the_time_that_the_clock_shows_counts(void **state)
{
	const struct job job = {.wants.begin_unix_ns = 1000};
	int64_t next = INT64_MAX;
	assert_true(queue_begin_waits(&job, 999, &next));
	assert_int_equal(next, 1000);
	assert_false(queue_begin_waits(&job, 1000, &next));
	assert_false(queue_begin_waits(&job, 5000, &next));
	next = 10; /* an earlier one */
	assert_true(queue_begin_waits(&job, 0, &next));
	assert_int_equal(next, 10);
}

static void who_must_not_wait_is_refused(void **state)
{
	open_queue();
	struct answer answer;
	fixture->wants = (struct wants){.begin_unix_ns = in_ns(HOUR_NS)};
	submit_as("k1", "true", 0, true, &answer);
	fixture->wants = (struct wants){0};
	wait_for(answer.done);
	assert_int_equal(answer.result, -EAGAIN);
	assert_non_null(strstr(answer.text, "BeginTime ("));
}

int main(void)
{
	place_in_memory();
	const struct CMUnitTest tests[] = {
	    with(a_job_starts_when_its_moment_has_come),
	    with(it_says_when_and_keeps_nobody_waiting),
	    with(it_waits_across_a_restart),
	    with(the_kernel_is_asked_to_tell_of_a_clock_that_is_set),
	    cmocka_unit_test(the_time_that_the_clock_shows_counts),
	    with(who_must_not_wait_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
