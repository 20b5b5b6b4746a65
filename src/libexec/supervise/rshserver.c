/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/rshserver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

enum {
	RSHSERVER_BACKLOG = 128, /* Open MPI starts so many at once */
	RSHSERVER_EVENTS_MAX = 16,
};

#define RSHSERVER_LISTENER UINT64_MAX /* as an event's number */

struct rshserver_call {
	int fd;	    /* owned; -1: free */
	pid_t peer; /* as it was when it connected */
	bool has_asked;
};

struct rshserver {
	struct rshserver_options options;
	int epoll_fd, listen_fd; /* owned */
	struct rshserver_call calls[RSHSERVER_CALLS_MAX];
	char bytes[PACKET_MAX + 1]; /* one more: a longer packet shows */
};

static int rshserver_listen(const char *name, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(name);
	if (length > PACKET_NAME_MAX)
		return err_set(err, -ENAMETOOLONG, "the name of the job's socket is too long");

	memcpy(address.sun_path + 1, name, length);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, size) < 0 ||
	    listen(fd, RSHSERVER_BACKLOG) < 0)
		return err_set(err, -errno, "listening for the job's workers: %s",
			       err_describe(errno));

	return take_fd(&fd);
}

static int rshserver_add(const struct rshserver *self, int fd, uint64_t number)
{
	struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = number}};
	return epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int rshserver_new(const struct rshserver_options *options, struct rshserver **out, struct err *err)
{
	struct rshserver *self = malloc(sizeof(*self));
	if (!self)
		return err_set(err, -ENOMEM, "no memory for the workers' socket");

	self->options = *options;
	self->options.name = NULL;
	for (size_t i = 0; i < RSHSERVER_CALLS_MAX; i++)
		self->calls[i] = (struct rshserver_call){.fd = -1};

	self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	self->listen_fd = rshserver_listen(options->name, err);

	int rc = self->listen_fd;
	if (rc >= 0)
		rc = self->epoll_fd < 0 ? -errno
					: rshserver_add(self, self->listen_fd, RSHSERVER_LISTENER);

	if (rc < 0) {
		if (self->listen_fd >= 0)
			(void)err_set(err, rc, "watching the workers' socket: %s",
				      err_describe(rc));
		rshserver_free(self);
		return rc;
	}

	*out = self;
	return 0;
}

static void rshserver_drop(struct rshserver *self, size_t call)
{
	(void)close(self->calls[call].fd); /* which takes it out of the epoll set */
	self->calls[call] = (struct rshserver_call){.fd = -1};
}

struct rshserver *rshserver_free(struct rshserver *self)
{
	if (!self)
		return NULL;

	for (size_t i = 0; i < RSHSERVER_CALLS_MAX; i++)
		if (self->calls[i].fd >= 0)
			(void)close(self->calls[i].fd);

	if (self->listen_fd >= 0)
		(void)close(self->listen_fd);
	if (self->epoll_fd >= 0)
		(void)close(self->epoll_fd);
	free(self);

	return NULL;
}

int rshserver_fd(const struct rshserver *self)
{
	return self->epoll_fd;
}

static void rshserver_accept(struct rshserver *self)
{
	_cleanup_close_ int fd = accept4(self->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred who;
	socklen_t size = sizeof(who);
	size_t free_ = 0;

	while (free_ < RSHSERVER_CALLS_MAX && self->calls[free_].fd >= 0)
		free_++;

	/* The pid may be another's by now, but never one of another user's job; see
	 * rshserver_read().
	 */
	if (fd < 0 || free_ == RSHSERVER_CALLS_MAX ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0 ||
	    who.uid != self->options.uid || who.pid <= 0 ||
	    !self->options.is_ours(self->options.context, who.pid) ||
	    rshserver_add(self, fd, free_) < 0)
		return;

	self->calls[free_] = (struct rshserver_call){.fd = take_fd(&fd), .peer = who.pid};
}

/* The descriptors of a message, of which the first PACKET_FDS are the caller's to close: how many
 * there were. */
static int rshserver_take(const struct msghdr *message, int out[PACKET_FDS])
{
	int count = 0;

	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
	     part = CMSG_NXTHDR((struct msghdr *)message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;

		size_t fds = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < fds; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));

			if (count < PACKET_FDS)
				out[count] = fd;
			else
				(void)close(fd);

			count++;
		}
	}

	return count;
}

static void rshserver_read(struct rshserver *self, size_t call)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(PACKET_FDS * sizeof(int))];
	} control;
	struct iovec bytes = {.iov_base = self->bytes, .iov_len = sizeof(self->bytes)};
	struct msghdr message = {.msg_iov = &bytes,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t length = recvmsg(self->calls[call].fd, &message, MSG_CMSG_CLOEXEC);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;

	int fds[PACKET_FDS];
	int count = length < 0 ? 0 : rshserver_take(&message, fds);
	struct packet packet;
	bool has_asked = self->calls[call].has_asked;
	bool is_good = length > 0 && !has_asked &&
		       !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
		       packet_parse(self->bytes, (size_t)length, &packet) &&
		       (packet.kind == PACKET_RUN || packet.kind == PACKET_RANKS ||
			packet.kind == PACKET_ENTER) &&
		       (count == PACKET_FDS || packet.kind == PACKET_ENTER);
	/* Something is done to that process, and who connected may have handed the connection on
	 * and ended since: its number can be anybody's. */
	if (is_good && packet.kind == PACKET_ENTER)
		is_good = self->options.is_ours(self->options.context, self->calls[call].peer);

	if (is_good) {
		self->calls[call].has_asked = true;
		self->options.asked(self->options.context, call, &packet,
				    count == PACKET_FDS ? fds : NULL, self->calls[call].peer);
	} else {
		if (has_asked)
			self->options.gone(self->options.context, call);
		rshserver_drop(self, call);
	}

	for (int i = 0; i < count && i < PACKET_FDS; i++)
		(void)close(fds[i]);
}

void rshserver_serve(struct rshserver *self)
{
	struct epoll_event events[RSHSERVER_EVENTS_MAX];
	int count = epoll_wait(self->epoll_fd, events, RSHSERVER_EVENTS_MAX, 0);

	for (int i = 0; i < count; i++) {
		uint64_t number = events[i].data.u64;
		if (number == RSHSERVER_LISTENER)
			rshserver_accept(self);
		else if (number < RSHSERVER_CALLS_MAX && self->calls[number].fd >= 0)
			rshserver_read(self, number);
	}
}

void rshserver_answer(struct rshserver *self, size_t call, const struct packet *packet)
{
	if (call >= RSHSERVER_CALLS_MAX || self->calls[call].fd < 0)
		return;
	size_t length = packet_format(packet, self->bytes, sizeof(self->bytes));
	/* Who does not read it sees the end of the connection. */
	if (length > 0)
		(void)send(self->calls[call].fd, self->bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	rshserver_drop(self, call);
}
