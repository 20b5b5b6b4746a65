/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may stand in a call of the kubelet: the bytes of an AllocateRequest or of a
 * PreferredAllocationRequest, to resources of made-up devices. The first byte chooses the resource,
 * the second the memory of the call.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "deviceplugin.pb-c.h"
#include "doors/kubelet/allocate.h"
#include "doors/kubelet/prefer.h"
#include "doors/kubelet/resource.h"
#include "tests/fuzz/devices.h"
#include "units/allocator.h"
#include "wire/arena.h"
#include "wire/message.h"

enum { FUZZ_REPLY_MAX = 1 << 26 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fill_zero(void *bytes, size_t size, void *context)
{
	(void)context;
	memset(bytes, 0, size);
	return 0;
}

static void send(const ProtobufCMessage *message)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, FUZZ_REPLY_MAX);
	if (wire_message_encode(message, &out, NULL) < 0)
		abort();
}

static void allocate(const struct kubelet_resource *resource, const uint8_t *data, size_t size,
		     size_t max)
{
	static const struct allocate_random random = {.fill = fill_zero};
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, max);
	ProtobufCMessage *message = NULL;
	if (wire_message_decode(&v1beta1__allocate_request__descriptor, data, size, &arena,
				&message, NULL) < 0)
		return;
	const V1beta1__AllocateRequest *request = (const V1beta1__AllocateRequest *)message;
	V1beta1__AllocateResponse response;
	struct err err = {0};
	int rc = allocate_answer(resource, request, &random, &arena, &response, &err);
	if (rc < 0 && rc != -ENOMEM && (rc != -EINVAL || allocate_status(rc) != WIRE_UNKNOWN))
		abort();
	if (rc < 0)
		return;
	if (response.n_container_responses != request->n_container_requests)
		abort();
	send(&response.base);
}

static void prefer(const struct kubelet_resource *resource, struct allocator *allocator,
		   const uint8_t *data, size_t size, size_t max)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, max);
	ProtobufCMessage *message = NULL;
	if (wire_message_decode(&v1beta1__preferred_allocation_request__descriptor, data, size,
				&arena, &message, NULL) < 0)
		return;
	const V1beta1__PreferredAllocationRequest *request =
	    (const V1beta1__PreferredAllocationRequest *)message;
	V1beta1__PreferredAllocationResponse response;
	int rc = prefer_answer(resource, allocator, request, &arena, &response, NULL, NULL);
	if (rc < 0 && rc != -ENOMEM)
		abort();
	if (rc < 0)
		return;
	for (size_t i = 0; i < response.n_container_responses; i++) {
		int32_t wanted = request->container_requests[i]->allocation_size;
		if (response.container_responses[i]->n_deviceids >
		    (wanted < 0 ? 0 : (size_t)wanted))
			abort();
	}
	send(&response.base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	struct allocator *allocator = devices_allocator();
	struct kubelet_resource *resource = devices_make(data[0], 0);
	size_t max = ((size_t)data[1] + 1) << 10;
	allocate(resource, data + 2, size - 2, max);
	prefer(resource, allocator, data + 2, size - 2, max);
	(void)allocator_free(allocator);
	(void)resource_free(resource);
	return 0;
}
