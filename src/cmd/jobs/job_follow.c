/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_follow.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/loop.h"
#include "cmd/jobs/job_text.h"
#include "cmd/jobs/log_follow.h"
#include "cmd/jobs/log_pair.h"

enum job_follow_output { JOB_OUT, JOB_ERR, JOB_OUTPUTS };

/* One of the job's outputs, of the attempt that runs or ran. */
struct job_output {
	struct job_follow *job;
	struct log_follow *log; /* owned; NULL: not followed now */
	struct loop_task ended_task;
	int fd; /* borrowed; -1: not wanted */
	int result;
	bool is_remote, is_done, was_opened;
	uint32_t attempt; /* whose it is; 0: none yet */
	uint64_t offset;
};

struct job_follow {
	struct job_follow_options options;
	struct wire_client_call *watch, *control; /* of the agent's client */
	struct loop_timer *again;
	uint64_t again_ns;
	bool away, over, is_unordered, is_parted;

	Sluice__V1__Job *job; /* owned */
	struct job_output output[JOB_OUTPUTS];

	int signal; /* to be sent; 0: none */
	bool cancel, has_grace;
	uint64_t grace_ns;
	struct err err;
};

static void job_follow_watch(struct job_follow *follow);
static void job_follow_control(struct job_follow *follow);
static void job_follow_outputs(struct job_follow *follow);

static void job_follow_tell(struct job_follow *follow, enum job_follow_event event)
{
	if (follow->over)
		return;
	if (event == JOB_FOLLOW_DONE || event == JOB_FOLLOW_FAILED)
		follow->over = true;
	follow->options.told(event, follow->options.context);
}

static void job_follow_fail(struct job_follow *follow, int code, const char *text)
{
	(void)err_set(&follow->err, code, "%s", text);
	job_follow_tell(follow, JOB_FOLLOW_FAILED);
}

static bool job_follow_is_final(const struct job_follow *follow)
{
	return follow->job && job_text_is_final(follow->job->state);
}

static void job_follow_check_done(struct job_follow *follow)
{
	if (!job_follow_is_final(follow))
		return;
	for (int i = 0; i < JOB_OUTPUTS; i++)
		if (follow->output[i].fd >= 0 && !follow->output[i].is_done)
			return;
	job_follow_tell(follow, JOB_FOLLOW_DONE);
}

/* --- the agent comes and goes ----------------------------------------------------------------- */

/* The connection is of no use any more; its calls have ended or end with it. */
static void job_follow_lost(struct job_follow *follow)
{
	if (!follow->away) {
		follow->away = true;
		follow->again_ns = JOB_FOLLOW_AGAIN_FIRST_NS;
		job_follow_tell(follow, JOB_FOLLOW_AWAY);
	}
	if (!loop_timer_is_running(follow->again))
		loop_timer_start(follow->again, follow->again_ns);
}

static void job_follow_again(void *context)
{
	struct job_follow *follow = context;
	follow->again_ns = follow->again_ns * 2 < JOB_FOLLOW_AGAIN_LAST_NS
			       ? follow->again_ns * 2
			       : JOB_FOLLOW_AGAIN_LAST_NS;

	/* They go with the old connection, without a word. */
	follow->watch = follow->control = NULL;
	for (int i = 0; i < JOB_OUTPUTS; i++) {
		struct job_output *output = &follow->output[i];
		if (!output->log || !output->is_remote)
			continue;

		output->offset = log_follow_offset(output->log);
		log_follow_disconnect(output->log);
		output->log = log_follow_free(output->log);
	}

	struct err err = {0};
	if (agent_call_reopen(follow->options.agent, &follow->options.how, &err) < 0) {
		if (err.code == -EACCES)
			job_follow_fail(follow, err.code, err.text);
		else
			loop_timer_start(follow->again, follow->again_ns);
		return;
	}

	job_follow_watch(follow);
}

/* --- the job ---------------------------------------------------------------------------------- */

