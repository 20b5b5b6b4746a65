/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the configuration means for the local queue, kept true while the agent runs: its rules are
 * told anew at each reload and when a group of users has become known. The queue itself is the
 * agent's. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_DOORS_DOOR_QUEUE_H
#define SLUICE_AGENT_DOORS_DOOR_QUEUE_H

#include <stddef.h>

#include "sluice.pb-c.h"

struct arena;
struct child_set;
struct door_queue;
struct doors;
struct err;
struct log;
struct loop;
struct node;
struct queue;
struct storage;
struct uninstall_options;

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
void *door_queue_free(void *door);
/* Who is told from now on, at once too; NULL: nobody any more. Borrowed. */
void door_queue_set_queue(void *door, struct queue *queue);
/* The queue's GPUs may be others. */
void door_queue_update(void *door);
/* Nothing is begun any more. */
void door_queue_stop(void *door);
/* The configuration is another. */
void door_queue_reload(void *door);
/* Number `index` of what the owner should know; NULL behind the last. Borrowed until control
 * returns to the loop. */
const char *door_queue_warning(const struct door_queue *door, size_t index);

/* As a row of the table of doors: door.h. */
int door_queue_open(struct doors *doors, void **out, struct err *err);
void door_queue_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out);
int door_queue_cleanup(const struct uninstall_options *options, struct err *err);

#endif
