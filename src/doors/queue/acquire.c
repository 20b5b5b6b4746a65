/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/acquire.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "doors/queue/desk.h"
#include "doors/queue/ticket.h"
#include "hardware/snapshot.h"

enum acquire_state {
	ACQUIRE_FREE, /* and we hold its token */
	ACQUIRE_HELD,
	ACQUIRE_UNHEALTHY,
	ACQUIRE_OUTSIDER,
};

struct acquire {
	const struct acquire_request *request;
	struct acquire_result *out;
	struct inventory inventory;
	struct snapshot *snapshot; /* owned */
	struct place place;
	uint8_t state[PLACE_UNIT_MAX]; /* enum acquire_state */
	struct token token[PLACE_UNIT_MAX];
	struct note holder[PLACE_UNIT_MAX];
	int watch_fd[PLACE_UNIT_MAX];		/* borrowed from `wait`; -1: nobody is watched */
	struct pollfd wait[PLACE_UNIT_MAX + 1]; /* the desk first, then holders */
	size_t wait_count;
	struct ticket ticket;
	struct desk desk;
	uint64_t begun_ns;
	int look_ms;		     /* until the next look at the driver */
	int retry_ms;		     /* until the next try after a holder that just left */
	char told[ACQUIRE_TEXT_MAX]; /* the last reason, without its times */
};

static uint64_t acquire_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail on Linux */
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* --- the reason, in words --------------------------------------------------------------------- */

static void acquire_say_user(struct buf *text, uid_t uid)
{
	const struct passwd *user = getpwuid(uid);
	if (user)
		(void)text_escape(text, user->pw_name, strlen(user->pw_name));
	else
		(void)buf_printf(text, "%u", (unsigned)uid);
}

static void acquire_say_time(struct buf *text, uint64_t seconds)
{
	if (seconds < 120)
		(void)buf_printf(text, ", %" PRIu64 " s", seconds);
	else if (seconds < 7200)
		(void)buf_printf(text, ", %" PRIu64 " min", seconds / 60);
	else
		(void)buf_printf(text, ", %" PRIu64 " h", seconds / 3600);
}

/* "pid 123 (train, user bob, 12 s)"; what does not fit is cut. */
static void acquire_say_holder(struct buf *text, const struct note *holder, bool with_time)
{
	if (holder->pid)
		(void)buf_printf(text, "pid %d (", (int)holder->pid);
	else
		(void)buf_add_text(text, "a process out of sight (");
	if (holder->name[0])
		(void)buf_printf(text, "%s, ", holder->name);
	(void)buf_add_text(text, "user ");
	acquire_say_user(text, holder->uid);
	uint64_t now_s = (uint64_t)time(NULL);
	if (with_time && holder->since_s && now_s >= holder->since_s)
		acquire_say_time(text, now_s - holder->since_s);
	(void)buf_add_text(text, ")");
}

static bool acquire_same_holder(const struct acquire *self, size_t a, size_t b)
{
	const struct note *first = &self->holder[a], *second = &self->holder[b];
	return self->state[a] == ACQUIRE_HELD && self->state[b] == ACQUIRE_HELD && first->pid &&
	       first->pid == second->pid && first->uid == second->uid;
}

/* All that the holder of unit `i` holds, unless an earlier unit has said it already. */
static bool acquire_say_units(const struct acquire *self, struct buf *text, size_t i)
{
	for (size_t before = 0; before < i; before++)
		if (acquire_same_holder(self, before, i))
			return false;
	(void)buf_printf(text, "; %s", self->place.unit[i].label);
	for (size_t after = i + 1; after < self->place.count; after++)
		if (acquire_same_holder(self, i, after))
			(void)buf_printf(text, ", %s", self->place.unit[after].label);
	return true;
}

static void acquire_say_why(const struct acquire *self, struct buf *text, size_t i, bool with_time)
{
	const struct place_unit *unit = &self->place.unit[i];
	switch (self->state[i]) {
	case ACQUIRE_HELD:
		(void)buf_add_text(text, " held by ");
		acquire_say_holder(text, &self->holder[i], with_time);
		break;
	case ACQUIRE_OUTSIDER:
		(void)buf_printf(text, " in use by pid %u, which sluice did not start",
				 unit->outsider);
		break;
	default:
		(void)buf_add_text(text, " not healthy: ");
		(void)text_escape(text, unit->reason, strlen(unit->reason));
		break;
	}
}

