/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum { APART_TICK_MS = 1000, APART_STOP_MS = 100, APART_STEP_MS = 10 };

_Static_assert(sizeof(struct checks_record) <= 4096, "PIPE_BUF: records are never mixed");

struct apart_child {
	pid_t pid; /* -1: not started, or reaped */
	int fd;	   /* owned: what it reports; -1: closed */
	size_t filled;
	uint64_t start_ns, heard_ns;
	union {
		struct checks_record record;
		unsigned char bytes[sizeof(struct checks_record)];
	} in;
};

/* --- the child's side ------------------------------------------------------------------------- */

static void apart_send(void *context, const struct checks_record *record)
{
	int fd = *(const int *)context;
	const unsigned char *at = (const unsigned char *)record;
	size_t left = sizeof(*record);

	while (left > 0) {
		ssize_t written = write(fd, at, left);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			_exit(1); /* nobody listens any more */
		at += written;
		left -= (size_t)written;
	}
}

static _Noreturn void apart_become(const struct apart_job *job, int fd)
{
	static const int signals[] = {SIGINT,  SIGTERM, SIGHUP, SIGPIPE, SIGSEGV,
				      SIGABRT, SIGBUS,	SIGILL, SIGFPE};
	struct err err = {.code = 0};
	const struct checks_sink sink = {.take = apart_send, .context = &fd};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setpgid(0, 0);

	for (size_t i = 0; i < array_length(signals); i++)
		(void)signal(signals[i], SIG_DFL);

	/* What a library prints must not get between what we print. */
	(void)dup2(STDERR_FILENO, STDOUT_FILENO);
	int rc = job->run(job->context, &sink, &err);
	if (rc < 0) {
		struct checks_record record = {.kind = CHECKS_ERROR, .number = (uint64_t)-rc};
		(void)snprintf(record.text, sizeof(record.text), "%.*s",
			       (int)sizeof(record.text) - 1, err.text);
		apart_send(&fd, &record);
	}

	_exit(0);
}

/* --- our side --------------------------------------------------------------------------------- */

static int apart_start(struct apart_child *child, const struct apart_job *job, struct err *err)
{
	const struct clock clock = {NULL};
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "starting a process for a check: pipe: %s",
			       err_describe(-errno));

	(void)fflush(NULL); /* or the child has it in its buffers, too */
	child->start_ns = child->heard_ns = clock_now_ns(&clock);
	child->pid = fork();
	if (child->pid < 0) {
		int code = -errno;
		(void)close(ends[0]);
		(void)close(ends[1]);
		return err_set(err, code, "starting a process for a check: fork: %s",
			       err_describe(code));
	}

	if (child->pid == 0) {
		(void)close(ends[0]);
		apart_become(job, ends[1]);
	}

	(void)setpgid(child->pid, child->pid); /* whoever of the two comes first */
	(void)close(ends[1]);
	child->fd = ends[0];

	return 0;
}

/* A child that went astray can have written anything. */
static bool apart_is_sound(struct checks_record *record)
{
	if (record->kind >= CHECKS_KIND_COUNT)
		return false;

	switch (record->kind) {
	case CHECKS_BEGIN:
	case CHECKS_END:
	case CHECKS_FACT: {
		struct check *check = &record->check;
		check->name[sizeof(check->name) - 1] = '\0';
		check->target[sizeof(check->target) - 1] = '\0';
		check->unit[sizeof(check->unit) - 1] = '\0';
		check->reason[sizeof(check->reason) - 1] = '\0';
		check->hint[sizeof(check->hint) - 1] = '\0';

		return (unsigned)check->status < CHECK_STATUS_COUNT;
	}

	case CHECKS_SAMPLE: {
		struct checks_sample *sample = &record->sample;
		sample->target[sizeof(sample->target) - 1] = '\0';
		sample->metric[sizeof(sample->metric) - 1] = '\0';
		sample->unit[sizeof(sample->unit) - 1] = '\0';
		return true;
	}
	case CHECKS_BLOB:
		return true;
	default:
		record->text[sizeof(record->text) - 1] = '\0';
		return true;
	}
}

static void apart_take(const struct apart *apart, uint32_t number, struct checks_record *record)
{
	struct apart_job *job = &apart->jobs[number];

	if (!apart_is_sound(record))
		return;

	record->job = number;
	if (record->kind == CHECKS_ERROR) {
		job->how = APART_FAILED;
		(void)err_set(&job->err, record->number < 4096 ? -(int)record->number : -EIO, "%s",
			      record->text);
		return;
	}

	apart->sink.take(apart->sink.context, record);
}

/* False: its end. */
static bool apart_read(const struct apart *apart, uint32_t number, struct apart_child *child)
{
	const struct clock clock = {NULL};
	ssize_t length = read(child->fd, child->in.bytes + child->filled,
			      sizeof(child->in.bytes) - child->filled);
	if (length < 0)
		return errno == EINTR || errno == EAGAIN;
	if (length == 0)
		return false;

	child->heard_ns = clock_now_ns(&clock);
	child->filled += (size_t)length;
	if (child->filled == sizeof(child->in.bytes)) {
		child->filled = 0;
		apart_take(apart, number, &child->in.record);
	}

	return true;
}

