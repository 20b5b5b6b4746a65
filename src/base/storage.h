/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread for everything that waits for a disk: jobs are worked on in the order in which they
 * were handed in, off the loop, and their completion comes back as a call on the loop. It knows
 * nothing of what the jobs do.
 */
#ifndef SLUICE_BASE_STORAGE_H
#define SLUICE_BASE_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct loop;
struct storage;
struct storage_job;

/*
 * Jobs that wait one behind the other and are of the same group are worked on in a row, and closed
 * together before any of them is reported: one fsync for all of them. A job that finds nobody
 * behind it is closed at once.
 */
struct storage_group {
	/* On the storage thread: `first` and those behind it by `next` have been worked on. May
	 * change their results. */
	void (*close)(struct storage_job *first, void *context);
	void *context;
	size_t jobs_max; /* at least 1 */
	uint64_t ns_max; /* of work, after which no more are taken in */
};

/* In the caller's memory, zero-initialised, and his again when done() is called. */
struct storage_job {
	struct storage_job *next;
	int (*work)(void *context); /* on the storage thread; returns 0 or -errno */
	/* On the loop, with what work() returned, or close() has made of it. */
	void (*done)(void *context, int result);
	void *context;
	const struct storage_group *group; /* borrowed, until done(); NULL: none */
	int result;
};

/* Starts the thread. At most `queue_max` jobs are waiting, worked on or not yet reported at any
 * time. `loop` is borrowed and outlives it. NULL: -ENOMEM or -EAGAIN. */
struct storage *storage_new(struct loop *loop, size_t queue_max, struct err *err);
/*
 * Takes no more jobs, waits until every one that was handed in is worked on, calls their done() and
 * ends the thread. Blocks: for the end of the program, never from a callback of a job.
 */
struct storage *storage_close(struct storage *storage);

/* Hands a job in; work(), done() and context are set. 0, or -ENOSPC when the queue is full and
 * -ESHUTDOWN in a done() that storage_close() calls: then nothing of `job` was touched. */
int storage_submit(struct storage *storage, struct storage_job *job, struct err *err);
/* Jobs whose done() was not called yet. */
size_t storage_pending(const struct storage *storage);
/* How long the job that is worked on has taken so far (CLOCK_MONOTONIC, in real time); 0 when none
 * is. A disk that does not answer shows here first. */
uint64_t storage_busy_ns(const struct storage *storage);

#endif
