/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/crash.h"
#include "base/err.h"
#include "job/launch.h"
#include "libexec/supervise/relay.h"

/* Of what epoll tells: these, and from TERMINAL_VISITOR on a visitor's place. */
enum terminal_tag {
	TERMINAL_MASTER,
	TERMINAL_LISTEN,
	TERMINAL_TIMER,
	TERMINAL_COPY,
	TERMINAL_VISITOR
};

enum {
	TERMINAL_EVENTS = TERMINAL_VISITOR + TERMINAL_VISITORS_MAX,
	TERMINAL_READS = 64,	    /* of the job's side, between two looks at everything else */
	TERMINAL_LAST_READS = 1024, /* when the job is over: more than the kernel keeps */
	TERMINAL_SEND_BYTES = 128 << 10,
};

#define TERMINAL_CLOSED_NS CLOCK_NS_PER_S	/* between two looks at one that nobody has open */
#define TERMINAL_END_NS	   (2 * CLOCK_NS_PER_S) /* for those who sit there to take the last words */

static int terminal_watch(const struct terminal *self, int operation, int fd, unsigned tag,
			  uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u32 = tag};
	return epoll_ctl(self->events_fd, operation, fd, &event) < 0 ? -errno : 0;
}

static void terminal_set_timer(const struct terminal *self, uint64_t after_ns)
{
	struct timespec after = {.tv_sec = (time_t)(after_ns / CLOCK_NS_PER_S),
				 .tv_nsec = (long)(after_ns % CLOCK_NS_PER_S)};
	struct itimerspec when = {.it_value = after, .it_interval = after};
	(void)timerfd_settime(self->timer_fd, 0, &when, NULL); /* cannot fail with these */
}

/* --- making it -------------------------------------------------------------------------------- */

static int terminal_open_pair(struct terminal *self, const struct launch *launch, int *out_fd)
{
	char path[64];
	struct winsize size = {.ws_row = TERMINAL_ROWS, .ws_col = TERMINAL_COLUMNS};

	self->master_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (self->master_fd < 0 || unlockpt(self->master_fd) < 0 ||
	    ptsname_r(self->master_fd, path, sizeof(path)) != 0)
		return -errno;

	_cleanup_close_ int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, TIOCSWINSZ, &size) < 0)
		return -errno;

	/* His, as a login's is: he may open it again by its name. */
	if (geteuid() == 0 &&
	    (fchown(fd, launch->spec.uid, launch->spec.gid) < 0 || fchmod(fd, 0600) < 0))
		return -errno;

	*out_fd = take_fd(&fd);
	return 0;
}

static int terminal_open_events(struct terminal *self)
{
	self->events_fd = epoll_create1(EPOLL_CLOEXEC);
	self->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	self->visitors = calloc(TERMINAL_VISITORS_MAX, sizeof(*self->visitors));

	for (size_t i = 0; self->visitors && i < TERMINAL_VISITORS_MAX; i++)
		self->visitors[i].fd = -1;

	if (!self->visitors)
		return -ENOMEM;
	if (self->events_fd < 0 || self->timer_fd < 0)
		return -errno;

	int rc = terminal_watch(self, EPOLL_CTL_ADD, self->timer_fd, TERMINAL_TIMER, EPOLLIN);
	if (rc == 0)
		rc = terminal_watch(self, EPOLL_CTL_ADD, self->listen_fd, TERMINAL_LISTEN, EPOLLIN);
	if (rc == 0)
		rc = terminal_watch(self, EPOLL_CTL_ADD, self->master_fd, TERMINAL_MASTER, EPOLLIN);

	self->is_watched = rc == 0;
	return rc;
}

int terminal_open(struct terminal *self, int job_fd, const struct launch *launch,
		  struct relay *relay, int *out_fd, struct err *err)
{
	*self = TERMINAL_NONE;
	_cleanup_close_ int fd = -1;

	self->relay = relay;
	self->uid = geteuid() == 0 ? launch->spec.uid : geteuid();
	self->listen_fd = attach_listen(job_fd, launch->spec.uid, launch->spec.gid, err);
	if (self->listen_fd < 0)
		return self->listen_fd;

