/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine as the agent sees it: what the probe says, and what of it the configuration hands
 * out. Keeps a probe running, whatever becomes of it. Never waits for a driver. Knows nothing of
 * jobs or of sockets to clients. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_NODE_H
#define SLUICE_AGENT_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct config;
struct err;
struct inventory;
struct log;
struct loop;
struct node;
struct policy;
struct probe_event;
struct snapshot;

#define NODE_SILENCE_NS UINT64_C(30000000000) /* without a sample: the driver does not answer */
#define NODE_RESTART_NS                                                                            \
	UINT64_C(60000000000) /* until a probe that cannot be started is tried again */
#define NODE_KUBELET_NS UINT64_C(5000000000) /* between looks whether there is a kubelet now */

enum node_limits {
	NODE_PROBLEM_MAX = 256, /* bytes of a sentence */
};

struct node_options {
	struct loop *loop;	     /* borrowed */
	struct log *log;	     /* borrowed; may be NULL */
	const char *program;	     /* the probe; NULL: sluice-probe, else the running one */
	const struct config *config; /* borrowed until node_configure() names another */
	uint64_t period_ns;	     /* between samples; 0: the probe's default */
	uint64_t call_ns;	     /* when a driver call counts as hung; 0: the probe's default */
	bool kernel_log;	     /* XIDs from the kernel log, where it can be read */
	/* Where the kubelet keeps the sockets of device plugins. Borrowed; NULL: the usual one. */
	const char *kubelet_directory;
	/* Every event of the probe, before changed(). May be NULL. */
	void (*event)(const struct probe_event *event, void *context);
	/* Something is new: inventory, sample, policy or problem. What the functions below
	 * returned before is gone. */
	void (*changed)(void *context);
	void *context;
};

/* Starts the probe; what it finds comes later. -ENOMEM; a probe that cannot be started is a problem
 * of the machine and no error here. */
int node_new(const struct node_options *options, struct node **out, struct err *err);
/* Ends the probe. NULL is fine; returns NULL. */
struct node *node_free(struct node *node);

/*
 * What there is. NULL: there is no such thing now, and node_problem() says why. Borrowed: valid
 * until changed() or node_configure().
 */
const struct inventory *node_inventory(const struct node *node);
const struct snapshot *node_snapshot(const struct node *node);
const struct policy *node_policy(const struct node *node);
/* Borrowed until node_configure(). */
const struct config *node_config(const struct node *node);
/* Counted up whenever inventory, policy or configuration may be another. */
uint64_t node_generation(const struct node *node);
/* Whether the kubelet's directory is there, or has been since the start: that somebody replaces it
 * gives no device to anybody else. */
bool node_has_kubelet(const struct node *node);
/* Why no GPU is handed out: no driver, a driver that does not answer, a configuration that does not
 * fit. "" when all is well. Borrowed. */
const char *node_problem(const struct node *node);
/* Whether the first word about the machine has come: an inventory, or that there is no driver. */
bool node_is_known(const struct node *node);
pid_t node_probe_pid(const struct node *node); /* -1: none runs */

/*
 * Lets go of the driver for so long: the probe ends, and what was known of the machine stays as it
 * was. 0: watches again now. Calls changed().
 */
void node_release(struct node *node, uint64_t for_ns);
/* Loop time until which the driver is released; 0: it is not. */
uint64_t node_released_until_ns(const struct node *node);
/* Whether no probe of ours holds the driver any more, one that hangs in it included. */
bool node_probe_is_gone(struct node *node);

/*
 * Another configuration. Calls changed(). -EINVAL: it does not fit this machine (a device of two
 * doors), -ENOMEM; then all is as it was. `*out_changed`: how many resources are not the same.
 */
int node_configure(struct node *node, const struct config *config, uint32_t *out_changed,
		   struct err *err);

#endif
