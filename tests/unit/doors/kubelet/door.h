/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin of a made-up machine on a socket in a directory of its own, and what a kubelet does with
 * it: calls that are waited for, streams whose lists are kept as text. One loop, with a clock that
 * only the test moves.
 */
#ifndef TESTS_UNIT_DOORS_KUBELET_DOOR_H
#define TESTS_UNIT_DOORS_KUBELET_DOOR_H

#include "deviceplugin.pb-c.h"
#include "doors/kubelet/plugin.h"
#include "tests/unit/doors/kubelet/rig.h"
#include "unit/wire/server_fixture.h"

struct door;

enum { DOOR_CALLERS = 20 };

enum door_method {
	DOOR_OPTIONS,
	DOOR_WATCH,
	DOOR_PREFER,
	DOOR_ALLOCATE,
	DOOR_PRE_START,
};
extern const struct wire_method door_methods[];

/* A connection to the plugin, with at most one stream. */
struct caller {
	struct door *door;
	struct wire_client *client; /* owned */
	struct wire_client_call *watch;
	size_t lists;
	char *list; /* owned: the last one, "GPU-a Healthy 0\n..."; of no NUMA node "-" */
	bool ended, closed;
	struct wire_result result; /* of the stream */
};

struct door {
	struct fixture *fixture; /* its path is the plugin's socket */
	struct rig *rig;
	struct plugin *plugin; /* owned */
	struct caller callers[DOOR_CALLERS];
	struct plugin_book book; /* of the next door_open() */
	unsigned changes, hung_up;
};

/* The state of a test; the plugin is not open yet. 4 GPUs. */
int door_set_up(void **state);
/* 16 GPUs. With DOOR_SHARED as configuration 16,000 devices. */
int door_set_up_large(void **state);
#define DOOR_SHARED RIG_SHARE("{name: gpu, replicas: 1000}")
int door_tear_down(void **state);
struct plugin_options door_options(struct door *door);
/* Opens it with the resource "nvidia.com/gpu" of this configuration. */
void door_open(struct door *door, const char *config);
/* plugin_update() with what this configuration makes of the machine now. */
void door_update(struct door *door, const char *config);
struct plugin_counts door_counts(const struct door *door);

struct caller *door_connect(struct door *door, unsigned number);
struct caller *door_watch(struct door *door, unsigned number);
void door_hang_up(struct caller *caller);
/* Until the stream has had so many lists. */
void door_expect_lists(struct caller *caller, size_t lists);
void door_expect_end(struct caller *caller);
/* A few passes of the loop, for what should not happen. */
void door_idle(struct door *door);

/* One call by a connection of its own. The reply is owned: protobuf_c_message_free_unpacked();
 * NULL when the status in out_result is not OK. */
ProtobufCMessage *door_ask(struct door *door, enum door_method method,
			   const ProtobufCMessage *request, struct wire_result *out_result);
/* Allocate for one container; `ids` ends with NULL. The text of the refusal, "" if there is none,
 * good until the next call. */
const char *door_allocate(struct door *door, const char *const *ids, enum wire_status *out_status);

#endif