	int rc = terminal_open_pair(self, launch, &fd);
	if (rc == 0)
		rc = terminal_open_events(self);
	if (rc < 0) {
		terminal_done(self, job_fd);
		return err_set(err, rc, "making the job's terminal: %s", err_describe(rc));
	}

	crash_point("supervisor.terminal_opened");
	*out_fd = take_fd(&fd);
	return 0;
}

/* --- visitors --------------------------------------------------------------------------------- */

static void terminal_send_away(struct terminal_visitor *visitor)
{
	if (visitor->fd >= 0)
		(void)close(take_fd(&visitor->fd)); /* which takes it out of the set */
	visitor->length = 0;
}

static bool terminal_copy_is_full(const struct terminal *self)
{
	struct pollfd copy = {.fd = self->relay->copy_fd, .events = POLLOUT};
	return copy.fd >= 0 && poll(&copy, 1, 0) == 0;
}

static bool terminal_is_held_up(const struct terminal *self)
{
	for (size_t i = 0; i < TERMINAL_VISITORS_MAX; i++)
		if (self->visitors[i].fd >= 0 && self->visitors[i].length > 0)
			return true;
	return terminal_copy_is_full(self);
}

/* Reads from the job unless something that it has shown, or that was typed, has no room yet. */
static void terminal_look(struct terminal *self)
{
	bool is_paused = terminal_is_held_up(self);

	if (self->master_fd >= 0) {
		uint32_t events = (is_paused ? 0 : EPOLLIN) | (self->typed_length ? EPOLLOUT : 0);

		if (self->is_closed)
			events = 0;

		/* One that is hung up says so whatever is asked, so it leaves the set. */
		int operation = !events		   ? EPOLL_CTL_DEL
				: self->is_watched ? EPOLL_CTL_MOD
						   : EPOLL_CTL_ADD;

		if (events || self->is_watched)
			(void)terminal_watch(self, operation, self->master_fd, TERMINAL_MASTER,
					     events);

		self->is_watched = events != 0;
	}

	bool waits_for_copy = terminal_copy_is_full(self);
	if (waits_for_copy != self->waits_for_copy && self->relay->copy_fd >= 0)
		(void)terminal_watch(self, waits_for_copy ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
				     self->relay->copy_fd, TERMINAL_COPY, EPOLLOUT);

	self->waits_for_copy = waits_for_copy;
	uint64_t timer_ns = is_paused	      ? TERMINAL_PATIENCE_NS
			    : self->is_closed ? TERMINAL_CLOSED_NS
					      : 0;
	if (timer_ns != self->timer_ns)
		terminal_set_timer(self, timer_ns);
	self->timer_ns = timer_ns;

	for (size_t i = 0; i < TERMINAL_VISITORS_MAX; i++) {
		struct terminal_visitor *visitor = &self->visitors[i];
		uint32_t events =
		    (self->typed_length ? 0 : EPOLLIN) | (visitor->length ? EPOLLOUT : 0);

		if (visitor->fd >= 0)
			(void)terminal_watch(self, EPOLL_CTL_MOD, visitor->fd,
					     TERMINAL_VISITOR + (unsigned)i, events);
	}
}

static void terminal_flush(struct terminal_visitor *visitor)
{
	if (visitor->fd < 0 || visitor->length == 0)
		return;

	ssize_t sent =
	    send(visitor->fd, visitor->packet, visitor->length, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent >= 0)
		visitor->length = 0;
	else if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
		terminal_send_away(visitor);
}

static void terminal_tell(struct terminal_visitor *visitor, const char *bytes, size_t length)
{
	if (visitor->fd < 0 || visitor->length > 0)
		return;
	visitor->length = attach_format(
	    &(struct attach_message){.kind = ATTACH_DATA, .data = bytes, .length = length},
	    visitor->packet);
	terminal_flush(visitor);
}

/* The end of what was shown before. */
static void terminal_replay(struct terminal *self, struct terminal_visitor *visitor)
{
	char bytes[ATTACH_DATA_MAX], path[64];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", self->relay->file_fd); /* fits */

	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	off_t at = end > TERMINAL_REPLAY_BYTES ? end - TERMINAL_REPLAY_BYTES : 0;

	/* The socket has room for all of it. */
	while (at < end && visitor->fd >= 0 && visitor->length == 0) {
		ssize_t length = pread(fd, bytes, sizeof(bytes), at);
		if (length <= 0)
			return;
		terminal_tell(visitor, bytes, (size_t)length);
		at += length;
	}
}

