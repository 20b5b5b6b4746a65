/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log_format.h"
#include "base/names.h"

enum log_internals {
	LOG_JOURNAL_MAX = (LOG_FIELDS_MAX + 2) * (LOG_MESSAGE_MAX + 128),
	LOG_SHORTEST = 64, /* a line that does not fit is cut by halves, down to this */
};

struct log {
	enum log_format format;
	enum log_text_style style;
	int fd;		     /* borrowed */
	const char *program; /* borrowed */
	int journal;	     /* owned; -1: none */
	struct sockaddr_un journal_address;
	_Atomic uint64_t dropped;
	_Atomic uint64_t unreported; /* dropped since somebody was told */
};

static _Atomic int log_level_now = LOG_LEVEL_INFO;

const char *log_level_to_string(enum log_level level)
{
	static const char *const names[] = {
	    [LOG_LEVEL_ERROR] = "error",   [LOG_LEVEL_WARNING] = "warning",
	    [LOG_LEVEL_NOTICE] = "notice", [LOG_LEVEL_INFO] = "info",
	    [LOG_LEVEL_DEBUG] = "debug",
	};
	return names_at(names, level, "unknown");
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_level_now, (int)level, memory_order_relaxed);
}

static bool log_level_is_on(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

/* systemd sets $JOURNAL_STREAM to "DEVICE:INODE" of the stream that it connected; systemd.exec(5).
 */
static bool log_fd_is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	struct stat status;
	char own[64];

	if (!stream || fstat(fd, &status) < 0)
		return false;

	(void)snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)status.st_dev,
		       (uintmax_t)status.st_ino); /* fits: two 64-bit numbers */
	return strcmp(stream, own) == 0;
}

static enum log_format log_choose(int fd)
{
	if (log_fd_is_journal(fd))
		return LOG_FORMAT_JOURNAL;
	return isatty(fd) ? LOG_FORMAT_TEXT : LOG_FORMAT_JSON;
}

/* Whether the journal is there: a socket, and its path fits. */
static bool log_open_journal(struct log *log, const char *path)
{
	struct sockaddr_un *address = &log->journal_address;
	size_t length = strlen(path);
	if (length >= sizeof(address->sun_path) || access(path, W_OK) < 0)
		return false;

	address->sun_family = AF_UNIX;
	memcpy(address->sun_path, path, length + 1);
	log->journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return log->journal >= 0;
}

struct log *log_new(const struct log_options *options, struct err *err)
{
	if ((unsigned)options->format > LOG_FORMAT_JOURNAL) {
		(void)err_set(err, -EINVAL, "unknown log format %d", (int)options->format);
		return NULL;
	}

	struct log *log = calloc(1, sizeof(*log));
	if (!log) {
		(void)err_set(err, -ENOMEM, "out of memory for the log");
		return NULL;
	}

	log->fd = options->fd;
	log->program = options->program ? options->program : "sluice";
	log->journal = -1;
	log->format = options->format == LOG_FORMAT_AUTO ? log_choose(log->fd) : options->format;
	log->style = isatty(log->fd) ? LOG_TEXT_COLOURED : LOG_TEXT_PLAIN;

	const char *path = options->journal_path;
	if (log->format == LOG_FORMAT_JOURNAL &&
	    !log_open_journal(log, path ? path : "/run/systemd/journal/socket")) {
		log->format = LOG_FORMAT_TEXT;
		log->style = LOG_TEXT_PREFIXED;
	}

	return log;
}

struct log *log_free(struct log *log)
{
	if (!log)
		return NULL;
	if (log->journal >= 0)
		(void)close(log->journal);
	free(log);
	return NULL;
}

enum log_format log_format_of(const struct log *log)
{
	return log->format;
}

uint64_t log_dropped(const struct log *log)
{
	return atomic_load_explicit(&log->dropped, memory_order_relaxed);
}

