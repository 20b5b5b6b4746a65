/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files in /run/nvidia/validations within the agent: what driver, CDI specifications, kubelet
 * and kernel modules say decides which are there (doors/validations/ready.h), and the storage
 * thread writes them, one run at a time (ready_files.h). The rest belongs to the loop's. The files
 * outlive the agent: who waits for them must not wait for an update of it.
 */
#ifndef SLUICE_AGENT_DOORS_DOOR_VALIDATIONS_H
#define SLUICE_AGENT_DOORS_DOOR_VALIDATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/validations/ready.h"
#include "sluice.pb-c.h"

struct agent_paths;
struct arena;
struct door_cdi;
struct door_kubelet;
struct door_validations;
struct doors;
struct err;
struct log;
struct loop;
struct node;
struct storage;
struct uninstall_options;

#define DOOR_VALIDATIONS_LOOK_NS                                                                   \
	UINT64_C(10000000000)			     /* between looks at what nothing tells of     \
						      */
#define DOOR_VALIDATIONS_ASK_NS UINT64_C(1000000000) /* between questions what pods may have */
/* Until a registration that is lost counts; also after the start. */
#define DOOR_VALIDATIONS_LOST_NS UINT64_C(60000000000)

struct door_validations_options {
	struct loop *loop;	 /* borrowed, all of these */
	struct storage *storage; /* ends before door_validations_free() */
	struct log *log;	 /* may be NULL */
	const struct node *node;
	const struct agent_paths *paths;
	const char *root; /* before every path; pci_root() */
	const struct door_cdi *cdi;
	struct door_kubelet *kubelet; /* may be NULL */
};

/* Begins with a run if the machine is known. A user's agent on a real machine writes none and says
 * so. -ENOMEM, -ENAMETOOLONG. */
int door_validations_new(const struct door_validations_options *options,
			 struct door_validations **out, struct err *err);
/* Nothing is begun any more; what is under way ends. NULL is fine, here and below. */
void door_validations_stop(void *door);
/* After the storage thread has ended. Leaves the files. Returns NULL. */
void *door_validations_free(void *door);

/* Node, specifications or configuration may be others. Cheap when nothing of it matters here. */
void door_validations_update(void *door);

/* "off", "kept", "foreign" (another program's are there), "failed". NULL is off. */
const char *door_validations_state(const struct door_validations *door);
/* Why; "" when there is nothing to say. Borrowed until the next call from the loop. */
const char *door_validations_text(const struct door_validations *door);
/* What the last look found, whoever's the files are; READY_UNKNOWN: there was none, or it cannot be
 * told. */
enum ready_state door_validations_fact(const struct door_validations *door, enum ready_what what);
/* Whether the file is there, and ours; `*out_why`: why not. Borrowed. */
bool door_validations_has(const struct door_validations *door, enum ready_what what,
			  const char **out_why);

/* As a row of the table of doors: door.h. */
int door_validations_open(struct doors *doors, void **out, struct err *err);
void door_validations_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out);
int door_validations_cleanup(const struct uninstall_options *options, struct err *err);

#endif