static void acquire_say_pass(const struct acquire *self, struct buf *text, bool with_time)
{
	size_t free_count = 0, shown = 0;
	for (size_t i = 0; i < self->place.count; i++)
		free_count += self->state[i] == ACQUIRE_FREE;
	(void)buf_printf(text, "waiting for %zu GPU%s: %zu free", self->place.needed,
			 self->place.needed == 1 ? "" : "s", free_count);
	for (size_t i = 0; i < self->place.count; i++) {
		if (self->state[i] == ACQUIRE_FREE)
			continue;
		if (shown == ACQUIRE_REASONS_SHOWN) {
			(void)buf_add_text(text, "; and more");
			break;
		}
		if (acquire_say_units(self, text, i)) {
			acquire_say_why(self, text, i, with_time);
			shown++;
		}
	}
}

static void acquire_say_ahead(const struct acquire *self, struct buf *text,
			      const struct note *holder, size_t ahead, bool with_time)
{
	(void)buf_printf(text, "waiting for %zu GPU%s: ", self->request->needed,
			 self->request->needed == 1 ? "" : "s");
	if (ahead > 1)
		(void)buf_printf(text, "%zu others are before this one, the next is ", ahead);
	else
		(void)buf_add_text(text, "next in line after ");
	acquire_say_holder(text, holder, with_time);
}

/* Tells the reason if it is another one than before. With no_wait it becomes the error. */
static int acquire_tell(struct acquire *self, const struct note *ahead_holder, size_t ahead,
			struct err *err)
{
	char *texts[2] = {NULL, NULL};
	for (int with_time = 0; with_time < 2; with_time++) {
		struct buf text;
		buf_init(&text, ACQUIRE_TEXT_MAX - 1);
		if (ahead_holder)
			acquire_say_ahead(self, &text, ahead_holder, ahead, with_time);
		else
			acquire_say_pass(self, &text, with_time);
		texts[with_time] = buf_take(&text);
		buf_done(&text);
	}
	_cleanup_free_ char *key = texts[0];
	_cleanup_free_ char *full = texts[1];
	if (!key || !full)
		return err_set(err, -ENOMEM, "no memory to say what is waited for");
	if (self->request->no_wait)
		return err_set(err, -EBUSY, "would have to wait: %s", full);
	if (strcmp(key, self->told) != 0 && self->request->tell)
		self->request->tell(self->request->context, full);
	(void)snprintf(self->told, sizeof(self->told), "%s", key); /* was capped to fit */
	return 0;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Forgets whom we were watching. */
static void acquire_unwatch(struct acquire *self)
{
	for (size_t i = 1; i < self->wait_count; i++)
		(void)close(self->wait[i].fd);
	self->wait_count = 1;
}

static void acquire_watch(struct acquire *self, int fd)
{
	self->wait[self->wait_count++] = (struct pollfd){.fd = fd, .events = POLLRDHUP};
}

/* Until somebody whom we watch is gone, or `at_most_ms` (-1: no limit). -ETIMEDOUT when the
 * request's own time is over. */
static int acquire_sleep(struct acquire *self, int at_most_ms, struct err *err)
{
	uint64_t begin_ns = acquire_now_ns();
	for (;;) {
		uint64_t now_ns = acquire_now_ns();
		uint64_t end_ns =
		    at_most_ms < 0 ? UINT64_MAX : begin_ns + (uint64_t)at_most_ms * 1000000;
		uint64_t limit_ns = self->request->timeout_ns
					? clock_after_ns(self->begun_ns, self->request->timeout_ns)
					: UINT64_MAX;
		if (now_ns >= limit_ns)
			return err_set(err, -ETIMEDOUT, "gave up %s",
				       self->told[0] ? self->told : "waiting");
		if (now_ns >= end_ns)
			return 0;
		uint64_t next_ns = end_ns < limit_ns ? end_ns : limit_ns;
		uint64_t left_ms =
		    next_ns == UINT64_MAX ? 3600000 : (next_ns - now_ns) / 1000000 + 1;
		int ready =
		    poll(self->wait, self->wait_count, left_ms > 3600000 ? 3600000 : (int)left_ms);
		if (ready <= 0)
			continue;
		if (self->wait[0].revents)
			desk_serve(&self->desk);
		if (ready > (self->wait[0].revents != 0))
			return 0;
	}
}

/* Those before us may only be taking what is free: a moment's patience even for --no-wait. */
static bool acquire_moment(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLRDHUP};
	uint64_t end_ns = acquire_now_ns() + ACQUIRE_NO_WAIT_MS * UINT64_C(1000000);
	for (uint64_t now_ns = acquire_now_ns(); now_ns < end_ns; now_ns = acquire_now_ns()) {
		(void)poll(&wait, 1, (int)((end_ns - now_ns) / 1000000) + 1);
		if (wait.revents & (POLLHUP | POLLRDHUP))
			return true;
	}
	return false;
}

