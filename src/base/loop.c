/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"

#define LOOP_IDLE	SIZE_MAX /* heap index of a timer that does not run */
#define LOOP_FAKE_START CLOCK_NS_PER_S

enum loop_internals {
	LOOP_FIRST_TIMERS = 16,
	LOOP_LONGEST_WAIT_S = 3600, /* libevent gets no longer wait; the heap knows the truth */
};

struct loop_timer {
	struct loop *loop; /* borrowed */
	loop_callback callback;
	void *context;
	uint64_t due_ns;
	uint64_t order; /* of starting: timers of the same time are called in this order */
	size_t index;	/* in the heap, or LOOP_IDLE */
	struct loop_task gone;
};

struct loop_fd {
	struct loop *loop; /* borrowed */
	int fd;		   /* borrowed */
	unsigned events;
	loop_fd_callback callback;
	void *context;
	struct event event;
	struct loop_task gone;
};

struct loop_signal {
	struct loop *loop; /* borrowed */
	loop_callback callback;
	void *context;
	struct event event;
	struct loop_task gone;
};

struct loop_queue {
	struct loop_task *first, **last;
};

struct loop {
	struct event_base *base; /* owned */
	struct clock clock;
	uint64_t fake_ns;
	bool stopped;

	struct loop_timer **heap; /* owned array of borrowed timers; the next one first */
	size_t heap_count;
	size_t heap_capacity; /* at least timer_count: starting a timer cannot fail */
	size_t timer_count;
	uint64_t next_order;
	struct event alarm; /* rings when heap[0] is due */
	struct event limit; /* ends a pass that waits too long */

	struct loop_queue deferred;
	struct loop_queue turn; /* those of `deferred` that are being called */

	pthread_mutex_t mutex; /* guards `posted` and the tasks in it */
	struct loop_queue posted;
	int wake_fd; /* owned: eventfd */
	struct event wake;
};

static void queue_init(struct loop_queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
}

static void queue_push(struct loop_queue *queue, struct loop_task *task)
{
	task->next = NULL;
	task->queued = true;
	*queue->last = task;
	queue->last = &task->next;
}

static struct loop_task *queue_pop(struct loop_queue *queue)
{
	struct loop_task *task = queue->first;
	if (!task)
		return NULL;

	queue->first = task->next;
	if (!queue->first)
		queue->last = &queue->first;
	task->queued = false;

	return task;
}

/* Appends all of `from`. */
static void queue_move(struct loop_queue *to, struct loop_queue *from)
{
	if (!from->first)
		return;
	*to->last = from->first;
	to->last = from->last;
	queue_init(from);
}

static bool queue_remove(struct loop_queue *queue, struct loop_task *task)
{
	for (struct loop_task **at = &queue->first; *at; at = &(*at)->next) {
		if (*at != task)
			continue;

		*at = task->next;
		if (!*at)
			queue->last = at;
		task->queued = false;

		return true;
	}

	return false;
}

/* The heap of running timers: a binary heap by (due_ns, order). */

