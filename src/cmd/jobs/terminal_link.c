/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/terminal_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "job/attach.h"

/* A Ctrl-] that nothing follows is the job's after this. */
#define TERMINAL_LINK_HOLD_NS UINT64_C(1000000000)

enum { TERMINAL_LINK_READS = 16 };

struct terminal_link {
	struct terminal_link_options options;
	int fd; /* owned */
	struct loop_fd *socket, *input;
	struct loop_signal *resized;
	struct loop_timer *hold;
	struct loop_timer *pump; /* reads what cannot be waited for, such as a file */
	bool held, is_over, is_raw, is_pumped, has_shown;
	char last; /* that was typed; 0: nothing */
	struct termios before;
	size_t length; /* of a packet that has no room yet */
	char packet[ATTACH_PACKET_MAX];
};

bool terminal_link_keys(bool *held, const char *typed, size_t length, char *out, size_t *out_length)
{
	*out_length = 0;
	for (size_t i = 0; i < length; i++) {
		bool is_key = typed[i] == TERMINAL_LINK_KEY;
		if (is_key && *held) {
			*held = false;
			return true;
		}

		if (*held)
			out[(*out_length)++] = TERMINAL_LINK_KEY;
		*held = is_key;
		if (!is_key)
			out[(*out_length)++] = typed[i];
	}

	return false;
}

static void terminal_link_tell(struct terminal_link *link, enum terminal_link_event event)
{
	if (link->is_over)
		return;
	link->is_over = true;
	link->options.told(event, link->options.context);
}

/* --- to the job ------------------------------------------------------------------------------- */

static void terminal_link_flush(struct terminal_link *link)
{
	ssize_t sent = send(link->fd, link->packet, link->length, MSG_NOSIGNAL | MSG_DONTWAIT);
	bool waits = sent < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS);
	if (!waits)
		link->length = 0; /* where it failed the other side has hung up, which comes */
	(void)loop_fd_watch(link->socket, LOOP_READ | (waits ? LOOP_WRITE : 0), NULL);

	if (link->input)
		(void)loop_fd_watch(link->input, waits ? 0 : LOOP_READ, NULL);
	if (link->is_pumped && !waits)
		loop_timer_start(link->pump, 0);
}

static void terminal_link_send(struct terminal_link *link, const char *bytes, size_t length)
{
	if (length == 0 || link->length > 0)
		return;
	link->last = bytes[length - 1];
	link->length = attach_format(
	    &(struct attach_message){.kind = ATTACH_DATA, .data = bytes, .length = length},
	    link->packet);
	terminal_link_flush(link);
}

static void terminal_link_on_hold(void *context)
{
	struct terminal_link *link = context;
	static const char key[] = {TERMINAL_LINK_KEY};
	if (!link->held)
		return;
	link->held = false;
	terminal_link_send(link, key, sizeof(key));
}

/* Ctrl-D: so the job's input ends, too. Behind a line that is not whole the first ends that. */
static void terminal_link_end_input(struct terminal_link *link)
{
	static const char end[] = {'\x04', '\x04'};
	bool is_whole = link->last == 0 || link->last == '\n' || link->last == '\r';
	link->input = loop_fd_free(link->input);
	link->is_pumped = false;
	terminal_link_send(link, end, is_whole ? 1 : 2);
}

static void terminal_link_on_input(int fd, unsigned events, void *context)
{
	struct terminal_link *link = context;
	char typed[ATTACH_DATA_MAX - 1], bytes[ATTACH_DATA_MAX];
	size_t length;

	(void)events;
	ssize_t got = read(fd, typed, sizeof(typed));
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got <= 0) {
		terminal_link_end_input(link);
		return;
	}

	bool leaves = terminal_link_keys(&link->held, typed, (size_t)got, bytes, &length);
	terminal_link_send(link, bytes, length);

	if (link->held)
		loop_timer_start(link->hold, TERMINAL_LINK_HOLD_NS);
	else
		loop_timer_stop(link->hold);

	if (leaves)
		terminal_link_tell(link, TERMINAL_LINK_DETACHED);
}

static void terminal_link_on_pump(void *context)
{
	struct terminal_link *link = context;
	if (!link->is_pumped || link->is_over || link->length > 0)
		return; /* it begins again once that is sent */
	terminal_link_on_input(link->options.in_fd, LOOP_READ, link);
	if (link->is_pumped && link->length == 0)
		loop_timer_start(link->pump, 0);
}

