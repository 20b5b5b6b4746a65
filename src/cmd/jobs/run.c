/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run`: gives a command to the agent and, unless told otherwise, stays with it: shows its
 * output, says what it waits for, passes Ctrl-C on, and exits as it did. The job does not need this
 * program: it goes on without it.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/paths.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "cmd/service/agent_call.h"
#include "cmd/cmd.h"
#include "cmd/jobs/job_follow.h"
#include "cmd/jobs/job_terminal.h"
#include "cmd/jobs/job_text.h"
#include "cmd/options.h"
#include "cmd/jobs/run_export.h"
#include "cmd/jobs/run_file.h"
#include "cmd/script/run_head.h"
#include "cmd/jobs/run_internal.h"
#include "cmd/jobs/run_job.h"
#include "cmd/jobs/run_lines.h"
#include "cmd/jobs/run_options.h"
#include "cmd/jobs/run_request.h"
#include "cmd/jobs/run_streams.h"
#include "cmd/table.h"
#include "job/indices.h"
#include "job/wants.h"
#include "sluice.pb-c.h"

#define RUN_SECOND_NS UINT64_C(2000000000)  /* a second Ctrl-C within this cancels */
#define RUN_SUBMIT_NS UINT64_C(30000000000) /* an agent that went away has so long to come back */
#define RUN_PASS_NS   UINT64_C(1000000000)
#define RUN_AGAIN_NS  UINT64_C(50000000)

enum {
	RUN_EXPORT_MAX = 4 << 20, /* bytes of a job that is shown */
};

static void run_call(struct run *run, uint64_t id)
{
	run->id = id;
	(void)snprintf(run->called, sizeof(run->called), "%" PRIu64, id); /* fits */
}

void run_say(const struct run *run, const char *format, ...)
{
	char text[2 * JOB_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments); /* cut where it is longer */
	va_end(arguments);
	fprintf(stderr, "%s: ", run->call->path);
	cmd_print(stderr, text);
	fputc('\n', stderr);
}

/* --- signals ---------------------------------------------------------------------------------- */

static void run_on_interrupt(void *context)
{
	struct run *run = context;
	uint64_t now_ns = loop_now_ns(run->agent.loop);
	bool again = run->interrupts > 0 && now_ns - run->interrupt_ns <= RUN_SECOND_NS;

	run->interrupts = again ? run->interrupts + 1 : 1;
	run->interrupt_ns = now_ns;
	if (!run->follow || run->is_array)
		return; /* the submission, or who follows, looks at it */
	if (!again)
		job_follow_signal(run->follow, SIGINT);
	else
		job_follow_cancel(run->follow, run->interrupts > 2, 0);

	if (run->interrupts == 2 && !run->options->quiet)
		run_say(run, "cancelling job %s (Ctrl-C again: kill it now)", run->called);
}

static void run_on_terminate(void *context)
{
	((struct run *)context)->stop_signal = SIGTERM;
}

static void run_on_hangup(void *context)
{
	((struct run *)context)->stop_signal = SIGHUP;
}

/* Who started us with a signal ignored (nohup, a script's background) wants it to stay so. */
static int run_watch_signal(struct run *run, int signo, loop_callback callback,
			    struct loop_signal **out, struct err *err)
{
	struct sigaction before;
	if (sigaction(signo, NULL, &before) == 0 && before.sa_handler == SIG_IGN)
		return 0;
	*out = loop_signal_new(run->agent.loop, signo, callback, run, err);
	return *out ? 0 : -ENOMEM;
}

static int run_watch_signals(struct run *run, struct err *err)
{
	/* Our end would not be the job's, but its exit code would be lost: not for a message that
	 * nobody reads. */
	(void)signal(SIGPIPE, SIG_IGN); /* cannot fail for this one */
	int rc = run_watch_signal(run, SIGINT, run_on_interrupt, &run->interrupt, err);
	if (rc == 0)
		rc = run_watch_signal(run, SIGTERM, run_on_terminate, &run->terminate, err);
	if (rc == 0)
		rc = run_watch_signal(run, SIGHUP, run_on_hangup, &run->hangup, err);

	return rc;
}

/* --- submitting ------------------------------------------------------------------------------- */

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

/* 0 or the exit code after an error was printed. */
static int run_connect(struct run *run)
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

/* --- while it runs ---------------------------------------------------------------------------- */

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

/* --- after it --------------------------------------------------------------------------------- */

/* False: it could not be written, which is said. */
static bool run_report(struct run *run, const Sluice__V1__Job *job)
{
	struct err err = {0};
	const char *path = run->options->report;
	int rc = path ? run_streams_report(&run->agent, path, job, &err) : 0;
	if (rc < 0)
		run_say(run, "the report was not written: %s", err.text);
	return rc == 0;
}

/* How it ended, where the exit code alone does not say it. */
static void run_say_end(const struct run *run, const Sluice__V1__Job *job)
{
	char reason[JOB_TEXT_MAX], time[JOB_TEXT_TIME_MAX];
	bool is_own = strcmp(job->reason, "ExitCode") == 0 || strcmp(job->reason, "Signal") == 0;

	(void)job_text_reason(job, reason);
	if (!is_own && reason[0])
		run_say(run, "job %s %s: %s", run->called,
			job->state == SLUICE__V1__JOB_STATE__CANCELLED	 ? "was cancelled"
			: job->state == SLUICE__V1__JOB_STATE__SUCCEEDED ? "succeeded"
									 : "failed",
			reason);

	if (!run->options->verbose || !job->attempt || job->attempt->started_unix_ns == 0)
		return;

	(void)job_text_duration(job_text_elapsed_ns(job, 0), time);
	if (job->signal)
		run_say(run, "job %s ran %s and was ended by signal %" PRIu32 " (%s)", run->called,
			time, job->signal, strsignal((int)job->signal));
	else
		run_say(run, "job %s ran %s and exited with %" PRId32, run->called, time,
			job->exit_code);

	if (job->attempt->killed_leftovers)
		run_say(run, "%" PRIu32 " process%s that it left had to be killed",
			job->attempt->killed_leftovers,
			job->attempt->killed_leftovers == 1 ? "" : "es");
}

/* Nobody of ours sits at its terminal any more. */
static int run_leave(struct run *run)
{
	job_terminal_end(&run->terminal, NULL);
	run_say(run, "%s job %s, which goes on: 'sluice attach %s' comes back",
		run->terminal.has_left ? "left" : "no longer at the terminal of", run->called,
		run->called);
	return CMD_EXIT_OK;
}

static int run_end(struct run *run)
{
	const Sluice__V1__Job *job = job_follow_job(run->follow);

	if (run->options->pty)
		job_terminal_end(&run->terminal, run->over && !run->failed ? job : NULL);

	if (run->stop_signal && !run->over) {
		run_say(run,
			"job %s goes on: 'sluice logs -f %s"
			"' shows its output, 'sluice cancel %s' ends it",
			run->called, run->called, run->called);
		return 128 + run->stop_signal;
	}

	if (run->failed || !job) {
		const struct err *err = job_follow_error(run->follow);
		return cmd_fail(run->call, agent_call_exit_code(&run->agent, err->code), err);
	}

	bool is_kept = run_report(run, job) && strcmp(job->reason, "OutputLost") != 0;
	bool ran = job->attempt && job->attempt->started_unix_ns != 0;
	bool cancelled = job->state == SLUICE__V1__JOB_STATE__CANCELLED;

	if (cancelled && !ran && run->gave_up) {
		run_say(run, "gave up waiting, job %s is cancelled", run->called);
		return run->options->no_wait ? CMD_EXIT_WOULD_WAIT : CMD_EXIT_DEADLINE;
	}

	run_say_end(run, job);
	if (cancelled && !job->has_exit && run->interrupts)
		return RUN_EXIT_INTERRUPTED;

	int exit_code = job_text_exit_code(job);

	return exit_code == CMD_EXIT_OK && !is_kept ? CMD_EXIT_CANNOT_WRITE : exit_code;
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

static int run_follow(struct run *run)
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

/* Waits for all members: the exit code of the first that failed. Their output would be mixed. */
static int run_follow_array(struct run *run, uint32_t count)
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

static int run_export_job(const struct run *run)
{
	struct err err = {0};
	_cleanup_buf_ struct buf text;

	buf_init(&text, RUN_EXPORT_MAX);
	int rc = run_export(&run->request, &text, &err);
	if (rc == -EINVAL)
		return cmd_usage(run->call, "%s", err.text);
	if (rc < 0)
		return cmd_fail(run->call, CMD_EXIT_FAILED, &err);

	fputs(buf_text(&text), stdout);
	return CMD_EXIT_OK;
}

static int run_with(struct run *run)
{
	struct err err = {0};
	int exit_code = run_head_take(run->call, &run->head);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	bool has_head = run->head.has_options;

	run->options = has_head ? &run->head.options : run->options;
	int rc = run_request_make(run->options, has_head ? run->head.argv : run->call->argv,
				  environ, &run->request, &err);
	if (rc == -EINVAL)
		return cmd_usage(run->call, "%s", err.text);
	if (rc < 0)
		return cmd_fail(run->call, CMD_EXIT_FAILED, &err);

	if (run->options->host || run->options->oversubscribe || run->options->worker_command)
		return cmd_usage(run->call, "%s is for jobs of a --file",
				 run->options->host	       ? "--host"
				 : run->options->oversubscribe ? "--oversubscribe"
							       : "--worker-command");

	if (run->options->export)
		return run_export_job(run);

	Sluice__V1__SubmitReply *reply = NULL;
	exit_code = run_ask(run, &run->request, NULL, 0, &reply);
	if (exit_code)
		return exit_code;

	run_call(run, reply->id);
	if (!run->options->dry_run && !run->options->pty && !run->options->quiet)
		run_streams_note_input(run->call->path);

	if (run->options->dry_run) {
		exit_code = run_say_dry(reply);
	} else if (run->options->detach) {
		run_streams_number(run->call->path, run->id);
	} else {
		if (run->options->verbose)
			run_say(run, "job %s%s", run->called,
				reply->known ? " was there already under this key" : "");

		exit_code = run->request.wants.array_count > 0
				? run_follow_array(run, run->request.wants.array_count)
				: run_follow(run);
	}

	agent_call_free(reply);
	return exit_code;
}

/* --- several jobs ----------------------------------------------------------------------------- */

int run_accepted(struct run *run, const Sluice__V1__SubmitReply *reply, uint32_t members)
{
	struct err err;

	run_streams_number(run->call->path, reply->id);
	if (run->accepted_count == run->accepted_room) {
		size_t room = run->accepted_room ? 2 * run->accepted_room : 16;
		struct run_accepted *grown = realloc(run->accepted, room * sizeof(*grown));
		if (!grown)
			return cmd_fail(
			    run->call, CMD_EXIT_FAILED,
			    (err_set(&err, -ENOMEM, "no memory to stay with the jobs"), &err));

		run->accepted = grown;
		run->accepted_room = room;
	}

	run->accepted[run->accepted_count++] =
	    (struct run_accepted){.id = reply->id, .members = members};
	return 0;
}

/* Shows one job after the other; the first exit code that is not 0 counts. */
static int run_follow_all(struct run *run)
{
	int exit_code = 0;

	for (size_t i = 0; i < run->accepted_count && !run->options->detach; i++) {
		uint32_t members = run->accepted[i].members;

		run->follow = job_follow_free(run->follow);
		run->wait_timer = loop_timer_free(run->wait_timer);
		run->over = run->failed = run->told_gpus = run->gave_up = false;
		run->is_array = run->is_cancelling = false;
		run->waits_for[0] = '\0';
		run_call(run, run->accepted[i].id);

		int one = members > 0 ? run_follow_array(run, members) : run_follow(run);
		exit_code = exit_code ? exit_code : one;
		if (run->stop_signal)
			return exit_code;

		run_lines_note(run, &run->accepted[i], one);
	}

	run_lines_tell(run);
	return exit_code;
}

static int run_show_dry(const struct run *run, const struct run_request *request,
			const Sluice__V1__SubmitReply *reply)
{
	struct err err;
	_cleanup_buf_ struct buf text;

	buf_init(&text, RUN_EXPORT_MAX);
	json_auto_t *json =
	    run_job_show(request, &text) == 0 ? json_loads(buf_text(&text), 0, NULL) : NULL;
	_cleanup_free_ char *pretty = table_json_dump(json);
	if (!pretty)
		return cmd_fail(run->call, CMD_EXIT_FAILED,
				(err_set(&err, -ENOMEM, "no memory to show the job"), &err));

	puts(pretty); /* what was not plain is escaped as JSON has it */
	return run_say_dry(reply);
}

/* What the agent would refuse is found before anything of the file is accepted. */
static int run_try_file(struct run *run, const struct run_file *file, struct run_job *jobs)
{
	int exit_code = 0;

	for (size_t i = 0, n = run_file_count(file); exit_code == 0 && n > 1 && i < n; i++) {
		Sluice__V1__SubmitReply *reply = NULL;
		jobs[i].request.message.dry_run = true;
		exit_code = run_ask(run, &jobs[i].request, file, i, &reply);
		jobs[i].request.message.dry_run = false;
		agent_call_free(reply);
	}

	return exit_code;
}

static int run_submit_file(struct run *run, const struct run_file *file, struct run_job *jobs)
{
	int exit_code = run->options->dry_run ? 0 : run_try_file(run, file, jobs);

	for (size_t i = 0; exit_code == 0 && i < run_file_count(file); i++) {
		Sluice__V1__SubmitReply *reply = NULL;
		exit_code = run_ask(run, &jobs[i].request, file, i, &reply);
		if (exit_code == 0 && run->options->dry_run)
			exit_code = run_show_dry(run, &jobs[i].request, reply);
		else if (exit_code == 0)
			exit_code = run_accepted(run, reply, run_file_members(file, i));

		agent_call_free(reply);
	}

	return exit_code ? exit_code : run_follow_all(run);
}

/* Everything in the file is understood before anything of it is asked for. */
static int run_with_file(struct run *run)
{
	struct err err = {0};
	struct run_file *file = NULL;

	if (run_file_check(run->options, run->call->argv, &err) < 0)
		return cmd_usage(run->call, "%s", err.text);

	int rc = run_file_load(run->options, &file, &err);
	size_t count = rc == 0 ? run_file_count(file) : 0, made = 0;
	struct run_job *jobs = calloc(count + 1, sizeof(*jobs));
	if (!jobs)
		rc = err_set(&err, -ENOMEM, "no memory for the jobs");

	while (rc == 0 && made < count) {
		rc = run_file_make(file, made, &jobs[made], &err);
		made++;
	}

	int exit_code = rc == 0		? 0
			: rc == -ENOMEM ? cmd_fail(run->call, CMD_EXIT_FAILED, &err)
					: cmd_fail(run->call, CMD_EXIT_DATA, &err);

	for (size_t i = 0; rc == 0 && i < count; i++)
		run_file_tell(file, i, run->call);

	if (rc == 0)
		exit_code = run_submit_file(run, file, jobs);

	for (size_t i = 0; i < made; i++)
		run_job_done(&jobs[i]);

	free(jobs);
	(void)run_file_free(file);
	return exit_code;
}

static int run_with_lines(struct run *run)
{
	struct err err = {0};
	struct run_lines *lines = NULL;
	int rc = run_lines_open(run->options, run->call->argv, &lines, &err);
	if (rc == -EINVAL)
		return cmd_usage(run->call, "%s", err.text);

	int exit_code = rc < 0 ? cmd_fail(run->call, CMD_EXIT_DATA, &err) : run_connect(run);

	if (exit_code == 0)
		exit_code = run_lines_send(run, lines);

	(void)run_lines_free(lines);
	if (exit_code || (!run->stop_signal && !run->interrupts))
		return exit_code ? exit_code : run_follow_all(run);
	if (run->accepted_count > 0 && !run->options->quiet)
		run_say(run, "no more lines are read; the jobs that were accepted go on");

	return run->stop_signal ? 128 + run->stop_signal : RUN_EXIT_INTERRUPTED;
}

static int run_run(const struct cmd_call *call)
{
	struct run *run = calloc(1, sizeof(*run));
	if (!run) {
		struct err err;
		(void)err_set(&err, -ENOMEM, "no memory");
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	}

	run->call = call;
	run->options = call->options;

	int exit_code = run->options->file    ? run_with_file(run)
			: run->options->lines ? run_with_lines(run)
					      : run_with(run);

	job_terminal_end(&run->terminal, NULL);
	run->follow = job_follow_free(run->follow);
	run->wait_timer = loop_timer_free(run->wait_timer);
	run->interrupt = loop_signal_free(run->interrupt);
	run->terminate = loop_signal_free(run->terminate);
	run->hangup = loop_signal_free(run->hangup);
	agent_call_close(&run->agent);
	run_request_done(&run->request);
	run_head_done(&run->head);
	free(run->accepted);
	free(run->failures);
	free(run);

	return exit_code;
}

static const struct cmd_exit_row run_exits[] = {
    {CMD_EXIT_OK, "the command exited with 0 (other codes below 64 are the command's own too)"},
    {CMD_EXIT_FAILED, "the command's own code; or it is not known how it ended, or something "
		      "failed here, which is then said"},
    {CMD_EXIT_USAGE, "wrong command line, or a GPU that does not exist"},
    {CMD_EXIT_DATA, "--key was used for another command; or the file of --file or --lines is "
		    "wrong, with its line"},
    {CMD_EXIT_UNAVAILABLE, "no agent answers and none could be started; one of the machine is "
			   "waited for"},
    {CMD_EXIT_CANNOT_WRITE, "the agent cannot write its state: nothing was accepted; or the "
			    "command exited with 0, and its output or the report was not kept; "
			    "or a job's number cannot be written: then it is said as an error"},
    {CMD_EXIT_WOULD_WAIT, "--no-wait, and it would have to wait; or a limit of this user is "
			  "reached"},
    {CMD_EXIT_NOT_PERMITTED, "the agent does not let this user do that"},
    {CMD_EXIT_IMPOSSIBLE, "more than this machine has"},
    {CMD_EXIT_DEADLINE, "--time or --wait-timeout is over, or the agent did not answer in time"},
    {CMD_EXIT_LAUNCH,
     "the job could not be launched; with --image also what podman or docker says of an "
     "image that it does not get"},
    {CMD_EXIT_NOT_EXECUTABLE, "the command cannot be executed"},
    {CMD_EXIT_NOT_FOUND, "there is no such command"},
    {128, "plus N: the command was ended by signal N; 130: cancelled by Ctrl-C while it waited; "
	  "143: cancelled by somebody else while it waited"},
    {0},
};

static const struct cmd_example run_examples[] = {
    {"sluice run -- python train.py", "on any one GPU, as soon as one is free"},
    {"sluice run --gpus 4 --name big -- torchrun --nproc-per-node 4 train.py",
     "on four at once, those that are best connected"},
    {"sluice run -d -- python train.py", "in the background; 'sluice logs -f' shows its output"},
    {"sluice run --share=1/2 -- python serve.py", "on half of a GPU that is shared"},
    {"sluice run --gpu-ids 3,5 -- ./bench", "on exactly these two"},
    {"sluice run --gpus 0 -- make -j8", "on none, and none visible"},
    {"sluice run -f job.yaml", "the jobs of a file, as kubectl takes it"},
    {"sluice run --lines commands.txt", "every line a job of its own"},
    {"sluice run --image debian:12 --gpus 2 -- nvidia-smi -L", "in a container with two GPUs"},
    {0},
};

const struct command cmd_run = {
    .name = "run",
    .summary = "Run a command on GPUs as soon as they are free",
    .description =
	"Gives the command to the agent, which starts it when as many GPUs are free as it needs, "
	"on those and no others (CUDA_VISIBLE_DEVICES, by UUID). All of them at once or none; "
	"users take turns, and of one user's jobs the first is served first. While it waits it "
	"says for what.\n\n"
	"Shows the command's output as it comes and exits with its exit code. The job does not "
	"need this program: when it is killed or its terminal is closed, the job goes on "
	"('sluice jobs', 'sluice logs', 'sluice cancel'). Its input is empty; a note says so when "
	"something is piped in.\n\n"
	"Ctrl-C sends SIGINT to the command, and cancels a job that waits; a second Ctrl-C within "
	"two seconds cancels in any case, a third one kills.\n\n"
	"If no agent answers, one is started in the background for this user; it ends by itself "
	"when there was nothing to do for ten minutes.",
    .group = CMD_GROUP_JOBS,
    .run = run_run,
    .options = run_rows,
    .defaults = &run_defaults,
    .options_size = sizeof(struct run_options),
    .positional = "[--] COMMAND [ARGUMENT...]",
    .positional_min = 0, /* an image may say what to run */
    .positional_max = CMD_ARGUMENTS_ANY,
    .takes_command = true,
    .exit_unwritten = CMD_EXIT_CANNOT_WRITE,
    .exits = run_exits,
    .examples = run_examples,
};
