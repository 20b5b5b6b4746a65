/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/channel.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/loop.h"
#include "wire/session.h"

struct channel {
	struct loop *loop;	 /* borrowed */
	struct session *session; /* borrowed */
	int fd;			 /* owned */
	struct loop_fd *watch;	 /* owned */
	struct buf output;	 /* frames on their way to the socket */
	bool writes;		 /* waits until the socket takes more */
	struct loop_task flush, gone;
	void (*closed)(const struct err *why, void *context);
	void *context;
	bool over; /* closed was called, or nobody wants to know */
};

static void channel_close(struct channel *channel, const struct err *why)
{
	if (channel->over)
		return;
	channel->over = true;
	(void)loop_fd_watch(channel->watch, 0, NULL);
	channel->closed(why, channel->context);
}

/* Writes what waits. 0 or -errno. */
static int channel_write(struct channel *channel, struct err *err)
{
	struct buf *output = &channel->output;

	while (output->length > 0) {
		ssize_t written =
		    send(channel->fd, output->data, output->length, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;

		if (written < 0) {
			int code = -errno;
			return err_set(err, code, "cannot write to the connection: %s",
				       err_describe(code));
		}

		buf_consume(output, (size_t)written);
	}

	buf_done(output); /* a connection at rest keeps no buffer */
	return 0;
}

/* Moves what can be moved from the session to the socket, but not without end: a stream of replies
 * may be endless and its reader fast. 0, or -errno: the connection is over. */
static int channel_move(struct channel *channel, struct err *err)
{
	for (unsigned round = 0; round < CHANNEL_ROUNDS; round++) {
		int rc = session_fill(channel->session, &channel->output, CHANNEL_OUTPUT, err);

		channel->writes = channel->output.length > 0;
		if (channel->over || !channel->writes)
			return rc;

		/* A peer that broke the rules is told so only if that costs no waiting. */
		int written = channel_write(channel, rc < 0 ? NULL : err);
		if (rc < 0 || written < 0)
			return rc < 0 ? rc : written;
		if (channel->output.length > 0)
			return 0; /* the socket is full */
	}

	return 0;
}

static void channel_send(struct channel *channel)
{
	struct err err = {0};
	int rc = channel_move(channel, &err);

	if (channel->over)
		return;

	loop_cancel(channel->loop, &channel->flush); /* asked for meanwhile: it was just done */
	if (rc == 0 && !channel->writes && session_is_over(channel->session)) {
		channel_close(channel, NULL);
		return;
	}

	/* Who does not read is not read from. */
	unsigned events =
	    (channel->output.length == 0 ? LOOP_READ : 0u) | (channel->writes ? LOOP_WRITE : 0u);

	if (rc == 0)
		rc = loop_fd_watch(channel->watch, events, &err);
	if (rc < 0)
		channel_close(channel, &err);
}

static void channel_on_flush(void *context)
{
	struct channel *channel = context;
	if (!channel->over)
		channel_send(channel);
}

void channel_flush(struct channel *channel)
{
	if (!channel->over && !channel->writes)
		loop_defer(channel->loop, &channel->flush, channel_on_flush, channel);
}

static void channel_read(struct channel *channel)
{
	uint8_t data[CHANNEL_READ];
	struct err err = {0};
	ssize_t length = recv(channel->fd, data, sizeof(data), MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return;

	if (length <= 0) {
		int code = length < 0 ? -errno : -ECONNRESET;
		(void)err_set(&err, code, "the connection was closed by the other side");
		channel_close(channel, &err);
		return;
	}

	int rc = session_receive(channel->session, data, (size_t)length, &err);

	if (channel->over)
		return;
	if (rc < 0)
		channel_close(channel, &err);
	else
		channel_send(channel);
}

static void channel_on_fd(int fd, unsigned events, void *context)
{
	struct channel *channel = context;
	if (channel->over)
		return;
	if (events & LOOP_READ)
		channel_read(channel);
	else
		channel_send(channel);
}

struct channel *channel_new(struct loop *loop, int fd, struct session *session,
			    void (*closed)(const struct err *why, void *context), void *context,
			    struct err *err)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	if (!channel) {
		(void)err_set(err, -ENOMEM, "out of memory for a connection");
		return NULL;
	}

	channel->loop = loop;
	channel->session = session;
	channel->closed = closed;
	channel->context = context;
	buf_init(&channel->output, 4 * CHANNEL_OUTPUT);
	channel->watch = loop_fd_new(loop, fd, LOOP_READ, channel_on_fd, channel, err);
	if (!channel->watch) {
		free(channel);
		return NULL;
	}

	channel->fd = fd;
	channel_flush(channel);
	return channel;
}

static void channel_release(void *context)
{
	free(context);
}

struct channel *channel_free(struct channel *channel)
{
	if (!channel)
		return NULL;

	channel->over = true;
	loop_cancel(channel->loop, &channel->flush);
	channel->watch = loop_fd_free(channel->watch);
	(void)close(channel->fd);
	buf_done(&channel->output);
	loop_defer(channel->loop, &channel->gone, channel_release, channel);

	return NULL;
}

size_t channel_output_bytes(const struct channel *channel)
{
	return channel->output.length;
}
