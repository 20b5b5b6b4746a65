/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's doors, opened, told and closed together, so that nobody else need name each of them:
 * the table is in doors.c, and door.h says what a row has. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_DOORS_DOORS_H
#define SLUICE_AGENT_DOORS_DOORS_H

#include "sluice.pb-c.h"

struct agent_paths;
struct arena;
struct child_set;
struct cluster;
struct doors;
struct err;
struct leases;
struct log;
struct loop;
struct node;
struct queue;
struct reload;
struct storage;
struct uninstall_options;
struct vitals;
struct web_events;

/* In the order in which they are opened and told; they are freed in the other one. */
enum door_place {
	DOOR_KUBELET, /* first: a kubelet has less patience than a container that is yet to start */
	DOOR_RDMA,    /* a kubelet may wait for it, too */
	DOOR_CDI,
	DOOR_LABELS,
	DOOR_VALIDATIONS,
	DOOR_SOCKETS,
	DOOR_POOLS,
	DOOR_QUEUE,
	DOOR_WEB, /* it borrows from others */
	DOOR_COUNT,
};

/* The agent's parts, for all doors. Borrowed, all of these. */
struct doors_parts {
	struct loop *loop;
	struct storage *storage; /* ends before doors_free() */
	struct child_set *children;
	struct log *log; /* may be NULL */
	const struct node *node;
	const struct agent_paths *paths;
	const char *root; /* before every path; pci_root() */
	struct cluster *cluster;
	const struct vitals *vitals; /* of the same inventory as the node */
	const struct reload *reload;
	struct leases *leases;
	struct web_events *events;    /* may be NULL */
	const char *namespace_, *pod; /* NULL: not known */
	const char *node_name;	      /* Kubernetes' name of this node; NULL: not known */
	const char *kubelet_socket;   /* NULL: the usual one; "": do not register */
	const char *runtime; /* the container runtime's socket; NULL or "": the usual ones */
};

/* What the options of most doors begin with, for their initializer. */
#define DOORS_OPTIONS(parts)                                                                       \
	.loop = (parts)->loop, .storage = (parts)->storage, .log = (parts)->log,                   \
	.node = (parts)->node, .paths = (parts)->paths, .root = (parts)->root

/* With the kubelet's door open; the others are by doors_open(). -ENOMEM, ... */
int doors_new(const struct doors_parts *parts, struct doors **out, struct err *err);
/* The first failure of one of them: what those that are open have begun must end before
 * doors_free(). */
int doors_open(struct doors *doors, struct err *err);
/* Nothing is begun any more; what is under way ends. NULL is fine, here and below. */
void doors_stop(struct doors *doors);
/* After the storage thread has ended. Leaves the files. Returns NULL. */
struct doors *doors_free(struct doors *doors);

/* Each tells all doors; door.h has what it means to one. Not after doors_stop(). */
void doors_update(struct doors *doors);
void doors_look(struct doors *doors);
void doors_jobs(struct doors *doors);
void doors_set_queue(struct doors *doors, struct queue *queue);
void doors_reload(struct doors *doors);
void doors_register_again(struct doors *doors);

/* What all of them say of themselves. */
void doors_status(const struct doors *doors, struct arena *arena, Sluice__V1__StatusReply *out);
/* What all of them have left on the machine is removed. The first failure; the rest is done all the
 * same. */
int doors_cleanup(const struct uninstall_options *options, struct err *err);

/* --- for doors ------------------------------------------------------------------------------- */

const struct doors_parts *doors_parts(const struct doors *doors);
/* Another door; NULL: it is not open. Borrowed. */
void *doors_at(const struct doors *doors, enum door_place place);

/* Callbacks of doors (`context` is the doors) whose news are others' matter. */
void doors_on_specifications(
    void *context); /* CDI files were written or removed, or others' were */
void doors_on_adapters(
    void *context);		   /* RDMA adapters, their health or configuration may be others */
void doors_on_view(void *context); /* what page and metrics show may be another */

#endif
