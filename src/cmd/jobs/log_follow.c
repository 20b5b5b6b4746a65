/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/log_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/screen.h"
#include "cmd/jobs/log_pair.h"
#include "cmd/service/agent_call.h"
#include "sluice.pb-c.h"

enum {
	/* What is read at once becomes, and the end of it. */
	LOG_FOLLOW_SHOWN_MAX = LOG_FOLLOW_READ * SCREEN_GROWTH + SCREEN_END_MAX,
};

struct log_follow {
	struct log_follow_options options;
	char path[LOG_FOLLOW_PATH_MAX];
	uint64_t offset; /* of buffer's end in the file */

	int fd, inotify_fd;    /* owned; -1 */
	struct log_pair *pair; /* owned; NULL: it is one file, or comes from the agent */
	struct loop_fd *notices, *writable;
	struct loop_timer *timer; /* the next turn, or the next look */
	struct wire_client_call *call;
	bool finishing, ended;
	uint64_t young_ms; /* to the next look, while the kernel is not asked to tell */

	size_t begin, length; /* what is in the buffer and not shown yet */
	char buffer[LOG_FOLLOW_READ];

	/* For a terminal: the same as it is shown, from `shown_begin` on. */
	struct screen screen;
	struct buf shown;
	size_t shown_begin;
};

static void log_follow_end(struct log_follow *follow, int rc, const struct err *err)
{
	if (follow->ended)
		return;
	follow->ended = true;
	loop_timer_stop(follow->timer);
	follow->notices = loop_fd_free(follow->notices);
	follow->writable = loop_fd_free(follow->writable);
	follow->options.ended(rc, err, follow->options.context);
}

static void log_follow_fail(struct log_follow *follow, int code, const char *what)
{
	struct err err = {0};
	(void)err_set(&err, code, "%s '%s': %s", what, follow->path, err_describe(code));
	log_follow_end(follow, code, &err);
}

/*
 * Writes what the reader takes now. The descriptor is shared with others, so it is not ours to make
 * non-blocking: it is asked first and given no more than a pipe that is ready takes at once.
 * Bytes written, 0 when it takes none, or -errno.
 */
static ssize_t log_follow_write(int fd, const char *data, size_t length)
{
	struct stat info;
	struct pollfd ready = {.fd = fd, .events = POLLOUT};

	if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
		if (poll(&ready, 1, 0) == 0)
			return 0;
		if (length > LOG_FOLLOW_WRITE)
			length = LOG_FOLLOW_WRITE;
	}

	ssize_t written = write(fd, data, length);
	if (written < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;

	return written < 0 ? -errno : written;
}

static void log_follow_turn(void *context);

static void log_follow_on_writable(int fd, unsigned events, void *context)
{
	struct log_follow *follow = context;
	(void)fd;
	(void)events;
	follow->writable = loop_fd_free(follow->writable);
	log_follow_turn(follow);
}

/* Waits until the reader takes more. */
static void log_follow_wait_writable(struct log_follow *follow)
{
	struct err err = {0};
	if (!follow->writable)
		follow->writable = loop_fd_new(follow->options.loop, follow->options.out_fd,
					       LOOP_WRITE, log_follow_on_writable, follow, &err);
	if (!follow->writable) /* not to be waited for, or no memory: look again */
		loop_timer_start(follow->timer, LOG_FOLLOW_POLL_MS * CLOCK_NS_PER_MS);
}

static int log_follow_fail_write(struct log_follow *follow, int code)
{
	struct err err = {0};
	(void)err_set(&err, code, "cannot write the output: %s", err_describe(code));
	log_follow_end(follow, code, &err);
	return code;
}

/* Shows these bytes. 1: all of them, 0: the reader is waited for, -errno: it ended. */
static int log_follow_show_part(struct log_follow *follow, const char *data, size_t *begin,
				size_t *length)
{
	while (*length > 0) {
		ssize_t written = log_follow_write(follow->options.out_fd, data + *begin, *length);
		if (written == 0) {
			log_follow_wait_writable(follow);
			return 0;
		}

		if (written < 0)
			return log_follow_fail_write(follow, (int)written);

		*begin += (size_t)written;
		*length -= (size_t)written;
	}

	return 1;
}