static bool timer_before(const struct loop_timer *a, const struct loop_timer *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void heap_put(struct loop *loop, size_t index, struct loop_timer *timer)
{
	loop->heap[index] = timer;
	timer->index = index;
}

/* Moves `timer` from `index` to where it belongs. */
static void heap_settle(struct loop *loop, size_t index, struct loop_timer *timer)
{
	while (index > 0 && timer_before(timer, loop->heap[(index - 1) / 2])) {
		heap_put(loop, index, loop->heap[(index - 1) / 2]);
		index = (index - 1) / 2;
	}

	for (;;) {
		size_t child = 2 * index + 1;
		if (child >= loop->heap_count)
			break;
		if (child + 1 < loop->heap_count &&
		    timer_before(loop->heap[child + 1], loop->heap[child]))
			child++;
		if (!timer_before(loop->heap[child], timer))
			break;

		heap_put(loop, index, loop->heap[child]);
		index = child;
	}

	heap_put(loop, index, timer);
}

static void heap_remove(struct loop *loop, struct loop_timer *timer)
{
	size_t index = timer->index;
	struct loop_timer *last = loop->heap[--loop->heap_count];
	timer->index = LOOP_IDLE;
	if (last != timer)
		heap_settle(loop, index, last);
}

static struct timeval loop_timeval(uint64_t ns)
{
	if (ns > LOOP_LONGEST_WAIT_S * CLOCK_NS_PER_S)
		ns = LOOP_LONGEST_WAIT_S * CLOCK_NS_PER_S;
	uint64_t us = (ns + CLOCK_NS_PER_US - 1) / CLOCK_NS_PER_US;
	return (struct timeval){.tv_sec = (time_t)(us / 1000000),
				.tv_usec = (suseconds_t)(us % 1000000)};
}

/* Sets the one libevent timer to the first of ours. Fails only on memory, and libevent has that
 * from loop_new(), where the alarm was added once. */
static void loop_set_alarm(struct loop *loop)
{
	if (loop->clock.fake_ns)
		return;
	if (loop->heap_count == 0) {
		(void)event_del(&loop->alarm);
		return;
	}

	uint64_t now = clock_now_ns(&loop->clock);
	uint64_t due = loop->heap[0]->due_ns;
	struct timeval wait = loop_timeval(due > now ? due - now : 0);

	(void)event_add(&loop->alarm, &wait);
}

/* Calls what is due at `now_ns`. The clock has gone on when a callback starts a timer for now, so
 * that one waits for the next pass and lets others have their turn. */
static void loop_run_timers(struct loop *loop, uint64_t now_ns)
{
	while (loop->heap_count > 0) {
		struct loop_timer *timer = loop->heap[0];
		if (timer->due_ns > now_ns)
			break;
		heap_remove(loop, timer);
		timer->callback(timer->context);
	}

	loop_set_alarm(loop);
}

static void loop_on_alarm(evutil_socket_t fd, short events, void *context)
{
	struct loop *loop = context;
	loop_run_timers(loop, clock_now_ns(&loop->clock));
}

static void loop_on_limit(evutil_socket_t fd, short events, void *context)
{
	/* nothing: that it rang ends the pass */
}

static void loop_run_posted(struct loop *loop)
{
	(void)pthread_mutex_lock(&loop->mutex);
	size_t count = 0;
	for (struct loop_task *task = loop->posted.first; task; task = task->next)
		count++;

	(void)pthread_mutex_unlock(&loop->mutex);

	/* One by one, because a callback may cancel or free one that comes after it. Those that are
	 * posted meanwhile wake the next pass. */
	for (; count > 0; count--) {
		(void)pthread_mutex_lock(&loop->mutex);
		struct loop_task *task = queue_pop(&loop->posted);
		loop_callback callback = task ? task->callback : NULL;

		void *context = task ? task->context : NULL;

		(void)pthread_mutex_unlock(&loop->mutex);
		if (callback)
			callback(context);
	}
}

static void loop_on_wake(evutil_socket_t fd, short events, void *context)
{
	uint64_t count;
	(void)!read(fd, &count, sizeof(count)); /* only to make it unreadable again */
	loop_run_posted(context);
}

/* Calls what was deferred until now. What these defer waits for the next pass: a task that defers
 * itself would otherwise keep sockets, timers and signals waiting for ever. */
static void loop_run_deferred(struct loop *loop)
{
	struct loop_task *task;
	queue_move(&loop->turn, &loop->deferred);
	while ((task = queue_pop(&loop->turn)) != NULL)
		task->callback(task->context);
}

/* libevent writes its complaints to standard error unless told otherwise; errors come back to us
 * as return values all the same. */
static void loop_no_log(int severity, const char *message)
{
}

static int loop_init(struct loop *loop)
{
	event_set_log_callback(loop_no_log);
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wake_fd < 0)
		return -errno;

	loop->base = event_base_new();
	if (!loop->base)
		return -ENOMEM;

	struct timeval far = {.tv_sec = LOOP_LONGEST_WAIT_S};

	event_assign(&loop->alarm, loop->base, -1, 0, loop_on_alarm, loop);
	event_assign(&loop->limit, loop->base, -1, 0, loop_on_limit, loop);
	event_assign(&loop->wake, loop->base, loop->wake_fd, EV_READ | EV_PERSIST, loop_on_wake,
		     loop);

	if (event_add(&loop->wake, NULL) < 0 || event_add(&loop->alarm, &far) < 0 ||
	    event_add(&loop->limit, &far) < 0)
		return -ENOMEM;

	(void)event_del(&loop->alarm);
	(void)event_del(&loop->limit);
	return 0;
}

struct loop *loop_new(enum loop_mode mode, struct err *err)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	if (!loop) {
		(void)err_set(err, -ENOMEM, "out of memory for the event loop");
		return NULL;
	}

	loop->wake_fd = -1;
	loop->fake_ns = LOOP_FAKE_START;
	loop->clock.fake_ns = mode == LOOP_FAKE ? &loop->fake_ns : NULL;
	queue_init(&loop->deferred);
	queue_init(&loop->turn);
	queue_init(&loop->posted);
	(void)pthread_mutex_init(&loop->mutex, NULL); /* cannot fail without attributes */

	int rc = loop_init(loop);
	if (rc < 0) {
		(void)err_set(err, rc, "cannot make the event loop: %s", err_describe(rc));
		return loop_free(loop);
	}

	return loop;
}

