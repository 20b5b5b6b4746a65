/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice attach`: sits down at the terminal of a job that runs. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/loop.h"
#include "cmd/service/agent_call.h"
#include "cmd/cmd.h"
#include "cmd/jobs/job_follow.h"
#include "cmd/jobs/job_target.h"
#include "cmd/jobs/job_terminal.h"
#include "cmd/jobs/job_text.h"
#include "cmd/options.h"
#include "cmd/jobs/terminal_link.h"
#include "sluice.pb-c.h"

#define ATTACH_PASS_NS UINT64_C(1000000000)

struct attach_options {
	const char *socket;
};

static const struct option_row attach_rows[] = {
    AGENT_CALL_SOCKET_ROW(struct attach_options),
    {0},
};

static const struct attach_options attach_defaults;

struct attach {
	const struct cmd_call *call;
	const struct attach_options *options;
	struct agent_call agent;
	const char *called; /* as the user calls it, "17" or "17.3"; borrowed */
	uint64_t id;
	struct job_follow *follow;
	struct job_terminal terminal;
	struct loop_signal *signals[3];
	bool over, failed, stopped;
};

static void attach_told(enum job_follow_event event, void *context)
{
	struct attach *attach = context;
	if (event == JOB_FOLLOW_CHANGED)
		job_terminal_look(&attach->terminal, job_follow_job(attach->follow));
	attach->over |= event == JOB_FOLLOW_DONE || event == JOB_FOLLOW_FAILED;
	attach->failed |= event == JOB_FOLLOW_FAILED;
}

static void attach_on_signal(void *context)
{
	((struct attach *)context)->stopped = true;
}

/* 0, or what keeps anybody from sitting there. */
static int attach_find(struct attach *attach, struct err *err)
{
	ProtobufCMessage *reply = NULL;
	Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
	struct job_target target;
	int rc = job_target_find(&attach->agent, attach->called, false, &target, err);
	if (rc < 0)
		return rc == -EINVAL ? -ESRCH : rc;

	attach->id = request.id = target.id;
	request.details = true;

	rc = agent_call_ask(&attach->agent, AGENT_GET, &request.base, &reply, err);
	if (rc < 0)
		return rc;

	const Sluice__V1__Job *job = (const Sluice__V1__Job *)reply;
	const char *path = job->attempt ? job->attempt->stdout_path : "";

	if (job_text_is_final(job->state))
		rc = err_set(err, -ESRCH,
			     "job %s has ended: 'sluice logs %s' shows what it has shown",
			     attach->called, attach->called);
	else if (!*path && job->state != SLUICE__V1__JOB_STATE__RUNNING)
		rc = err_set(err, -ESRCH, "job %s does not run yet", attach->called);
	else if (!*path)
		rc = err_set(err, -EPERM, "job %s is somebody else's", attach->called);
	else if (!terminal_link_is_there(path))
		rc = err_set(err, -ESRCH, "job %s has no terminal: it was not submitted with --pty",
			     attach->called);

	agent_call_free(reply);
	return rc;
}

static int attach_sit(struct attach *attach, struct err *err)
{
	static const int numbers[] = {SIGTERM, SIGHUP, SIGINT};
	const struct job_follow_options options = {.agent = &attach->agent,
						   .how = {.socket = attach->options->socket},
						   .id = attach->id,
						   .stdout_fd = -1,
						   .stderr_fd = -1,
						   .told = attach_told,
						   .context = attach};

	for (size_t i = 0; i < 3; i++) {
		attach->signals[i] =
		    loop_signal_new(attach->agent.loop, numbers[i], attach_on_signal, attach, err);
		if (!attach->signals[i])
			return err->code;
	}

	attach->terminal.loop = attach->agent.loop;
	attach->follow = job_follow_new(&options, err);
	if (!attach->follow)
		return err->code;

	while (!attach->over && !attach->stopped) {
		int rc = loop_pass(attach->agent.loop, ATTACH_PASS_NS, err);
		if (rc < 0)
			return rc;
		if (job_terminal_is_over(&attach->terminal, job_follow_job(attach->follow)))
			break;
	}

	return 0;
}

static int attach_end(struct attach *attach)
{
	const Sluice__V1__Job *job = job_follow_job(attach->follow);
	bool left = attach->terminal.has_left;

	job_terminal_end(&attach->terminal, NULL);
	if (attach->failed || !job) {
		const struct err *err = job_follow_error(attach->follow);
		return cmd_fail(attach->call, agent_call_exit_code(&attach->agent, err->code), err);
	}

	if (attach->over)
		return job_text_exit_code(job);

	fprintf(stderr, "%s: %s job %s; it goes on\n", attach->call->path,
		left ? "left" : "no longer at the terminal of", attach->called);
	return CMD_EXIT_OK;
}

static int attach_with(struct attach *attach)
{
	struct err err = {0};
	const struct agent_call_options how = {
	    .socket = attach->options->socket, .may_wake = true, .path = attach->call->path};
	int rc = agent_call_open(&attach->agent, &how, &err);
	if (rc == 0)
		rc = attach_find(attach, &err);

	if (rc == 0)
		rc = attach_sit(attach, &err);
	if (rc == 0)
		return attach_end(attach);

	job_terminal_end(&attach->terminal, NULL);
	int exit_code = rc == -ESRCH || rc == -ENOENT ? CMD_EXIT_USAGE
			: rc == -EPERM		      ? CMD_EXIT_NOT_PERMITTED
						      : agent_call_exit_code(&attach->agent, rc);
	return cmd_fail(attach->call, exit_code, &err);
}

static int attach_run(const struct cmd_call *call)
{
	struct attach *attach = calloc(1, sizeof(*attach));
	if (!attach) {
		struct err err;
		(void)err_set(&err, -ENOMEM, "no memory");
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	}

	attach->call = call;
	attach->options = call->options;
	(void)signal(SIGPIPE, SIG_IGN); /* the job's terminal is left, no more */
	attach->called = call->argv[0];

	int exit_code = job_text_id(attach->called, &attach->id) < 0
			    ? cmd_usage(call, "'%s' is no number of a job", call->argv[0])
			    : attach_with(attach);

	attach->follow = job_follow_free(attach->follow);
	for (size_t i = 0; i < 3; i++)
		attach->signals[i] = loop_signal_free(attach->signals[i]);

	agent_call_close(&attach->agent);
	free(attach);
	return exit_code;
}

static const struct cmd_exit_row attach_exits[] = {
    {CMD_EXIT_OK, "the terminal was left, and the job goes on; or the job ended, with 0"},
    {CMD_EXIT_USAGE, "wrong command line, there is no such job, it does not run, or it has no "
		     "terminal"},
    {CMD_EXIT_NOT_PERMITTED, "it is somebody else's job"},
    {128, "or any other: the exit code of the job, which has ended"},
    AGENT_CALL_EXITS,
};

static const struct cmd_example attach_examples[] = {
    {"sluice run -d --pty -- bash", "a shell on a GPU; prints the job's number"},
    {"sluice attach 17", "sits down there; Ctrl-] twice leaves it"},
    {0},
};

const struct command cmd_attach = {
    .name = "attach",
    .summary = "Sit down at the terminal of a job",
    .description =
	"Of a job that was submitted with 'sluice run --pty' and runs: what is typed goes to it, "
	"and what it shows is shown, beginning with the last 32 KiB of what it has shown before. "
	"When the job ends, so does this, with its exit code.\n\n"
	"Ctrl-] typed twice within a second leaves the job to itself; so does the end of this "
	"program, however it comes. Up to four may sit at the same terminal, and each sees all; "
	"one more takes the place of the one who came first.",
    .group = CMD_GROUP_JOBS,
    .run = attach_run,
    .options = attach_rows,
    .defaults = &attach_defaults,
    .options_size = sizeof(struct attach_options),
    .positional = "ID",
    .positional_words = "@jobs",
    .positional_min = 1,
    .positional_max = 1,
    .exits = attach_exits,
    .examples = attach_examples,
};
