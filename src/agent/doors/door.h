/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a door is to the agent: a row of operations in the table of doors.c. Each but open and free
 * may be NULL; status and free take NULL for a door that is not open. All of it belongs to the
 * loop's thread.
 *
 * A door knows the agent's parts by doors_parts(), and another door by doors_at().
 */
#ifndef SLUICE_AGENT_DOORS_DOOR_H
#define SLUICE_AGENT_DOORS_DOOR_H

#include "sluice.pb-c.h"

struct arena;
struct doors;
struct err;
struct queue;
struct uninstall_options;

struct door {
	const char *name; /* one word */

	/* `*out` may be set although it fails: what it has begun ends before free(). -ENOMEM, ...
	 */
	int (*open)(struct doors *doors, void **out, struct err *err);
	/* The machine, or what another door has, may be another. Cheap when nothing of it matters
	 * here. */
	void (*update)(void *door);
	/* Time for a look at what nothing tells of. */
	void (*look)(void *door);
	/* Jobs of the queue have changed. */
	void (*jobs)(void *door);
	/* From now on this is the queue, borrowed until stop(). */
	void (*set_queue)(void *door, struct queue *queue);
	/* The configuration was read again. */
	void (*reload)(void *door);
	/* Another plugin may have taken the place of one of ours. */
	void (*register_again)(void *door);
	/* Its part of what `sluice agent status` says. The texts are the arena's. */
	void (*status)(const void *door, struct arena *arena, Sluice__V1__StatusReply *out);
	/* Nothing is begun any more; what is under way ends. */
	void (*stop)(void *door);
	/* After the storage thread has ended. Leaves the files. Returns NULL. */
	void *(*free)(void *door);

	/* Removes from the machine what it has left there, while no agent runs. */
	int (*cleanup)(const struct uninstall_options *options, struct err *err);
};

#endif
