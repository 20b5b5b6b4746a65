/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/jobs_change.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "cmd/service/agent_call.h"
#include "cmd/cmd.h"
#include "cmd/jobs/job_select.h"
#include "cmd/jobs/job_target.h"
#include "cmd/jobs/run/run_wants.h"
#include "cmd/options.h"
#include "job/moment.h"
#include "job/wants.h"
#include "sluice.pb-c.h"

#define JOBS_PRIORITY_NOT_GIVEN INT64_MIN

struct jobs_change_options {
	const char *socket;
	struct job_select_options select; /* of those that change jobs */
	int64_t priority;		  /* of `set` and `prio` alone */
	const char *begin, *time;
	struct option_list environment;
};

#define JOBS_CHANGE_SELECT_ROWS                                                                    \
	JOB_SELECT_ROWS(struct jobs_change_options),                                               \
	    JOB_SELECT_YES_ROW(struct jobs_change_options),                                        \
	    JOB_SELECT_QUIET_ROW(struct jobs_change_options),                                      \
	    AGENT_CALL_SOCKET_ROW(struct jobs_change_options)

static const struct option_row jobs_select_rows[] = {
    JOBS_CHANGE_SELECT_ROWS,
    {0},
};

static const struct option_row jobs_prio_rows[] = {
    {.name = "priority",
     .letter = 'p',
     .kind = OPTION_I64,
     .value = "N",
     .help = "start before waiting jobs with a lower one; -100 to 100, above 0 for administrators",
     .min = -WANTS_PRIORITY_MAX,
     .max = WANTS_PRIORITY_MAX,
     .required = true,
     OPTION_FIELD(struct jobs_change_options, priority)},
    JOBS_CHANGE_SELECT_ROWS,
    {0},
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
    {.name = "time",
     .letter = 't',
     .kind = OPTION_TEXT,
     .value = "[+|-]TIME",
     .help =
	 "how long a job that waits or runs may run in all, or how much longer (+1h) or shorter "
	 "(-30m); with no other option",
     OPTION_FIELD(struct jobs_change_options, time)},
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
    JOBS_CHANGE_SELECT_ROWS,
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
			   void *context)
{
	Sluice__V1__ChangeRequest *request = context;
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

static const Sluice__V1__JobState jobs_waiting[] = {SLUICE__V1__JOB_STATE__PENDING,
						    SLUICE__V1__JOB_STATE__HELD};
static const Sluice__V1__JobState jobs_limited[] = {
    SLUICE__V1__JOB_STATE__PENDING, SLUICE__V1__JOB_STATE__HELD, SLUICE__V1__JOB_STATE__RUNNING};
static const Sluice__V1__JobState jobs_pending[] = {SLUICE__V1__JOB_STATE__PENDING};
static const Sluice__V1__JobState jobs_held[] = {SLUICE__V1__JOB_STATE__HELD};
static const Sluice__V1__JobState jobs_failed[] = {SLUICE__V1__JOB_STATE__FAILED,
						   SLUICE__V1__JOB_STATE__CANCELLED};

#define JOBS_VERB(infinitive_, participle_, states_, can_)                                         \
	{                                                                                          \
		.infinitive = infinitive_, .participle = participle_, .states = (states_),         \
		.state_count = array_length(states_), .can = can_, .one = jobs_change_one          \
	}

static const struct job_select_verb jobs_verb_hold =
    JOBS_VERB("hold", "held", jobs_pending, "waits and is not held");
static const struct job_select_verb jobs_verb_release =
    JOBS_VERB("release", "released", jobs_held, "is held");
static const struct job_select_verb jobs_verb_retry =
    JOBS_VERB("retry", "begun anew", jobs_failed, "has failed or was cancelled");
static const struct job_select_verb jobs_verb_limit =
    JOBS_VERB("limit", "limited", jobs_limited, "waits or runs");
static const struct job_select_verb jobs_verb_set =
    JOBS_VERB("change", "changed", jobs_waiting, "waits");

/* Asks for the same of each; all are asked for, whatever becomes of the others. */
static int jobs_change_all(const struct cmd_call *call, const struct job_select_verb *what,
			   Sluice__V1__ChangeRequest *request)
{
	const struct jobs_change_options *options = call->options;
	_cleanup_job_select_ struct job_select select = {.count = 0};
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	Sluice__V1__ActRequest act = SLUICE__V1__ACT_REQUEST__INIT;
	struct job_select_verb verb = *what;
	int exit_code = job_select_read(call, &options->select, &select);

	if (exit_code == CMD_EXIT_OK)
		exit_code = jobs_change_open(call, &agent);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	verb.by_user = request->retry;
	verb.by_one = request->n_environment > 0;
	verb.context = request;
	act.change = request;
	return job_select_act(call, &agent, &verb, &select, &act);
}

static int jobs_hold_run(const struct cmd_call *call)
{
	Sluice__V1__ChangeRequest request = SLUICE__V1__CHANGE_REQUEST__INIT;
	request.hold = true;
	return jobs_change_all(call, &jobs_verb_hold, &request);
}

static int jobs_release_run(const struct cmd_call *call)
{
	Sluice__V1__ChangeRequest request = SLUICE__V1__CHANGE_REQUEST__INIT;
	request.release = true;
	return jobs_change_all(call, &jobs_verb_release, &request);
}

static int jobs_retry_run(const struct cmd_call *call)
{
	Sluice__V1__ChangeRequest request = SLUICE__V1__CHANGE_REQUEST__INIT;
	request.retry = true;
	return jobs_change_all(call, &jobs_verb_retry, &request);
}

static int jobs_prio_run(const struct cmd_call *call)
{
	const struct jobs_change_options *options = call->options;
	Sluice__V1__ChangeRequest request = SLUICE__V1__CHANGE_REQUEST__INIT;
	request.has_priority = true;
	request.priority = (int32_t)options->priority;
	return jobs_change_all(call, &jobs_verb_set, &request);
}

/* "2h", "+1h", "-30m". */
static int jobs_set_time(const char *text, Sluice__V1__ChangeRequest *request, struct err *err)
{
	bool has_sign = text[0] == '+' || text[0] == '-';

	request->limit = text[0] == '+'	  ? SLUICE__V1__LIMIT_CHANGE__LIMIT_MORE
			 : text[0] == '-' ? SLUICE__V1__LIMIT_CHANGE__LIMIT_LESS
					  : SLUICE__V1__LIMIT_CHANGE__LIMIT_SET;
	if (parse_duration(text + has_sign, 1, INT64_MAX, &request->limit_ns) < 0)
		return err_set(err, -EINVAL,
			       "--time '%.40s' is no time: expected 2h, +1h30m or -30m, or seconds",
			       text);
	return 0;
}

static int jobs_set_run(const struct cmd_call *call)
{
	const struct jobs_change_options *options = call->options;
	Sluice__V1__ChangeRequest request = SLUICE__V1__CHANGE_REQUEST__INIT;
	size_t count = options->environment.count;

	request.has_priority = options->priority != JOBS_PRIORITY_NOT_GIVEN;
	request.has_begin = options->begin != NULL;
	struct err err = {0};

	if (options->time && (request.has_priority || request.has_begin || count > 0))
		return cmd_usage(call, "--time is set by itself: leave out %s",
				 request.has_priority ? "--priority"
				 : request.has_begin  ? "--begin"
						      : "--env");
	if (options->time && jobs_set_time(options->time, &request, &err) < 0)
		return cmd_usage(call, "%s", err.text);
	if (options->time)
		return jobs_change_all(call, &jobs_verb_limit, &request);

	if (!request.has_priority && !request.has_begin && count == 0)
		return cmd_usage(call,
				 "nothing to set: --priority, --time, --begin or --env says what");

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
	return jobs_change_all(call, &jobs_verb_set, &request);
}

/* --- the queue as a whole -------------------------------------------------------------------- */

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
    {CMD_EXIT_FAILED, "they stay: the answer at the terminal was no"},
    {CMD_EXIT_USAGE, "wrong command line, or there is no such job, or it has ended"},
    {CMD_EXIT_CANNOT_WRITE, "the agent cannot write its state"},
    {CMD_EXIT_WOULD_WAIT, "a job has been started, or is being cancelled"},
    AGENT_CALL_EXITS,
};

