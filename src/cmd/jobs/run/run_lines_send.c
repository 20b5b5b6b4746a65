/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run --lines`: commands submitted as they come, several under way at once.
 */
#include "cmd/jobs/run/run_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/loop.h"
#include "cmd/cmd.h"
#include "cmd/jobs/run/run_batch.h"
#include "cmd/jobs/run/run_internal.h"

enum { RUN_LINES_WAIT_MS = 100 }; /* for a line, between looks at signals */

#define RUN_LINES_PASS_NS UINT64_C(10000000) /* for an answer, between looks for a line */

/* What it is named by, should it fail. */
static void run_lines_remember(struct run_accepted *accepted, const struct run_line *line)
{
	size_t length = strlen(line->text);
	bool is_cut = length >= sizeof(accepted->command);
	size_t shown = sizeof(accepted->command) - sizeof("...");

	/* Not within a character. */
	while (is_cut && shown > 0 && ((unsigned char)line->text[shown] & 0xc0) == 0x80)
		shown--;

	accepted->line = line->number;
	(void)snprintf(accepted->command, sizeof(accepted->command), "%.*s%s",
		       (int)(is_cut ? shown : length), line->text, is_cut ? "..." : "");
}

/* The oldest line that is under way was answered: its number is printed, or why it has none. */
static int run_lines_take(struct run *run, struct run_batch *batch)
{
	const struct run_batch_answer *answer = run_batch_first(batch);
	struct run_line *line = answer->context;
	struct err err = answer->err;
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	int exit_code;

	reply.id = answer->id;
	run->agent.result = answer->result;
	if (err.code == 0) {
		exit_code = run_accepted(run, &reply, line->request.wants.array_count);
		if (exit_code == 0)
			run_lines_remember(&run->accepted[run->accepted_count - 1], line);
	} else {
		(void)err_wrap(&err, "line %" PRIu64, line->number);
		exit_code = cmd_fail(run->call, run_exit_of(run, answer->err.code), &err);
	}

	(void)run_line_free(run_batch_drop(batch));
	return exit_code;
}

/* Until the next answer, or for `wait_ns`; with a new connection where the last one broke. */
static int run_lines_wait(struct run *run, struct run_batch *batch, uint64_t wait_ns,
			  uint64_t *until_ns)
{
	struct err err = {0};
	int rc;

	if (run_batch_is_cut(batch)) {
		rc = run_reconnect(run, -ECONNRESET, false, until_ns, &err);
		if (rc == 0 && run->agent.client)
			run_batch_again(batch);
	} else {
		*until_ns = 0;
		rc = loop_pass(run->agent.loop, wait_ns, &err);
	}

	if (rc == -ECONNRESET)
		(void)err_set(&err, rc,
			      "the agent at '%s' went away, and it is not known whether it "
			      "accepted the last %zu line%s: 'sluice jobs' shows those that it did",
			      run->agent.socket, run_batch_count(batch),
			      run_batch_count(batch) == 1 ? "" : "s");

	return rc < 0 ? cmd_fail(run->call, run_exit_of(run, rc), &err) : 0;
}

/*
 * Lines as they come, up to RUN_BATCH_MAX of them under way at once, so that the agent writes them
 * together. With --no-wait each is judged by what the line before it has taken.
 */
static int run_lines_submit(struct run *run, struct run_lines *lines, struct run_batch *batch)
{
	struct run_line *next = NULL;
	uint64_t until_ns = 0;
	int exit_code = 0, failed = 0;
	bool is_end = false;

	while (failed == 0 && (exit_code == 0 || run_batch_count(batch) > 0)) {
		struct err err = {0};
		size_t count = run_batch_count(batch);

		/* Those that are under way may have been accepted: their numbers are told. */
		if (exit_code || run->stop_signal || run->interrupts)
			is_end = true;
		if (!is_end && !next) {
			int rc =
			    run_lines_next(lines, count > 0 ? 0 : RUN_LINES_WAIT_MS, &next, &err);
			is_end = rc == RUN_LINES_END || rc < 0;
			if (rc < 0)
				exit_code = cmd_fail(run->call, CMD_EXIT_DATA, &err);
		}

		if (is_end && count == 0)
			break;

		bool may_follow = count == 0 || !run->options->no_wait;
		if (next && !is_end && may_follow &&
		    run_batch_has_room(batch, &next->request.message)) {
			run_batch_add(batch, &next->request.message, next);
			next = NULL;
			continue;
		}

		failed = run_lines_wait(run, batch, count > 0 ? RUN_LINES_PASS_NS : 0, &until_ns);

		while (failed == 0 && run_batch_first(batch)) {
			int one = run_lines_take(run, batch);
			exit_code = exit_code ? exit_code : one;
		}
	}

	while (run_batch_count(batch) > 0)
		(void)run_line_free(run_batch_drop(batch));
	(void)run_line_free(next);
	return failed ? failed : exit_code;
}

/* Nothing is accepted: one after the other. */
static int run_lines_try(struct run *run, struct run_lines *lines)
{
	int exit_code = 0, rc = RUN_LINES_NONE;

	while (exit_code == 0 && rc != RUN_LINES_END && !run->stop_signal && !run->interrupts) {
		struct err err = {0};
		struct run_line *line = NULL;
		Sluice__V1__SubmitReply *reply = NULL;

		rc = run_lines_next(lines, RUN_LINES_WAIT_MS, &line, &err);
		if (rc == RUN_LINES_NONE)
			rc = loop_pass(run->agent.loop, 0, &err);
		else if (rc == RUN_LINES_ONE)
			exit_code = run_ask(run, &line->request, NULL, 0, &reply);

		if (rc < 0)
			exit_code = cmd_fail(run->call, CMD_EXIT_DATA, &err);
		if (exit_code == 0 && reply)
			exit_code = run_say_dry(reply);

		agent_call_free(reply);
		(void)run_line_free(line);
	}

	return exit_code;
}

static int run_lines_send_all(struct run *run, struct run_lines *lines)
{
	struct err err = {0};
	if (run->options->dry_run)
		return run_lines_try(run, lines);

	struct run_batch *batch = run_batch_new(&run->agent, &err);
	if (!batch)
		return cmd_fail(run->call, CMD_EXIT_FAILED, &err);

	int exit_code = run_lines_submit(run, lines, batch);

	(void)run_batch_free(batch);
	return exit_code;
}

int run_lines_send(struct run *run)
{
	struct err err = {0};
	struct run_lines *lines = NULL;
	int rc = run_lines_open(run->options, run->call->argv, &lines, &err);
	if (rc == -EINVAL)
		return cmd_usage(run->call, "%s", err.text);

	int exit_code = rc < 0 ? cmd_fail(run->call, CMD_EXIT_DATA, &err) : run_connect(run);

	if (exit_code == 0)
		exit_code = run_lines_send_all(run, lines);

	(void)run_lines_free(lines);
	if (exit_code || (!run->stop_signal && !run->interrupts))
		return exit_code ? exit_code : run_follow_all(run);
	if (run->accepted_count > 0 && !run->options->quiet)
		run_say(run, "no more lines are read; the jobs that were accepted go on");

	return run->stop_signal ? 128 + run->stop_signal : RUN_EXIT_INTERRUPTED;
}

/* --- the lines that failed -------------------------------------------------------------------- */

static void run_lines_describe(const Sluice__V1__Job *job, int exit_code, char out[JOB_TEXT_MAX])
{
	char reason[JOB_TEXT_MAX] = "";
	if (job)
		(void)job_text_reason(job, reason);

	bool is_own = !job || strcmp(job->reason, "ExitCode") == 0;
	if (is_own || !reason[0])
		(void)snprintf(out, JOB_TEXT_MAX, "exit code %d", exit_code);
	else
		(void)snprintf(out, JOB_TEXT_MAX, "%s", reason);
}

void run_lines_note(struct run *run, const struct run_accepted *accepted, int exit_code)
{
	if (accepted->line == 0 || exit_code == 0)
		return;

	if (!run->failures)
		run->failures = calloc(RUN_FAILURES_MAX, sizeof(*run->failures));
	if (run->failures && run->failure_count < RUN_FAILURES_MAX) {
		struct run_failure *failure = &run->failures[run->failure_count];
		const Sluice__V1__Job *job = run->follow ? job_follow_job(run->follow) : NULL;
		failure->accepted = *accepted;
		run_lines_describe(job, exit_code, failure->why);
	}

	run->failure_count++; /* without memory they are counted only */
}

void run_lines_tell(const struct run *run)
{
	size_t shown = run->failures ? run->failure_count : 0;
	if (run->failure_count == 0 || run->options->quiet)
		return;

	shown = shown < RUN_FAILURES_MAX ? shown : RUN_FAILURES_MAX;
	run_say(run, "%zu of %zu lines failed%s", run->failure_count, run->accepted_count,
		shown ? ":" : "");

	for (size_t i = 0; i < shown; i++) {
		const struct run_accepted *accepted = &run->failures[i].accepted;
		run_say(run, "line %" PRIu64 ", job %" PRIu64 ", %s: %s", accepted->line,
			accepted->id, run->failures[i].why, accepted->command);
	}

	if (shown < run->failure_count)
		run_say(run, "and %zu more: 'sluice jobs --state failed' shows them",
			run->failure_count - shown);
}
