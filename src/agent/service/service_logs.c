/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs: what a job has written, and what it writes until it ends. The job writes into a file of its
 * own; here it is only read, on the storage thread, for those who cannot read it themselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/paths.h"
#include "agent/service/service_internal.h"
#include "agent/users.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"

struct service_log {
	struct service_request request;
	struct storage_job job;
	struct loop_timer *pause; /* owned */
	uint64_t id, offset;
	uint32_t attempt; /* 0: the last one, when there is one */
	bool is_stderr, follow, is_found, was_ended, is_live;
	uid_t uid;
	uint32_t last_attempt;
	int fd; /* owned; -1: not opened yet. Storage thread while is_waiting */
	char path[FILE_PATH_MAX];
	size_t length; /* of data, not yet sent */
	char data[SERVICE_LOG_CHUNK];
};

static void service_log_read(struct service_log *log);

static void service_log_release(struct service_request *request)
{
	struct service_log *log = (struct service_log *)request;
	(void)loop_timer_free(log->pause);
	cleanup_close_fn(&log->fd);
}

/* Storage thread. The directory is ours and the job's user cannot put anything else in the file's
 * place; still, nothing but a plain file is read. */
static int service_log_work(void *context)
{
	struct service_log *log = context;
	if (log->fd < 0) {
		log->fd = open(log->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (log->fd < 0)
			return errno == ENOENT ? 0 : -errno;

		struct stat info;
		if (fstat(log->fd, &info) < 0 || !S_ISREG(info.st_mode))
			return -EINVAL;
	}

	ssize_t length = pread(log->fd, log->data, sizeof(log->data), (off_t)log->offset);
	if (length < 0)
		return -errno;

	log->length = (size_t)length;
	return 0;
}

/* Sends what was read; then goes on, waits for more, or ends. */
static void service_log_send(struct service_request *request)
{
	struct service_log *log = (struct service_log *)request;
	if (log->length > 0) {
		Sluice__V1__LogChunk chunk = SLUICE__V1__LOG_CHUNK__INIT;
		chunk.data.data = (uint8_t *)log->data;
		chunk.data.len = log->length;
		chunk.offset = log->offset;
		if (!service_request_send(request, &chunk.base))
			return;

		log->offset += log->length;
		log->length = 0;
		service_log_read(log);

		return;
	}

	if (log->follow && !log->was_ended)
		loop_timer_start(log->pause, SERVICE_FOLLOW_NS);
	else
		service_request_finish(request, WIRE_OK, NULL);
}

static void service_log_done(void *context, int rc)
{
	struct service_log *log = context;
	if (!service_request_answered(&log->request))
		return;

	if (rc < 0) {
		struct err err = {0};
		(void)err_set(&err, rc, "reading '%s': %s", log->path, err_describe(rc));
		service_request_fail(&log->request, &err);
		return;
	}

	service_log_send(&log->request);
}

/* Whether nothing more can come: seen before the file is read, so that its last bytes are not
 * missed. */
static bool service_log_is_ended(struct service_log *log)
{
	struct queue *queue = log->request.service->options.queue;
	const struct job *job = log->is_live ? queue_find(queue, log->id) : NULL;
	log->is_live = job != NULL;
	if (job)
		log->last_attempt = job->attempt;
	return !job || (log->attempt > 0 && log->attempt < job->attempt);
}

static void service_log_read(struct service_log *log)
{
	struct service *service = log->request.service;
	struct err err = {0};

	log->was_ended = service_log_is_ended(log);
	if (log->attempt == 0)
		log->attempt = log->last_attempt;
	if (log->attempt == 0) {
		service_log_send(&log->request); /* it was never started */
		return;
	}

	int rc = file_path(log->path, &err, "%s/j/%" PRIu64 "/%s.%" PRIu32,
			   service->options.paths->state_dir, log->id,
			   log->is_stderr ? "err" : "out", log->attempt);

	log->job = (struct storage_job){
	    .work = service_log_work, .done = service_log_done, .context = log};
	if (rc == 0) {
		service_request_wait(&log->request);
		rc = storage_submit(service->options.storage, &log->job, &err);
	}

	if (rc < 0) {
		log->request.is_waiting = false;
		service_request_fail(&log->request, &err);
	}
}

static void service_log_on_pause(void *context)
{
	service_log_read(context);
}

static void service_log_begin(struct service_log *log)
{
	struct service_request *request = &log->request;
	struct message_view view = service_view(request->service, request->call, true);
	struct err err = {0};

	if (message_view_owns(&view, log->uid)) {
		service_log_read(log);
		return;
	}

	(void)err_set(&err, -EPERM, "job %" PRIu64 " belongs to %s", log->id,
		      users_name(request->service->users, log->uid));
	service_request_fail(request, &err);
}

static void service_log_each(const struct job *job, const struct queue_attempt *attempt,
			     void *context)
{
	struct service_log *log = context;
	log->is_found = true;
	log->uid = job->uid;
	log->last_attempt = job->attempt;
}

static void service_log_found(int rc, const struct err *err, void *context)
{
	struct service_log *log = context;
	if (!service_request_answered(&log->request))
		return;

	struct err failure = {0};

	if (log->is_found) {
		service_log_begin(log);
		return;
	}

	if (rc < 0 && rc != -ENOENT && err)
		failure = *err;
	else
		(void)err_set(&failure, -ENOENT, "there is no job %" PRIu64, log->id);

	service_request_fail(&log->request, &failure);
}

void service_logs(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	const Sluice__V1__LogsRequest *asked = (const Sluice__V1__LogsRequest *)message;
	struct service *service = context;
	struct service_log *log = service_request_new(service, call, SERVICE_LOGS, sizeof(*log));
	if (!log)
		return;

	struct err err = {0};

	log->fd = -1;
	log->request.release = service_log_release;
	log->request.resume = service_log_send;
	log->id = asked->id;
	log->attempt = asked->attempt;
	log->is_stderr = asked->stderr;
	log->follow = asked->follow;
	log->offset = asked->offset;
	log->pause = loop_timer_new(service->options.loop, service_log_on_pause, log, &err);
	if (!log->pause || log->offset > INT64_MAX) {
		if (log->pause)
			(void)err_set(&err, -EINVAL, "no file is so long: %" PRIu64, log->offset);
		service_request_fail(&log->request, &err);
		return;
	}

	const struct job *job = queue_find(service->options.queue, log->id);
	if (job) {
		log->is_live = true;
		log->uid = job->uid;
		log->last_attempt = job->attempt;
		service_log_begin(log);
		return;
	}

	const struct queue_query query = {.id = log->id,
					  .uid = log->request.uid,
					  .max = 1,
					  .each = service_log_each,
					  .done = service_log_found,
					  .context = log};
	service_request_wait(&log->request);
	queue_query(service->options.queue, &query);
}
