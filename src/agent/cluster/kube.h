/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side of libexec/sluice-kube, the one process of a node that has a TLS client and a
 * token: started, spoken to over a socket pair (proto/kube.proto, one message per packet), started
 * again when it ends. Without Kubernetes there is none, and nothing needs it. All of it belongs to
 * the loop's thread and never waits.
 */
#ifndef SLUICE_AGENT_CLUSTER_KUBE_H
#define SLUICE_AGENT_CLUSTER_KUBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kube.pb-c.h"

struct child_set;
struct err;
struct kube;
struct log;
struct loop;

enum kube_limits {
	KUBE_PACKET_MAX = 64 << 10,
	KUBE_QUEUE_MAX = 64, /* Events that wait; the oldest are dropped */
	KUBE_PROBLEM_MAX = 512,
	KUBE_LABELS_MAX = 16, /* of one message */
};

/* Texts are borrowed, as the label is. */
struct kube_label {
	const char *name, *value;
};

struct kube_options {
	struct loop *loop; /* borrowed, all of these */
	struct child_set *children;
	struct log *log;	/* may be NULL */
	const char *program;	/* NULL: found beside this one */
	const char *node_name;	/* $NODE_NAME */
	const char *node_label; /* "nvidia.com/device-plugin.config" */
	const char *kubeconfig; /* NULL: in the cluster, by the service account */
	uint64_t delay_ns;	/* until it is first started */
	/* The label's value, "" when the node has none. Called when it is first known and whenever
	 * it is another. */
	void (*label)(const char *value, void *context);
	/* The same of the labels by which people and the GPU Operator say what is to happen on the
	 * node (nodelabels.h): those that are set. May be NULL. */
	void (*labels)(const struct kube_label *labels, size_t count, void *context);
	/* How far the labels are that kube_publish() named. May be NULL. */
	void (*published)(const Sluice__Kube__V1__Published *state, void *context);
	void *context;
};

int kube_open(const struct kube_options *options, struct kube **out, struct err *err);
struct kube *kube_close(struct kube *kube);

enum kube_event_type { KUBE_EVENT_NORMAL, KUBE_EVENT_WARNING };
/* An Event about our node; `reason` is one word ("GPUUnhealthy"). Never fails: one that cannot be
 * kept is dropped and counted. Equal ones within ten minutes are counted up by sluice-kube. */
void kube_event(struct kube *kube, enum kube_event_type type, const char *reason,
		const char *message);
/* The labels that the node is to have of us, from now on: also after a restart of sluice-kube. The
 * same again is not sent again. -ENOMEM; -E2BIG: more than a packet holds. */
int kube_publish(struct kube *kube, const Sluice__Kube__V1__Publish *wish, struct err *err);
/* Why nothing is heard from the API server; "" when all is well. */
const char *kube_problem(const struct kube *kube);
pid_t kube_pid(const struct kube *kube); /* -1: none runs */

#endif
