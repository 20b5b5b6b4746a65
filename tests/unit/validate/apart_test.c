/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/apart.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"

#define SECOND UINT64_C(1000000000)

enum what { SAYS, FAILS, CRASHES, EXITS, HANGS, TALKS_FOR_EVER, IGNORES };

struct seen {
	uint32_t of[APART_JOBS_MAX];
	struct checks_record last;
};

static int job(void *context, const struct checks_sink *sink, struct err *err)
{
	struct check check;
	checks_begin(sink, &check, 3, "check", "target");
	switch (*(enum what *)context) {
	case FAILS:
		return err_set(err, -ENODEV, "no such GPU");
	case CRASHES:
		(void)raise(SIGSEGV);
		break;
	case EXITS:
		_exit(7);
	case IGNORES:
		(void)signal(SIGTERM, SIG_IGN);
		(void)pause();
		break;
	case HANGS:
		(void)pause();
		break;
	case TALKS_FOR_EVER:
		while (true)
			checks_progress(sink, "still here");
	default:
		checks_note(sink, "a word");
		checks_end(sink, &check);
	}
	return 0;
}

static void take(void *context, const struct checks_record *record)
{
	struct seen *seen = context;
	seen->of[record->job]++;
	seen->last = *record;
}

static struct apart_job run(enum what what, struct seen *seen)
{
	struct apart_job one = {.run = job,
				.context = &what,
				.silence_ns = what == TALKS_FOR_EVER ? 100 * SECOND : SECOND / 5,
				.timeout_ns = what == TALKS_FOR_EVER ? SECOND / 5 : 100 * SECOND};
	struct err err = {.code = 0};
	const struct apart apart = {
	    .jobs = &one, .count = 1, .sink = {.take = take, .context = seen}};
	memset(seen, 0, sizeof(*seen));
	assert_int_equal(apart_run(&apart, &err), 0);
	return one;
}

static void how_they_end(void **state)
{
	static const struct {
		enum what what;
		enum apart_how how;
		const char *text;
	} rows[] = {{SAYS, APART_DONE, "done"},
		    {FAILS, APART_FAILED, "no such GPU"},
		    {CRASHES, APART_KILLED, "killed by SIGSEGV"},
		    {EXITS, APART_EXITED, "exit code 7"},
		    {HANGS, APART_TIMED_OUT, "no answer in time"},
		    {IGNORES, APART_TIMED_OUT, "no answer in time"},
		    {TALKS_FOR_EVER, APART_TIMED_OUT, "no answer in time"}};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct seen seen;
		char text[CHECKS_TEXT_MAX];
		uint64_t start = unit_now_ns();
		struct apart_job one = run(rows[i].what, &seen);
		assert_int_equal(one.how, rows[i].how);
		assert_non_null(strstr(apart_describe(&one, text), rows[i].text));
		assert_true(seen.of[0] >= 1);
		assert_false(one.is_left_behind);
		assert_true(unit_now_ns() - start < 20 * SECOND);
	}
}

static void an_error_keeps_its_code(void **state)
{
	struct seen seen;
	(void)state;
	struct apart_job one = run(FAILS, &seen);
	assert_int_equal(one.err.code, -ENODEV);
}

static void several_at_once(void **state)
{
	enum what whats[] = {SAYS, CRASHES, HANGS, SAYS};
	struct apart_job jobs[4];
	struct seen seen = {.of = {0}};
	struct err err = {.code = 0};
	const struct apart apart = {
	    .jobs = jobs, .count = 4, .sink = {.take = take, .context = &seen}};
	(void)state;
	for (size_t i = 0; i < 4; i++)
		jobs[i] = (struct apart_job){.run = job,
					     .context = &whats[i],
					     .silence_ns = SECOND / 5,
					     .timeout_ns = 100 * SECOND};
	assert_int_equal(apart_run(&apart, &err), 0);
	assert_int_equal(jobs[0].how, APART_DONE);
	assert_int_equal(jobs[1].how, APART_KILLED);
	assert_int_equal(jobs[2].how, APART_TIMED_OUT);
	assert_int_equal(jobs[3].how, APART_DONE);
	assert_int_equal(seen.of[0], 3);
	assert_int_equal(seen.of[2], 1);
}

static void a_signal_ends_all(void **state)
{
	static volatile sig_atomic_t stop = 1;
	enum what what = HANGS;
	struct apart_job one = {
	    .run = job, .context = &what, .silence_ns = 100 * SECOND, .timeout_ns = 100 * SECOND};
	struct seen seen = {.of = {0}};
	struct err err = {.code = 0};
	const struct apart apart = {
	    .jobs = &one, .count = 1, .sink = {.take = take, .context = &seen}, .stop = &stop};
	(void)state;
	assert_int_equal(apart_run(&apart, &err), 0);
	assert_int_equal(one.how, APART_STOPPED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(how_they_end),
	    cmocka_unit_test(an_error_keeps_its_code),
	    cmocka_unit_test(several_at_once),
	    cmocka_unit_test(a_signal_ends_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