/* Makes of bytes what a terminal may get, after what is to be shown already. */
static int log_follow_prepare(struct log_follow *follow, const char *data, size_t length)
{
	if (follow->shown_begin == follow->shown.length) {
		buf_clear(&follow->shown);
		follow->shown_begin = 0;
	}
	int rc = screen_show(&follow->screen, data, length, &follow->shown);
	return rc < 0 ? log_follow_fail_write(follow, rc) : 0;
}

static int log_follow_show_screen(struct log_follow *follow)
{
	size_t length = follow->shown.length - follow->shown_begin;
	return log_follow_show_part(follow, follow->shown.data, &follow->shown_begin, &length);
}

/* Shows what is in the buffer, as above. */
static int log_follow_show(struct log_follow *follow)
{
	if (!follow->options.is_screen)
		return log_follow_show_part(follow, follow->buffer, &follow->begin,
					    &follow->length);

	if (follow->length > 0) {
		int rc = log_follow_prepare(follow, follow->buffer, follow->length);
		if (rc < 0)
			return rc;
		follow->length = 0;
	}

	return log_follow_show_screen(follow);
}

/* What was held back of the last bytes. As above. */
static int log_follow_show_rest(struct log_follow *follow)
{
	if (!follow->options.is_screen)
		return 1;
	int rc = screen_end(&follow->screen, &follow->shown);
	return rc < 0 ? log_follow_fail_write(follow, rc) : log_follow_show_screen(follow);
}

static void log_follow_on_notice(int fd, unsigned events, void *context)
{
	struct log_follow *follow = context;
	char drop[1024] __attribute__((aligned(__alignof__(struct inotify_event))));
	(void)events;
	while (read(fd, drop, sizeof(drop)) > 0)
		;
	if (!follow->writable) /* else it goes on when the reader does */
		log_follow_turn(follow);
}

/* Whoever cannot be told by the kernel looks more often. */
static void log_follow_listen(struct log_follow *follow)
{
	follow->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (follow->inotify_fd < 0)
		return;
	if (follow->pair)
		log_pair_watch(follow->pair, follow->inotify_fd);
	else if (inotify_add_watch(follow->inotify_fd, follow->path, IN_MODIFY) < 0)
		return;

	follow->notices = loop_fd_new(follow->options.loop, follow->inotify_fd, LOOP_READ,
				      log_follow_on_notice, follow, NULL);
}

/*
 * When to look again. To end an inotify instance waits for a grace period of the kernel, some ten
 * milliseconds: a job that is short is over before one is made.
 */
static uint64_t log_follow_next_look_ms(struct log_follow *follow)
{
	if (follow->young_ms < LOG_FOLLOW_LISTEN_MS) {
		uint64_t wait_ms = follow->young_ms;
		follow->young_ms *= 2;
		return wait_ms;
	}

	if (follow->inotify_fd < 0) {
		log_follow_listen(follow);
		return LOG_FOLLOW_POLL_MS; /* what came before it listened */
	}

	bool is_stuck = follow->pair && log_pair_is_stuck(follow->pair);
	return follow->notices && !is_stuck ? LOG_FOLLOW_SURE_MS : LOG_FOLLOW_POLL_MS;
}

/* What comes next, into the buffer. As read(), or -errno. */
static ssize_t log_follow_read(struct log_follow *follow)
{
	if (follow->pair)
		return log_pair_read(follow->pair, follow->finishing, follow->buffer,
				     sizeof(follow->buffer));

	ssize_t got =
	    pread(follow->fd, follow->buffer, sizeof(follow->buffer), (off_t)follow->offset);
	return got < 0 ? -errno : got;
}