/* 1 when it is our turn; 0 after a wait for the one ahead of us. */
static int acquire_queue(struct acquire *self, struct err *err)
{
	struct note holder;
	size_t ahead;
	_cleanup_close_ int fd =
	    ticket_watch(self->request->place, &self->ticket, &holder, &ahead, err);
	if (fd == -ENOENT)
		return 1;
	if (fd < 0)
		return fd;
	if (self->request->no_wait && acquire_moment(fd))
		return 0;
	(void)token_read_note(fd, ACQUIRE_NOTE_MS, &holder, NULL); /* only to be shown */
	int result = acquire_tell(self, &holder, ahead, err);
	if (result < 0)
		return result;
	acquire_watch(self, take_fd(&fd));
	result = acquire_sleep(self, ACQUIRE_AHEAD_MS, err);
	acquire_unwatch(self);
	return result;
}

/* --- one pass --------------------------------------------------------------------------------- */

static int acquire_look(struct acquire *self, struct err *err)
{
	inventory_done(&self->inventory);
	inventory_init(&self->inventory);
	free(take_ptr(self->snapshot));
	const struct acquire_request *request = self->request;
	int result = request->look(request->context, &self->inventory, &self->snapshot, err);
	if (result < 0)
		return result;
	return place_find(&self->inventory, self->snapshot, request->ids, request->needed,
			  &self->place, err);
}

static int acquire_try(struct acquire *self, size_t i, struct err *err)
{
	const struct place_unit *unit = &self->place.unit[i];
	const struct acquire_request *request = self->request;
	self->token[i] = TOKEN_NONE;
	if (!unit->healthy) {
		self->state[i] = ACQUIRE_UNHEALTHY;
		return 0;
	}
	int result =
	    token_take(request->place, unit->uuid, 0, &request->self, &self->token[i], err);
	if (result < 0 && result != -EBUSY)
		return result;
	self->state[i] = result < 0 ? ACQUIRE_HELD : ACQUIRE_FREE;
	if (result == 0 && unit->outsider && !request->ignore_outsiders) {
		token_release(&self->token[i]);
		self->state[i] = ACQUIRE_OUTSIDER;
	}
	return 0;
}

static void acquire_give_back(struct acquire *self)
{
	for (size_t i = 0; i < self->place.count; i++)
		token_release(&self->token[i]);
}

/* Tries every candidate; returns how many are ours now. */
static int acquire_pass(struct acquire *self, struct err *err)
{
	int free_count = 0;
	for (size_t i = 0; i < self->place.count; i++)
		self->token[i] = TOKEN_NONE;
	for (size_t i = 0; i < self->place.count; i++) {
		int result = acquire_try(self, i, err);
		if (result < 0) {
			acquire_give_back(self);
			return result;
		}
		free_count += self->state[i] == ACQUIRE_FREE;
	}
	return free_count;
}

/* Enough are ours: keeps the best, gives the others back. */
static int acquire_keep(struct acquire *self, struct err *err)
{
	bool is_free[PLACE_UNIT_MAX], chosen[PLACE_UNIT_MAX];
	for (size_t i = 0; i < self->place.count; i++)
		is_free[i] = self->state[i] == ACQUIRE_FREE;
	int result = place_choose(&self->inventory, &self->place, is_free, chosen, err);
	for (size_t i = 0; result == 0 && i < self->place.count; i++) {
		if (!chosen[i])
			continue;
		struct acquire_result *out = self->out;
		out->unit[out->count] = self->place.unit[i];
		out->token[out->count++] = self->token[i];
		self->token[i] = TOKEN_NONE;
	}
	acquire_give_back(self);
	return result;
}

/* Connects to all who hold something that we want. Returns how long to sleep at most, in ms; -1:
 * until one of them leaves. */
static int acquire_watch_holders(struct acquire *self, bool *out_left)
{
	int sleep_ms = -1;
	*out_left = false;
	for (size_t i = 0; i < self->place.count; i++) {
		const char *uuid = self->place.unit[i].uuid;
		struct note *holder = &self->holder[i];
		*holder = (struct note){0};
		self->watch_fd[i] = -1;
		if (self->state[i] == ACQUIRE_FREE)
			continue;
		int fd = -ENOENT;
		if (self->state[i] == ACQUIRE_HELD)
			fd = token_watch(self->request->place, uuid, 0, holder, NULL);
		if (fd >= 0) {
			self->watch_fd[i] = fd;
			acquire_watch(self, fd);
			continue;
		}
		/* A holder that cannot be watched, a sick GPU, a stranger: look again later. */
		(void)token_read_lock(self->request->place, uuid, 0, holder, NULL);
		*out_left |= fd == -ECONNREFUSED;
		sleep_ms = self->look_ms;
	}
	return sleep_ms;
}

/* The holder's own note, from its socket or, when it does not answer, from the lock file if that is
 * its own. `end_ns`: until when it may take to answer. */
