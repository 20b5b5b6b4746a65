/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/order.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "job/launch.h"
#include "libexec/supervise/prepare.h"

enum { ORDER_NAME_MAX = 40, ORDER_TRIES = 2, ORDER_QUIET_TRIES = 4 };

/* From a write that can be seen until the kernel has told of it; microseconds, but on another
 * processor. */
#define ORDER_TOLD_NS (50 * CLOCK_NS_PER_S / 1000000)

static const char *const order_files[INTERLEAVE_STREAMS] = {"out", "err"};

static void order_close(int *fd)
{
	if (*fd >= 0)
		(void)close(take_fd(fd));
}

static int order_watch(int notify_fd, int fd)
{
	char path[ORDER_NAME_MAX];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* fits */
	return inotify_add_watch(notify_fd, path, IN_MODIFY);
}

static bool order_watch_both(struct order *self, int notify_fd, int out_fd, int err_fd)
{
	self->watches[INTERLEAVE_OUT] = order_watch(notify_fd, out_fd);
	self->watches[INTERLEAVE_ERR] = order_watch(notify_fd, err_fd);
	return self->watches[INTERLEAVE_OUT] >= 0 && self->watches[INTERLEAVE_ERR] >= 0;
}

void order_open(struct order *self, int job_fd, const struct launch *launch, int out_fd, int err_fd)
{
	*self = ORDER_NONE;
	if (!launch->keeps_order || launch->spec.pty)
		return;

	self->job_fd = job_fd;
	self->attempt = launch->attempt;
	self->uid = launch->spec.uid;
	self->gid = launch->spec.gid;
	self->is_limited = prepare_is_limited(job_fd, launch);
	self->notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (self->notify_fd < 0)
		return;

	if (!order_watch_both(self, self->notify_fd, out_fd, err_fd))
		order_close(&self->notify_fd);
}

void order_add_worker(struct order *job, struct order *self, uint32_t worker, int out_fd,
		      int err_fd)
{
	struct order **end = &job->next;
	size_t count = 0;

	for (; *end; end = &(*end)->next)
		count++;
	*self = ORDER_NONE;
	if (!job->source || job->notify_fd < 0 || count == ORDER_WORKERS_MAX ||
	    !order_watch_both(self, job->notify_fd, out_fd, err_fd))
		return;

	(void)snprintf(self->prefix, sizeof(self->prefix), "w%" PRIu32 ".", worker); /* fits */
	self->job_fd = job->job_fd;
	self->attempt = job->attempt;
	self->uid = job->uid;
	self->gid = job->gid;
	self->is_limited = job->is_limited;
	self->drain = job->drain;
	self->context = job->context;
	*end = self;
}

/* --- the index -------------------------------------------------------------------------------- */

static void order_name(const struct order *self, const char *what, char out[ORDER_NAME_MAX])
{
	(void)snprintf(out, ORDER_NAME_MAX, "%s%s.%" PRIu32, self->prefix, what,
		       self->attempt); /* fits */
}

/* Whoever waits for it sees that it is gone. */
static void order_give_up(struct order *self)
{
	char name[ORDER_NAME_MAX];
	order_name(self, "order", name);
	if (self->index_fd >= 0)
		(void)unlinkat(self->job_fd, name, 0); /* or it says less than it could */
	order_close(&self->index_fd);
	self->is_over = true;
}

static int order_give(const struct order *self)
{
	if (geteuid() != 0)
		return 0;
	if (self->is_limited)
		return prepare_keep(self->index_fd, self->uid, self->gid);
	return fchown(self->index_fd, self->uid, self->gid);
}

