/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps in which order a job writes its output and its errors (src/job/interleave.h), without being
 * in the way: the kernel tells of writes into both, by inotify, and its queue keeps their turns
 * also where this looks late. The index is made when there is something of both. Where it cannot be
 * kept there is none, and the job runs all the same. Workers have orders of their own, which the
 * job's looks after: one instance of inotify for all of them, for the kernel has few.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_ORDER_H
#define SLUICE_LIBEXEC_SUPERVISE_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "job/interleave.h"
#include "libexec/supervise/watch.h"

struct launch;

enum order_kept_limits {
	ORDER_TEXT_MAX = 1 << 20, /* bytes of a stream that are read for their lines, of one look */
	ORDER_LOOKS = 200,	  /* at once, in a second; then every ORDER_LOOK_NS */
	ORDER_EVENTS = 16 << 10,  /* bytes of the kernel's events that are read at once */
	ORDER_WORKERS_MAX = 16,	  /* that are looked after: each look takes a moment */
	ORDER_PREFIX_MAX = 8,
};

#define ORDER_LOOK_NS (10 * CLOCK_NS_PER_MS) /* from one look to the next, of who writes a lot */

struct order {
	struct order
	    *next; /* borrowed: of a worker; all of them read from the first one's notify_fd */
	char prefix[ORDER_PREFIX_MAX]; /* of its files: "w3." of a worker; "" */
	bool is_told;		       /* of turns that were not looked at yet */
	int notify_fd; /* owned; -1: no order is kept. Never closed before we end: the kernel takes
			  its time for that */
	int timer_fd;  /* owned */
	int index_fd;  /* owned; -1: there is none yet */
	int watches[INTERLEAVE_STREAMS];
	int files[INTERLEAVE_STREAMS]; /* owned; to be read */
	uint64_t seen[INTERLEAVE_STREAMS];
	int job_fd; /* borrowed */
	uint32_t attempt;
	uid_t uid;
	gid_t gid;
	bool is_limited; /* the index is root's, which the user may read */

	enum interleave_stream last; /* the record that grows, */
	uint64_t last_length;	     /* 0: there is none yet */
	size_t record;		     /* and its place */
	enum interleave_stream turn; /* of turns whose bytes were not there yet, the first */
	size_t turns;
	bool was_late;	    /* they were looked for once already */
	bool is_over;	    /* no more is kept */
	uint64_t second_ns; /* that is counted, and */
	unsigned looks;	    /* how often it was looked in it */

	/* Before both are measured: what is in pipes goes into the files. */
	void (*drain)(void *context, short revents);
	void *context;
	struct watch_source *source; /* borrowed, from order_listen() on */
};

#define ORDER_NONE                                                                                 \
	((struct order){                                                                           \
	    .notify_fd = -1, .timer_fd = -1, .index_fd = -1, .files = {-1, -1}, .job_fd = -1})

/* `out_fd`, `err_fd`: what the job is to write into. Without inotify, or room in it, no order is
 * kept. */
void order_open(struct order *self, int job_fd, const struct launch *launch, int out_fd,
		int err_fd);
/* For run_listen(), and where that has put it. */
struct watch_source order_source(struct order *self);
void order_listen(struct order *self, struct watch_source *source);
/* A worker has begun, which writes into these; `self` stays until order_done() of `job`. Where the
 * job keeps no order, or looks after ORDER_WORKERS_MAX already, neither does this. */
void order_add_worker(struct order *job, struct order *self, uint32_t worker, int out_fd,
		      int err_fd);
/* Nobody of the job lives: the rest, of workers too. */
void order_done(struct order *self);

#endif
