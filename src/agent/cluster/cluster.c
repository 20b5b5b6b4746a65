/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cluster/cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/kube.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/repeats.h"

enum { CLUSTER_TEXT_MAX = 1024 };
#define CLUSTER_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

struct cluster {
	struct kube *kube; /* owned; NULL: there is none */
	struct loop *loop; /* borrowed */
	struct repeats repeats;
	char policy[CLUSTER_TEXT_MAX];
	char trouble[ERR_TEXT_MAX]; /* why there is none although there is a cluster; "" */
	bool has_name;
};

bool cluster_is_there(const struct cluster_options *options)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	char token[FILE_PATH_MAX];

	if (!options->node_name || !*options->node_name)
		return false;
	if (options->kubeconfig && *options->kubeconfig)
		return true;

	return host && *host &&
	       file_path(token, NULL, "%s/token",
			 options->account ? options->account : CLUSTER_ACCOUNT) == 0 &&
	       file_exists(token);
}

int cluster_new(const struct cluster_options *options, struct cluster **out, struct err *err)
{
	struct cluster *cluster = calloc(1, sizeof(*cluster));
	if (!cluster)
		return err_set(err, -ENOMEM, "out of memory for the cluster");

	const struct kube_options kube = {
	    .loop = options->loop,
	    .children = options->children,
	    .log = options->log,
	    .program = options->program,
	    .node_name = options->node_name,
	    .node_label = options->node_label,
	    .kubeconfig = options->kubeconfig && *options->kubeconfig ? options->kubeconfig : NULL,
	    .delay_ns = options->delay_ns,
	    .label = options->label,
	    .labels = options->labels,
	    .published = options->published,
	    .context = options->context,
	};
	struct err why = {0};

	cluster->loop = options->loop;
	cluster->has_name = options->node_name && *options->node_name;

	int rc = cluster_is_there(options) ? kube_open(&kube, &cluster->kube, &why) : 0;
	if (rc == -ENOMEM) {
		free(cluster);
		return err_set(err, rc, "%s", why.text);
	}

	if (rc < 0) {
		(void)snprintf(cluster->trouble, sizeof(cluster->trouble), "%s", why.text);
		log_write(options->log, LOG_LEVEL_WARNING, NULL,
			  "no label of the node is read and no Events are posted: %s", why.text);
	}

	*out = cluster;
	return 0;
}

struct cluster *cluster_free(struct cluster *cluster)
{
	if (!cluster)
		return NULL;
	(void)kube_close(cluster->kube);
	free(cluster);
	return NULL;
}

/* Whatever goes wrong, Events of one `reason` about one `object` come at a bounded rate. */
static void cluster_event(struct cluster *cluster, enum kube_event_type type, const char *reason,
			  const char *object, const char *message)
{
	char more[REPEATS_TEXT_MAX], text[CLUSTER_TEXT_MAX + REPEATS_TEXT_MAX];
	if (!cluster || !cluster->kube ||
	    !repeats_may_tell_of(&cluster->repeats, loop_now_ns(cluster->loop), more, "%s %s",
				 reason, object))
		return;
	(void)snprintf(text, sizeof(text), "%s%s", message, more);
	kube_event(cluster->kube, type, reason, text);
}

void cluster_configuration(struct cluster *cluster, enum reload_note note, const char *text)
{
	char message[CLUSTER_TEXT_MAX];

	switch (note) {
	case RELOAD_REFUSED:
		(void)snprintf(message, sizeof(message),
			       "the configuration was refused, the one before stays: %s", text);
		cluster_event(cluster, KUBE_EVENT_WARNING, "ConfigurationRefused", "", message);
		break;
	case RELOAD_MISSING:
		cluster_event(cluster, KUBE_EVENT_WARNING, "ConfigurationMissing", "", text);
		break;
	case RELOAD_APPLIED:
		(void)snprintf(message, sizeof(message), "the configuration is %s",
			       *text ? text : "built in");
		cluster_event(cluster, KUBE_EVENT_NORMAL, "ConfigurationApplied", "", message);
		break;
	}
}

void cluster_verdict(struct cluster *cluster, const char *uuid, uint32_t index,
		     enum health_state before, enum health_state after, const char *why)
{
	char message[CLUSTER_TEXT_MAX], object[128];
	bool is_bad = after == HEALTH_UNHEALTHY;

	if (is_bad == (before == HEALTH_UNHEALTHY))
		return;

	(void)snprintf(message, sizeof(message), "GPU %" PRIu32 " (%s) %s%s%s", index, uuid,
		       is_bad ? "is unhealthy and gets no new containers" : "may be used again",
		       *why ? ": " : "", why);
	(void)snprintf(object, sizeof(object), "%" PRIu32 " %.96s", index, uuid);
	cluster_event(cluster, is_bad ? KUBE_EVENT_WARNING : KUBE_EVENT_NORMAL,
		      is_bad ? "GPUUnhealthy" : "GPUHealthy", object, message);
}

void cluster_no_injection(struct cluster *cluster, const char *reason)
{
	char message[CLUSTER_TEXT_MAX];
	(void)snprintf(message, sizeof(message), "containers get no driver: %s", reason);
	cluster_event(cluster, KUBE_EVENT_WARNING, "NoInjection", "", message);
}

void cluster_rdma(struct cluster *cluster, bool is_warning, const char *reason, const char *text)
{
	cluster_event(cluster, is_warning ? KUBE_EVENT_WARNING : KUBE_EVENT_NORMAL, reason, text,
		      text);
}

void cluster_policy(struct cluster *cluster, const char *problem)
{
	char text[CLUSTER_TEXT_MAX];
	(void)snprintf(text, sizeof(text), "%s", problem);
	if (!cluster || strcmp(cluster->policy, text) == 0)
		return;
	memcpy(cluster->policy, text, sizeof(text));
	if (*text)
		cluster_event(cluster, KUBE_EVENT_WARNING, "NoDevices", "", text);
}

void cluster_labels(struct cluster *cluster, const char *why)
{
	char message[CLUSTER_TEXT_MAX];
	(void)snprintf(message, sizeof(message), "%s%s", *why ? why : "no label of the node",
		       *why ? ": nothing is handed out to the kubelet"
			    : " keeps devices from the kubelet any more");
	cluster_event(cluster, KUBE_EVENT_NORMAL, "NodeLabels", "", message);
}

const char *cluster_problem(const struct cluster *cluster)
{
	if (!cluster)
		return "";
	return cluster->kube ? kube_problem(cluster->kube) : cluster->trouble;
}

pid_t cluster_pid(const struct cluster *cluster)
{
	return cluster && cluster->kube ? kube_pid(cluster->kube) : -1;
}

bool cluster_can_publish(const struct cluster *cluster)
{
	return cluster && cluster->kube;
}

int cluster_publish(struct cluster *cluster, const Sluice__Kube__V1__Publish *wish, struct err *err)
{
	if (cluster && cluster->kube)
		return kube_publish(cluster->kube, wish, err);
	if (cluster && *cluster->trouble)
		return err_set(err, -ENOTCONN, "%s", cluster->trouble);
	if (!cluster || !cluster->has_name)
		return err_set(err, -ENOTCONN,
			       "required flag node-name not set: labels by the cluster's API need "
			       "--node-name or $NODE_NAME");

	return err_set(err, -ENOTCONN,
		       "labels by the cluster's API need a kubeconfig, or a pod with a service "
		       "account");
}
