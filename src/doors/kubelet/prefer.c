/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/prefer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "doors/kubelet/resource.h"
#include "units/allocator.h"
#include "wire/arena.h"

enum prefer_mark { PREFER_NOT, PREFER_AVAILABLE, PREFER_MUST, PREFER_CHOSEN };

/* One container's question. */
struct prefer_choice {
	const struct kubelet_resource *resource;
	struct allocator *allocator;
	struct arena *arena;
	uint8_t *mark;		/* enum prefer_mark by place in resource->devices */
	size_t available, must; /* known devices so marked */
	char **unknown;		/* that must be in; sorted, each once */
	size_t unknown_count;
};

static int text_compare(const void *left, const void *right)
{
	const char *const *a = left, *const *b = right;
	return strcmp(*a, *b);
}

static size_t place_of(const struct kubelet_resource *resource, const struct kubelet_device *device)
{
	return (size_t)(device - resource->devices);
}

/* Marks what the request names; returns how many free devices are not known. */
static size_t choice_read(struct prefer_choice *choice,
			  const V1beta1__ContainerPreferredAllocationRequest *request)
{
	const struct kubelet_resource *resource = choice->resource;
	size_t dropped = 0;

	for (size_t i = 0; i < request->n_must_include_deviceids; i++) {
		char *id = request->must_include_deviceids[i];
		const struct kubelet_device *device = resource_find(resource, id);
		if (!device) {
			choice->unknown[choice->unknown_count++] = id;
			continue;
		}

		uint8_t *mark = &choice->mark[place_of(resource, device)];
		choice->must += *mark == PREFER_NOT;
		*mark = PREFER_MUST;
	}

	qsort(choice->unknown, choice->unknown_count, sizeof(*choice->unknown), text_compare);
	size_t kept = 0;
	for (size_t i = 0; i < choice->unknown_count; i++) {
		if (kept == 0 || strcmp(choice->unknown[kept - 1], choice->unknown[i]) != 0)
			choice->unknown[kept++] = choice->unknown[i];
	}

	choice->unknown_count = kept;
	for (size_t i = 0; i < request->n_available_deviceids; i++) {
		const struct kubelet_device *device =
		    resource_find(resource, request->available_deviceids[i]);
		if (!device) {
			dropped++;
			continue;
		}

		uint8_t *mark = &choice->mark[place_of(resource, device)];
		choice->available += *mark == PREFER_NOT;
		*mark = *mark == PREFER_NOT ? PREFER_AVAILABLE : *mark;
	}

	return dropped;
}

/* No default: the compiler names a policy of the configuration that is not here. */
static enum allocator_policy policy_of(enum config_allocation policy)
{
	switch (policy) {
	case CONFIG_DISTRIBUTED:
		return ALLOCATOR_DISTRIBUTED;
	case CONFIG_PACKED:
		return ALLOCATOR_PACKED;
	case CONFIG_SPREAD:
	case CONFIG_SPREAD_STRICT:
		return ALLOCATOR_SPREAD;
	}

	return ALLOCATOR_DISTRIBUTED;
}

/* Takes the first that are free, in their order. */
static void choice_take_first(struct prefer_choice *choice, size_t size)
{
	size_t left = size - choice->must;
	for (uint32_t i = 0; i < choice->resource->device_count && left > 0; i++) {
		if (choice->mark[i] != PREFER_AVAILABLE)
			continue;
		choice->mark[i] = PREFER_CHOSEN;
		left--;
	}
}

/* Marks what is chosen; `size` is more than must and less than all. */
static int choice_ask(struct prefer_choice *choice, size_t size)
{
	const struct kubelet_resource *resource = choice->resource;
	size_t room = choice->available + choice->must;
	struct allocator_unit *units = arena_alloc(choice->arena, room * sizeof(*units));
	struct allocator_unit *out = arena_alloc(choice->arena, size * sizeof(*out));
	if (!units || !out)
		return -ENOMEM;

	struct allocator_question question = {
	    .available = units,
	    .must = units + choice->available,
	    .must_count = choice->must,
	    .size = size,
	    .policy = policy_of(resource->settings.policy),
	    .pool_per_gpu = resource->per_gpu,
	};
	size_t musts = 0;

	for (uint32_t i = 0; i < resource->device_count; i++) {
		const struct kubelet_device *device = &resource->devices[i];
		const struct kubelet_hardware *hardware = device->hardware;

		if (choice->mark[i] == PREFER_NOT)
			continue;

		size_t at = choice->mark[i] == PREFER_MUST ? choice->available + musts++
							   : question.available_count++;
		units[at] = (struct allocator_unit){
		    .gpu = hardware->gpu,
		    .device = (uint32_t)(hardware - resource->hardware),
		    .replica = device->replica,
		};
		question.shared |= hardware->replicas > 1 || hardware->mig != POLICY_WHOLE_GPU;
	}

	int count =
	    choice->allocator ? allocator_prefer(choice->allocator, &question, out, NULL) : -EINVAL;
	if (count < 0 || (size_t)count != size) {
		choice_take_first(choice, size);
		return 0;
	}

	for (size_t i = 0; i < size; i++) {
		uint8_t *mark =
		    &choice->mark[resource->hardware[out[i].device].first + out[i].replica];
		*mark = *mark == PREFER_AVAILABLE ? PREFER_CHOSEN : *mark;
	}

	return 0;
}

