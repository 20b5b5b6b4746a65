/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for messages: a rank's own, or parts of the common file that every rank has mapped. */
#include "bench/collectives/shm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

static size_t shm_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), whole;
	if (!size_add(bytes > 0 ? bytes : 1, page - 1, &whole))
		return 0;
	return whole / page * page;
}

static struct shm_region *shm_region_unused(struct shm_region *regions)
{
	for (int i = 0; i < SHM_REGIONS_MAX; i++)
		if (!regions[i].map)
			return &regions[i];
	return NULL;
}

static int shm_private_alloc(struct shm_backend *self, size_t bytes, void **out, struct err *err)
{
	struct shm_region *region = shm_region_unused(self->privates);
	if (!region)
		return err_set(err, -ENOMEM, "more than %d buffers at a time", SHM_REGIONS_MAX);

	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return err_set(err, -ENOMEM, "no memory for a buffer of %zu bytes", bytes);

	*region = (struct shm_region){.map = map, .bytes = bytes};
	*out = map;
	return 0;
}

/* My part of it, and the whole mapped. What fails is told to the others: they fail, too. */
static int shm_region_map(struct shm_backend *self, size_t bytes, struct shm_region *out,
			  struct err *err)
{
	size_t whole;
	off_t offset = self->file_end, end;

	if (!size_mul(bytes, self->backend.ranks, &whole) ||
	    __builtin_add_overflow(offset, (off_t)whole, &end))
		return err_set(err, -ENOMEM, "registered memory of %zu bytes for each rank", bytes);

	off_t mine = offset + (off_t)(bytes * self->backend.rank);
	if (fallocate(self->world->fd, 0, mine, (off_t)bytes) < 0)
		return err_set(err, -ENOMEM, "no memory for %zu registered bytes: %s", bytes,
			       err_describe(-errno));

	void *map = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, self->world->fd, offset);
	if (map == MAP_FAILED)
		return err_set(err, -ENOMEM, "mapping %zu registered bytes: %s", whole,
			       err_describe(-errno));

	*out = (struct shm_region){.map = map, .bytes = bytes, .offset = offset};
	self->file_end = end;
	return 0;
}

static void shm_region_drop(struct shm_backend *self, struct shm_region *region)
{
	off_t mine = region->offset + (off_t)(region->bytes * self->backend.rank);
	(void)munmap(region->map, region->bytes * self->backend.ranks);
	/* Others may have it mapped still; whoever reads there then, reads zeros. */
	(void)fallocate(self->world->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, mine,
			(off_t)region->bytes);
	*region = (struct shm_region){0};
}

static int shm_registered_alloc(struct shm_backend *self, size_t bytes, void **out, struct err *err)
{
	struct shm_region *region = shm_region_unused(self->regions);
	struct err here = {0};
	int32_t mine = -ENOMEM, all[COLLECTIVE_SHM_RANKS_MAX];

	if (region)
		mine = shm_region_map(self, bytes, region, &here);
	else
		(void)err_set(&here, mine, "more than %d registered buffers at a time",
			      SHM_REGIONS_MAX);

	off_t end = self->file_end;
	int rc = shm_lines(self, SHM_KIND_ALLOC, &mine, all, sizeof(mine), err);
	for (uint32_t rank = 0; rc == 0 && rank < self->backend.ranks; rank++)
		if (all[rank] < 0 && rank == self->backend.rank)
			rc = err_set(err, all[rank], "%s", here.text);
		else if (all[rank] < 0)
			rc = err_set(err, all[rank], "rank %u: no registered memory", rank);

	if (rc < 0) {
		if (mine == 0)
			shm_region_drop(self, region);
		/* Ranks that failed before they took their part go on where the others do. */
		self->file_end = mine == 0 ? end : end + (off_t)(bytes * self->backend.ranks);
		return rc;
	}

	if (self->regions_end <= region - self->regions)
		self->regions_end = (int)(region - self->regions) + 1;
	*out = region->map + bytes * self->backend.rank;
	return 0;
}

int shm_memory_alloc(struct backend *backend, enum backend_memory memory, size_t bytes, void **out,
		     struct err *err)
{
	struct shm_backend *self = (struct shm_backend *)backend;
	if (self->broken < 0)
		return err_set(err, self->broken, "an operation before this failed");

	size_t whole = shm_pages(bytes);
	if (whole == 0 || whole > SIZE_MAX / 2 / backend->ranks)
		return err_set(err, -ENOMEM, "a buffer of %zu bytes", bytes);
	if (memory == BACKEND_PRIVATE)
		return shm_private_alloc(self, whole, out, err);

	return shm_registered_alloc(self, whole, out, err);
}

void shm_memory_free(struct backend *backend, void *memory)
{
	struct shm_backend *self = (struct shm_backend *)backend;

	if (!memory)
		return;

	for (int i = 0; i < SHM_REGIONS_MAX; i++) {
		struct shm_region *own = &self->privates[i], *common = &self->regions[i];
		if (own->map == memory) {
			(void)munmap(own->map, own->bytes);
			*own = (struct shm_region){0};
			return;
		}

		if (common->map && common->map + common->bytes * backend->rank == memory) {
			shm_region_drop(self, common);
			return;
		}
	}
}

const struct shm_region *shm_memory_find(const struct shm_backend *self, const void *address)
{
	for (int i = 0; i < self->regions_end; i++) {
		const struct shm_region *region = &self->regions[i];
		if (!region->map)
			continue;

		const uint8_t *mine = region->map + region->bytes * self->backend.rank;
		if ((const uint8_t *)address >= mine &&
		    (const uint8_t *)address < mine + region->bytes)
			return region;
	}

	return NULL;
}