static void acquire_read_note(struct acquire *self, size_t i, uint64_t end_ns)
{
	uint64_t now_ns = acquire_now_ns();
	int left_ms = now_ns < end_ns ? (int)((end_ns - now_ns) / 1000000) : 0;
	struct note *holder = &self->holder[i], said;
	if (token_read_note(self->watch_fd[i], left_ms, holder, NULL) == 0)
		return;
	if (token_read_lock(self->request->place, self->place.unit[i].uuid, 0, &said, NULL) == 0 &&
	    said.pid == holder->pid && said.uid == holder->uid)
		*holder = said;
}

/* The names of those whom we watch; all were asked before, so this waits for the slowest only. */
static void acquire_read_notes(struct acquire *self)
{
	uint64_t end_ns = acquire_now_ns() + ACQUIRE_NOTE_MS * UINT64_C(1000000);
	for (size_t i = 0; i < self->place.count; i++)
		if (self->watch_fd[i] >= 0)
			acquire_read_note(self, i, end_ns);
}

static int acquire_double(int value, int max)
{
	return value * 2 < max ? value * 2 : max;
}

static int acquire_wait_for_holders(struct acquire *self, struct err *err)
{
	bool left;
	int sleep_ms = acquire_watch_holders(self, &left);
	/* Mostly a holder that left a moment ago: no reason to report, or to wait for long. One
	 * that cannot be watched looks the same, and so the tries become rare. */
	bool at_once = left && self->retry_ms < ACQUIRE_LOOK_FIRST_MS;
	int result = 0;
	if (!at_once) {
		acquire_read_notes(self);
		result = acquire_tell(self, NULL, 0, err);
	}
	if (result == 0)
		result = acquire_sleep(self, at_once ? self->retry_ms : sleep_ms, err);
	acquire_unwatch(self);
	if (at_once)
		self->retry_ms = acquire_double(self->retry_ms, ACQUIRE_LOOK_FIRST_MS);
	else
		self->look_ms = acquire_double(self->look_ms, ACQUIRE_LOOK_LAST_MS);
	if (!left)
		self->retry_ms = ACQUIRE_RETRY_MS;
	return result;
}

static int acquire_loop(struct acquire *self, struct err *err)
{
	bool fresh = true; /* the look that found the candidates */
	for (;;) {
		int result = acquire_queue(self, err);
		if (result < 0)
			return result;
		if (result == 0) {
			self->out->waited = true;
			fresh = false;
			continue;
		}
		if (!fresh) {
			result = acquire_look(self, err);
			if (result < 0)
				return result;
		}
		fresh = false;
		result = acquire_pass(self, err);
		if (result < 0)
			return result;
		if ((size_t)result >= self->place.needed)
			return acquire_keep(self, err);
		acquire_give_back(self);
		self->out->waited = true;
		result = acquire_wait_for_holders(self, err);
		if (result < 0)
			return result;
	}
}

static int acquire_begin(struct acquire *self, struct err *err)
{
	int result = acquire_look(self, err);
	if (result < 0)
		return result;
	struct ticket_wants wants = {0};
	for (size_t i = 0; i < self->place.count; i++)
		ticket_want(&wants, self->place.unit[i].uuid);
	result = ticket_take(self->request->place, &wants, &self->ticket, err);
	if (result < 0)
		return result;
	result = desk_init(&self->desk, &self->request->self, err);
	if (result == 0)
		result = desk_open_at(&self->desk, self->ticket.fd, err);
	self->wait[0] = (struct pollfd){.fd = self->desk.epoll_fd, .events = POLLIN};
	self->wait_count = 1;
	return result;
}

int acquire_units(const struct acquire_request *request, struct acquire_result *out,
		  struct err *err)
{
	_cleanup_free_ struct acquire *self = calloc(1, sizeof(*self));
	if (!self)
		return err_set(err, -ENOMEM, "no memory to wait for GPUs with");
	*out = (struct acquire_result){0};
	*self = (struct acquire){.request = request,
				 .out = out,
				 .ticket = TICKET_NONE,
				 .desk = {.epoll_fd = -1},
				 .begun_ns = acquire_now_ns(),
				 .look_ms = ACQUIRE_LOOK_FIRST_MS,
				 .retry_ms = ACQUIRE_RETRY_MS};
	inventory_init(&self->inventory);
	int result = acquire_begin(self, err);
	if (result == 0)
		result = acquire_loop(self, err);
	out->waited_ns = acquire_now_ns() - self->begun_ns;
	desk_done(&self->desk);
	ticket_release(&self->ticket);
	inventory_done(&self->inventory);
	free(self->snapshot);
	if (result < 0)
		acquire_release(out);
	return result;
}

void acquire_release(struct acquire_result *result)
{
	for (size_t i = 0; i < result->count; i++)
		token_release(&result->token[i]);
	result->count = 0;
}
