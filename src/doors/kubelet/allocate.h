/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container gets: the answer to the kubelet's Allocate, by every strategy of the NVIDIA
 * device plugin's configuration, in its words. Pure but for the random ids, which the caller may
 * bring; knows nothing of sockets or of what else the kubelet says.
 */
#ifndef SLUICE_DOORS_KUBELET_ALLOCATE_H
#define SLUICE_DOORS_KUBELET_ALLOCATE_H

#include <stddef.h>

#include "deviceplugin.pb-c.h"
#include "wire/status.h"

struct arena;
struct err;
struct kubelet_resource;

/* Where random bytes come from: 0 or -errno. */
struct allocate_random {
	int (*fill)(void *bytes, size_t size, void *context);
	void *context;
};

/*
 * Fills `out` (initialised here) with one answer for each container of the request; all of it lies
 * in the arena or is borrowed from the resource. Everything is checked before anything is answered.
 * Unhealthy devices are not refused: that is the kubelet's to decide. Each device is named once, in
 * the order of the request; by ascending index where indices are what is named. `random` NULL: the
 * kernel's.
 *
 * -EINVAL: refused, in the text that people search for ("invalid allocation request for "R":
 * invalid request: unknown device: X"); -ENOMEM, also beyond the arena's cap; what `random` says.
 */
int allocate_answer(const struct kubelet_resource *resource,
		    const V1beta1__AllocateRequest *request, const struct allocate_random *random,
		    struct arena *arena, V1beta1__AllocateResponse *out, struct err *err);
/* The gRPC status for a code of allocate_answer(): UNKNOWN for what was refused, as plugins in Go
 * answer. */
enum wire_status allocate_status(int code);

#endif