/* Decides; afterwards PREFER_MUST and PREFER_CHOSEN are the answer, of *out_count known ones. */
static int choice_decide(struct prefer_choice *choice, int32_t wanted, size_t *out_count)
{
	size_t musts = choice->must + choice->unknown_count;
	if (wanted <= 0 || musts > (size_t)wanted) {
		memset(choice->mark, PREFER_NOT, choice->resource->device_count);
		choice->unknown_count = 0;
		*out_count = 0;
		return 0;
	}

	size_t size = (size_t)wanted - choice->unknown_count;
	if (size >= choice->available + choice->must) {
		size = choice->available + choice->must;
		choice_take_first(choice, size);
	} else if (size > choice->must) {
		int rc = choice_ask(choice, size);
		if (rc < 0)
			return rc;
	}

	*out_count = size;
	return 0;
}

static int prefer_container(const struct kubelet_resource *resource, struct allocator *allocator,
			    const V1beta1__ContainerPreferredAllocationRequest *request,
			    struct arena *arena, V1beta1__ContainerPreferredAllocationResponse *out,
			    size_t *dropped)
{
	struct prefer_choice choice = {
	    .resource = resource, .allocator = allocator, .arena = arena};
	choice.mark = arena_alloc(arena, resource->device_count + (size_t)1);
	choice.unknown =
	    arena_alloc(arena, (request->n_must_include_deviceids + 1) * sizeof(*choice.unknown));
	if (!choice.mark || !choice.unknown)
		return -ENOMEM;

	*dropped += choice_read(&choice, request);
	size_t count;
	int rc = choice_decide(&choice, request->allocation_size, &count);
	if (rc < 0)
		return rc;

	out->deviceids =
	    arena_alloc(arena, (count + choice.unknown_count + 1) * sizeof(*out->deviceids));
	if (!out->deviceids)
		return -ENOMEM;

	for (uint32_t i = 0; i < resource->device_count; i++) {
		if (choice.mark[i] == PREFER_MUST || choice.mark[i] == PREFER_CHOSEN)
			out->deviceids[out->n_deviceids++] = (char *)resource->devices[i].id;
	}

	for (size_t i = 0; i < choice.unknown_count; i++)
		out->deviceids[out->n_deviceids++] = choice.unknown[i];

	return 0;
}

int prefer_answer(const struct kubelet_resource *resource, struct allocator *allocator,
		  const V1beta1__PreferredAllocationRequest *request, struct arena *arena,
		  V1beta1__PreferredAllocationResponse *out, size_t *out_dropped, struct err *err)
{
	V1beta1__PreferredAllocationResponse response =
	    V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;
	size_t containers = request->n_container_requests, dropped = 0;

	response.container_responses =
	    arena_alloc(arena, (containers + 1) * sizeof(*response.container_responses));
	int rc = response.container_responses ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < containers; i++) {
		V1beta1__ContainerPreferredAllocationResponse *answer =
		    arena_alloc(arena, sizeof(*answer));
		if (!answer) {
			rc = -ENOMEM;
			break;
		}

		v1beta1__container_preferred_allocation_response__init(answer);
		rc = prefer_container(resource, allocator, request->container_requests[i], arena,
				      answer, &dropped);
		response.container_responses[response.n_container_responses++] = answer;
	}

	if (rc < 0)
		return err_set(err, rc, "%s: out of memory for a preferred allocation",
			       resource->name);
	if (out_dropped)
		*out_dropped = dropped;
	*out = response;

	return 0;
}
