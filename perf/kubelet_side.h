/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's side of the device plugin API, as a benchmark needs it: takes registrations, calls
 * the plugin back before it answers them, as the kubelet does, then watches its list; and notes
 * when each of these happened. Fails as perf/queue_rig.h does. Knows no gates.
 */
#ifndef SLUICE_PERF_KUBELET_SIDE_H
#define SLUICE_PERF_KUBELET_SIDE_H

#include <stddef.h>
#include <stdint.h>

#include "perf/queue_rig.h"
#include "deviceplugin.pb-c.h"

struct side;
struct wire_call;
struct wire_client;
struct wire_server;

enum side_limits {
	SIDE_RESOURCES_MAX = 8,
	SIDE_DEVICES_MAX = 1024,
	SIDE_ID_MAX = 64,
	SIDE_NAME_MAX = 128,
};

#define SIDE_DEADLINE_NS UINT64_C(30000000000)

/* A resource that registered. Times are those of gate_now_ns(), 0 before. */
struct side_resource {
	struct side *side;
	char name[SIDE_NAME_MAX], endpoint[SIDE_NAME_MAX];
	struct wire_client *client;	/* owned */
	struct wire_call *registration; /* borrowed; NULL: it is answered */
	uint64_t registered_ns;		/* Register came */
	uint64_t listed_ns;		/* the first list came */
	size_t devices;
	char ids[SIDE_DEVICES_MAX][SIDE_ID_MAX];
};

struct side {
	struct loop *loop;		  /* borrowed */
	char directory[2 * RIG_PATH_MAX]; /* of the sockets */
	char socket[2 * RIG_PATH_MAX + 16];
	struct wire_server *server; /* owned; NULL: it is dead */
	size_t count;
	struct side_resource resources[SIDE_RESOURCES_MAX];
};

/* The kubelet of the rig's machine, in its usual directory, listening. */
void side_open(struct side *side, struct rig *rig);
/* Also what is registered is forgotten. */
void side_close(struct side *side);
/* As if nothing had registered yet: before the next agent. */
void side_forget(struct side *side);
/* Dies with its connections; its socket stays, as that of a killed process. */
void side_die(struct side *side);
/* Starts again as the kubelet does: all sockets of the directory go, then its own comes. Returns
 * the time between. */
uint64_t side_start(struct side *side);
/* Until this many resources have sent this many devices in all. */
void side_wait(struct side *side, size_t resources, size_t devices);
/* Lets time pass with the connections served. */
void side_rest(struct side *side, uint64_t ns);

/* The one resource that there is. */
struct side_resource *side_only(struct side *side);
/* Its replies are owned: protobuf_c_message_free_unpacked(). */
V1beta1__AllocateResponse *side_allocate(struct side_resource *resource, const char *id);
struct side_question {
	const char *const *available, *const *must;
	size_t available_count, must_count;
	int32_t size;
};
/* Returns how many were chosen. */
size_t side_prefer(struct side_resource *resource, const struct side_question *question);
/* ListAndWatch on a connection of its own, from the call to the first list. */
uint64_t side_list(struct side_resource *resource);

#endif
