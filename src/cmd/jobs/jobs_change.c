/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/jobs_change.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/service/agent_call.h"
#include "cmd/cmd.h"
#include "cmd/jobs/job_target.h"
#include "cmd/jobs/run_wants.h"
#include "cmd/options.h"
#include "job/moment.h"
#include "job/wants.h"
#include "sluice.pb-c.h"

enum { JOBS_CHANGE_MAX = 10000 };

#define JOBS_PRIORITY_NOT_GIVEN INT64_MIN

struct jobs_change_options {
	const char *socket;
	int64_t priority; /* of `set` alone, as the next */
	const char *begin;
	struct option_list environment;
};

static const struct option_row jobs_change_rows[] = {
    AGENT_CALL_SOCKET_ROW(struct jobs_change_options),
    {0},
};

static const struct option_row jobs_set_rows[] = {
    {.name = "priority",
     .kind = OPTION_I64,
     .value = "N",
     .help = "start before waiting jobs with a lower one; -100 to 100",
     .min = -WANTS_PRIORITY_MAX,
     .max = WANTS_PRIORITY_MAX,
     OPTION_FIELD(struct jobs_change_options, priority)},
    {.name = "begin",
     .kind = OPTION_TEXT,
     .value = "MOMENT",
     .help = "do not start it before this: " MOMENT_FORMS "; now: as soon as it can",
     OPTION_FIELD(struct jobs_change_options, begin)},
    {.name = "env",
     .letter = 'e',
     .kind = OPTION_LIST,
     .value = "NAME=VALUE",
     .help = "set a variable of a job that was not started yet; may be given again",
     OPTION_FIELD(struct jobs_change_options, environment)},
    AGENT_CALL_SOCKET_ROW(struct jobs_change_options),
    {0},
};

static const struct jobs_change_options jobs_change_defaults = {
    .priority = JOBS_PRIORITY_NOT_GIVEN,
};

static int jobs_change_open(const struct cmd_call *call, struct agent_call *agent)
{
	const struct jobs_change_options *options = call->options;
	struct err err = {0};
	const struct agent_call_options how = {
	    .socket = options->socket, .may_wake = true, .path = call->path};
	int rc = agent_call_open(agent, &how, &err);
	return rc < 0 ? cmd_fail(call, agent_call_exit_code(agent, rc), &err) : CMD_EXIT_OK;
}

static int jobs_change_one(const struct cmd_call *call, struct agent_call *agent, const char *text,
			   Sluice__V1__ChangeRequest *request)
{
	struct err err = {0};
	struct job_target target;
	int rc = job_target_find(agent, text, false, &target, &err);
	if (rc == -EINVAL)
		return cmd_fail(call, CMD_EXIT_USAGE, &err);

	if (rc == 0) {
		request->id = target.id;
		request->member_alone = target.is_member;
		rc = agent_call_ask(agent, AGENT_CHANGE, &request->base, NULL, &err);
	}

	return rc < 0 ? cmd_fail(call, agent_call_exit_code(agent, rc), &err) : CMD_EXIT_OK;
}

/* Asks for the same of each; all are asked for, whatever becomes of the others. */
static int jobs_change_all(const struct cmd_call *call, Sluice__V1__ChangeRequest *request)
{
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	int exit_code = jobs_change_open(call, &agent);
	int worst = exit_code;

	for (int i = 0; i < call->argc && exit_code == CMD_EXIT_OK; i++) {
		int one = jobs_change_one(call, &agent, call->argv[i], request);
		worst = one != CMD_EXIT_OK ? one : worst;
	}

	return worst;
}

static int jobs_hold_run(const struct cmd_call *call)
{
	Sluice__V1__ChangeRequest request = SLUICE__V1__CHANGE_REQUEST__INIT;
	request.hold = true;
	return jobs_change_all(call, &request);
}

static int jobs_release_run(const struct cmd_call *call)
{
	Sluice__V1__ChangeRequest request = SLUICE__V1__CHANGE_REQUEST__INIT;
	request.release = true;
	return jobs_change_all(call, &request);
}

static int jobs_retry_run(const struct cmd_call *call)
{
	Sluice__V1__ChangeRequest request = SLUICE__V1__CHANGE_REQUEST__INIT;
	request.retry = true;
	return jobs_change_all(call, &request);
}

