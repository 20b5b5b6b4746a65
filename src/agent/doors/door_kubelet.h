/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet door within the agent: opened when there is something to hand out to a kubelet, fed
 * with what the node knows. Knows nothing of jobs. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_DOORS_DOOR_KUBELET_H
#define SLUICE_AGENT_DOORS_DOOR_KUBELET_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice.pb-c.h"

struct arena;
struct door_kubelet;
struct doors;
struct err;
struct injection;
struct kubelet;
struct leases;
struct log;
struct loop;
struct node;
struct podresources;
struct queue;
struct resource_cdi;
struct vitals;

struct door_kubelet_options {
	struct loop *loop; /* borrowed, all of these */
	struct log *log;   /* may be NULL */
	const struct node *node;
	const struct vitals *vitals; /* of the same inventory as the node */
	const char *socket;	     /* the kubelet's; NULL: the usual one; "": do not register */
	const char *runtime; /* the container runtime's socket; NULL or "": the usual ones */
	struct leases *leases;
	/* Nobody would put a GPU into a container, and why. May be NULL. */
	void (*no_injection)(const char *reason, void *context);
	void *context;
};

/* The directory of the kubelet's socket. Owned; NULL: the usual one, or no memory. */
char *door_kubelet_directory(const char *socket);

/* Closes streams, removes the sockets: from then on there is neither kubelet nor pods. */
void door_kubelet_stop(void *door);
/* NULL is fine; returns NULL. */
void *door_kubelet_free(void *door);

/* The node has changed. Cheap when nothing of it matters here. */
void door_kubelet_update(void *door);
/* What is read from the machine without asking the driver may be another: device nodes. */
void door_kubelet_look(void *door);
/* What jobs hold may be something else. */
void door_kubelet_jobs(void *door);
/* From now on what jobs hold is in the ledger: until then no unit is handed out. */
void door_kubelet_set_queue(void *door, struct queue *queue);
/* Whether it is about to be known which containers hold something. */
bool door_kubelet_awaits_pods(const struct door_kubelet *door);
/* Whether a kubelet that is there is about to get its devices: the machine is not known yet, or a
 * registration is under way. */
bool door_kubelet_is_pending(const struct door_kubelet *door);
/* Somebody's CDI specifications are others than they were. `cdi` is copied; without memory all that
 * it misses is taken to be there. */
void door_kubelet_specifications(struct door_kubelet *door, const struct resource_cdi *cdi);

/* What pods hold and may have is asked of the kubelet again. */
void door_kubelet_ask(struct door_kubelet *door);

/* How long "containers get no driver" waits for our own CDI specifications, which come after the
 * first registration. */
#define DOOR_KUBELET_UNSURE_NS UINT64_C(5000000000)

/* Beside what node and vitals say, until it is called again. Cheap when it is the same. */
enum door_kubelet_hold {
	DOOR_KUBELET_OPEN,
	DOOR_KUBELET_UNHEALTHY, /* every device is, and `why` */
	DOOR_KUBELET_SHUT,	/* there are no devices: resources end with an empty list */
};
void door_kubelet_hold(struct door_kubelet *door, enum door_kubelet_hold how, const char *why);
void door_kubelet_register_again(void *door);

/* NULL: it is closed. Borrowed until the next call of a function above. */
const struct kubelet *door_kubelet_kubelet(const struct door_kubelet *door);
/* The same. Who puts devices into containers. */
const struct injection *door_kubelet_injection(const struct door_kubelet *door);
/* The same. Who holds its devices. */
const struct podresources *door_kubelet_pods(const struct door_kubelet *door);
const char *door_kubelet_socket(const struct door_kubelet *door); /* "": it is closed */

/* As a row of the table of doors: door.h. */
int door_kubelet_open(struct doors *doors, void **out, struct err *err);
void door_kubelet_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out);

#endif
