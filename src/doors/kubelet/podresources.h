/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which container holds which device: the kubelet's pod-resources service (v1.PodResourcesLister,
 * List; https://github.com/kubernetes/kubelet/tree/master/pkg/apis/podresources/v1), asked now and
 * then. What the kubelet says is the truth about its pods: devices that it does not list any more
 * are free. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_DOORS_KUBELET_PODRESOURCES_H
#define SLUICE_DOORS_KUBELET_PODRESOURCES_H

#include <stddef.h>
#include <stdint.h>

#include "policy/config.h"
#include "policy/policy.h"

struct err;
struct log;
struct loop;
struct podresources;

#define PODRESOURCES_SOCKET    "/var/lib/kubelet/pod-resources/kubelet.sock"
#define PODRESOURCES_PERIOD_NS UINT64_C(10000000000)

enum podresources_limits {
	PODRESOURCES_REPLY_MAX = 4 << 20, /* bytes */
	PODRESOURCES_HOLDERS_MAX = POLICY_UNITS_MAX,
	PODRESOURCES_NAMESPACE_MAX = 64,
	PODRESOURCES_POD_MAX = 254,
	PODRESOURCES_CONTAINER_MAX = 64,
};

struct podresources_holder {
	char resource[CONFIG_NAME_MAX];
	char unit[POLICY_ID_MAX]; /* the device id, "GPU-...::3" */
	char name_space[PODRESOURCES_NAMESPACE_MAX];
	char pod[PODRESOURCES_POD_MAX];
	char container[PODRESOURCES_CONTAINER_MAX];
};

struct podresources_options {
	struct loop *loop;  /* borrowed */
	struct log *log;    /* borrowed; may be NULL */
	const char *socket; /* NULL: PODRESOURCES_SOCKET below `root`. Borrowed */
	const char *root;   /* "" or NULL: /. Borrowed */
	uint64_t period_ns; /* 0: PODRESOURCES_PERIOD_NS */
	/* Somebody holds something else than before. Not from within a function of this header. */
	void (*changed)(void *context);
	void *context;
};

int podresources_open(const struct podresources_options *options, struct podresources **out,
		      struct err *err);
struct podresources *podresources_close(struct podresources *podresources);
/* Asks soon instead of at the next period: after an Allocate. */
void podresources_hurry(struct podresources *podresources);

/* Holders in the order of unit, then of namespace, pod, container: the containers of one pod may
 * share a device. Resources of other vendors are left out: only those that `domain/...` begins with
 * are kept when they are in the policy; the caller filters. Borrowed until changed(). */
size_t podresources_count(const struct podresources *podresources);
const struct podresources_holder *podresources_at(const struct podresources *podresources,
						  size_t index);
/* Why nothing is known ("no kubelet", a timeout, ...); "" when the last answer was good. */
const char *podresources_problem(const struct podresources *podresources);

#endif
