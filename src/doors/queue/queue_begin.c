/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that are not to start before a moment of the wall clock. The kernel wakes us then, also when
 * somebody sets the clock or the machine has slept meanwhile: nothing is counted in loop time.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "doors/queue/queue_internal.h"
#include "job/moment.h"

bool queue_begin_waits(const struct job *job, int64_t now_unix_ns, int64_t *next_unix_ns)
{
	int64_t begin_unix_ns = (int64_t)job->wants.begin_unix_ns; /* fits: the schema says so */

	if (begin_unix_ns <= now_unix_ns)
		return false;

	if (begin_unix_ns < *next_unix_ns)
		*next_unix_ns = begin_unix_ns;
	return true;
}

void queue_begin_text(const struct job *job, char out[JOB_REASON_MAX])
{
	char shown[MOMENT_SHOWN_MAX];
	(void)snprintf(out, JOB_REASON_MAX, "%s",
		       moment_format((int64_t)job->wants.begin_unix_ns, shown));
}

static void queue_begin_come(int fd, unsigned events, void *context)
{
	uint64_t count;
	/* ECANCELED: the clock was set, and a pass looks at it anew. */
	if (read(fd, &count, sizeof(count)) >= 0 || errno == ECANCELED)
		queue_kick(context);
}

static bool queue_begin_open(struct queue *queue)
{
	if (queue->begin_watch)
		return true;

	_cleanup_close_ int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fd >= 0)
		queue->begin_watch =
		    loop_fd_new(queue->options.loop, fd, LOOP_READ, queue_begin_come, queue, NULL);
	if (!queue->begin_watch)
		return false;

	queue->begin_fd = take_fd(&fd);
	return true;
}

void queue_begin_arm(struct queue *queue, int64_t next_unix_ns)
{
	struct itimerspec at = {.it_value.tv_sec = 0};
	bool is_never = next_unix_ns == INT64_MAX;

	if (is_never && !queue->begin_watch)
		return;

	if (!is_never) {
		at.it_value.tv_sec = next_unix_ns / (int64_t)CLOCK_NS_PER_S;
		at.it_value.tv_nsec = next_unix_ns % (int64_t)CLOCK_NS_PER_S;
	}

	if (!queue_begin_open(queue) ||
	    timerfd_settime(queue->begin_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &at,
			    NULL) < 0)
		loop_timer_start(queue->backoff_timer, QUEUE_RETRY_MAX_NS); /* looks again then */
}

void queue_begin_done(struct queue *queue)
{
	queue->begin_watch = loop_fd_free(queue->begin_watch);
	if (queue->begin_fd >= 0)
		(void)close(queue->begin_fd);
	queue->begin_fd = -1;
}
