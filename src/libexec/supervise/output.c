/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/crash.h"
#include "base/err.h"
#include "job/jobdir.h"
#include "job/launch.h"
#include "libexec/supervise/copy.h"
#include "libexec/supervise/prepare.h"

enum output_tag {
	OUTPUT_OUT,
	OUTPUT_ERR,
	OUTPUT_COPY,
	OUTPUT_TIMER,
	OUTPUT_TERMINAL,
	OUTPUT_MORE, /* the first of them, and so on */
};

enum {
	OUTPUT_EVENTS = 16,
	OUTPUT_MORE_MAX = 2 * WANTS_WORKERS_MAX + 2,
	OUTPUT_FDS = 3,	       /* of each: pipe, file, null */
	OUTPUT_FDS_OTHER = 64, /* left to all else */
};

static int output_watch(const struct output *output, int fd, uint32_t tag, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u32 = tag};
	return epoll_ctl(output->events_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void output_forget(const struct output *output, int fd)
{
	(void)epoll_ctl(output->events_fd, EPOLL_CTL_DEL, fd, NULL); /* it was in */
}

/* The write end of a pipe whose other end `relay` reads, for a process of `launch`'s user. */
static int output_pipe(struct relay *relay, const struct launch *launch)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;

	_cleanup_close_ int read_fd = ends[0];
	_cleanup_close_ int write_fd = ends[1];

	if (fcntl(read_fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;

	(void)fcntl(read_fd, F_SETPIPE_SZ, RELAY_PIPE_BYTES); /* else as large as it is */
	/* So that the job may open /dev/stdout, which is this pipe. */
	if (geteuid() == 0 && fchown(write_fd, launch->spec.uid, launch->spec.gid) < 0)
		return -errno;

	relay->in_fd = take_fd(&read_fd);
	return take_fd(&write_fd);
}

static int output_open_events(struct output *output)
{
	output->events_fd = epoll_create1(EPOLL_CLOEXEC);
	output->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (output->events_fd < 0 || output->timer_fd < 0)
		return -errno;
	return output_watch(output, output->timer_fd, OUTPUT_TIMER, EPOLLIN);
}

/* splice(2) does not write to what is opened to append. */
static int output_take_file(struct relay *relay, int file_fd, uint64_t limit_bytes)
{
	int flags = fcntl(file_fd, F_GETFL);
	if (flags < 0 || fcntl(file_fd, F_SETFL, flags & ~O_APPEND) < 0)
		return -errno;
	return relay_init(relay, file_fd, limit_bytes);
}

/* A soft limit that was made for less. */
static void output_make_room(const struct output *output)
{
	struct rlimit limit;
	rlim_t wanted = OUTPUT_FDS * (rlim_t)(output->more_count + 1) + OUTPUT_FDS_OTHER;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max < wanted)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit); /* else what does not fit says so */
}

static int output_add_relay(struct output *output, int file_fd, const struct launch *launch,
			    uint64_t limit_bytes)
{
	if (output->more_count == OUTPUT_MORE_MAX)
		return -ENOSPC;

	struct relay **more =
	    reallocarray(output->more, output->more_count + 1, sizeof(*output->more));
	if (!more)
		return -ENOMEM;

	output->more = more;
	_cleanup_free_ struct relay *relay = calloc(1, sizeof(*relay));
	if (!relay)
		return -ENOMEM;

	int rc = output->events_fd < 0 ? output_open_events(output) : 0;
	if (rc == 0)
		rc = output_take_file(relay, file_fd, limit_bytes);
	if (rc < 0)
		return rc;

	_cleanup_close_ int end = output_pipe(relay, launch);
	rc = end < 0 ? end
		     : output_watch(output, relay->in_fd,
				    OUTPUT_MORE + (uint32_t)output->more_count, EPOLLIN);
	if (rc < 0) {
		relay->file_fd = -1; /* the caller's */
		relay_done(relay);
		return rc;
	}

	more[output->more_count++] = take_ptr(relay);
	return take_fd(&end);
}

void output_pair(struct output *output)
{
	size_t count = output->more_count;
	if (count >= 2)
		output->more[count - 2]->notes = output->more[count - 1];
}