struct loop *loop_free(struct loop *loop)
{
	if (!loop)
		return NULL;

	while (loop->deferred.first)
		loop_run_deferred(loop);

	if (loop->base) {
		(void)event_del(&loop->alarm);
		(void)event_del(&loop->limit);
		(void)event_del(&loop->wake);
		event_base_free(loop->base);
	}

	if (loop->wake_fd >= 0)
		(void)close(loop->wake_fd);
	(void)pthread_mutex_destroy(&loop->mutex);
	free(loop->heap);
	free(loop);

	return NULL;
}

uint64_t loop_now_ns(const struct loop *loop)
{
	return clock_now_ns(&loop->clock);
}

static int loop_once(struct loop *loop, int flags, struct err *err)
{
	if (loop->deferred.first)
		flags |= EVLOOP_NONBLOCK; /* deferred between two passes: it does not wait for an
					     event */

	int rc = event_base_loop(loop->base, flags | EVLOOP_NO_EXIT_ON_EMPTY);

	loop_run_deferred(loop);
	if (rc < 0)
		return err_set(err, -EIO, "the event loop cannot wait: %s", err_describe(errno));

	return 0;
}

int loop_run(struct loop *loop, struct err *err)
{
	loop->stopped = false;
	while (!loop->stopped) {
		int rc = loop_once(loop, EVLOOP_ONCE, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void loop_stop(struct loop *loop)
{
	loop->stopped = true;
}

int loop_pass(struct loop *loop, uint64_t max_wait_ns, struct err *err)
{
	if (max_wait_ns == 0)
		return loop_once(loop, EVLOOP_NONBLOCK, err);

	struct timeval wait = loop_timeval(max_wait_ns);
	if (event_add(&loop->limit, &wait) < 0)
		return err_set(err, -EIO, "the event loop cannot set a limit");

	int rc = loop_once(loop, EVLOOP_ONCE, err);
	(void)event_del(&loop->limit);
	return rc;
}

int loop_advance(struct loop *loop, uint64_t ns, struct err *err)
{
	assert(loop->clock.fake_ns);
	uint64_t target = clock_after_ns(loop->fake_ns, ns);
	int rc = 0;

	while (rc == 0 && loop->heap_count > 0 && loop->heap[0]->due_ns <= target) {
		if (loop->heap[0]->due_ns > loop->fake_ns)
			loop->fake_ns = loop->heap[0]->due_ns;
		loop_run_timers(loop, loop->fake_ns);
		rc = loop_pass(loop, 0, err);
	}

	loop->fake_ns = target;
	return rc < 0 ? rc : loop_pass(loop, 0, err);
}

static void loop_free_memory(void *context)
{
	free(context);
}

struct loop_timer *loop_timer_new(struct loop *loop, loop_callback callback, void *context,
				  struct err *err)
{
	struct loop_timer *timer = calloc(1, sizeof(*timer));
	if (timer && array_room(&loop->heap, loop->timer_count, &loop->heap_capacity,
				LOOP_FIRST_TIMERS) < 0) {
		free(timer);
		timer = NULL;
	}

	if (!timer) {
		(void)err_set(err, -ENOMEM, "out of memory for a timer");
		return NULL;
	}

	timer->loop = loop;
	timer->callback = callback;
	timer->context = context;
	timer->index = LOOP_IDLE;
	loop->timer_count++;

	return timer;
}

struct loop_timer *loop_timer_free(struct loop_timer *timer)
{
	if (!timer)
		return NULL;
	loop_timer_stop(timer);
	timer->loop->timer_count--;
	loop_defer(timer->loop, &timer->gone, loop_free_memory, timer);
	return NULL;
}

void loop_timer_start(struct loop_timer *timer, uint64_t delay_ns)
{
	struct loop *loop = timer->loop;

	if (timer->index != LOOP_IDLE)
		heap_remove(loop, timer);
	timer->due_ns = clock_after_ns(clock_now_ns(&loop->clock), delay_ns);
	timer->order = loop->next_order++;
	heap_settle(loop, loop->heap_count++, timer);

	if (loop->heap[0] == timer)
		loop_set_alarm(loop);
}

void loop_timer_stop(struct loop_timer *timer)
{
	if (timer->index == LOOP_IDLE)
		return;
	bool first = timer->index == 0;
	heap_remove(timer->loop, timer);
	if (first)
		loop_set_alarm(timer->loop);
}

bool loop_timer_is_running(const struct loop_timer *timer)
{
	return timer->index != LOOP_IDLE;
}

static void loop_on_fd(evutil_socket_t fd, short events, void *context)
{
	struct loop_fd *watch = context;
	unsigned ready =
	    (events & EV_READ ? LOOP_READ : 0u) | (events & EV_WRITE ? LOOP_WRITE : 0u);
	watch->callback(fd, ready, watch->context);
}

int loop_fd_watch(struct loop_fd *watch, unsigned events, struct err *err)
{
	if (events == watch->events)
		return 0;
	if (watch->events)
		(void)event_del(&watch->event);
	watch->events = 0;

	if (events == 0)
		return 0;

	int flags =
	    EV_PERSIST | (events & LOOP_READ ? EV_READ : 0) | (events & LOOP_WRITE ? EV_WRITE : 0);
	event_assign(&watch->event, watch->loop->base, watch->fd, (short)flags, loop_on_fd, watch);
	errno = 0;

	if (event_add(&watch->event, NULL) < 0) {
		int code = errno ? -errno : -ENOMEM;
		return err_set(err, code, "cannot wait for descriptor %d: %s", watch->fd,
			       err_describe(code));
	}

	watch->events = events;
	return 0;
}

struct loop_fd *loop_fd_new(struct loop *loop, int fd, unsigned events, loop_fd_callback callback,
			    void *context, struct err *err)
{
	struct loop_fd *watch = calloc(1, sizeof(*watch));
	if (!watch) {
		(void)err_set(err, -ENOMEM, "out of memory to watch descriptor %d", fd);
		return NULL;
	}

	watch->loop = loop;
	watch->fd = fd;
	watch->callback = callback;
	watch->context = context;
	if (loop_fd_watch(watch, events, err) < 0) {
		free(watch);
		return NULL;
	}

	return watch;
}

struct loop_fd *loop_fd_free(struct loop_fd *watch)
{
	if (!watch)
		return NULL;
	(void)loop_fd_watch(watch, 0, NULL); /* taking away cannot fail */
	loop_defer(watch->loop, &watch->gone, loop_free_memory, watch);
	return NULL;
}

static void loop_on_signal(evutil_socket_t signo, short events, void *context)
{
	struct loop_signal *watch = context;
	watch->callback(watch->context);
}

struct loop_signal *loop_signal_new(struct loop *loop, int signo, loop_callback callback,
				    void *context, struct err *err)
{
	struct loop_signal *watch = calloc(1, sizeof(*watch));
	if (watch) {
		watch->loop = loop;
		watch->callback = callback;
		watch->context = context;
		event_assign(&watch->event, loop->base, signo, EV_SIGNAL | EV_PERSIST,
			     loop_on_signal, watch);
	}

	if (!watch || event_add(&watch->event, NULL) < 0) {
		free(watch);
		(void)err_set(err, -ENOMEM, "cannot watch signal %d: out of memory", signo);
		return NULL;
	}

	return watch;
}

struct loop_signal *loop_signal_free(struct loop_signal *watch)
{
	if (!watch)
		return NULL;
	(void)event_del(&watch->event);
	loop_defer(watch->loop, &watch->gone, loop_free_memory, watch);
	return NULL;
}

void loop_post(struct loop *loop, struct loop_task *task, loop_callback callback, void *context)
{
	(void)pthread_mutex_lock(&loop->mutex);
	if (!task->queued) {
		task->callback = callback;
		task->context = context;
		queue_push(&loop->posted, task);
	}

	(void)pthread_mutex_unlock(&loop->mutex);

	/* Under EAGAIN the counter is full, so the loop is awake anyway. */
	const uint64_t one = 1;
	(void)!write(loop->wake_fd, &one, sizeof(one));
}

void loop_defer(struct loop *loop, struct loop_task *task, loop_callback callback, void *context)
{
	if (task->queued)
		return;
	task->callback = callback;
	task->context = context;
	queue_push(&loop->deferred, task);
}

void loop_cancel(struct loop *loop, struct loop_task *task)
{
	if (queue_remove(&loop->deferred, task) || queue_remove(&loop->turn, task))
		return;
	(void)pthread_mutex_lock(&loop->mutex);
	(void)queue_remove(&loop->posted, task);
	(void)pthread_mutex_unlock(&loop->mutex);
}
