/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet door: for every resource that the policy gives to the kubelet one plugin, registered
 * and kept registered, whatever the kubelet does. Needs no kubelet: it waits for one. A resource
 * that fails is tried again by itself (1, 2, 4 ... 30 s), the others go on. All of it belongs to
 * the loop's thread.
 *
 * The life of a resource:
 *   serve first, register second; registered is not enough: it is attached only while a
 *   ListAndWatch stream is open, and one that is not attached 2 s after it registered registers
 *   again. The kubelet removes all sockets when it starts and makes kubelet.sock anew, perhaps with
 *   the same inode: its directory is watched, and every 5 s it is looked whether our own sockets
 * and streams are still there. Never registered again while a stream of ours is open: it is hung up
 *   first, because a kubelet takes the end of an old stream for the end of the new registration.
 */
#ifndef SLUICE_DOORS_KUBELET_KUBELET_H
#define SLUICE_DOORS_KUBELET_KUBELET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/kubelet/plugin.h"
#include "policy/policy.h"

struct config;
struct err;
struct inventory;
struct kubelet;
struct log;
struct loop;

#define KUBELET_SOCKET	       "/var/lib/kubelet/device-plugins/kubelet.sock"
#define KUBELET_ATTACH_NS      UINT64_C(2000000000)  /* from registered to attached */
#define KUBELET_AGAIN_FIRST_NS UINT64_C(1000000000)  /* after a failure, doubling ... */
#define KUBELET_AGAIN_LAST_NS  UINT64_C(30000000000) /* ... up to this */
#define KUBELET_LOOK_NS	       UINT64_C(5000000000)  /* between looks at sockets and streams */

enum kubelet_limits { KUBELET_PROBLEM_MAX = 256 };

struct kubelet_options {
	struct loop *loop;    /* borrowed */
	struct log *log;      /* borrowed; may be NULL */
	const char *socket;   /* the kubelet's; NULL: KUBELET_SOCKET below `root`. Borrowed */
	const char *root;     /* before /dev, /proc and KUBELET_SOCKET; "" or NULL: /. Borrowed */
	bool no_registration; /* serve only: somebody else registers */
	struct plugin_book book;
	/* A resource was attached, lost, refused, ...: what kubelet_resource_at() says is new. May
	 * be NULL. Not from within a function of this header. */
	void (*changed)(void *context);
	void *context;
};

/* What decides about a resource beside inventory, policy and configuration. */
struct kubelet_machine {
	const struct inventory *inventory; /* borrowed for the call, as all; NULL: no driver now */
	const struct policy *policy;
	const struct config *config;
	/* Why not to use GPU i, MIG device i of the inventory; NULL or "" entries: nothing is
	 * wrong. Either array may be NULL. */
	const char *const *gpu_unhealthy;
	const char *const *mig_unhealthy;
	bool also_cdi;	 /* no NVIDIA runtime would read the environment: name CDI devices too */
	bool also_nodes; /* nobody puts GPUs into containers: pass their device nodes */
	struct resource_cdi cdi;
};

/* Nothing is served before the first kubelet_set_machine(). -ENOMEM, -EMFILE. */
int kubelet_open(const struct kubelet_options *options, struct kubelet **out, struct err *err);
/* Closes streams, removes our sockets. NULL is fine; returns NULL. */
struct kubelet *kubelet_close(struct kubelet *kubelet);

/*
 * What there is from now on. Only resources that differ are touched: a new list goes to the streams
 * of those whose list is new, and an endpoint is closed only when its resource is gone from the
 * policy (after an empty list). Without a driver (inventory NULL) the resources stay and all their
 * devices are unhealthy. -ENOMEM: what could be done is done; called again with the next change.
 */
int kubelet_set_machine(struct kubelet *kubelet, const struct kubelet_machine *machine,
			struct err *err);
/*
 * The same of resources that the caller has made, in their order, in place of what an inventory
 * says: of a kubelet_open() of its own. They are given, whatever is returned.
 */
int kubelet_set_resources(struct kubelet *kubelet, struct kubelet_resource *const *resources,
			  size_t count, struct err *err);
/* Registers every resource anew: after SIGHUP, or when another plugin may have taken its place. */
void kubelet_register_again(struct kubelet *kubelet);

/* What waits for the book is asked again: plugin_resume(). */
void kubelet_resume(struct kubelet *kubelet);

enum kubelet_state {
	KUBELET_WAITING,     /* no kubelet.sock, or the last attempt failed: see the problem */
	KUBELET_REGISTERING, /* Register is running, or old streams are hung up before it */
	KUBELET_REGISTERED,  /* the kubelet said yes and has no stream open */
	KUBELET_ATTACHED,    /* a stream is open: the kubelet has the list */
};
const char *kubelet_state_to_string(enum kubelet_state state);

/* How a resource is. Plain data. */
struct kubelet_view {
	char name[RESOURCE_NAME_MAX];
	char endpoint[PLUGIN_ENDPOINT_MAX];
	enum kubelet_state state;
	char problem[KUBELET_PROBLEM_MAX]; /* of the last failure; "": none */
	uint32_t devices, healthy;
	uint64_t registrations; /* that the kubelet said yes to */
	struct plugin_counts counts;
};
size_t kubelet_count(const struct kubelet *kubelet);
/* Resource number `index` in the order of the policy. False: there are not so many. */
bool kubelet_resource_at(const struct kubelet *kubelet, size_t index, struct kubelet_view *out);

#endif
