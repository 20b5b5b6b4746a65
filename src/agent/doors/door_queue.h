/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the configuration means for the local queue, kept true while the agent runs: its rules are
 * told anew at each reload and when a group of users has become known. The queue itself is the
 * agent's. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_DOORS_DOOR_QUEUE_H
#define SLUICE_AGENT_DOORS_DOOR_QUEUE_H

#include <stddef.h>

struct child_set;
struct door_queue;
struct err;
struct log;
struct loop;
struct node;
struct queue;
struct storage;

struct door_queue_options {
	struct loop *loop; /* borrowed, all of these */
	struct child_set *children;
	struct log *log;
	const struct node *node; /* its configuration */
	struct storage *storage; /* ends before door_queue_free() */
	const char *root;	 /* before /dev; "": this machine's */
	const char *state_dir;	 /* NULL: GPU nodes cannot be closed */
};

/* -ENOMEM. */
int door_queue_new(const struct door_queue_options *options, struct door_queue **out,
		   struct err *err);
/* NULL is fine, here and below. Returns NULL. */
struct door_queue *door_queue_free(struct door_queue *door);
/* Who is told from now on, at once too; NULL: nobody any more. Borrowed. */
void door_queue_set_queue(struct door_queue *door, struct queue *queue);
/* The queue's GPUs may be others. */
void door_queue_update(struct door_queue *door);
/* Nothing is begun any more. */
void door_queue_stop(struct door_queue *door);
/* The configuration is another. */
void door_queue_reload(struct door_queue *door);
/* Number `index` of what the owner should know; NULL behind the last. Borrowed until control
 * returns to the loop. */
const char *door_queue_warning(const struct door_queue *door, size_t index);

#endif
