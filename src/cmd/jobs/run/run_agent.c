/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `sluice run` asks of the agent: finds it or starts one, waits for one that is being
 * restarted, and submits a job to it, once, whatever happens to the connection.
 */
#include "cmd/jobs/run/run_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/paths.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "cmd/cmd.h"
#include "cmd/jobs/run/run_file.h"

#define RUN_SUBMIT_NS UINT64_C(30000000000) /* an agent that went away has so long to come back */
#define RUN_AGAIN_NS  UINT64_C(50000000)

static void run_on_closed(const struct err *why, void *context)
{
	(void)why;
	((struct run *)context)->lost = true;
}

/* The connection broke: whether the job was accepted is not known, and asking again is safe. */
static bool run_is_broken(const struct run *run, int rc)
{
	return rc == -ECONNRESET || rc == -ENOTCONN || rc == -EPIPE || rc == -ECONNREFUSED ||
	       rc == -ENOENT ||
	       (rc == -EREMOTEIO && run->lost && run->agent.result.status == WIRE_UNAVAILABLE);
}

int run_reconnect(struct run *run, int rc, bool asked, uint64_t *until_ns, struct err *err)
{
	if (*until_ns == 0)
		*until_ns = clock_after_ns(loop_now_ns(run->agent.loop), RUN_SUBMIT_NS);

	if (run->interrupts || run->stop_signal || loop_now_ns(run->agent.loop) > *until_ns) {
		if (asked)
			(void)err_set(err, rc,
				      "the agent at '%s' went away, and it is not known "
				      "whether it accepted the job: the same command with "
				      "--key %s asks again, and it does not run twice",
				      run->agent.socket, run->asked->key);

		return rc;
	}

	rc = loop_pass(run->agent.loop, RUN_AGAIN_NS, err);
	if (rc == 0) /* one that cannot be reached yet is tried again */
		(void)agent_call_reopen(&run->agent, &run->how, err);

	return rc;
}

static int run_submit(struct run *run, Sluice__V1__SubmitReply **out, struct err *err)
{
	uint64_t until_ns = 0; /* from when it went away */
	bool asked = false;

	for (;;) {
		ProtobufCMessage *reply = NULL;
		int rc = run->agent.client ? 0 : -ENOTCONN;

		if (rc == 0) {
			run->lost = false;
			asked = true;
			rc = agent_call_ask(&run->agent, AGENT_SUBMIT, &run->asked->message.base,
					    &reply, err);
		}

		*out = (Sluice__V1__SubmitReply *)reply;
		if (rc == 0 || !run_is_broken(run, rc))
			return rc;

		rc = run_reconnect(run, rc, asked, &until_ns, err);
		if (rc < 0)
			return rc;
	}
}

/* The machine's agent is being restarted, or somebody has stopped it. One of our own would be
 * another queue. 0 once it answers, else as agent_call_reopen(), or what ended the waiting. */
static int run_await_agent(struct run *run, struct err *err)
{
	const struct run_options *options = run->options;
	uint64_t wait_ns = options->wait_timeout_ns ? options->wait_timeout_ns : UINT64_MAX;
	uint64_t until_ns = clock_after_ns(loop_now_ns(run->agent.loop), wait_ns);
	int rc = run_watch_signals(run, err);

	if (rc == 0 && options->no_wait)
		return err_set(err, -EAGAIN,
			       "the machine's agent does not answer, and would have "
			       "to be waited for");

	if (rc == 0 && !options->quiet)
		run_say(run, "waiting for the machine's agent, which does not answer "
			     "('systemctl status sluice' says why); --own starts one of your own, "
			     "whose jobs stand in no order with those of others");

	while (rc == 0) {
		rc = loop_pass(run->agent.loop, RUN_AGAIN_NS, err);
		if (rc == 0 && (run->interrupts || run->stop_signal))
			return err_set(err, -EINTR, "nothing was submitted");
		if (rc == 0 && loop_now_ns(run->agent.loop) > until_ns)
			return err_set(err, -ETIMEDOUT,
				       "the machine's agent did not answer within "
				       "the time of --wait-timeout");
		if (rc < 0 || agent_call_reopen(&run->agent, &run->how, err) == 0)
			break;
	}

	return rc;
}

int run_exit_of(const struct run *run, int rc)
{
	if (run->stop_signal)
		return 128 + run->stop_signal;
	if (run->interrupts)
		return RUN_EXIT_INTERRUPTED;
	return rc == -EAGAIN ? (int)CMD_EXIT_WOULD_WAIT
			     : (int)agent_call_exit_code(&run->agent, rc);
}

int run_connect(struct run *run)
{
	struct err err = {0};

	if (run->agent.loop)
		return 0; /* it was before */

	bool may_start = run->options->socket == NULL && !run->options->dry_run;
	const char *socket = run->options->own ? AGENT_PATHS_OWN : run->options->socket;
	run->how = (struct agent_call_options){.socket = socket,
					       .may_start = may_start,
					       .path = run->options->quiet ? NULL : run->call->path,
					       .closed = run_on_closed,
					       .context = run};

	int rc = agent_call_open(&run->agent, &run->how, &err);
	/* One that died just now may come back: run_submit() waits for it. */
	if (rc == 0 || (run->agent.was_connected && run_is_broken(run, rc)))
		rc = run_watch_signals(run, &err);
	else if (run->agent.is_away && !run->options->dry_run)
		rc = run_await_agent(run, &err);
	else if (rc == -ECONNREFUSED && run->options->dry_run)
		(void)err_wrap(&err, "--dry-run starts none");

	return rc < 0 ? cmd_fail(run->call, run_exit_of(run, rc), &err) : 0;
}

int run_ask(struct run *run, const struct run_request *asked, const struct run_file *file,
	    size_t index, Sluice__V1__SubmitReply **out)
{
	struct err err = {0};
	int exit_code = run_connect(run);
	if (exit_code)
		return exit_code;

	run->asked = asked;
	int rc = run_submit(run, out, &err);
	if (rc == 0)
		return 0;

	if (file)
		run_file_blame(file, index, &err);

	return cmd_fail(run->call, run_exit_of(run, rc), &err);
}

int run_say_dry(const Sluice__V1__SubmitReply *reply)
{
	if (reply->reason[0]) {
		fputs("it would wait: ", stdout);
		cmd_print(stdout, reply->reason);
		fputc('\n', stdout);
	} else if (reply->gpus) {
		printf("it would start now, on %" PRIu32 " GPU%s\n", reply->gpus,
		       reply->gpus == 1 ? "" : "s");
	} else {
		puts("it would start now, without a GPU");
	}

	return CMD_EXIT_OK;
}