/* What does not fit into a datagram goes into a sealed memory file, whose descriptor is sent. */
static int log_send_memfd(const struct log *log, const struct buf *data)
{
	_cleanup_close_ int fd = memfd_create("sluice-log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;

	for (size_t at = 0; at < data->length;) {
		ssize_t count = write(fd, data->data + at, data->length - at);
		if (count < 0 && errno != EINTR)
			return -errno;
		at += count > 0 ? (size_t)count : 0;
	}

	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return -errno;

	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr message = {
	    .msg_name = (void *)&log->journal_address,
	    .msg_namelen = sizeof(log->journal_address),
	    .msg_control = &control,
	    .msg_controllen = sizeof(control),
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));

	return sendmsg(log->journal, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int log_send_journal(const struct log *log, const struct buf *data)
{
	ssize_t count =
	    sendto(log->journal, data->data, data->length, MSG_NOSIGNAL,
		   (const struct sockaddr *)&log->journal_address, sizeof(log->journal_address));
	if (count >= 0)
		return 0;
	if (errno == EMSGSIZE || errno == ENOBUFS)
		return log_send_memfd(log, data);

	return -errno;
}

/* A pipe that says POLLOUT takes PIPE_BUF (4096) bytes at once, which no line exceeds. */
static int log_send_line(const struct log *log, const struct buf *line)
{
	struct pollfd ready = {.fd = log->fd, .events = POLLOUT};
	if (poll(&ready, 1, 0) <= 0 || !(ready.revents & POLLOUT))
		return -EAGAIN;
	ssize_t count = write(log->fd, line->data, line->length);
	return count == (ssize_t)line->length ? 0 : -EIO;
}

static int log_format_line(const struct log *log, const struct log_entry *entry, struct buf *out)
{
	if (log->format == LOG_FORMAT_JSON)
		return log_format_json(out, entry);
	return log_format_text(out, entry, log->style);
}

/* Formats into at most LOG_LINE_MAX bytes: what does not fit loses its fields, then half of its
 * message, and so on. `message` is shortened in place. */
static int log_fit_line(const struct log *log, struct log_entry *entry, char *message,
			struct buf *out)
{
	buf_init(out, LOG_LINE_MAX);
	int rc = log_format_line(log, entry, out);

	for (size_t length = strlen(message); rc == -ENOSPC; length /= 2) {
		if (length < LOG_SHORTEST)
			return rc;
		if (entry->fields)
			entry->fields = NULL;
		else
			memcpy(message + length / 2, "...", 4);

		buf_clear(out);
		rc = log_format_line(log, entry, out);
	}

	return rc;
}

static int log_send(struct log *log, struct log_entry *entry, char *message)
{
	_cleanup_buf_ struct buf data;
	buf_init(&data, LOG_JOURNAL_MAX);

	if (log->format != LOG_FORMAT_JOURNAL) {
		int rc = log_fit_line(log, entry, message, &data);
		return rc < 0 ? rc : log_send_line(log, &data);
	}

	int rc = log_format_journal(&data, entry);
	return rc < 0 ? rc : log_send_journal(log, &data);
}

/* Says how many were lost, once somebody listens again. */
static void log_report_dropped(struct log *log, const struct timespec *when)
{
	uint64_t count = atomic_exchange(&log->unreported, 0);
	if (count == 0)
		return;

	char message[LOG_SHORTEST];
	(void)snprintf(message, sizeof(message), "%llu log entries were lost before this one",
		       (unsigned long long)count); /* fits */

	struct log_entry entry = {
	    .level = LOG_LEVEL_WARNING, .message = message, .program = log->program, .when = *when};
	if (log_send(log, &entry, message) < 0)
		atomic_fetch_add(&log->unreported, count);
}

void log_write(struct log *log, enum log_level level, const struct log_field *fields,
	       const char *format, ...)
{
	if (!log || !log_level_is_on(level))
		return;

	_cleanup_buf_ struct buf message;
	buf_init(&message, LOG_MESSAGE_MAX);

	va_list arguments;
	va_start(arguments, format);

	int rc = buf_vprintf(&message, format, arguments);

	va_end(arguments);
	if (rc == -ENOSPC) { /* cut, not lost */
		va_start(arguments, format);
		rc = buf_reserve(&message, LOG_MESSAGE_MAX);
		if (rc == 0)
			(void)vsnprintf(message.data, LOG_MESSAGE_MAX - 3, format, arguments);
		va_end(arguments);

		if (rc == 0)
			memcpy(message.data + LOG_MESSAGE_MAX - 4, "...", 4);
	}

	if (rc == 0)
		rc = buf_reserve(&message, 0);

	struct log_entry entry = {.level = level, .fields = fields, .program = log->program};
	int64_t now_ns = clock_unix_ns();
	entry.when.tv_sec = now_ns / (int64_t)CLOCK_NS_PER_S;
	entry.when.tv_nsec = now_ns % (int64_t)CLOCK_NS_PER_S;

	if (rc == 0) {
		entry.message = message.data;
		log_report_dropped(log, &entry.when);
		rc = log_send(log, &entry, message.data);
	}

	if (rc < 0) {
		atomic_fetch_add(&log->dropped, 1);
		atomic_fetch_add(&log->unreported, 1);
	}
}
