/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: timers, descriptors, signals, callbacks posted by other threads, and frees that
 * wait until the end of the pass. libevent does the waiting; timers are kept here, so that a test
 * can be the clock. Everything but loop_post() belongs to the one thread that runs the loop.
 *
 * Objects made here belong to whoever made them, borrow the loop, and are freed before it. Each
 * may be freed from any callback, its own included: a callback of a freed object is not called any
 * more, its memory goes at the end of the pass.
 */
#ifndef SLUICE_BASE_LOOP_H
#define SLUICE_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct event_base;
struct loop;
struct loop_fd;
struct loop_signal;
struct loop_timer;

typedef void (*loop_callback)(void *context);

/* Something to be called later, once. In the caller's memory, so that asking for it cannot fail; it
 * must stay there until it was called or cancelled. Zero-initialised before its first use. */
struct loop_task {
	struct loop_task *next;
	loop_callback callback;
	void *context;
	bool queued;
};

enum loop_events { LOOP_READ = 1 << 0, LOOP_WRITE = 1 << 1 };

enum loop_mode {
	LOOP_REAL, /* CLOCK_MONOTONIC */
	LOOP_FAKE, /* time stands still but for loop_advance(); starts at 1 s */
};

/* Owned. NULL: -ENOMEM or -EMFILE in `err`. */
struct loop *loop_new(enum loop_mode mode, struct err *err);
struct loop *loop_free(struct loop *loop);

/* Nanoseconds of the loop's clock. */
uint64_t loop_now_ns(const struct loop *loop);

/* Runs until loop_stop(). 0, or -EIO if waiting itself fails. */
int loop_run(struct loop *loop, struct err *err);
void loop_stop(struct loop *loop);
/*
 * One pass: waits (in real time, even if the clock is fake) at most `max_wait_ns` for something to
 * happen, calls everything that is due, then the deferred tasks. 0 or -EIO.
 */
int loop_pass(struct loop *loop, uint64_t max_wait_ns, struct err *err);
/* LOOP_FAKE only: moves time forward and calls each timer that comes due, in order, at its time,
 * with a pass that does not wait after each. A timer that starts itself again without a delay would
 * keep it for ever: time stands still. 0 or -EIO. */
int loop_advance(struct loop *loop, uint64_t ns, struct err *err);

/* A timer that is not running yet. NULL: -ENOMEM. */
struct loop_timer *loop_timer_new(struct loop *loop, loop_callback callback, void *context,
				  struct err *err);
struct loop_timer *loop_timer_free(struct loop_timer *timer);
/* Calls once, `delay_ns` from now; starting a running timer moves it. Cannot fail. */
void loop_timer_start(struct loop_timer *timer, uint64_t delay_ns);
void loop_timer_stop(struct loop_timer *timer);
bool loop_timer_is_running(const struct loop_timer *timer);

typedef void (*loop_fd_callback)(int fd, unsigned events, void *context);

/* Calls whenever `fd` (borrowed; closed only after loop_fd_free()) is ready for one of `events` (of
 * enum loop_events). A hang-up counts as readable. NULL: -ENOMEM, or -EPERM for what cannot be
 * waited for, such as a regular file. */
struct loop_fd *loop_fd_new(struct loop *loop, int fd, unsigned events, loop_fd_callback callback,
			    void *context, struct err *err);
struct loop_fd *loop_fd_free(struct loop_fd *watch);
/* Changes what is waited for; 0 is nothing. 0 or -ENOMEM. */
int loop_fd_watch(struct loop_fd *watch, unsigned events, struct err *err);

/* Calls on the loop whenever the process gets `signo`. One watch per signal and process. */
struct loop_signal *loop_signal_new(struct loop *loop, int signo, loop_callback callback,
				    void *context, struct err *err);
struct loop_signal *loop_signal_free(struct loop_signal *watch);

/* From any thread: calls `callback` on the loop's thread soon. A task that is queued already is
 * called once. Tasks are called in the order of posting. */
void loop_post(struct loop *loop, struct loop_task *task, loop_callback callback, void *context);
/* At the end of this pass, when no queued event can point at the object any more; between two
 * passes, or by a deferred task: at the end of the next, which then does not wait. So every pass
 * lets sockets, timers and signals through, whatever defers itself again and again. */
void loop_defer(struct loop *loop, struct loop_task *task, loop_callback callback, void *context);
/* Takes a posted or deferred task back. Loop thread only. */
void loop_cancel(struct loop *loop, struct loop_task *task);

#endif
