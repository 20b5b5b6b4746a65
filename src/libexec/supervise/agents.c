/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/agents.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { AGENTS_PACKETS = 16 }; /* of one agent, between two looks at everything else */

void agents_init(struct agents *agents, int listen_fd)
{
	*agents = (struct agents){.listen_fd = listen_fd};
	for (size_t i = 0; i < CONTROL_AGENTS_MAX; i++)
		agents->fds[i] = -1;
}

static void agents_drop(struct agents *agents, size_t i)
{
	if (agents->fds[i] >= 0)
		(void)close(take_fd(&agents->fds[i]));
}

void agents_done(struct agents *agents)
{
	for (size_t i = 0; i < CONTROL_AGENTS_MAX; i++)
		agents_drop(agents, i);
	if (agents->listen_fd >= 0)
		(void)close(take_fd(&agents->listen_fd));
}

size_t agents_count(const struct agents *agents)
{
	size_t count = 0;
	for (size_t i = 0; i < CONTROL_AGENTS_MAX; i++)
		count += agents->fds[i] >= 0;
	return count;
}

static void agents_send(struct agents *agents, size_t i, const struct control_message *message)
{
	char packet[CONTROL_PACKET_MAX];
	size_t length = control_format(message, packet);
	/* One that does not read gets no gaps: it is told all when it connects again. */
	if (send(agents->fds[i], packet, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		agents_drop(agents, i);
}

void agents_say(struct agents *agents, enum control_kind kind, int64_t value, uint64_t extra,
		const char *text)
{
	size_t which = kind - CONTROL_HELLO;
	struct control_message *message = &agents->said[which];

	*message = (struct control_message){
	    .version = CONTROL_VERSION, .kind = kind, .value = value, .extra = extra};
	(void)snprintf(message->text, sizeof(message->text), "%s", text ? text : ""); /* cut */
	agents->is_true[which] = true;

	for (size_t i = 0; i < CONTROL_AGENTS_MAX; i++)
		if (agents->fds[i] >= 0)
			agents_send(agents, i, message);
}

void agents_unsay(struct agents *agents, enum control_kind kind)
{
	agents->is_true[kind - CONTROL_HELLO] = false;
}

void agents_poll(const struct agents *agents, struct pollfd *out)
{
	out[0] = (struct pollfd){.fd = agents->listen_fd, .events = POLLIN};
	for (size_t i = 0; i < CONTROL_AGENTS_MAX; i++)
		out[i + 1] = (struct pollfd){.fd = agents->fds[i], .events = POLLIN};
}

static bool agents_may(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

/* False: nobody is waiting. */
static bool agents_welcome(struct agents *agents)
{
	_cleanup_close_ int fd =
	    accept4(agents->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 || !agents_may(fd))
		return fd >= 0;

	size_t seat = CONTROL_AGENTS_MAX;
	for (size_t i = 0; i < CONTROL_AGENTS_MAX && seat == CONTROL_AGENTS_MAX; i++)
		if (agents->fds[i] < 0)
			seat = i;

	if (seat == CONTROL_AGENTS_MAX) {
		seat = agents->next++ % CONTROL_AGENTS_MAX;
		agents_drop(agents, seat);
	}

	agents->fds[seat] = take_fd(&fd);
	for (size_t kind = 0; kind < AGENTS_KINDS && agents->fds[seat] >= 0; kind++)
		if (agents->is_true[kind])
			agents_send(agents, seat, &agents->said[kind]);

	return true;
}

/* One packet: false when there is none now, or its sender is dropped. */
static bool agents_hear(struct agents *agents, size_t i,
			void (*hear)(const struct control_message *, void *), void *context)
{
	char packet[CONTROL_PACKET_MAX];
	struct control_message message;
	ssize_t length = recv(agents->fds[i], packet, sizeof(packet), MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;

	if (length <= 0 || control_parse(packet, (size_t)length, &message, NULL) < 0 ||
	    message.kind < CONTROL_SIGNAL) {
		agents_drop(agents, i);
		return false;
	}

	hear(&message, context); /* may drop it, by agents_say() */
	return agents->fds[i] >= 0;
}

void agents_serve(struct agents *agents, const struct pollfd *polled,
		  void (*hear)(const struct control_message *message, void *context), void *context)
{
	for (size_t i = 0; i < CONTROL_AGENTS_MAX; i++) {
		/* Not one that was dropped since, or whose seat was given on. */
		if (!polled[i + 1].revents || agents->fds[i] != polled[i + 1].fd)
			continue;
		for (int n = 0; n < AGENTS_PACKETS && agents_hear(agents, i, hear, context); n++)
			;
	}

	for (int n = 0; polled[0].revents && n < AGENTS_PACKETS && agents_welcome(agents); n++)
		;
}
