/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CDI door within the agent: says when the specifications in /var/run/cdi are to be looked at
 * again, and what they are to describe. Looked at, and written, is on the storage thread, one run
 * at a time (doors/cdi/keep.h); the rest belongs to the loop's. The files outlive the agent:
 * containers start without it.
 */
#ifndef SLUICE_AGENT_DOORS_DOOR_CDI_H
#define SLUICE_AGENT_DOORS_DOOR_CDI_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice.pb-c.h"

struct agent_paths;
struct arena;
struct door_cdi;
struct doors;
struct err;
struct log;
struct loop;
struct node;
struct resource_cdi;
struct storage;
struct uninstall_options;

#define DOOR_CDI_LOOK_NS UINT64_C(30000000000) /* between looks at what nothing tells of */

struct door_cdi_options {
	struct loop *loop;	 /* borrowed, all of these */
	struct storage *storage; /* ends before door_cdi_free() */
	struct log *log;	 /* may be NULL */
	const struct node *node;
	const struct agent_paths *paths;
	const char *root; /* before every path; pci_root() */
	/* Files were written or removed, or others' were. May be NULL. */
	void (*changed)(void *context);
	void *context;
};

/* Begins with a run if the machine is known. A user's agent on a real machine keeps no
 * specifications and says so. -ENOMEM, -ENAMETOOLONG. */
int door_cdi_new(const struct door_cdi_options *options, struct door_cdi **out, struct err *err);
/* Nothing is begun any more; what is under way ends. */
void door_cdi_stop(void *door);
/* After the storage thread has ended. Leaves the files. NULL is fine; returns NULL. */
void *door_cdi_free(void *door);

/* The node has changed. Cheap when nothing of it matters here. NULL is fine. */
void door_cdi_update(void *door);

/* What somebody provides: NVIDIA's other kinds, and which devices nobody has by the name that
 * containers are told. Borrowed until the next call from the loop. */
void door_cdi_found(const struct door_cdi *door, struct resource_cdi *out);
/* "off", "waiting" (for a driver), "kept", "failed". NULL is off. */
const char *door_cdi_state(const struct door_cdi *door);
/* Why, or which kinds somebody else provides; "" when there is nothing to say. Borrowed until the
 * next call from the loop. */
const char *door_cdi_text(const struct door_cdi *door);

/* As a row of the table of doors: door.h. */
int door_cdi_open(struct doors *doors, void **out, struct err *err);
void door_cdi_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out);
int door_cdi_cleanup(const struct uninstall_options *options, struct err *err);

#endif
