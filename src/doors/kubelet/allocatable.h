/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices the kubelet could give to pods, as it says itself, asked once by a program that
 * does nothing else meanwhile: v1.PodResourcesLister, GetAllocatableResources
 * (https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/).
 */
#ifndef SLUICE_DOORS_KUBELET_ALLOCATABLE_H
#define SLUICE_DOORS_KUBELET_ALLOCATABLE_H

#include <stdint.h>

struct err;

/*
 * Calls `each` for each device: "nvidia.com/gpu", "GPU-...::3". `socket` is the kubelet's, below
 * pod-resources; `deadline_ns` is for all of it. -ENOENT, -ECONNREFUSED, -EACCES: nobody answers;
 * -ETIMEDOUT; -EREMOTEIO: the kubelet refuses; -ENOMEM.
 */
int allocatable_ask(const char *socket, uint64_t deadline_ns,
		    void (*each)(const char *resource, const char *unit, void *context),
		    void *context, struct err *err);

#endif