/* How it ended, waiting at most `wait_ms` for that. False: it is still there. */
static bool apart_reap(struct apart_job *job, struct apart_child *child, int wait_ms)
{
	int status = 0;

	for (int waited = 0;; waited += APART_STEP_MS) {
		pid_t gone = waitpid(child->pid, &status, WNOHANG);
		if (gone == child->pid || (gone < 0 && errno != EINTR))
			break;
		if (waited >= wait_ms)
			return false;

		(void)poll(NULL, 0, APART_STEP_MS);
	}

	child->pid = -1;
	if (job->how == APART_DONE && WIFSIGNALED(status)) {
		job->how = APART_KILLED;
		job->signal_number = WTERMSIG(status);
	} else if (job->how == APART_DONE && WEXITSTATUS(status) != 0) {
		job->how = APART_EXITED;
		job->code = WEXITSTATUS(status);
	}

	return true;
}

static void apart_end(struct apart_job *job, struct apart_child *child, enum apart_how how)
{
	if (job->how == APART_DONE)
		job->how = how;
	if (child->pid >= 0) {
		(void)kill(-child->pid, SIGKILL);
		job->is_left_behind = !apart_reap(job, child, APART_KILL_WAIT_MS);
	}

	if (child->fd >= 0)
		(void)close(child->fd);
	child->fd = -1;
	child->pid = -1;
}

/* What is due for those that still run; their number. */
static uint32_t apart_look(const struct apart *apart, struct apart_child *children,
			   struct pollfd *polls)
{
	const struct clock clock = {NULL};
	uint64_t now = clock_now_ns(&clock);
	bool is_stopped = apart->stop && *apart->stop;
	uint32_t running = 0;

	for (uint32_t i = 0; i < apart->count; i++) {
		struct apart_job *job = &apart->jobs[i];
		struct apart_child *child = &children[i];

		if (child->fd >= 0 && is_stopped)
			apart_end(job, child, APART_STOPPED);
		else if (child->fd >= 0 && (now - child->start_ns >= job->timeout_ns ||
					    now - child->heard_ns >= job->silence_ns))
			apart_end(job, child, APART_TIMED_OUT);

		polls[i] = (struct pollfd){.fd = child->fd, .events = POLLIN};
		running += child->fd >= 0;
	}

	return running;
}

/* Its pipe is closed: it has ended, or is about to. */
static void apart_close(struct apart_job *job, struct apart_child *child)
{
	(void)close(child->fd);
	child->fd = -1;
	if (!apart_reap(job, child, APART_EXIT_WAIT_MS))
		apart_end(job, child, APART_TIMED_OUT);
}

int apart_run(const struct apart *apart, struct err *err)
{
	const struct clock clock = {NULL};
	struct pollfd polls[APART_JOBS_MAX];
	uint64_t start_ns = clock_now_ns(&clock), ticked_ns = start_ns;
	_cleanup_free_ struct apart_child *children = calloc(apart->count + 1u, sizeof(*children));
	if (!children || apart->count > APART_JOBS_MAX)
		return err_set(err, -ENOMEM, "starting processes for checks: no memory");

	for (uint32_t i = 0; i < apart->count; i++)
		children[i] = (struct apart_child){.pid = -1, .fd = -1};

	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < apart->count; i++) {
		apart->jobs[i].how = APART_DONE;
		apart->jobs[i].err = (struct err){.code = 0};
		apart->jobs[i].is_left_behind = false;
		rc = apart_start(&children[i], &apart->jobs[i], err);
	}

	while (rc == 0 && apart_look(apart, children, polls) > 0) {
		int ready = poll(polls, apart->count, apart->stop ? APART_STOP_MS : APART_TICK_MS);
		for (uint32_t i = 0; ready > 0 && i < apart->count; i++)
			if (polls[i].fd >= 0 && polls[i].revents != 0 &&
			    !apart_read(apart, i, &children[i]))
				apart_close(&apart->jobs[i], &children[i]);

		uint64_t now = clock_now_ns(&clock);
		if (apart->tick && now - ticked_ns >= APART_TICK_MS * CLOCK_NS_PER_MS) {
			ticked_ns = now;
			apart->tick(apart->context, now - start_ns);
		}
	}

	for (uint32_t i = 0; rc < 0 && i < apart->count; i++)
		apart_end(&apart->jobs[i], &children[i], APART_STOPPED);

	return rc;
}

const char *apart_describe(const struct apart_job *job, char out[CHECKS_TEXT_MAX])
{
	const char *behind =
	    job->is_left_behind ? ", and it cannot be killed: the driver hangs" : "";
	const char *name = NULL;

	switch (job->how) {
	case APART_FAILED:
		(void)snprintf(out, CHECKS_TEXT_MAX, "%.*s", CHECKS_TEXT_MAX - 1, job->err.text);
		break;
	case APART_KILLED:
		name = sigabbrev_np(job->signal_number);
		(void)snprintf(out, CHECKS_TEXT_MAX, "it crashed: killed by SIG%s",
			       name ? name : "?");
		break;
	case APART_EXITED:
		(void)snprintf(out, CHECKS_TEXT_MAX, "it ended by itself, with exit code %d",
			       job->code);
		break;
	case APART_TIMED_OUT:
		(void)snprintf(out, CHECKS_TEXT_MAX, "no answer in time: ended%s", behind);
		break;
	case APART_STOPPED:
		(void)snprintf(out, CHECKS_TEXT_MAX, "stopped by a signal%s", behind);
		break;
	default:
		(void)snprintf(out, CHECKS_TEXT_MAX, "done");
	}

	return out;
}
