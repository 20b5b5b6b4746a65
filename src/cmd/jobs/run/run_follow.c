/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run` while its job waits and runs: shows its output, says what it waits for and on which
 * GPUs it runs, and comes back with its exit code. Of an array, one member after the other.
 */
#include "cmd/jobs/run/run_internal.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/loop.h"
#include "cmd/cmd.h"
#include "job/indices.h"
#include "job/wants.h"

#define RUN_PASS_NS UINT64_C(1000000000)

static void run_say_gpus(struct run *run, const Sluice__V1__Job *job)
{
	if (run->told_gpus || !run->options->verbose || !job->attempt ||
	    job->attempt->started_unix_ns == 0)
		return;

	run->told_gpus = true;
	for (size_t i = 0; i < job->attempt->n_grants; i++) {
		const Sluice__V1__Grant *grant = job->attempt->grants[i];
		run_say(run, "job %s: %s%s, %s", run->called, job->simulated ? "simulated " : "",
			grant->label, grant->uuid);

		if (grant->n_slots < grant->slot_count)
			run_say(run, "job %s: %zu of %" PRIu32 " slots of it", run->called,
				grant->n_slots, grant->slot_count);
	}

	run_say(run, "job %s waited %.3f s", run->called,
		(double)(job->attempt->started_unix_ns - job->submitted_unix_ns) / 1e9);
}

static void run_on_change(struct run *run)
{
	const Sluice__V1__Job *job = job_follow_job(run->follow);
	char reason[JOB_TEXT_MAX];

	(void)job_text_reason(job, reason);
	if (job->state == SLUICE__V1__JOB_STATE__PENDING && reason[0] && !run->options->quiet &&
	    strcmp(reason, run->waits_for) != 0)
		run_say(run, "job %s waits: %s", run->called, reason);
	if (job->state == SLUICE__V1__JOB_STATE__STOPPING && reason[0] && !run->options->quiet &&
	    strcmp(reason, run->waits_for) != 0)
		run_say(run, "job %s is ending: %s", run->called, reason);

	memcpy(run->waits_for, reason, sizeof(reason));
	/* Somebody else was faster, between the agent's yes and the job's start. */
	if (job->state == SLUICE__V1__JOB_STATE__PENDING && reason[0] && run->options->no_wait &&
	    !run->gave_up) {
		run->gave_up = true;
		job_follow_cancel(run->follow, false, 0);
	}

	if (job->state != SLUICE__V1__JOB_STATE__PENDING &&
	    job->state != SLUICE__V1__JOB_STATE__HELD && run->wait_timer)
		loop_timer_stop(run->wait_timer);

	run_say_gpus(run, job);
	if (job->attempt && job->attempt->port && !run->told_port && !run->options->quiet) {
		run->told_port = true;
		run_say(run, "job %s: http://127.0.0.1:%" PRIu32 "/", run->called,
			job->attempt->port);
	}

	if (run->options->pty)
		job_terminal_look(&run->terminal, job);
}

static void run_told(enum job_follow_event event, void *context)
{
	struct run *run = context;

	switch (event) {
	case JOB_FOLLOW_CHANGED:
		run_on_change(run);
		break;
	case JOB_FOLLOW_AWAY:
		if (!run->options->quiet)
			run_say(run, "the agent is away; job %s goes on without it", run->called);
		break;
	case JOB_FOLLOW_BACK:
		if (!run->options->quiet)
			run_say(run, "the agent is back");
		break;
	case JOB_FOLLOW_UNREAD:
		if (!run->options->quiet)
			run_say(run,
				"nobody reads the output any more; job %s"
				" goes on ('sluice cancel %s' ends it)",
				run->called, run->called);
		break;
	case JOB_FOLLOW_DONE:
		run->over = true;
		break;
	case JOB_FOLLOW_FAILED:
		run->over = run->failed = true;
		break;
	}
}

static void run_on_wait_timeout(void *context)
{
	struct run *run = context;
	run->gave_up = true;
	job_follow_cancel(run->follow, false, 0);
}

/* The first Ctrl-C ends all of it: no one of its members is in the foreground. */
static void run_cancel_array(struct run *run)
{
	struct err err = {0};
	Sluice__V1__CancelRequest request = SLUICE__V1__CANCEL_REQUEST__INIT;
	request.id = run->array_id;
	run->is_cancelling = true;
	run_say(run, "cancelling array %" PRIu64, run->array_id);
	if (agent_call_ask(&run->agent, AGENT_CANCEL, &request.base, NULL, &err) < 0)
		run_say(run, "array %" PRIu64 " is not cancelled: %s", run->array_id, err.text);
}

int run_follow(struct run *run)
{
	struct err err = {0};
	const struct job_follow_options options = {
	    .agent = &run->agent,
	    .how = run->how,
	    .id = run->id,
	    .stdout_fd = run->options->pty || run->is_array ? -1 : STDOUT_FILENO,
	    .stderr_fd = run->options->pty || run->is_array ? -1 : STDERR_FILENO,
	    .told = run_told,
	    .context = run};

	run->follow = job_follow_new(&options, &err);
	if (run->follow && run->options->wait_timeout_ns)
		run->wait_timer = loop_timer_new(run->agent.loop, run_on_wait_timeout, run, &err);
	if (!run->follow || (run->options->wait_timeout_ns && !run->wait_timer))
		return cmd_fail(run->call, CMD_EXIT_FAILED, &err);
	if (run->wait_timer)
		loop_timer_start(run->wait_timer, run->options->wait_timeout_ns);

	if (run->interrupts)
		job_follow_signal(run->follow, SIGINT);
	run->terminal.loop = run->agent.loop;

	bool has_left = false;

	while (!run->over && !run->stop_signal && !has_left) {
		if (loop_pass(run->agent.loop, RUN_PASS_NS, &err) < 0)
			return cmd_fail(run->call, CMD_EXIT_FAILED, &err);
		if (run->is_array && run->interrupts > 0 && !run->is_cancelling)
			run_cancel_array(run);
		has_left = job_terminal_is_over(&run->terminal, job_follow_job(run->follow));
	}

	return has_left && !run->over ? run_leave(run) : run_end(run);
}

/* Of the i-th member of an array that --array asks for. */
static uint32_t run_member_index(const struct run *run, uint32_t i)
{
	const char *text = run->options->array;
	char indices[WANTS_LIST_MAX];
	size_t length = text ? strcspn(text, "%") : 0;

	if (!text || !strpbrk(text, "-,:") || length >= sizeof(indices))
		return i;

	memcpy(indices, text, length);
	indices[length] = '\0';
	return indices_at(indices, i);
}

int run_follow_array(struct run *run, uint32_t count)
{
	int first = CMD_EXIT_OK;

	run->is_array = true;
	run->array_id = run->id;
	if (!run->options->quiet)
		run_say(run,
			"job %s is an array of %" PRIu32 ": 'sluice logs %s"
			".N' shows the output of member N",
			run->called, count, run->called);

	for (uint32_t i = 0; i < count; i++) {
		run->id = run->array_id + i;
		(void)snprintf(run->called, sizeof(run->called), "%" PRIu64 ".%" PRIu32,
			       run->array_id, run_member_index(run, i)); /* fits */
		run->over = run->failed = run->told_gpus = false;
		run->waits_for[0] = '\0';

		int exit_code = run_follow(run);

		run->follow = job_follow_free(run->follow);
		run->wait_timer = loop_timer_free(run->wait_timer);
		first = first == CMD_EXIT_OK ? exit_code : first;

		if (run->stop_signal)
			break;
	}

	return first;
}