static int jobs_set_run(const struct cmd_call *call)
{
	const struct jobs_change_options *options = call->options;
	Sluice__V1__ChangeRequest request = SLUICE__V1__CHANGE_REQUEST__INIT;
	size_t count = options->environment.count;

	request.has_priority = options->priority != JOBS_PRIORITY_NOT_GIVEN;
	request.has_begin = options->begin != NULL;
	if (!request.has_priority && !request.has_begin && count == 0)
		return cmd_usage(call, "nothing to set: --priority, --begin or --env says what");

	struct err err = {0};
	if (request.has_begin && run_wants_begin(options->begin, &request.begin_unix_ns, &err) < 0)
		return cmd_usage(call, "--begin: %s", err.text);

	request.priority = request.has_priority ? (int32_t)options->priority : 0;
	_cleanup_free_ ProtobufCBinaryData *list = calloc(count + 1, sizeof(*list));
	if (!list)
		return cmd_usage(call, "no memory for %zu variables", count);

	for (size_t i = 0; i < count; i++) {
		const char *text = options->environment.items[i];
		if (text[0] == '=' || !strchr(text, '='))
			return cmd_usage(call, "--env '%s' is not NAME=VALUE", text);
		list[i] = (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
	}

	request.environment = list;
	request.n_environment = count;
	return jobs_change_all(call, &request);
}

/* --- the queue as a whole -------------------------------------------------------------------- */

static int jobs_drain_to(const struct cmd_call *call, bool is_draining)
{
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	Sluice__V1__DrainRequest request = SLUICE__V1__DRAIN_REQUEST__INIT;
	struct err err = {0};
	int exit_code = jobs_change_open(call, &agent);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	request.is_draining = is_draining;
	int rc = agent_call_ask(&agent, AGENT_DRAIN, &request.base, NULL, &err);
	return rc < 0 ? cmd_fail(call, agent_call_exit_code(&agent, rc), &err) : CMD_EXIT_OK;
}

static int jobs_drain_run(const struct cmd_call *call)
{
	return jobs_drain_to(call, true);
}

static int jobs_resume_run(const struct cmd_call *call)
{
	return jobs_drain_to(call, false);
}

static int jobs_gc_run(const struct cmd_call *call)
{
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	Sluice__V1__CollectRequest request = SLUICE__V1__COLLECT_REQUEST__INIT;
	ProtobufCMessage *reply = NULL;
	struct err err = {0};
	int exit_code = jobs_change_open(call, &agent);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	int rc = agent_call_ask(&agent, AGENT_COLLECT, &request.base, &reply, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(&agent, rc), &err);

	printf("%" PRIu64 " jobs forgotten\n",
	       ((const Sluice__V1__CollectReply *)reply)->forgotten);
	agent_call_free(reply);
	return CMD_EXIT_OK;
}

/* --- the commands ---------------------------------------------------------------------------- */

static const struct cmd_exit_row jobs_change_exits[] = {
    {CMD_EXIT_OK, "it is done, and stays so whatever happens to the agent"},
    {CMD_EXIT_USAGE, "wrong command line, or there is no such job, or it has ended"},
    {CMD_EXIT_CANNOT_WRITE, "the agent cannot write its state"},
    {CMD_EXIT_WOULD_WAIT, "a job has been started, or is being cancelled"},
    AGENT_CALL_EXITS,
};

#define JOBS_CHANGE(name_, summary_, run_)                                                         \
	.name = name_, .summary = summary_, .run = run_, .options = jobs_change_rows,              \
	.defaults = &jobs_change_defaults, .options_size = sizeof(struct jobs_change_options),     \
	.exits = jobs_change_exits

const struct command jobs_hold = {
    JOBS_CHANGE("hold", "Keep waiting jobs from starting", jobs_hold_run),
    .positional = "ID...",
    .positional_words = "@jobs",
    .positional_min = 1,
    .positional_max = JOBS_CHANGE_MAX,
};

const struct command jobs_release = {
    JOBS_CHANGE("release", "Let held jobs start", jobs_release_run),
    .positional = "ID...",
    .positional_words = "@jobs",
    .positional_min = 1,
    .positional_max = JOBS_CHANGE_MAX,
};

const struct command jobs_retry = {
    JOBS_CHANGE("retry", "Run jobs again that have failed or were cancelled", jobs_retry_run),
    .positional = "ID...",
    .positional_words = "@jobs",
    .positional_min = 1,
    .positional_max = JOBS_CHANGE_MAX,
};

const struct command jobs_set = {
    .name = "set",
    .summary = "Change jobs that wait",
    .run = jobs_set_run,
    .options = jobs_set_rows,
    .defaults = &jobs_change_defaults,
    .options_size = sizeof(struct jobs_change_options),
    .exits = jobs_change_exits,
    .positional = "ID...",
    .positional_words = "@jobs",
    .positional_min = 1,
    .positional_max = JOBS_CHANGE_MAX,
};

const struct command jobs_drain = {
    JOBS_CHANGE("drain", "Finish what runs and start nothing", jobs_drain_run),
};

const struct command jobs_resume = {
    JOBS_CHANGE("resume", "Start jobs again after 'drain'", jobs_resume_run),
};

const struct command jobs_gc = {
    JOBS_CHANGE("gc", "Forget old jobs now", jobs_gc_run),
};
