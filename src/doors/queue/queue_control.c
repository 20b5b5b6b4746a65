/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a supervisor says, and what is said to it. For speed and progress alone: what is true lies
 * in the job's files. The end of the connection says that the attempt may be over.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "doors/queue/queue_internal.h"

static void queue_control_read(int fd, unsigned events, void *context);

void queue_control_close(struct queue_run *run)
{
	run->watch = loop_fd_free(run->watch);
	if (run->control_fd >= 0)
		(void)close(run->control_fd);
	run->control_fd = -1;
}

/* Tries again, a little later each time. Who has no connection looks at the lock now and then. */
static void queue_control_later(struct queue_run *run)
{
	run->retry_ns = run->retry_ns == 0 ? CLOCK_NS_PER_MS : 2 * run->retry_ns;
	if (run->retry_ns > QUEUE_RETRY_MAX_NS)
		run->retry_ns = QUEUE_RETRY_MAX_NS;
	loop_timer_start(run->retry, run->retry_ns);
}

void queue_control_connect(struct queue_run *run)
{
	if (run->control_fd >= 0 || run->dir_fd < 0)
		return;

	_cleanup_close_ int fd = control_connect(run->dir_fd, NULL);
	if (fd >= 0)
		run->watch = loop_fd_new(run->owner->queue->options.loop, fd, LOOP_READ,
					 queue_control_read, run, NULL);

	if (!run->watch) {
		/* It does not listen yet, or it is gone. Without a child of ours nobody tells. */
		if (!run->child && run->retry_ns >= QUEUE_RETRY_MAX_NS / 4)
			run->look = true;
		queue_control_later(run);
		return;
	}

	run->control_fd = take_fd(&fd);
	run->retry_ns = 0;
	loop_timer_stop(run->retry);
	queue_control_cancel(run);
}

int queue_control_send(struct queue_run *run, uint32_t kind, int64_t value, uint64_t extra,
		       struct err *err)
{
	uint64_t id = run->owner->job.id;

	if (run->control_fd < 0)
		return err_set(err, -ESRCH, "job %" PRIu64 " does not run yet, or not any more",
			       id);

	const struct control_message message = {
	    .version = CONTROL_VERSION, .kind = kind, .value = value, .extra = extra};
	char packet[CONTROL_PACKET_MAX];
	size_t length = control_format(&message, packet);
	if (send(run->control_fd, packet, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return err_set(err, -errno, "telling the supervisor of job %" PRIu64 ": %s", id,
			       err_describe(errno));

	return 0;
}

/* The file says it to a supervisor that looks; this one ends what runs already. */
void queue_control_cancel(struct queue_run *run)
{
	if (!run->cancel_durable || run->cancel_sent || run->control_fd < 0)
		return;
	run->cancel_sent = queue_control_send(run, CONTROL_CANCEL, run->cancel_signo,
					      run->cancel_grace_ns, NULL) == 0;
	if (!run->cancel_sent)
		queue_control_later(run);
}

static void queue_copy_text(char *out, size_t size, const char *text)
{
	(void)snprintf(out, size, "%.*s", (int)size - 1, text); /* cut if need be */
}

/* "env: why no higher one" */
static void queue_hear_isolation(struct queue_run *run, const char *text)
{
	const char *colon = strstr(text, ": ");
	size_t length = colon ? (size_t)(colon - text) : strlen(text);
	(void)snprintf(run->isolation, sizeof(run->isolation), "%.*s", (int)length, text);
	queue_copy_text(run->isolation_reason, sizeof(run->isolation_reason),
			colon ? colon + 2 : "");
}

static void queue_hear(struct queue_run *run, const struct control_message *message)
{
	struct queue_job *job = run->owner;
	char text[64];

	switch (message->kind) {
	case CONTROL_HELLO:
		run->supervisor_pid = (pid_t)message->value;
		queue_hear_isolation(run, message->text);
		run->can_limit = message->extra & CONTROL_CAN_LIMIT;
		run->tells_limit |= !run->child; /* the last agent may not have come to it */
		queue_limit_tell(run);
		break;
	case CONTROL_TOKENS_BUSY:
		run->tokens_busy = true;
		queue_copy_text(run->trouble, sizeof(run->trouble), message->text);
		return;
	case CONTROL_CLAIMED:
		run->has_claim = true;
		queue_copy_text(run->cgroup, sizeof(run->cgroup), message->text);

		if (job->job.state == JOB_STARTING)
			queue_job_set_state(job, JOB_RUNNING, JOB_REASON_NONE, NULL);
		break;
	case CONTROL_STARTED:
		run->pid = (pid_t)message->value;
		job->job.started_unix_ns = (int64_t)message->extra;
		if (job->job.state == JOB_STARTING)
			queue_job_set_state(job, JOB_RUNNING, JOB_REASON_NONE, NULL);
		break;
	case CONTROL_ENDED:
		run->pid = 0;
		break;
	case CONTROL_LEFTOVERS:
	case CONTROL_STUCK:
		(void)snprintf(text, sizeof(text), "%" PRId64 " process%s left%s", message->value,
			       message->value == 1 ? "" : "es",
			       message->kind == CONTROL_STUCK ? " that do not die" : "");
		queue_job_set_state(job, JOB_STOPPING, JOB_REASON_NONE, text);
		break;
	case CONTROL_PORT:
		run->port = message->value > 0 && message->value <= UINT16_MAX
				? (uint32_t)message->value
				: 0;
		break;
	case CONTROL_USED:
		run->idle_since_ns = 0;
		return;
	case CONTROL_NO_ROOM:
		queue_job_set_why(job, JOB_STOPPING, JOB_REASON_STORAGE, NULL, message->text);
		break;
	default: /* of a later supervisor: what matters lies in the files */
		return;
	}
	queue_changed(job->queue);
}

/* The supervisor has ended, or does not want to talk any more. */
static void queue_control_lost(struct queue_run *run)
{
	queue_control_close(run);
	run->retry_ns = 0;
	run->cancel_sent = false; /* it may not have read it */
	/* Our own child as well: it has let go of the lock before, and takes its time to be gone.
	 */
	queue_look(run);
}

static void queue_control_read(int fd, unsigned events, void *context)
{
	struct queue_run *run = context;
	struct queue *queue = run->owner->queue;

	for (int i = 0; i < QUEUE_PACKETS_MAX; i++) {
		char packet[CONTROL_PACKET_MAX];
		ssize_t length = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (length <= 0) {
			queue_control_lost(run); /* may free the run */
			return;
		}

		struct control_message message;
		struct err err;

		if (control_parse(packet, (size_t)length, &message, &err) < 0) {
			log_write(queue->options.log, LOG_LEVEL_WARNING, NULL,
				  "supervisor of job %" PRIu64 ": %s", run->owner->job.id,
				  err.text);
			continue;
		}

		queue_hear(run, &message);
	}
}

int queue_signal(struct queue *queue, uint64_t id, int signo, struct err *err)
{
	struct queue_job *job = queue_job_find(queue, id);
	if (!job)
		return err_set(err, -ENOENT, "there is no job %" PRIu64 " that has not ended", id);
	if (!job->run || job->phase != QUEUE_LAUNCHED)
		return err_set(err, -ESRCH, "job %" PRIu64 " does not run yet", id);
	return queue_control_send(job->run, CONTROL_SIGNAL, signo, 0, err);
}
