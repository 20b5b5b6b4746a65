/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the nodes of the queue's GPUs closed while the configuration wants it: when the GPUs become
 * known, when nodes come, and when a tool of the driver opens them again, which is noticed by
 * inotify. What is done to files is done on the storage thread. All of it belongs to the loop's
 * thread; door_queue.c has one.
 */
#ifndef SLUICE_AGENT_JOBS_ENFORCE_KEEP_H
#define SLUICE_AGENT_JOBS_ENFORCE_KEEP_H

#include <stdbool.h>
#include <sys/types.h>

struct enforce_keep;
struct err;
struct log;
struct loop;
struct schedule_machine;
struct storage;

enum enforce_keep_limits { ENFORCE_KEEP_PROBLEM_MAX = 200 };

struct enforce_keep_options {
	struct loop *loop; /* borrowed, all of these */
	struct storage *storage;
	struct log *log;
	const char *root;      /* before /dev; "": this machine's */
	const char *state_dir; /* NULL: nothing can be noted, and nothing is closed */
};

/* -ENOMEM. Without inotify it works, but notices less. */
int enforce_keep_new(const struct enforce_keep_options *options, struct enforce_keep **out,
		     struct err *err);
/* After the storage thread has ended, or before anything was begun. Leaves the nodes as they are: a
 * service that stops, or is upgraded, opens nothing. NULL is fine, here and below. */
struct enforce_keep *enforce_keep_free(struct enforce_keep *keep);
/* Nothing is begun any more. */
void enforce_keep_stop(struct enforce_keep *keep);
/* What is wanted now. Without an inventory in `machine` (or NULL) what is closed stays closed,
 * until it is known whose the GPUs are; to open again takes no inventory. */
void enforce_keep_set(struct enforce_keep *keep, bool is_on, gid_t gid,
		      const struct schedule_machine *machine);
/* Why it is not as wanted; "": it is, or it is not known yet. Borrowed. */
const char *enforce_keep_problem(const struct enforce_keep *keep);

#endif