/* A copy of its own; NULL: no memory. */
static Sluice__V1__Job *job_follow_copy(const Sluice__V1__Job *job)
{
	size_t length = sluice__v1__job__get_packed_size(job);
	uint8_t *bytes = malloc(length + 1);
	if (!bytes)
		return NULL;

	(void)sluice__v1__job__pack(job, bytes); /* as many as it said */
	Sluice__V1__Job *copy = sluice__v1__job__unpack(NULL, length, bytes);

	free(bytes);
	return copy;
}

static void job_follow_on_job(const ProtobufCMessage *reply, void *context)
{
	struct job_follow *follow = context;
	Sluice__V1__Job *copy = job_follow_copy((const Sluice__V1__Job *)reply);
	if (!copy) {
		job_follow_fail(follow, -ENOMEM, "no memory for the news of a job");
		return;
	}

	agent_call_free(follow->job);
	follow->job = copy;
	if (follow->away) {
		follow->away = false;
		job_follow_tell(follow, JOB_FOLLOW_BACK);
	}

	follow->again_ns = JOB_FOLLOW_AGAIN_FIRST_NS;
	job_follow_tell(follow, JOB_FOLLOW_CHANGED);
	job_follow_control(follow);
	job_follow_outputs(follow);
	job_follow_check_done(follow);
}

static void job_follow_on_watch_end(const struct wire_result *result, void *context)
{
	struct job_follow *follow = context;
	follow->watch = NULL;
	if (follow->over || job_follow_is_final(follow))
		return;

	switch (result->status) {
	case WIRE_NOT_FOUND:
		job_follow_fail(follow, -ENOENT, result->message);
		return;
	case WIRE_PERMISSION_DENIED:
		job_follow_fail(follow, -EACCES, result->message);
		return;
	case WIRE_INVALID_ARGUMENT:
	case WIRE_UNIMPLEMENTED:
		job_follow_fail(follow, -EPROTO, result->message);
		return;
	default:
		job_follow_lost(follow);
		return;
	}
}

static void job_follow_watch(struct job_follow *follow)
{
	Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
	request.id = follow->options.id;
	request.details = true;

	const struct wire_client_callbacks callbacks = {
	    .message = job_follow_on_job, .end = job_follow_on_watch_end, .context = follow};
	struct err err = {0};

	follow->watch =
	    wire_client_call(follow->options.agent->client, agent_call_method(AGENT_WATCH_JOB),
			     &request.base, 0, &callbacks, &err);
	if (!follow->watch)
		job_follow_lost(follow);
}

/* --- its outputs ------------------------------------------------------------------------------ */

static void job_output_settle(void *context)
{
	struct job_output *output = context;
	struct job_follow *follow = output->job;

	output->offset = log_follow_offset(output->log);
	follow->is_unordered = follow->is_unordered || log_follow_is_unordered(output->log);
	output->log = log_follow_free(output->log);
	if (output->result == -ECONNRESET) { /* goes on with the next agent's first word */
		if (!follow->watch)
			job_follow_lost(follow);
		return;
	}

	output->is_done = true;
	if (output->result == -EPIPE)
		job_follow_tell(follow, JOB_FOLLOW_UNREAD);
	else if (output->result < 0 && output->result != -ENOENT)
		job_follow_tell(follow, JOB_FOLLOW_FAILED);

	job_follow_outputs(follow); /* the next attempt may run already */
	job_follow_check_done(follow);
}

/* Not freed where it stands: it is on its own stack. */
static void job_output_ended(int rc, const struct err *err, void *context)
{
	struct job_output *output = context;
	output->result = rc;
	if (rc < 0 && rc != -EPIPE && rc != -ECONNRESET && rc != -ENOENT && err)
		output->job->err = *err;
	loop_defer(output->job->options.agent->loop, &output->ended_task, job_output_settle,
		   output);
}

/* Both outputs as one; NULL: they are not here. */
static struct log_follow *job_output_open_pair(const struct job_output *output, const char *path,
					       const struct log_follow_options *options,
					       struct err *err)
{
	const struct job_follow *follow = output->job;
	const struct log_pair_options how = {.out_path = path,
					     .is_json = follow->options.is_json,
					     .job = follow->options.id,
					     .attempt = output->attempt};
	struct log_pair *pair = log_pair_new(&how, err);
	if (!pair)
		return NULL;

