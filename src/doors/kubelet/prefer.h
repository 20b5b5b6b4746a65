/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the free devices the kubelet had better take: the answer to GetPreferredAllocation, by
 * units/allocator.h. A pure function of resource, free devices, those that must be in and the size;
 * their order does not matter.
 */
#ifndef SLUICE_DOORS_KUBELET_PREFER_H
#define SLUICE_DOORS_KUBELET_PREFER_H

#include <stddef.h>

#include "deviceplugin.pb-c.h"

struct allocator;
struct arena;
struct err;
struct kubelet_resource;

/*
 * Fills `out` (initialised here), in the arena or borrowed from resource and request, with one
 * answer for each container, in the order (i, j, n). An error here would cost the pod its life, so
 * there is none for a request that could be decoded: free devices that the resource does not have
 * are dropped and counted in *out_dropped (for the log; may be NULL); those that must be in and are
 * not known stay in, behind the others and in the order of their ids. Without an allocator (NULL,
 * or one that fails) the first that are free are taken.
 *
 * No device for a size of 0 or less, or smaller than what must be in; all there is when that is
 * less than the size. `allocator` is of the same inventory as the resource. -ENOMEM.
 */
int prefer_answer(const struct kubelet_resource *resource, struct allocator *allocator,
		  const V1beta1__PreferredAllocationRequest *request, struct arena *arena,
		  V1beta1__PreferredAllocationResponse *out, size_t *out_dropped, struct err *err);

#endif