#define JOBS_CHANGE(name_, summary_, run_)                                                         \
	.name = name_, .summary = summary_, .run = run_, .options = jobs_change_rows,              \
	.defaults = &jobs_change_defaults, .options_size = sizeof(struct jobs_change_options),     \
	.exits = jobs_change_exits

#define JOBS_SET(name_, summary_, run_, rows_)                                                     \
	.name = name_, .summary = summary_, .run = run_, .options = rows_,                         \
	.defaults = &jobs_change_defaults, .options_size = sizeof(struct jobs_change_options),     \
	.exits = jobs_change_exits, .positional = "[ID|RANGE|NAME...]",                            \
	.positional_words = "@jobs", .positional_max = JOB_SELECT_ARGUMENTS_MAX

const struct command jobs_hold = {
    JOBS_SET("hold", "Keep waiting jobs from starting", jobs_hold_run, jobs_select_rows),
};

const struct command jobs_release = {
    JOBS_SET("release", "Let held jobs start", jobs_release_run, jobs_select_rows),
};

const struct command jobs_retry = {
    JOBS_SET("retry", "Run jobs again that have failed or were cancelled", jobs_retry_run,
	     jobs_select_rows),
};

const struct command jobs_prio = {
    JOBS_SET("prio", "Change the priority of jobs that wait", jobs_prio_run, jobs_prio_rows),
};

const struct command jobs_set = {
    JOBS_SET("set", "Change jobs that wait, or the limit of jobs that run", jobs_set_run,
	     jobs_set_rows),
};

const struct command jobs_gc = {
    JOBS_CHANGE("gc", "Forget old jobs now", jobs_gc_run),
};
