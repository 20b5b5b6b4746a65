/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice cancel`: ends jobs, in whatever state they are. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/err.h"
#include "base/parse.h"
#include "cmd/service/agent_call.h"
#include "cmd/cmd.h"
#include "cmd/jobs/job_select.h"
#include "cmd/jobs/job_target.h"
#include "cmd/jobs/job_text.h"
#include "cmd/options.h"
#include "sluice.pb-c.h"

enum { CANCEL_SIGNAL_LAST = 31 };

#define CANCEL_GRACE_NOT_GIVEN UINT64_MAX

struct cancel_options {
	const char *signal, *socket;
	uint64_t grace_ns;
	bool now;
	struct job_select_options select;
};

static const struct option_row cancel_rows[] = {
    {.name = "signal",
     .letter = 's',
     .kind = OPTION_TEXT,
     .value = "SIGNAL",
     .help = "what its processes get first: TERM (default), INT, USR1, 2 ...",
     OPTION_FIELD(struct cancel_options, signal)},
    {.name = "grace",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "how long they may take to end before they are killed (default: as it was submitted)",
     OPTION_FIELD(struct cancel_options, grace_ns)},
    {.name = "now",
     .kind = OPTION_FLAG,
     .help = "kill at once",
     OPTION_FIELD(struct cancel_options, now)},
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     .help =
	 "do not say which jobs had ended already, or how many end; where nothing fits, it is no "
	 "error",
     OPTION_FIELD(struct cancel_options, select.quiet)},
    JOB_SELECT_ROWS(struct cancel_options),
    JOB_SELECT_YES_ROW(struct cancel_options),
    AGENT_CALL_SOCKET_ROW(struct cancel_options),
    {0},
};

static const struct cancel_options cancel_defaults = {.grace_ns = CANCEL_GRACE_NOT_GIVEN};

/* "TERM", "sigterm", "15". 0: no such signal. */
static int cancel_signal(const char *text)
{
	uint64_t number;
	if (parse_u64(text, 1, CANCEL_SIGNAL_LAST, &number) == 0)
		return (int)number;
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;

	for (int signo = 1; signo <= CANCEL_SIGNAL_LAST; signo++) {
		const char *name = sigabbrev_np(signo);
		if (name && strcasecmp(name, text) == 0)
			return signo;
	}

	return 0;
}

static int cancel_one(const struct cmd_call *call, struct agent_call *agent, const char *text,
		      void *context)
{
	const struct cancel_options *options = call->options;
	Sluice__V1__CancelRequest *request = context;
	struct err err = {0};
	ProtobufCMessage *message = NULL;
	struct job_target target;
	int rc = job_target_find(agent, text, false, &target, &err);
	if (rc == -EINVAL)
		return cmd_fail(call, CMD_EXIT_USAGE, &err);

	if (rc == 0) {
		request->id = target.id;
		request->member_alone = target.is_member;
		rc = agent_call_ask(agent, AGENT_CANCEL, &request->base, &message, &err);
	}

	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(agent, rc), &err);

	const Sluice__V1__CancelReply *reply = (const Sluice__V1__CancelReply *)message;
	if (reply->was_final && !options->select.quiet)
		fprintf(stderr, "%s: job %s has ended already: %s\n", call->path, text,
			job_text_state(reply->state));

	agent_call_free(message);
	return CMD_EXIT_OK;
}

static const Sluice__V1__JobState cancel_states[] = {
    SLUICE__V1__JOB_STATE__PENDING, SLUICE__V1__JOB_STATE__HELD, SLUICE__V1__JOB_STATE__STARTING,
    SLUICE__V1__JOB_STATE__RUNNING, SLUICE__V1__JOB_STATE__STOPPING};

static int cancel_run(const struct cmd_call *call)
{
	const struct cancel_options *options = call->options;
	Sluice__V1__CancelRequest request = SLUICE__V1__CANCEL_REQUEST__INIT;
	int signo = options->signal ? cancel_signal(options->signal) : 0;
	if (options->signal && signo == 0)
		return cmd_usage(call, "--signal '%s' is no signal such as TERM, USR1 or 15",
				 options->signal);

	if (options->now && options->grace_ns != CANCEL_GRACE_NOT_GIVEN)
		return cmd_usage(call, "--now and --grace exclude each other");

	request.signal = (uint32_t)signo;
	request.has_grace = options->now || options->grace_ns != CANCEL_GRACE_NOT_GIVEN;
	request.grace_ns = options->now || !request.has_grace ? 0 : options->grace_ns;

	_cleanup_job_select_ struct job_select select = {.count = 0};
	int exit_code = job_select_read(call, &options->select, &select);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	const struct agent_call_options how = {
	    .socket = options->socket, .may_wake = true, .path = call->path};
	struct err err = {0};
	int rc = agent_call_open(&agent, &how, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(&agent, rc), &err);

	const struct job_select_verb verb = {.infinitive = "cancel",
					     .participle = "cancelled",
					     .states = cancel_states,
					     .state_count = array_length(cancel_states),
					     .can = "waits or runs",
					     .may_be_over = true,
					     .one = cancel_one,
					     .context = &request};
	Sluice__V1__ActRequest act = SLUICE__V1__ACT_REQUEST__INIT;

	act.cancel = &request;
	return job_select_act(call, &agent, &verb, &select, &act);
}

static const struct cmd_exit_row cancel_exits[] = {
    {CMD_EXIT_OK, "they end now, or had ended already"},
    {CMD_EXIT_FAILED, "they stay: the answer at the terminal was no"},
    {CMD_EXIT_USAGE, "wrong command line, or there is no such job"},
    {CMD_EXIT_CANNOT_WRITE, "the agent cannot write its state"},
    AGENT_CALL_EXITS,
};

static const struct cmd_example cancel_examples[] = {
    {"sluice cancel 17", "asks it to end, and kills what is left of it after its grace time"},
    {"sluice cancel --signal INT --grace 5m 17 18", "gives them time to write a checkpoint"},
    {"sluice cancel --now 17", "kills all of it"},
    {"sluice cancel 20.3", "one member of the array 20; 'sluice cancel 20' cancels all of it"},
    {"sluice cancel 12-20 20.5-9 'train-*'",
     "a range, some members of an array, all of such names"},
    {"sluice cancel --all --state Pending", "all of one's own that have not started"},
    {0},
};

const struct command cmd_cancel = {
    .name = "cancel",
    .summary = "End jobs",
    .description =
	"Sends a signal to every process of each job, and SIGKILL to what still lives after the "
	"grace time. A job that waits leaves the queue. Returns when this is certain to happen, "
	"also if the machine crashes now; 'sluice jobs wait' waits for the end. A job that has "
	"ended already stays as it is.\n\nOne's own jobs only; root may cancel any. Where more "
	"than "
	"five jobs would end, it asks on a terminal.",
    .group = CMD_GROUP_JOBS,
    .run = cancel_run,
    .options = cancel_rows,
    .defaults = &cancel_defaults,
    .options_size = sizeof(struct cancel_options),
    .positional = "[ID|RANGE|NAME...]",
    .positional_words = "@jobs",
    .positional_max = JOB_SELECT_ARGUMENTS_MAX,
    .exits = cancel_exits,
    .examples = cancel_examples,
};
