/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster that this node belongs to: whether there is one, what of the agent's life becomes an
 * Event of the Node, and the node's label on its way to the configuration. Knows nothing of how the
 * API server is spoken to (kube.h). All of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_CLUSTER_CLUSTER_H
#define SLUICE_AGENT_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/reload.h"
#include "hardware/health.h"
#include "kube.pb-c.h"

struct child_set;
struct cluster;
struct err;
struct kube_label;
struct log;
struct loop;

struct cluster_options {
	struct loop *loop; /* borrowed, all of these */
	struct child_set *children;
	struct log *log;       /* may be NULL */
	const char *node_name; /* NULL: there is no cluster */
	const char *node_label;
	const char *kubeconfig; /* NULL: within a pod, if we are in one */
	const char *account;	/* directory of the token in a pod; NULL: the usual one */
	const char *program;	/* of sluice-kube; NULL: found beside this one */
	uint64_t delay_ns;	/* until it is started: the kubelet comes first */
	void (*label)(const char *value, void *context);
	void (*labels)(const struct kube_label *labels, size_t count, void *context);
	void (*published)(const Sluice__Kube__V1__Published *state, void *context);
	void *context;
};

/* Whether the API server can be spoken to: the node's name is known, and either a kubeconfig or, in
 * a pod ($KUBERNETES_SERVICE_HOST), a service account's token is there. A pod that is given the
 * name alone wants it for the metrics. */
bool cluster_is_there(const struct cluster_options *options);

/* Of nodes without a cluster, and where sluice-kube is not installed (which is logged), all that
 * follows does nothing. -ENOMEM. */
int cluster_new(const struct cluster_options *options, struct cluster **out, struct err *err);
/* Before the children. NULL is fine, here and below; returns NULL. */
struct cluster *cluster_free(struct cluster *cluster);

/* What becomes Events. */
void cluster_configuration(struct cluster *cluster, enum reload_note note, const char *text);
void cluster_verdict(struct cluster *cluster, const char *uuid, uint32_t index,
		     enum health_state before, enum health_state after, const char *why);
void cluster_no_injection(struct cluster *cluster, const char *reason);
/* Of RDMA adapters; `reason` is one word. */
void cluster_rdma(struct cluster *cluster, bool is_warning, const char *reason, const char *text);
/* Why the configuration yields no devices on this machine; "" when it does. Told once for each. */
void cluster_policy(struct cluster *cluster, const char *problem);

/* Why the node's labels keep its devices from the kubelet; "" when they do not any more. */
void cluster_labels(struct cluster *cluster, const char *why);
/* Whether there is somebody to publish labels. */
bool cluster_can_publish(const struct cluster *cluster);
/* As kube_publish(). -ENOTCONN: there is no cluster, and the text says what is missing. */
int cluster_publish(struct cluster *cluster, const Sluice__Kube__V1__Publish *wish,
		    struct err *err);

/* For the status: as kube_problem() and kube_pid(). */
const char *cluster_problem(const struct cluster *cluster);
pid_t cluster_pid(const struct cluster *cluster);

#endif