int output_add(struct output *output, int job_fd, const struct launch *launch, const char *prefix,
	       uint64_t limit_bytes, struct err *err)
{
	_cleanup_close_ int file_fd = prepare_output(job_fd, launch, prefix, err);
	if (file_fd < 0)
		return file_fd;
	if (limit_bytes == 0)
		return take_fd(&file_fd);

	output_make_room(output);
	int rc = output_add_relay(output, file_fd, launch, limit_bytes);
	if (rc < 0)
		return err_set(err, rc, "making what '%s' of the job goes through: %s", prefix,
			       err_describe(rc));

	(void)take_fd(&file_fd);
	return rc;
}

static int output_open_pipes(struct output *output, const struct launch *launch, int *out_fd,
			     int *err_fd)
{
	_cleanup_close_ int out_end = output_pipe(&output->out, launch);
	if (out_end < 0)
		return out_end;

	_cleanup_close_ int err_end = output_pipe(&output->err, launch);
	if (err_end < 0)
		return err_end;

	int rc = output_watch(output, output->out.in_fd, OUTPUT_OUT, EPOLLIN);
	if (rc == 0)
		rc = output_watch(output, output->err.in_fd, OUTPUT_ERR, EPOLLIN);
	if (rc < 0)
		return rc;

	*out_fd = take_fd(&out_end);
	*err_fd = take_fd(&err_end);
	return 0;
}

/* Both outputs of a job with a terminal are that. */
static int output_open_terminal(struct output *output, int job_fd, const struct launch *launch,
				int *out_fd, int *err_fd)
{
	_cleanup_close_ int out_end = -1;
	int rc = terminal_open(&output->terminal, job_fd, launch, &output->out, &out_end, NULL);
	if (rc < 0)
		return rc;

	_cleanup_close_ int err_end = fcntl(out_end, F_DUPFD_CLOEXEC, 0);
	if (err_end < 0)
		return -errno;

	rc = output_watch(output, output->terminal.events_fd, OUTPUT_TERMINAL, EPOLLIN);
	if (rc < 0)
		return rc;

	*out_fd = take_fd(&out_end);
	*err_fd = take_fd(&err_end);
	return 0;
}

/* The files stay the caller's. */
static void output_undo(struct output *output, int job_fd)
{
	output->out.file_fd = output->err.file_fd = -1;
	output_done(output, job_fd);
}

int output_open(struct output *output, int job_fd, const struct launch *launch, int *out_fd,
		int *err_fd, struct err *err)
{
	const struct spec *spec = &launch->spec;

	*output = OUTPUT_NONE;
	if (launch->log_bytes == 0 && !spec->output[0] && !spec->pty)
		return 0;

	int files[2] = {*out_fd, *err_fd};
	int rc = output_open_events(output);
	if (rc == 0)
		rc = output_take_file(&output->out, files[0], launch->log_bytes);
	if (rc == 0)
		rc = output_take_file(&output->err, files[1], launch->log_bytes);
	output->out.notes = &output->err;

	if (rc == 0)
		rc = spec->pty ? output_open_terminal(output, job_fd, launch, out_fd, err_fd)
			       : output_open_pipes(output, launch, out_fd, err_fd);

	if (rc < 0) {
		output_undo(output, job_fd);
		return err_set(err, rc, "making %s: %s",
			       spec->pty ? "the job's terminal"
					 : "what the job's output goes through",
			       err_describe(rc));
	}

	crash_point("supervisor.output_opened");
	return 1;
}

void output_copy(struct output *output, const struct launch *launch, int err_fd)
{
	struct err err = {0};

	if (output->events_fd < 0 || !launch->spec.output[0])
		return;

	int fd = -1;
	/* Who had the job's terminal open would keep it from being closed, which ends the copy. */
	int error_fd = launch->spec.pty ? output->err.file_fd : err_fd;
	pid_t pid = copy_start(&launch->spec, error_fd, &fd, &err);
	if (pid < 0) {
		relay_say(&output->err, err.text);
		output->out.has_lost_copy = true;
		return;
	}

	crash_point("supervisor.copy_started");
	output->out.copy_fd = fd;
	output->copy = pid;
}

/* --- while it runs ---------------------------------------------------------------------------- */

static void output_set_timer(const struct output *output, uint64_t after_ns)
{
	struct itimerspec when = {.it_value = {.tv_sec = (time_t)(after_ns / CLOCK_NS_PER_S),
					       .tv_nsec = (long)(after_ns % CLOCK_NS_PER_S)}};
	(void)timerfd_settime(output->timer_fd, 0, &when, NULL); /* cannot fail with these */
}