static bool order_make_index(struct order *self)
{
	char name[ORDER_NAME_MAX];

	if (self->index_fd >= 0)
		return true;

	order_name(self, "order", name);
	(void)unlinkat(self->job_fd, name, 0); /* of a start that was given back */
	self->index_fd =
	    openat(self->job_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return self->index_fd >= 0 && order_give(self) == 0;
}

static void order_write(struct order *self)
{
	uint8_t record[INTERLEAVE_RECORD];
	if (self->is_over || self->last_length == 0)
		return;

	interleave_format(self->last, self->last_length, record);
	if (!order_make_index(self) ||
	    pwrite(self->index_fd, record, sizeof(record),
		   (off_t)(self->record * sizeof(record))) != (ssize_t)sizeof(record))
		order_give_up(self);
}

static void order_add(enum interleave_stream stream, uint64_t length, void *context)
{
	struct order *self = context;

	if (self->last_length > 0 && self->last != stream) {
		order_write(self);
		self->record++;
		self->last_length = 0;
	}

	if (self->record == INTERLEAVE_RECORDS_MAX)
		self->is_over = true;
	self->last = stream;
	self->last_length += length;
	self->seen[stream] += length;
}

/* --- a look ----------------------------------------------------------------------------------- */

static void order_take_turn(struct order *self, enum interleave_stream stream)
{
	if (self->turns == 0)
		self->turn = stream;

	bool is_first = self->turns % 2 == 0; /* it would be of the same as the first of them */
	if (self->turns == 0 || (stream == self->turn) == is_first)
		self->turns++;
}

/* Whose it is, of the job or of a worker. */
static void order_take_event(struct order *job, int watch)
{
	for (struct order *self = job; self; self = self->next) {
		for (int i = 0; i < INTERLEAVE_STREAMS; i++) {
			if (watch != self->watches[i] || self->is_over)
				continue;
			order_take_turn(self, (enum interleave_stream)i);
			self->is_told = true;
			return;
		}
	}
}

static void order_read_events(struct order *job)
{
	char events[ORDER_EVENTS] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t length;

	while ((length = read(job->notify_fd, events, sizeof(events))) > 0) {
		for (ssize_t at = 0; at < length;) {
			const struct inotify_event *event = (const void *)(events + at);
			at += (ssize_t)(sizeof(*event) + event->len);
			order_take_event(job, event->wd);
		}
	}
}

/* False: there were none. */
static bool order_read_turns(struct order *job, struct order *self)
{
	order_read_events(job);

	bool has_some = self->is_told;
	self->is_told = false;
	return has_some;
}

static uint64_t order_grown(struct order *self, enum interleave_stream stream)
{
	char name[ORDER_NAME_MAX];
	struct stat info;

	if (self->files[stream] < 0) {
		order_name(self, order_files[stream], name);
		self->files[stream] =
		    openat(self->job_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	}

	if (self->files[stream] < 0 || fstat(self->files[stream], &info) < 0 ||
	    !S_ISREG(info.st_mode) || (uint64_t)info.st_size < self->seen[stream])
		return 0;

	return (uint64_t)info.st_size - self->seen[stream];
}

/* What a stream has written in several turns, for its lines; owned. NULL: too much, or no memory.
 */
static char *order_text(const struct order *self, enum interleave_stream stream, uint64_t grown)
{
	if (self->turns < 3 || grown == 0 || grown > ORDER_TEXT_MAX)
		return NULL;

	char *text = malloc((size_t)grown);
	if (text && pread(self->files[stream], text, (size_t)grown, (off_t)self->seen[stream]) ==
			(ssize_t)grown)
		return text;

	free(text);
	return NULL;
}

/* What is in pipes goes into the files. */
static void order_drain(struct order *self)
{
	if (self->drain)
		self->drain(self->context, 0);
}

/* Both at one moment, as far as the job leaves one: what is written between two looks would be seen
 * of the later one alone. */
static void order_measure(struct order *self, uint64_t grown[INTERLEAVE_STREAMS])
{
	order_drain(self);
	grown[INTERLEAVE_OUT] = order_grown(self, INTERLEAVE_OUT);

	for (int i = 0; i < ORDER_TRIES; i++) {
		grown[INTERLEAVE_ERR] = order_grown(self, INTERLEAVE_ERR);
		order_drain(self);
		uint64_t again = order_grown(self, INTERLEAVE_OUT);
		if (again == grown[INTERLEAVE_OUT])
			return;

		grown[INTERLEAVE_OUT] = again;
	}
}

/* The turns, and how much each stream has grown, as of one moment where there is one in which
 * nothing is written: what was measured then is all of these turns. Else there may be turns whose
 * bytes are not measured yet. Few tries: who writes all the time would keep us from all else. True:
 * there were turns. */
static bool order_read(struct order *job, struct order *self, bool is_last,
		       uint64_t grown[INTERLEAVE_STREAMS])
{
	const struct timespec told = {.tv_nsec = ORDER_TOLD_NS};
	bool has_some = order_read_turns(job, self);

	for (int i = 0; i < ORDER_QUIET_TRIES; i++) {
		order_measure(self, grown);
		if (is_last)
			break;

		(void)nanosleep(&told, NULL);
		if (!order_read_turns(job, self))
			break;

		has_some = true;
	}

	return has_some;
}

/* What was measured from `start` on, and no turn that came has taken. */
static void order_add_rest(struct order *self, const struct interleave_window *window,
			   const uint64_t start[INTERLEAVE_STREAMS])
{
	for (int i = 0; i < INTERLEAVE_STREAMS; i++) {
		uint64_t taken = self->seen[i] - start[i];
		if (window->grown[i] > taken)
			order_add((enum interleave_stream)i, window->grown[i] - taken, self);
	}
}

/* True: something has happened. `is_last`: nobody writes any more. */
static bool order_look(struct order *job, struct order *self, bool is_last)
{
	struct interleave_window window;
	const uint64_t start[] = {self->seen[INTERLEAVE_OUT], self->seen[INTERLEAVE_ERR]};
	bool is_news = order_read(job, self, is_last, window.grown);
	_cleanup_free_ char *out = order_text(self, INTERLEAVE_OUT, window.grown[INTERLEAVE_OUT]);
	_cleanup_free_ char *err = order_text(self, INTERLEAVE_ERR, window.grown[INTERLEAVE_ERR]);

	window.first = self->turn;
	window.run_count = self->turns;
	window.text[INTERLEAVE_OUT] = out;
	window.text[INTERLEAVE_ERR] = err;

	size_t left = interleave_split(&window, order_add, self);
	is_news = is_news || self->seen[INTERLEAVE_OUT] > start[INTERLEAVE_OUT] ||
		  self->seen[INTERLEAVE_ERR] > start[INTERLEAVE_ERR];

	/* They get another look, and no third; what else there is has waited for them. */
	bool is_late = left > 0 && !is_last && (is_news || !self->was_late);
	if (is_late && left % 2 != self->turns % 2)
		self->turn = (enum interleave_stream) !self->turn;
	if (left > 0 && !is_late)
		order_add_rest(self, &window, start);
	self->turns = is_late ? left : 0;
	self->was_late = is_late && !is_news;

	/* One alone needs no index, and a follower of both waits for it. */
	if (self->seen[INTERLEAVE_OUT] > 0 && self->seen[INTERLEAVE_ERR] > 0 && is_news)
		order_write(self);

	return is_news || is_late;
}

/* The sooner it is looked, the more of the order is known; but a job that writes all the time costs
 * a look every now and then. What is late is looked for later. */
static bool order_waits(struct order *self, bool has_late)
{
	uint64_t now_ns = clock_real_ns();
	if (now_ns - self->second_ns >= CLOCK_NS_PER_S) {
		self->second_ns = now_ns;
		self->looks = 0;
	}

	return ++self->looks > ORDER_LOOKS || has_late;
}

static void order_ready(void *context, short revents)
{
	struct order *self = context;
	const struct itimerspec after = {.it_value.tv_nsec = ORDER_LOOK_NS};
	uint64_t drop;

	(void)revents;
	if (self->timer_fd < 0)
		self->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	else
		(void)!read(self->timer_fd, &drop, sizeof(drop)); /* it may not have been that */

	bool is_news = false, has_late = false, is_over = true;

	if (self->next) /* of any of them, and the job's own may be over */
		order_read_events(self);

	/* Workers that have written nothing are let alone. */
	for (struct order *each = self; each; each = each->next) {
		if (!each->is_over && (each == self || each->is_told || each->turns > 0))
			is_news = order_look(self, each, false) || is_news;
		has_late = has_late || (!each->is_over && each->turns > 0);
		is_over = is_over && each->is_over;
	}

	if (is_over)
		self->source->fd = -1;
	else if (is_news && order_waits(self, has_late) && self->timer_fd >= 0 &&
		 timerfd_settime(self->timer_fd, 0, &after, NULL) == 0)
		self->source->fd = self->timer_fd;
	else
		self->source->fd = self->notify_fd;
}

struct watch_source order_source(struct order *self)
{
	return (struct watch_source){
	    .fd = self->notify_fd, .events = POLLIN, .ready = order_ready, .context = self};
}

void order_listen(struct order *self, struct watch_source *source)
{
	self->source = source;
}

static void order_end(struct order *job, struct order *self)
{
	self->drain = NULL; /* that is over */
	if (!self->is_over)
		(void)order_look(job, self, true);

	order_close(&self->index_fd);
	for (int i = 0; i < INTERLEAVE_STREAMS; i++)
		order_close(&self->files[i]);
	self->is_over = true;
}

void order_done(struct order *self)
{
	if (self->notify_fd < 0)
		return;

	for (struct order *each = self; each; each = each->next)
		order_end(self, each);
	if (self->source)
		self->source->fd = -1;

	order_close(&self->timer_fd);
	self->next = NULL;
}