static void terminal_link_on_resized(void *context)
{
	struct terminal_link *link = context;
	struct winsize size;
	char packet[ATTACH_PACKET_MAX];

	if (ioctl(link->options.out_fd, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 ||
	    size.ws_col == 0)
		return; /* not known */

	size_t length = attach_format(&(struct attach_message){.kind = ATTACH_SIZE,
							       .rows = size.ws_row,
							       .columns = size.ws_col},
				      packet);
	(void)send(link->fd, packet, length, MSG_NOSIGNAL | MSG_DONTWAIT); /* else as it is */
}

/* --- from the job ----------------------------------------------------------------------------- */

static bool terminal_link_write(const struct terminal_link *link, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t written = write(link->options.out_fd, bytes, length);
		if (written < 0 && errno == EAGAIN) {
			struct pollfd wait = {.fd = link->options.out_fd, .events = POLLOUT};
			(void)poll(&wait, 1, -1);
			continue;
		}

		if (written < 0 && errno != EINTR)
			return false;

		bytes += written > 0 ? written : 0;
		length -= written > 0 ? (size_t)written : 0;
	}

	return true;
}

static void terminal_link_on_socket(int fd, unsigned events, void *context)
{
	struct terminal_link *link = context;

	if (events & LOOP_WRITE)
		terminal_link_flush(link);

	for (int i = 0; i < TERMINAL_LINK_READS; i++) {
		char packet[ATTACH_PACKET_MAX + 1];
		struct attach_message message;
		ssize_t length = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			return;

		if (length <= 0 || attach_parse(packet, (size_t)length, &message, NULL) < 0) {
			(void)loop_fd_watch(link->socket, 0, NULL);
			terminal_link_tell(link, TERMINAL_LINK_CLOSED);
			return;
		}

		link->has_shown |= message.kind == ATTACH_DATA;
		if (message.kind == ATTACH_DATA &&
		    !terminal_link_write(link, message.data, message.length)) {
			(void)loop_fd_watch(link->socket, 0, NULL);
			terminal_link_tell(link, TERMINAL_LINK_UNREAD);
			return;
		}
	}
}

/* --- the whole -------------------------------------------------------------------------------- */

static int terminal_link_directory(const char *stdout_path, struct err *err)
{
	char path[FILE_PATH_MAX];
	const char *slash = strrchr(stdout_path, '/');
	int rc = file_path(path, err, "%.*s", slash ? (int)(slash - stdout_path) : 0, stdout_path);
	if (rc < 0)
		return rc;
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_set(err, -errno, "'%s': %s", path, err_describe(-errno)) : fd;
}

bool terminal_link_is_there(const char *stdout_path)
{
	_cleanup_close_ int fd = terminal_link_directory(stdout_path, NULL);
	return fd >= 0 && faccessat(fd, "terminal", F_OK, 0) == 0;
}

/* What is typed reaches the job as it is, and nothing of it is ours. */
static void terminal_link_take(struct terminal_link *link)
{
	if (tcgetattr(link->options.in_fd, &link->before) < 0)
		return; /* it is no terminal */
	struct termios raw = link->before;
	cfmakeraw(&raw);
	link->is_raw = tcsetattr(link->options.in_fd, TCSADRAIN, &raw) == 0;
}

struct terminal_link *terminal_link_new(const struct terminal_link_options *options,
					struct err *err)
{
	_cleanup_close_ int directory = terminal_link_directory(options->stdout_path, err);
	if (directory < 0)
		return NULL;

	_cleanup_close_ int fd = attach_connect(directory, err);
	if (fd < 0)
		return NULL;

	struct terminal_link *link = calloc(1, sizeof(*link));
	if (!link) {
		(void)err_set(err, -ENOMEM, "no memory for the terminal");
		return NULL;
	}

	link->options = *options;
	link->fd = take_fd(&fd);
	link->hold = loop_timer_new(options->loop, terminal_link_on_hold, link, err);
	link->socket =
	    loop_fd_new(options->loop, link->fd, LOOP_READ, terminal_link_on_socket, link, err);

	/* What cannot be waited for, such as a file or /dev/null, can always be read. */
	link->input = loop_fd_new(options->loop, options->in_fd, LOOP_READ, terminal_link_on_input,
				  link, NULL);
	link->resized =
	    loop_signal_new(options->loop, SIGWINCH, terminal_link_on_resized, link, err);
	link->pump = loop_timer_new(options->loop, terminal_link_on_pump, link, err);
	if (!link->hold || !link->socket || !link->resized || !link->pump)
		return terminal_link_free(link);

	link->is_pumped = !link->input;
	if (link->is_pumped)
		loop_timer_start(link->pump, 0);
	terminal_link_take(link);
	terminal_link_on_resized(link);

	return link;
}

bool terminal_link_has_shown(const struct terminal_link *link)
{
	return link && link->has_shown;
}

struct terminal_link *terminal_link_free(struct terminal_link *link)
{
	if (!link)
		return NULL;
	if (link->is_raw)
		(void)tcsetattr(link->options.in_fd, TCSADRAIN, &link->before);
	link->hold = loop_timer_free(link->hold);
	link->pump = loop_timer_free(link->pump);
	link->input = loop_fd_free(link->input);
	link->socket = loop_fd_free(link->socket);
	link->resized = loop_signal_free(link->resized);
	(void)close(link->fd);
	free(link);

	return NULL;
}