static bool terminal_may(int fd, uid_t uid)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       (peer.uid == 0 || peer.uid == uid);
}

static void terminal_accept(struct terminal *self)
{
	_cleanup_close_ int fd = accept4(self->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 || !terminal_may(fd, self->uid))
		return;

	size_t i = 0;
	while (i < TERMINAL_VISITORS_MAX && self->visitors[i].fd >= 0)
		i++;

	if (i == TERMINAL_VISITORS_MAX)
		i = self->next++ % TERMINAL_VISITORS_MAX;

	struct terminal_visitor *visitor = &self->visitors[i];
	terminal_send_away(visitor);

	int room = TERMINAL_SEND_BYTES;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)); /* else as it is */
	if (terminal_watch(self, EPOLL_CTL_ADD, fd, TERMINAL_VISITOR + (unsigned)i, EPOLLIN) < 0)
		return;

	visitor->fd = take_fd(&fd);
	terminal_replay(self, visitor);
}

/* --- typing ----------------------------------------------------------------------------------- */

static void terminal_type(struct terminal *self)
{
	while (self->typed_length > 0 && self->master_fd >= 0) {
		ssize_t written = write(self->master_fd, self->typed, self->typed_length);
		if (written < 0 && errno == EAGAIN)
			return;
		if (written <= 0) {
			self->typed_length = 0; /* nobody is there who could read it */
			return;
		}

		self->typed_length -= (size_t)written;
		for (size_t i = 0; i < self->typed_length; i++)
			self->typed[i] = self->typed[i + (size_t)written];
	}
}

static void terminal_hear(struct terminal *self, struct terminal_visitor *visitor)
{
	char packet[ATTACH_PACKET_MAX + 1];
	struct attach_message message;
	ssize_t length = recv(visitor->fd, packet, sizeof(packet), MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;

	if (length <= 0 || attach_parse(packet, (size_t)length, &message, NULL) < 0) {
		terminal_send_away(visitor);
		return;
	}

	if (message.kind == ATTACH_SIZE) {
		struct winsize size = {.ws_row = message.rows, .ws_col = message.columns};
		(void)ioctl(self->master_fd, TIOCSWINSZ, &size); /* the kernel tells the job */
		return;
	}

	for (size_t i = 0; i < message.length; i++)
		self->typed[i] = message.data[i];

	self->typed_length = message.length;
	terminal_type(self);
	if (self->used)
		self->used(self->context);
}

/* --- what the job shows ----------------------------------------------------------------------- */

/* The last process that had it open has closed it, or a login shell's end has hung it up. Whoever
 * leads its session would get SIGHUP if we closed our side, and may open it again. (What it shows
 * then is in no copy: who writes that waits for an end.) */
static void terminal_was_closed(struct terminal *self)
{
	self->is_closed = true;
	self->typed_length = 0;
	relay_close_copy(self->relay);
}

static void terminal_look_whether_open(struct terminal *self)
{
	struct pollfd wait = {.fd = self->master_fd, .events = POLLIN};
	if (self->is_closed && poll(&wait, 1, 0) >= 0 && !(wait.revents & (POLLHUP | POLLERR)))
		self->is_closed = false;
}

/* One piece of it. False: there is none now. */
static bool terminal_show(struct terminal *self)
{
	char bytes[ATTACH_DATA_MAX];
	ssize_t length = read(self->master_fd, bytes, sizeof(bytes));
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length <= 0) {
		terminal_was_closed(self);
		return false;
	}

	if (!relay_store(self->relay, bytes, (size_t)length)) {
		relay_lose_copy(self->relay);
		(void)relay_store(self->relay, bytes, (size_t)length);
	}

	for (size_t i = 0; i < TERMINAL_VISITORS_MAX; i++)
		terminal_tell(&self->visitors[i], bytes, (size_t)length);

	if (self->used)
		self->used(self->context);

	return true;
}