static void output_block(struct output *output)
{
	output_forget(output, output->out.in_fd);
	(void)output_watch(output, output->out.copy_fd, OUTPUT_COPY, EPOLLOUT);
	output_set_timer(output, OUTPUT_COPY_NS);
	output->is_blocked = true;
}

static void output_unblock(struct output *output)
{
	if (output->out.copy_fd >= 0)
		output_forget(output, output->out.copy_fd);
	output_set_timer(output, 0);
	(void)output_watch(output, output->out.in_fd, OUTPUT_OUT, EPOLLIN);
	output->is_blocked = false;
}

static void output_ready(void *context, short revents)
{
	struct output *output = context;
	struct epoll_event events[OUTPUT_EVENTS];
	int count = epoll_wait(output->events_fd, events, OUTPUT_EVENTS, 0);

	for (int i = 0; i < count; i++) {
		uint32_t tag = events[i].data.u32;
		if (tag >= OUTPUT_MORE) {
			(void)relay_move(output->more[tag - OUTPUT_MORE]);
			continue;
		}

		switch ((enum output_tag)tag) {
		case OUTPUT_MORE: /* above */
			break;
		case OUTPUT_OUT: /* one that is closed leaves the set by itself */
			if (relay_move(&output->out) == RELAY_BLOCKED)
				output_block(output);
			break;
		case OUTPUT_ERR:
			(void)relay_move(&output->err);
			break;
		case OUTPUT_TERMINAL:
			terminal_serve(&output->terminal);
			break;
		case OUTPUT_COPY:
			if (output->is_blocked)
				output_unblock(output);
			break;
		case OUTPUT_TIMER:
			if (!output->is_blocked)
				break;

			output_forget(output, output->out.copy_fd);
			relay_lose_copy(&output->out);
			relay_say(&output->err, "the copy of the output was given up: nothing "
						"could be written there for 5 seconds");
			output_unblock(output);
			break;
		}
	}
}

struct watch_source output_source(struct output *output)
{
	return (struct watch_source){
	    .fd = output->events_fd, .events = POLLIN, .ready = output_ready, .context = output};
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Somebody whom the job gave the pipe may write for ever: what is there now is taken. */
static void output_drain(struct relay *relay)
{
	if (relay->in_fd >= 0 && relay_move(relay) == RELAY_BLOCKED) {
		relay_lose_copy(relay); /* nobody is left who could wait for it */
		(void)relay_move(relay);
	}
}

static uint32_t output_lost_of(const struct relay *relay)
{
	return (relay->is_cut ? (uint32_t)JOBDIR_LOST_CUT : 0) |
	       (relay->was_full ? (uint32_t)JOBDIR_LOST_FULL : 0);
}

static void output_done_more(struct output *output)
{
	for (size_t i = 0; i < output->more_count; i++) {
		output_drain(output->more[i]);
		output->more_lost |= output_lost_of(output->more[i]);
	}

	/* One may have its notes in another one's file. */
	for (size_t i = 0; i < output->more_count; i++)
		if (output->more[i]->notes)
			relay_done(output->more[i]);

	for (size_t i = 0; i < output->more_count; i++) {
		relay_done(output->more[i]);
		free(output->more[i]);
	}

	free(take_ptr(output->more));
	output->more_count = 0;
}

void output_done(struct output *output, int job_fd)
{
	terminal_done(&output->terminal, job_fd);
	if (output->out.file_fd >= 0)
		output_drain(&output->out);
	if (output->err.file_fd >= 0)
		output_drain(&output->err);
	relay_done(&output->out);
	relay_done(&output->err);
	output_done_more(output);

	if (output->events_fd >= 0)
		(void)close(take_fd(&output->events_fd));
	if (output->timer_fd >= 0)
		(void)close(take_fd(&output->timer_fd));
}

uint32_t output_lost(const struct output *output, bool copy_failed)
{
	uint32_t lost =
	    output_lost_of(&output->out) | output_lost_of(&output->err) | output->more_lost;
	if (output->out.has_lost_copy || copy_failed)
		lost |= JOBDIR_LOST_COPY;

	return lost;
}
