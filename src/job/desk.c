/* SPDX-License-Identifier: Apache-2.0 */
#include "job/desk.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { DESK_EVENTS = 32, DESK_LISTENER = 1 << 30 };

int desk_init(struct desk *desk, const struct note *note, struct err *err)
{
	desk->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (desk->epoll_fd < 0)
		return err_set(err, -errno, "making an epoll set: %s", err_describe(errno));

	desk->note = *note;
	desk->oldest = 0;
	for (size_t i = 0; i < DESK_VISITOR_MAX; i++)
		desk->visitor[i] = -1;

	return 0;
}

void desk_done(struct desk *desk)
{
	if (desk->epoll_fd < 0)
		return;
	for (size_t i = 0; i < DESK_VISITOR_MAX; i++)
		if (desk->visitor[i] >= 0)
			(void)close(desk->visitor[i]);
	(void)close(desk->epoll_fd);
	desk->epoll_fd = -1;
}

int desk_open_at(struct desk *desk, int listen_fd, struct err *err)
{
	struct epoll_event want = {.events = EPOLLIN};
	want.data.u64 = (uint64_t)(DESK_LISTENER + listen_fd);
	if (epoll_ctl(desk->epoll_fd, EPOLL_CTL_ADD, listen_fd, &want) < 0)
		return err_set(err, -errno, "watching a token's socket: %s", err_describe(errno));
	return 0;
}

int desk_fd(const struct desk *desk)
{
	return desk->epoll_fd;
}

/* A free chair, or the one of whoever has been here longest. */
static size_t desk_chair(struct desk *desk)
{
	for (size_t i = 0; i < DESK_VISITOR_MAX; i++)
		if (desk->visitor[i] < 0)
			return i;

	size_t chair = desk->oldest;

	desk->oldest = (desk->oldest + 1) % DESK_VISITOR_MAX;
	(void)close(desk->visitor[chair]);
	desk->visitor[chair] = -1;

	return chair;
}

static void desk_welcome(struct desk *desk, int listen_fd)
{
	_cleanup_close_ int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return; /* gone again, or no descriptors left: it hears the end from the kernel */

	char text[NOTE_TEXT_MAX];
	size_t length = note_format(&desk->note, text);

	(void)send(fd, text, length, MSG_NOSIGNAL | MSG_DONTWAIT); /* best effort */

	size_t chair = desk_chair(desk);
	struct epoll_event want = {.events = EPOLLRDHUP, .data = {.u64 = chair}};

	if (epoll_ctl(desk->epoll_fd, EPOLL_CTL_ADD, fd, &want) == 0)
		desk->visitor[chair] = take_fd(&fd);
}

void desk_serve(struct desk *desk)
{
	struct epoll_event events[DESK_EVENTS];
	int count = epoll_wait(desk->epoll_fd, events, DESK_EVENTS, 0);

	for (int i = 0; i < count; i++) {
		uint64_t which = events[i].data.u64;
		if (which >= DESK_LISTENER) {
			desk_welcome(desk, (int)(which - DESK_LISTENER));
		} else if (desk->visitor[which] >= 0) {
			/* It left. A chair that was given on within this round costs its new
			 * visitor one reconnection. */
			(void)close(desk->visitor[which]);
			desk->visitor[which] = -1;
		}
	}
}