	bool is_first = !output->was_opened && follow->options.tail_lines != UINT32_MAX;
	if (is_first &&
	    log_pair_tail(pair, follow->options.tail_lines, job_follow_is_final(follow), err) < 0) {
		(void)log_pair_free(pair);
		return NULL;
	}

	return log_follow_pair(pair, options, err);
}

/* One after the other as they come, where nobody knows an order. */
static void job_follow_part(struct job_follow *follow)
{
	follow->options.is_merged = false;
	follow->is_parted = true;
	follow->output[JOB_ERR].fd = follow->output[JOB_OUT].fd;
}

/* From its file, else by way of the agent: it may lie where we cannot look. */
static void job_output_open(struct job_output *output, const char *path, bool is_stderr)
{
	struct job_follow *follow = output->job;
	const struct log_follow_options options = {.loop = follow->options.agent->loop,
						   .out_fd = output->fd,
						   .offset = output->offset,
						   .is_screen = follow->options.is_screen,
						   .ended = job_output_ended,
						   .context = output};
	struct err err = {0};

	output->is_remote = false;
	if (!path || !*path)
		output->log = NULL;
	else if (follow->options.is_merged)
		output->log = job_output_open_pair(output, path, &options, &err);
	else
		output->log = log_follow_file(path, &options, &err);

	output->was_opened = true;
	if (output->log || follow->away)
		return;

	if (follow->options.is_json) {
		job_follow_fail(follow, -EOPNOTSUPP,
				"--output json needs the job's files, and they are not here");
		return;
	}

	if (follow->options.is_merged)
		job_follow_part(follow);

	output->is_remote = true;
	output->log = log_follow_remote(follow->options.agent->client, follow->options.id,
					output->attempt, is_stderr, true, &options, &err);
	if (!output->log && !follow->watch)
		job_follow_lost(follow);
}

static bool job_follow_has_output(const Sluice__V1__Job *job)
{
	if (!job->attempt || job->attempt->number == 0)
		return false;
	return job->state == SLUICE__V1__JOB_STATE__RUNNING ||
	       job->state == SLUICE__V1__JOB_STATE__STOPPING || job_text_is_final(job->state);
}

/* The attempt that runs or ran; 0: none does, or what it wrote never was the command's. */
static uint32_t job_follow_attempt(const struct job_follow *follow)
{
	return job_follow_has_output(follow->job) ? follow->job->attempt->number : 0;
}

static void job_output_follow(struct job_output *output, bool is_stderr)
{
	const struct job_follow *follow = output->job;
	const Sluice__V1__Job *job = follow->job;
	uint32_t attempt = job_follow_attempt(follow);
	bool is_idle = !output->log && !output->ended_task.queued;

	/* An attempt that is followed by another, or will be. */
	bool is_over =
	    output->attempt != 0 && (attempt ? attempt != output->attempt
					     : job->state == SLUICE__V1__JOB_STATE__PENDING ||
						   job->state == SLUICE__V1__JOB_STATE__HELD);

	if (attempt && attempt != output->attempt && is_idle) {
		output->offset = output->attempt == 0 ? follow->options.offset : 0;
		output->attempt = attempt;
		output->is_done = output->result == -EPIPE; /* nobody reads */
		is_over = false;
	}

	if (attempt && is_idle && !output->is_done)
		job_output_open(output,
				is_stderr ? job->attempt->stderr_path : job->attempt->stdout_path,
				is_stderr);

	if (output->log && (is_over || job_text_is_final(job->state)))
		log_follow_finish(output->log);
	else if (job_text_is_final(job->state) && !attempt)
		output->is_done = true; /* it never ran */
}

static void job_follow_outputs(struct job_follow *follow)
{
	for (int i = 0; i < JOB_OUTPUTS; i++)
		if (follow->output[i].fd >= 0)
			job_output_follow(&follow->output[i], i == JOB_ERR);
}

/* --- what is said to it ----------------------------------------------------------------------- */

