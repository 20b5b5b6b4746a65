/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice jobs wait`: until jobs have ended, and how the first of them failed. */
#include "cmd/jobs/jobs_wait.h"

#include <errno.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "cmd/jobs/job_follow.h"
#include "cmd/jobs/job_select.h"
#include "cmd/jobs/job_target.h"
#include "cmd/jobs/job_text.h"
#include "cmd/options.h"
#include "cmd/service/agent_call.h"

#define JOBS_WAIT_PASS_NS UINT64_C(1000000000)

struct jobs_wait_options {
	uint64_t timeout_ns;
	const char *socket;
	struct job_select_options select;
};

static const struct option_row jobs_wait_rows[] = {
    {.name = "timeout",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "give up after this, exit code 124; the jobs go on (default: never)",
     .min = 1,
     OPTION_FIELD(struct jobs_wait_options, timeout_ns)},
    JOB_SELECT_ROWS(struct jobs_wait_options),
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     .help = "where nothing fits, it is no error",
     OPTION_FIELD(struct jobs_wait_options, select.quiet)},
    AGENT_CALL_SOCKET_ROW(struct jobs_wait_options),
    {0},
};

struct jobs_waiting {
	bool over, failed;
};

static void jobs_wait_told(enum job_follow_event event, void *context)
{
	struct jobs_waiting *wait = context;
	wait->over = wait->over || event == JOB_FOLLOW_DONE || event == JOB_FOLLOW_FAILED;
	wait->failed = wait->failed || event == JOB_FOLLOW_FAILED;
}

/* Waits for one; its exit code, or ours. */
static int jobs_wait_one(const struct cmd_call *call, struct agent_call *agent, uint64_t id,
			 uint64_t until_ns)
{
	const struct jobs_wait_options *own = call->options;
	struct err err = {0};
	struct jobs_waiting wait = {0};
	const struct job_follow_options options = {.agent = agent,
						   .how = {.socket = own->socket},
						   .id = id,
						   .stdout_fd = -1,
						   .stderr_fd = -1,
						   .told = jobs_wait_told,
						   .context = &wait};
	struct job_follow *follow = job_follow_new(&options, &err);
	if (!follow)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);

	int rc = 0;
	uint64_t now_ns;
	while (rc == 0 && !wait.over && (now_ns = loop_now_ns(agent->loop)) < until_ns)
		rc = loop_pass(agent->loop,
			       until_ns - now_ns < JOBS_WAIT_PASS_NS ? until_ns - now_ns
								     : JOBS_WAIT_PASS_NS,
			       &err);

	int exit_code;

	if (rc < 0) {
		exit_code = cmd_fail(call, CMD_EXIT_FAILED, &err);
	} else if (!wait.over) {
		(void)err_set(&err, -ETIMEDOUT, "job %" PRIu64 " has not ended", id);
		exit_code = cmd_fail(call, CMD_EXIT_DEADLINE, &err);
	} else if (wait.failed) {
		const struct err *why = job_follow_error(follow);
		exit_code = cmd_fail(call,
				     why->code == -ENOENT ? CMD_EXIT_USAGE
							  : agent_call_exit_code(agent, why->code),
				     why);
	} else {
		exit_code = job_text_exit_code(job_follow_job(follow));
	}

	(void)job_follow_free(follow);
	return exit_code;
}

/* Waits for a job, or for all members of an array. */
static int jobs_wait_for(const struct cmd_call *call, struct agent_call *agent, const char *text,
			 uint64_t until_ns)
{
	struct job_target target;
	struct err err = {0};
	int rc = job_target_find(agent, text, true, &target, &err);
	if (rc == -EINVAL)
		return cmd_fail(call, CMD_EXIT_USAGE, &err);

	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(agent, rc), &err);

	int first = jobs_wait_one(call, agent, target.id, until_ns);
	for (uint64_t i = 1; i < target.array_count; i++) {
		int exit_code = jobs_wait_one(call, agent, target.id + i, until_ns);
		first = first == CMD_EXIT_OK ? exit_code : first;
	}

	return first;
}

/* The sets among the arguments, and then the numbers that none of them has. */
static int jobs_wait_set(const struct cmd_call *call, struct agent_call *agent,
			 struct job_select *select, uint64_t until_ns)
{
	const struct job_select_verb verb = {
	    .participle = "waited for", .can = "is there", .has_ended = true};
	int first = job_select_find(call, agent, &verb, select);
	if (!select->is_listed)
		return first;

	for (size_t i = 0; i < select->count; i++) {
		int exit_code = jobs_wait_one(call, agent, select->jobs[i].id, until_ns);
		first = first == CMD_EXIT_OK ? exit_code : first;
	}

	for (size_t i = 0; i < select->argument_count; i++) {
		const struct job_set_item *item = &select->items[i];
		if (select->is_found[i] || !job_set_is_single(item))
			continue;

		int exit_code = jobs_wait_for(call, agent, call->argv[i], until_ns);
		first = first == CMD_EXIT_OK ? exit_code : first;
	}

	return first;
}

static int jobs_wait_run(const struct cmd_call *call)
{
	const struct jobs_wait_options *options = call->options;
	_cleanup_job_select_ struct job_select select = {.count = 0};
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	int exit_code = job_select_read(call, &options->select, &select);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	struct err err = {0};
	const struct agent_call_options how = {
	    .socket = options->socket, .may_wake = true, .path = call->path};
	int rc = agent_call_open(&agent, &how, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(&agent, rc), &err);

	uint64_t until_ns = options->timeout_ns
				? clock_after_ns(loop_now_ns(agent.loop), options->timeout_ns)
				: UINT64_MAX;
	if (!select.is_plain)
		return jobs_wait_set(call, &agent, &select, until_ns);

	int first = CMD_EXIT_OK;
	for (int i = 0; i < call->argc; i++) {
		exit_code = jobs_wait_for(call, &agent, call->argv[i], until_ns);
		if (first == CMD_EXIT_OK)
			first = exit_code;
	}

	return first;
}

static const struct cmd_exit_row jobs_wait_exits[] = {
    {CMD_EXIT_OK, "all of them ended with 0"},
    {CMD_EXIT_FAILED,
     "the exit code of the first, in the order given (of a set by number), that did not"},
    {CMD_EXIT_USAGE, "wrong command line, or there is no such job"},
    {CMD_EXIT_DEADLINE, "--timeout is over"},
    {CMD_EXIT_UNAVAILABLE, "no agent answers"},
    {0},
};

const struct command jobs_wait = {
    .name = "wait",
    .summary = "Wait until jobs have ended",
    .run = jobs_wait_run,
    .options = jobs_wait_rows,
    .options_size = sizeof(struct jobs_wait_options),
    .positional = "[ID|RANGE|NAME...]",
    .positional_words = "@jobs",
    .positional_max = JOB_SELECT_ARGUMENTS_MAX,
    .exits = jobs_wait_exits,
};
