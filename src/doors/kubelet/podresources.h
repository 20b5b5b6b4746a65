/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which container holds which device: the kubelet's pod-resources service (v1.PodResourcesLister,
 * List and GetAllocatableResources;
 * https://github.com/kubernetes/kubelet/tree/master/pkg/apis/podresources/v1), asked now and then.
 * What the kubelet says is the truth about its pods: devices that it does not list any more are
 * free. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_DOORS_KUBELET_PODRESOURCES_H
#define SLUICE_DOORS_KUBELET_PODRESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct loop;
struct podresources;

#define PODRESOURCES_SOCKET	 "/var/lib/kubelet/pod-resources/kubelet.sock"
#define PODRESOURCES_PERIOD_NS	 UINT64_C(10000000000)
#define PODRESOURCES_DEADLINE_NS UINT64_C(10000000000)

enum podresources_limits {
	PODRESOURCES_REPLY_MAX = 4 << 20, /* bytes: what the kubelet's own clients take */
	PODRESOURCES_HOLDERS_MAX = 16384,
	PODRESOURCES_NAME_MAX = 253, /* bytes of any name: what Kubernetes allows */
	PODRESOURCES_PROBLEM_MAX = 512,
	PODRESOURCES_POOLS_MAX = 32, /* resources that are kept of the allocatable ones */
};

/* Texts are borrowed, as the holder is. */
struct podresources_holder {
	const char *unit;     /* the device's id, "GPU-...::3" */
	const char *resource; /* "nvidia.com/gpu" */
	const char *name_space, *pod, *container;
};

struct podresources_options {
	struct loop *loop;  /* borrowed */
	const char *socket; /* of the kubelet; borrowed for the call of podresources_open() */
	uint64_t period_ns; /* 0: PODRESOURCES_PERIOD_NS */
	/* Somebody holds something else than before, or the problem is another. Not from within a
	 * function of this header. May be NULL. */
	void (*changed)(void *context);
	void *context;
};

/* Asks for the first time at once. -ENOMEM; a kubelet that is not there is a problem and no error.
 */
int podresources_open(const struct podresources_options *options, struct podresources **out,
		      struct err *err);
/* NULL is fine; returns NULL. */
struct podresources *podresources_close(struct podresources *podresources);

/*
 * Who holds what, in the order of unit, resource, namespace, pod, container: the containers of one
 * pod may hold the same device. Devices of other vendors' plugins are in it, too. After a failure
 * the last good answer stays. Borrowed until changed().
 */
size_t podresources_count(const struct podresources *podresources);
const struct podresources_holder *podresources_at(const struct podresources *podresources,
						  size_t index);
/* Whether any question was answered so far. */
bool podresources_is_known(const struct podresources *podresources);
/*
 * How many devices of a resource pods may have, as the kubelet says. -ENODATA: it has not answered
 * yet; -ENOSYS: it cannot tell, being older than 1.23.
 */
int64_t podresources_allocatable(const struct podresources *podresources, const char *resource);
/* Asks again at once, unless it is being asked. */
void podresources_look(struct podresources *podresources);
/* Why the last question was not answered; "" when it was, or none has ended yet. Borrowed. */
const char *podresources_problem(const struct podresources *podresources);

#endif