static void terminal_on_master(struct terminal *self, uint32_t events)
{
	if (events & EPOLLOUT)
		terminal_type(self);
	for (int i = 0; i < TERMINAL_READS && !self->is_closed; i++)
		if (terminal_is_held_up(self) || !terminal_show(self))
			return;
}

static void terminal_give_up_copy(struct terminal *self)
{
	if (!terminal_copy_is_full(self))
		return;
	relay_lose_copy(self->relay);
	relay_say(self->relay, "the copy of the output was given up: nothing could be written "
			       "there for 10 seconds");
}

static void terminal_on_timer(struct terminal *self)
{
	uint64_t times;
	(void)!read(self->timer_fd, &times, sizeof(times)); /* nothing, when it was just changed */
	terminal_look_whether_open(self);

	if (self->timer_ns != TERMINAL_PATIENCE_NS)
		return;

	terminal_give_up_copy(self);

	for (size_t i = 0; i < TERMINAL_VISITORS_MAX; i++)
		if (self->visitors[i].length > 0)
			terminal_send_away(&self->visitors[i]);
}

void terminal_serve(struct terminal *self)
{
	struct epoll_event events[TERMINAL_EVENTS];
	int count = epoll_wait(self->events_fd, events, TERMINAL_EVENTS, 0);

	for (int i = 0; i < count; i++) {
		unsigned tag = events[i].data.u32;
		if (tag == TERMINAL_MASTER) {
			terminal_on_master(self, events[i].events);
		} else if (tag == TERMINAL_LISTEN) {
			terminal_accept(self);
		} else if (tag == TERMINAL_TIMER) {
			terminal_on_timer(self);
		} else if (tag >= TERMINAL_VISITOR) {
			struct terminal_visitor *visitor = &self->visitors[tag - TERMINAL_VISITOR];
			terminal_flush(visitor);

			if (visitor->fd >= 0 && self->typed_length == 0)
				terminal_hear(self, visitor);
			else if (visitor->fd >= 0 && (events[i].events & (EPOLLHUP | EPOLLERR)))
				terminal_send_away(visitor); /* he has gone himself */
		}
	}

	terminal_look(self);
}

/* Until those who sit there can be told more, or the time is over. */
static void terminal_wait_for_room(struct terminal *self, uint64_t until_ns)
{
	for (;;) {
		struct pollfd waits[TERMINAL_VISITORS_MAX + 1];
		uint64_t now_ns = clock_now_ns(&self->relay->clock);
		size_t count = 0;

		for (size_t i = 0; i < TERMINAL_VISITORS_MAX; i++) {
			struct terminal_visitor *visitor = &self->visitors[i];
			terminal_flush(visitor);
			if (visitor->fd >= 0 && visitor->length > 0)
				waits[count++] =
				    (struct pollfd){.fd = visitor->fd, .events = POLLOUT};
		}

		if (terminal_copy_is_full(self))
			waits[count++] =
			    (struct pollfd){.fd = self->relay->copy_fd, .events = POLLOUT};
		if (count == 0 || now_ns >= until_ns)
			return;

		(void)poll(waits, count, (int)((until_ns - now_ns) / CLOCK_NS_PER_MS) + 1);
	}
}

static void terminal_show_rest(struct terminal *self)
{
	uint64_t until_ns = clock_now_ns(&self->relay->clock) + TERMINAL_END_NS;

	self->is_closed = false;
	for (int i = 0; i < TERMINAL_LAST_READS && !self->is_closed; i++) {
		terminal_wait_for_room(self, until_ns);
		if (!terminal_show(self))
			break;
	}

	terminal_wait_for_room(self, until_ns);
}

void terminal_done(struct terminal *self, int job_fd)
{
	if (self->visitors && self->master_fd >= 0)
		terminal_show_rest(self);

	/* Before they hear of it: whoever comes again finds nobody. */
	if (self->listen_fd >= 0)
		(void)unlinkat(job_fd, "terminal", 0);

	for (size_t i = 0; self->visitors && i < TERMINAL_VISITORS_MAX; i++)
		terminal_send_away(&self->visitors[i]);

	free(take_ptr(self->visitors));
	int *fds[] = {&self->master_fd, &self->listen_fd, &self->timer_fd, &self->events_fd};
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		if (*fds[i] >= 0)
			(void)close(take_fd(fds[i]));
}