/* Shows what there is, a limited part of it in each turn. */
static void log_follow_turn(void *context)
{
	struct log_follow *follow = context;
	size_t done = 0;

	if (follow->ended)
		return;

	for (;;) {
		if (log_follow_show(follow) <= 0)
			return;
		if (done >= LOG_FOLLOW_TURN) {
			loop_timer_start(follow->timer, 0);
			return;
		}

		ssize_t got = log_follow_read(follow);
		if (got == -EINTR)
			continue;
		if (got < 0) {
			log_follow_fail(follow, (int)got, "cannot read");
			return;
		}

		if (got == 0)
			break;

		follow->begin = 0;
		follow->length = (size_t)got;
		follow->offset += (uint64_t)got;
		done += (size_t)got;
	}

	if (follow->finishing && log_follow_show_rest(follow) <= 0)
		return; /* the rest of it is shown in another turn, or it has ended */

	if (follow->finishing)
		log_follow_end(follow, 0, NULL);
	else
		loop_timer_start(follow->timer, log_follow_next_look_ms(follow) * CLOCK_NS_PER_MS);
}

static struct log_follow *log_follow_new(const struct log_follow_options *options, struct err *err)
{
	struct log_follow *follow = calloc(1, sizeof(*follow));
	if (!follow) {
		(void)err_set(err, -ENOMEM, "no memory to follow an output");
		return NULL;
	}

	follow->options = *options;
	follow->offset = options->offset;
	follow->fd = follow->inotify_fd = -1;
	follow->young_ms = LOG_FOLLOW_YOUNG_MS;
	buf_init(&follow->shown, LOG_FOLLOW_SHOWN_MAX);
	follow->timer = loop_timer_new(options->loop, log_follow_turn, follow, err);

	return follow->timer ? follow : log_follow_free(follow);
}

struct log_follow *log_follow_file(const char *path, const struct log_follow_options *options,
				   struct err *err)
{
	struct stat info;

	if (strlen(path) >= LOG_FOLLOW_PATH_MAX) {
		(void)err_set(err, -ENAMETOOLONG, "the path of the output is too long");
		return NULL;
	}

	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &info) < 0) {
		(void)err_set(err, -errno, "cannot open '%s': %s", path, err_describe(-errno));
		return NULL;
	}

	if (!S_ISREG(info.st_mode)) {
		(void)err_set(err, -EINVAL, "'%s' is not a plain file", path);
		return NULL;
	}

	struct log_follow *follow = log_follow_new(options, err);
	if (!follow)
		return NULL;

	memcpy(follow->path, path, strlen(path) + 1);
	follow->fd = take_fd(&fd);
	loop_timer_start(follow->timer, 0);

	return follow;
}

struct log_follow *log_follow_pair(struct log_pair *pair, const struct log_follow_options *options,
				   struct err *err)
{
	struct log_follow *follow = log_follow_new(options, err);
	if (!follow) {
		(void)log_pair_free(pair);
		return NULL;
	}

	follow->pair = pair;
	loop_timer_start(follow->timer, 0);
	return follow;
}

bool log_follow_is_unordered(const struct log_follow *follow)
{
	return follow->pair && log_pair_is_unordered(follow->pair);
}

void log_follow_finish(struct log_follow *follow)
{
	if (follow->finishing || follow->ended)
		return;
	follow->finishing = true;
	if ((follow->fd >= 0 || follow->pair) && !follow->writable)
		loop_timer_start(follow->timer, 0);
}

/* --- by way of the agent ---------------------------------------------------------------------- */

/* Waits for the reader. `written`: counts what it took. 0, or -errno: it ended. */
static int log_follow_write_all(struct log_follow *follow, const char *data, size_t length,
				uint64_t *written)
{
	for (size_t at = 0; at < length;) {
		struct pollfd ready = {.fd = follow->options.out_fd, .events = POLLOUT};
		(void)poll(&ready, 1, -1); /* its result comes with the next write */

		ssize_t size = log_follow_write(follow->options.out_fd, data + at, length - at);
		if (size < 0)
			return log_follow_fail_write(follow, (int)size);

		at += (size_t)size;
		*written += (uint64_t)size;
	}

	return 0;
}

static int log_follow_write_screen(struct log_follow *follow)
{
	uint64_t written = 0;
	int rc = log_follow_write_all(follow, follow->shown.data, follow->shown.length, &written);
	buf_clear(&follow->shown);
	return rc;
}

