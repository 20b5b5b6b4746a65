/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA adapters within the agent: read now and then and when the kernel says that one has come or
 * gone, offered to the kubelet as the configuration has it, described in a CDI specification, and
 * whoever is not offered is told with the reason. Needs no GPU and no driver of one.
 *
 * Reading an adapter may wait for its firmware: that has a thread of its own, which exists only
 * where adapters are configured. The rest belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_DOORS_DOOR_RDMA_H
#define SLUICE_AGENT_DOORS_DOOR_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/rdma.h"
#include "sluice.pb-c.h"

struct agent_paths;
struct arena;
struct door_rdma;
struct doors;
struct err;
struct kubelet;
struct log;
struct loop;
struct node;
struct queue_pools_source;
struct rdma_counters;
struct storage;

#define DOOR_RDMA_PORTS_NS UINT64_C(5000000000)	 /* between looks where ports decide */
#define DOOR_RDMA_RETRY_NS UINT64_C(30000000000) /* after something that failed */
#define DOOR_RDMA_QUIET_NS UINT64_C(100000000)	 /* after a word of the kernel */

struct door_rdma_options {
	struct loop *loop;	 /* borrowed, all of these */
	struct storage *storage; /* for the configuration; ends before door_rdma_free() */
	struct log *log;	 /* may be NULL */
	const struct node *node;
	const struct agent_paths *paths;
	const char *root;	    /* before every path; pci_root() */
	const char *kubelet_socket; /* NULL: the usual one; "": do not register */
	/* Something that an administrator wants to hear of; `reason` is one word. May be NULL. */
	void (*event)(bool is_warning, const char *reason, const char *text, void *context);
	/* Adapters, their health or the configuration may be others. May be NULL. */
	void (*changed)(void *context);
	/* Counters of ports were read, or may be read again. May be NULL. */
	void (*counted)(void *context);
	void *context;
};

/* -ENOMEM, -ENAMETOOLONG. */
int door_rdma_new(const struct door_rdma_options *options, struct door_rdma **out, struct err *err);
/* Closes streams, removes the sockets; nothing is begun any more. NULL is fine, here and below. */
void door_rdma_stop(void *door);
/* After the storage thread has ended. Leaves the CDI specification. Returns NULL. */
void *door_rdma_free(void *door);

/* The node has changed: its configuration, or whether there is a kubelet. Cheap when nothing of it
 * matters here. */
void door_rdma_update(void *door);
/* The configuration is to be read again. */
void door_rdma_reload(void *door);
void door_rdma_register_again(void *door);

/* NULL: it is closed. Borrowed until the next call of a function above, as all below. */
const struct kubelet *door_rdma_kubelet(const struct door_rdma *door);
/* How a resource is. Plain data. */
struct door_rdma_view {
	const char *name;
	uint32_t units, adapters, healthy;    /* adapters: that match; of them healthy ones */
	char problem[RDMA_POLICY_REASON_MAX]; /* why nothing is handed out; "" */
};
bool door_rdma_resource_at(const struct door_rdma *door, size_t index, struct door_rdma_view *out);
/* What jobs may have of it: policy, adapters and health of `out`, all borrowed. */
void door_rdma_source(const struct door_rdma *door, struct queue_pools_source *out);
/* Somebody wants the ports' counters: they are read on the thread when they are 5 s old. */
void door_rdma_count(struct door_rdma *door);
/* As read last; NULL: not read. */
const struct rdma_counters *door_rdma_counters(const struct door_rdma *door, const char *device,
					       uint32_t port);
/* Sentence number `index` about what is not offered or down; NULL: there are not so many. */
const char *door_rdma_note_at(const struct door_rdma *door, size_t index);
/* Why the configuration, or a newer one, was refused, or adapters cannot be read; "". */
const char *door_rdma_error(const struct door_rdma *door);

/* As a row of the table of doors: door.h. */
int door_rdma_open(struct doors *doors, void **out, struct err *err);
void door_rdma_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out);

#endif
