/* SPDX-License-Identifier: Apache-2.0 */
/* Every way to take memory, one after the other, each until the target or its first error. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "bench/gpu/load_internal.h"

enum {
	ALLOC_PIECES = 256, /* of a target */
	ALLOC_PIECES_MAX = 4096,
	ALLOC_GRANULE = 2 << 20,  /* what the driver gives out at a time */
	ALLOC_MANAGED_GLOBAL = 1, /* CU_MEM_ATTACH_GLOBAL */
	ALLOC_ELEMENT = 16,	  /* bytes; cuMemAllocPitch */
	ALLOC_ROWS = 64,
	ALLOC_DEVICE = 1, /* CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE */
};

/* CUmemAllocationProp. Source: CUDA driver API. */
struct alloc_property {
	int type, handle_types, location_type, location_id;
	void *windows;
	unsigned char flags[8];
};

static int alloc_plain(struct load_session *self, size_t bytes, uint64_t *out)
{
	return self->driver.call.cuMemAlloc(out, bytes);
}

static int alloc_managed(struct load_session *self, size_t bytes, uint64_t *out)
{
	return self->driver.call.cuMemAllocManaged(out, bytes, ALLOC_MANAGED_GLOBAL);
}

static int alloc_pitch(struct load_session *self, size_t bytes, uint64_t *out)
{
	size_t pitch;
	return self->driver.call.cuMemAllocPitch(out, &pitch, bytes / ALLOC_ROWS, ALLOC_ROWS,
						 ALLOC_ELEMENT);
}

static int alloc_async(struct load_session *self, size_t bytes, uint64_t *out)
{
	int rc = self->driver.call.cuMemAllocAsync(out, bytes, self->stream);
	return rc == CUDA_OK ? self->driver.call.cuStreamSynchronize(self->stream) : rc;
}

static int alloc_create(struct load_session *self, size_t bytes, uint64_t *out)
{
	struct alloc_property property = {.type = ALLOC_DEVICE,
					  .location_type = ALLOC_DEVICE,
					  .location_id = self->out->device.device};
	unsigned long long handle = 0;
	int rc = self->driver.call.cuMemCreate(&handle, bytes, &property, 0);
	*out = handle;
	return rc;
}

static int alloc_free(struct load_session *self, uint64_t address)
{
	return self->driver.call.cuMemFree(address);
}

static int alloc_free_async(struct load_session *self, uint64_t address)
{
	return self->driver.call.cuMemFreeAsync(address, self->stream);
}

static int alloc_release(struct load_session *self, uint64_t handle)
{
	return self->driver.call.cuMemRelease(handle);
}

static const struct alloc_way {
	const char *name;
	size_t call, second_call; /* offsets in struct driver_calls */
	int (*take)(struct load_session *self, size_t bytes, uint64_t *out);
	int (*give)(struct load_session *self, uint64_t address);
} alloc_ways[] = {
    {"cuMemAlloc", offsetof(struct driver_calls, cuMemAlloc),
     offsetof(struct driver_calls, cuMemFree), alloc_plain, alloc_free},
    {"cuMemAllocManaged", offsetof(struct driver_calls, cuMemAllocManaged),
     offsetof(struct driver_calls, cuMemFree), alloc_managed, alloc_free},
    {"cuMemAllocPitch", offsetof(struct driver_calls, cuMemAllocPitch),
     offsetof(struct driver_calls, cuMemFree), alloc_pitch, alloc_free},
    {"cuMemAllocAsync", offsetof(struct driver_calls, cuMemAllocAsync),
     offsetof(struct driver_calls, cuMemFreeAsync), alloc_async, alloc_free_async},
    {"cuMemCreate", offsetof(struct driver_calls, cuMemCreate),
     offsetof(struct driver_calls, cuMemRelease), alloc_create, alloc_release},
};

static bool alloc_has(const struct load_session *self, size_t offset)
{
	void *call;
	memcpy(&call, (const char *)&self->driver.call + offset, sizeof(call));
	return call != NULL;
}

static int alloc_walk(struct load_session *self, const struct alloc_way *way, uint64_t target,
		      uint64_t *addresses, struct load_path *out, struct err *err)
{
	uint64_t piece = target / ALLOC_PIECES / ALLOC_GRANULE * ALLOC_GRANULE;
	size_t count = 0;
	const char *name = NULL;

	if (piece < ALLOC_GRANULE)
		piece = ALLOC_GRANULE;

	while (out->error == CUDA_OK && out->bytes_ok < target && count < ALLOC_PIECES_MAX &&
	       !load_is_stopped(self)) {
		uint64_t left = target - out->bytes_ok;
		/* The last one is a granule too: nothing smaller is given out. */
		uint64_t bytes = left < piece
				     ? (left + ALLOC_GRANULE - 1) / ALLOC_GRANULE * ALLOC_GRANULE
				     : piece;

		out->error = way->take(self, bytes, &addresses[count]);
		if (out->error == CUDA_OK) {
			out->bytes_ok += bytes;
			count++;
		}

		load_beat(self);
	}

	if (out->error != CUDA_OK && self->driver.call.cuGetErrorName)
		(void)self->driver.call.cuGetErrorName(out->error, &name); /* NULL: unknown */
	(void)snprintf(out->error_name, sizeof(out->error_name), "%s",
		       out->error == CUDA_OK ? ""
		       : name		     ? name
					     : "CUDA error");

	int rc = 0;
	while (count > 0) {
		int said = way->give(self, addresses[--count]);
		if (rc == 0)
			rc = load_said(self, said, err, way->name);
	}

	return rc == 0 ? load_sync(self, err) : rc;
}

int load_run_alloc(struct load_session *self, struct err *err)
{
	struct load_summary *out = self->out;
	size_t free_bytes = 0, total = 0;
	_cleanup_free_ uint64_t *addresses = calloc(ALLOC_PIECES_MAX, sizeof(*addresses));
	int rc = load_said(self, self->driver.call.cuMemGetInfo(&free_bytes, &total), err,
			   "cuMemGetInfo");
	if (rc < 0 || !addresses)
		return rc < 0 ? rc : err_set(err, -ENOMEM, "no memory");

	uint64_t target =
	    self->plan->target_bytes ? self->plan->target_bytes : (uint64_t)free_bytes / 10 * 9;

	out->free_bytes = free_bytes;
	out->total_bytes = total;
	for (size_t i = 0; i < sizeof(alloc_ways) / sizeof(alloc_ways[0]) && rc == 0; i++) {
		const struct alloc_way *way = &alloc_ways[i];
		if (self->plan->path && strcmp(self->plan->path, way->name) != 0)
			continue;

		struct load_path *path = &out->paths[out->path_count++];
		path->name = way->name;
		path->is_missing =
		    !alloc_has(self, way->call) || !alloc_has(self, way->second_call);
		if (!path->is_missing)
			rc = alloc_walk(self, way, target, addresses, path, err);
	}

	if (rc == 0 && out->path_count == 0) {
		out->status = LOAD_REFUSED;
		rc = err_set(err, -EINVAL,
			     "--path '%.40s': cuMemAlloc, cuMemAllocManaged, cuMemAllocPitch, "
			     "cuMemAllocAsync or cuMemCreate",
			     self->plan->path);
	}

	return rc;
}
