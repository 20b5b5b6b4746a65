/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/gpunodes_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"

static const char *const cache_directories[GPUNODES_CACHE_STAMPS] = {"dev", "dev/dri",
								     "dev/nvidia-caps"};

void gpunodes_cache_done(struct gpunodes_cache *cache)
{
	gpunodes_plan_done(&cache->plan);
	free(cache->ranges);
	free(cache->root);
	*cache = (struct gpunodes_cache){.is_filled = false};
}

static void cache_stamp(const char *root, struct gpunodes_stamp out[GPUNODES_CACHE_STAMPS])
{
	char path[FILE_PATH_MAX];
	struct stat status;

	for (size_t i = 0; i < GPUNODES_CACHE_STAMPS; i++) {
		out[i] = (struct gpunodes_stamp){.inode = 0};
		if (file_path(path, NULL, "%s/%s", root, cache_directories[i]) == 0 &&
		    stat(path, &status) == 0)
			out[i] = (struct gpunodes_stamp){.device = status.st_dev,
							 .inode = status.st_ino,
							 .changed = status.st_mtim};
	}
}

static bool cache_is_same_stamp(const struct gpunodes_stamp *a, const struct gpunodes_stamp *b)
{
	return a->device == b->device && a->inode == b->inode &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static bool cache_is_same_device(const struct gpunodes_device *a, const struct gpunodes_device *b)
{
	return a->minor == b->minor && a->has_pci == b->has_pci &&
	       pci_address_compare(&a->pci, &b->pci) == 0 && a->is_mig == b->is_mig &&
	       a->is_given == b->is_given && a->gi == b->gi && a->ci == b->ci;
}

static bool cache_is_good(const struct gpunodes_cache *cache, const struct gpunodes_plan *plan,
			  const char *root, uint64_t now_ns,
			  const struct gpunodes_stamp stamps[GPUNODES_CACHE_STAMPS])
{
	if (!cache->is_filled || now_ns >= cache->until_ns || cache->plan.count != plan->count ||
	    strcmp(cache->root, root) != 0)
		return false;

	for (size_t i = 0; i < plan->count; i++)
		if (!cache_is_same_device(&cache->plan.devices[i], &plan->devices[i]))
			return false;

	for (size_t i = 0; i < GPUNODES_CACHE_STAMPS; i++)
		if (!cache_is_same_stamp(&cache->stamps[i], &stamps[i]))
			return false;

	return true;
}

/* Leaves a cache that is empty where it fails. */
static int cache_fill(struct gpunodes_cache *cache, const struct gpunodes_plan *plan,
		      const char *root, struct err *err)
{
	struct gpunodes nodes = {.count = 0};

	cache->root = strdup(root);
	cache->plan.devices = calloc(plan->count + 1, sizeof(*plan->devices));
	if (!cache->root || !cache->plan.devices)
		return err_set(err, -ENOMEM, "no memory for a list of device nodes");

	for (size_t i = 0; i < plan->count; i++)
		cache->plan.devices[i] = plan->devices[i];
	cache->plan.count = plan->count;

	int rc = gpunodes_find(plan, root, &nodes, err);
	if (rc == 0)
		rc = gpunodes_ranges(&nodes, &cache->ranges, &cache->count, err);
	cache->unknown = nodes.unknown;
	gpunodes_done(&nodes);

	return rc;
}

int gpunodes_cache_find(struct gpunodes_cache *cache, const struct gpunodes_plan *plan,
			const char *root, uint64_t now_ns, const struct gpunodes_range **out,
			size_t *out_count, uint32_t *out_unknown, struct err *err)
{
	struct gpunodes_stamp stamps[GPUNODES_CACHE_STAMPS];

	cache_stamp(root, stamps); /* before the files: what changes meanwhile is read again */
	if (!cache_is_good(cache, plan, root, now_ns, stamps)) {
		gpunodes_cache_done(cache);
		int rc = cache_fill(cache, plan, root, err);
		if (rc < 0) {
			gpunodes_cache_done(cache);
			return rc;
		}

		memcpy(cache->stamps, stamps, sizeof(stamps));
		cache->until_ns = clock_after_ns(now_ns, GPUNODES_CACHE_NS);
		/* Of a device that is not known yet, the next one who asks may know more. */
		cache->is_filled = cache->unknown == 0;
	}

	*out = cache->ranges;
	*out_count = cache->count;
	*out_unknown = cache->unknown;
	return 0;
}