static void job_follow_on_control_end(const struct wire_result *result, void *context)
{
	struct job_follow *follow = context;
	follow->control = NULL;

	if (result->status == WIRE_OK) {
		follow->signal = 0;
		follow->cancel = false;
		return;
	}

	if (result->status == WIRE_UNAVAILABLE)
		return; /* the watch hears of it too, and asks again */
	if (follow->cancel) {
		job_follow_fail(follow, -EIO, result->message);
		return;
	}

	follow->signal = 0; /* nothing there that takes signals */
	job_follow_cancel(follow, false, 0);
}

static void job_follow_control(struct job_follow *follow)
{
	if (follow->over || follow->away || follow->control || !follow->job ||
	    job_follow_is_final(follow) || (!follow->signal && !follow->cancel))
		return;

	bool waits = follow->job->state == SLUICE__V1__JOB_STATE__PENDING ||
		     follow->job->state == SLUICE__V1__JOB_STATE__STARTING;
	if (waits)
		follow->cancel = true;

	Sluice__V1__SignalRequest signal = SLUICE__V1__SIGNAL_REQUEST__INIT;
	signal.id = follow->options.id;
	signal.signal = (uint32_t)follow->signal;

	Sluice__V1__CancelRequest cancel = SLUICE__V1__CANCEL_REQUEST__INIT;
	cancel.id = follow->options.id;
	cancel.has_grace = follow->has_grace;
	cancel.grace_ns = follow->grace_ns;

	const struct wire_client_callbacks callbacks = {.end = job_follow_on_control_end,
							.context = follow};
	struct err err = {0};

	follow->control = wire_client_call(
	    follow->options.agent->client,
	    agent_call_method(follow->cancel ? AGENT_CANCEL : AGENT_SIGNAL),
	    follow->cancel ? &cancel.base : &signal.base, AGENT_CALL_DEADLINE_NS, &callbacks, &err);
}

void job_follow_signal(struct job_follow *follow, int signo)
{
	follow->signal = signo;
	job_follow_control(follow);
}

void job_follow_cancel(struct job_follow *follow, bool has_grace, uint64_t grace_ns)
{
	if (follow->control) { /* the question before this one does not matter any more */
		wire_client_cancel(follow->control);
		follow->control = NULL;
	}

	follow->cancel = true;
	follow->has_grace = has_grace;
	follow->grace_ns = grace_ns;
	job_follow_control(follow);
}

/* --- life ------------------------------------------------------------------------------------- */

struct job_follow *job_follow_new(const struct job_follow_options *options, struct err *err)
{
	struct job_follow *follow = calloc(1, sizeof(*follow));
	if (!follow) {
		(void)err_set(err, -ENOMEM, "no memory to follow a job");
		return NULL;
	}

	follow->options = *options;
	follow->again_ns = JOB_FOLLOW_AGAIN_FIRST_NS;
	for (int i = 0; i < JOB_OUTPUTS; i++)
		follow->output[i] = (struct job_output){
		    .job = follow, .fd = i == JOB_ERR ? options->stderr_fd : options->stdout_fd};

	follow->again = loop_timer_new(options->agent->loop, job_follow_again, follow, err);
	if (!follow->again)
		return job_follow_free(follow);

	job_follow_watch(follow);
	return follow;
}

struct job_follow *job_follow_free(struct job_follow *follow)
{
	if (!follow)
		return NULL;

	for (int i = 0; i < JOB_OUTPUTS; i++) {
		struct job_output *output = &follow->output[i];
		loop_cancel(follow->options.agent->loop, &output->ended_task);
		output->log = log_follow_free(output->log);
	}

	if (follow->watch)
		wire_client_cancel(follow->watch);
	if (follow->control)
		wire_client_cancel(follow->control);
	follow->again = loop_timer_free(follow->again);
	agent_call_free(follow->job);
	free(follow);

	return NULL;
}

const Sluice__V1__Job *job_follow_job(const struct job_follow *follow)
{
	return follow->job;
}

bool job_follow_is_unordered(const struct job_follow *follow)
{
	return follow->is_unordered || (follow->is_parted && follow->output[JOB_OUT].offset > 0 &&
					follow->output[JOB_ERR].offset > 0);
}

const struct err *job_follow_error(const struct job_follow *follow)
{
	return &follow->err;
}