/* A chunk has to go before the next comes: here the reader is waited for. */
static void log_follow_on_chunk(const ProtobufCMessage *reply, void *context)
{
	struct log_follow *follow = context;
	const Sluice__V1__LogChunk *chunk = (const Sluice__V1__LogChunk *)reply;
	if (follow->ended || chunk->offset + chunk->data.len <= follow->offset)
		return;

	if (chunk->offset > follow->offset) {
		struct err err = {0};
		(void)err_set(&err, -EIO,
			      "the agent left out bytes %" PRIu64 " to %" PRIu64 " of the output",
			      follow->offset, (uint64_t)chunk->offset);
		log_follow_end(follow, -EIO, &err);

		return;
	}

	size_t at = (size_t)(follow->offset - chunk->offset);
	const char *data = (const char *)chunk->data.data;

	if (!follow->options.is_screen) {
		(void)log_follow_write_all(follow, data + at, chunk->data.len - at,
					   &follow->offset);
		return;
	}

	for (size_t size; at < chunk->data.len; at += size) {
		size = chunk->data.len - at;
		size = size < LOG_FOLLOW_READ ? size : LOG_FOLLOW_READ;
		if (log_follow_prepare(follow, data + at, size) < 0 ||
		    log_follow_write_screen(follow) < 0)
			return;

		follow->offset += size;
	}
}

static void log_follow_on_end(const struct wire_result *result, void *context)
{
	struct log_follow *follow = context;
	struct err err = {0};

	follow->call = NULL;

	switch (result->status) {
	case WIRE_OK:
		if (follow->options.is_screen && (screen_end(&follow->screen, &follow->shown) < 0 ||
						  log_follow_write_screen(follow) < 0))
			return;

		log_follow_end(follow, 0, NULL);
		return;
	case WIRE_UNAVAILABLE:
		(void)err_set(&err, -ECONNRESET, "the agent is gone: %s", result->message);
		break;
	case WIRE_NOT_FOUND:
		(void)err_set(&err, -ENOENT, "%s", result->message);
		break;
	case WIRE_PERMISSION_DENIED:
		(void)err_set(&err, -EACCES, "%s", result->message);
		break;
	default:
		(void)err_set(&err, -EIO, "reading the output from the agent: %s: %s",
			      wire_status_to_string(result->status), result->message);
		break;
	}
	log_follow_end(follow, err.code, &err);
}

struct log_follow *log_follow_remote(struct wire_client *client, uint64_t id, uint32_t attempt,
				     bool is_stderr, bool to_the_end,
				     const struct log_follow_options *options, struct err *err)
{
	struct log_follow *follow = log_follow_new(options, err);
	if (!follow)
		return NULL;

	Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
	request.id = id;
	request.attempt = attempt;
	request.stderr = is_stderr;
	request.follow = to_the_end;
	request.offset = options->offset;

	const struct wire_client_callbacks callbacks = {
	    .message = log_follow_on_chunk, .end = log_follow_on_end, .context = follow};
	follow->call = wire_client_call(client, agent_call_method(AGENT_LOGS), &request.base, 0,
					&callbacks, err);
	return follow->call ? follow : log_follow_free(follow);
}

uint64_t log_follow_offset(const struct log_follow *follow)
{
	return follow->offset - follow->length;
}

void log_follow_disconnect(struct log_follow *follow)
{
	follow->call = NULL;
}

struct log_follow *log_follow_free(struct log_follow *follow)
{
	if (!follow)
		return NULL;
	if (follow->call)
		wire_client_cancel(follow->call);
	follow->notices = loop_fd_free(follow->notices);
	follow->writable = loop_fd_free(follow->writable);
	follow->timer = loop_timer_free(follow->timer);
	buf_done(&follow->shown);
	follow->pair = log_pair_free(follow->pair);

	if (follow->fd >= 0)
		(void)close(follow->fd);
	if (follow->inotify_fd >= 0)
		(void)close(follow->inotify_fd);
	free(follow);

	return NULL;
}
