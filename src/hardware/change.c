/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/change.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether there is something by which the two can be compared. */
static bool comparable(const struct gpu *a, const struct gpu *b)
{
	return (a->uuid[0] != '\0' && b->uuid[0] != '\0') || (a->has_pci && b->has_pci);
}

static bool same_gpu(const struct gpu *a, const struct gpu *b)
{
	if (a->uuid[0] != '\0' && b->uuid[0] != '\0')
		return strcmp(a->uuid, b->uuid) == 0;
	return a->has_pci && b->has_pci && pci_address_compare(&a->pci, &b->pci) == 0;
}

static uint32_t find_named(const struct inventory *inventory, const struct gpu *gpu)
{
	uint32_t i = 0;
	while (i < inventory->gpu_count && !same_gpu(&inventory->gpus[i], gpu))
		i++;
	return i;
}

/* NVML numbers GPUs in the order of their addresses: while those that are known by name have kept
 * their numbers, so have the others. */
static bool numbers_hold(const struct inventory *a, const struct inventory *b)
{
	for (uint32_t i = 0; i < a->gpu_count; i++) {
		uint32_t j = find_named(b, &a->gpus[i]);
		if (j < b->gpu_count && a->gpus[i].index != b->gpus[j].index)
			return false;
	}
	return true;
}

/* Where `gpu` of `other` is in `inventory`: by UUID or address, else (where the driver does not
 * tell these of a GPU that it has lost, and there is no /proc/driver/nvidia) by its number. */
static uint32_t find(const struct inventory *inventory, const struct inventory *other,
		     const struct gpu *gpu)
{
	uint32_t i = find_named(inventory, gpu);
	if (i < inventory->gpu_count || !numbers_hold(inventory, other))
		return i;

	i = 0;
	while (i < inventory->gpu_count &&
	       (inventory->gpus[i].index != gpu->index || comparable(&inventory->gpus[i], gpu)))
		i++;

	return i;
}

static void note(struct change *out, uint32_t *count, enum change_kind kind, const struct gpu *gpu)
{
	if (*count == CHANGE_MAX)
		return;

	struct change *change = &out[(*count)++];
	*change = (struct change){.kind = kind};
	if (!gpu)
		return;

	change->state = gpu->state;
	(void)snprintf(change->uuid, sizeof(change->uuid), "%s", gpu->uuid);
	if (gpu->has_pci)
		pci_address_to_string(&gpu->pci, change->bus);
}

static const struct mig_device *find_mig(const struct inventory *inventory, uint32_t parent,
					 const struct mig_device *mig)
{
	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		const struct mig_device *other = &inventory->migs[i];
		if (other->parent == parent && other->gi == mig->gi && other->ci == mig->ci &&
		    strcmp(other->uuid, mig->uuid) == 0 &&
		    strcmp(other->profile, mig->profile) == 0)
			return other;
	}

	return NULL;
}

static uint32_t count_migs(const struct inventory *inventory, uint32_t parent)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < inventory->mig_count; i++)
		count += inventory->migs[i].parent == parent;
	return count;
}

static bool migs_differ(const struct inventory *before, uint32_t old, const struct inventory *after,
			uint32_t new)
{
	if (before->gpus[old].mig_current != after->gpus[new].mig_current ||
	    before->gpus[old].mig_pending != after->gpus[new].mig_pending ||
	    count_migs(before, old) != count_migs(after, new))
		return true;

	for (uint32_t i = 0; i < after->mig_count; i++) {
		const struct mig_device *mig = &after->migs[i];
		if (mig->parent == new && !find_mig(before, old, mig))
			return true;
	}

	return false;
}

/* Numbers the generations of one GPU's MIG devices. True when they differ from before. */
static bool compare_migs(const struct inventory *before, uint32_t old, struct inventory *after,
			 uint32_t new)
{
	struct gpu *gpu = &after->gpus[new];
	bool differ = migs_differ(before, old, after, new);

	gpu->mig_generation = before->gpus[old].mig_generation + differ;
	for (uint32_t i = 0; i < after->mig_count; i++) {
		struct mig_device *mig = &after->migs[i];
		if (mig->parent != new)
			continue;
		const struct mig_device *earlier = find_mig(before, old, mig);
		mig->generation = earlier ? earlier->generation : gpu->mig_generation;
	}

	return differ;
}

uint32_t change_find(const struct inventory *before, struct inventory *after, struct change *out)
{
	uint32_t count = 0;

	if (strcmp(before->driver_version, after->driver_version) != 0 ||
	    strcmp(before->nvml_version, after->nvml_version) != 0)
		note(out, &count, CHANGE_DRIVER, NULL);

	for (uint32_t i = 0; i < before->gpu_count; i++) {
		if (find(after, before, &before->gpus[i]) == after->gpu_count)
			note(out, &count, CHANGE_GPU_REMOVED, &before->gpus[i]);
	}

	for (uint32_t i = 0; i < after->gpu_count; i++) {
		struct gpu *gpu = &after->gpus[i];
		uint32_t old = find(before, after, gpu);
		if (old == before->gpu_count) {
			note(out, &count, CHANGE_GPU_ADDED, gpu);
			continue;
		}

		if (before->gpus[old].state != gpu->state)
			note(out, &count, CHANGE_GPU_STATE, gpu);
		if (compare_migs(before, old, after, i))
			note(out, &count, CHANGE_MIG, gpu);
	}

	return count;
}

/* What does not change while a GPU does not answer. */
static void remember_gpu(const struct gpu *was, struct gpu *now)
{
	struct gpu merged = *was;
	merged.state = now->state;
	memcpy(merged.reason, now->reason, sizeof(merged.reason));
	merged.index = now->index;
	*now = merged;
}

int change_remember(const struct inventory *before, struct inventory *after)
{
	size_t most = (size_t)before->mig_count + after->mig_count;
	struct mig_device *migs = most ? calloc(most, sizeof(*migs)) : NULL;
	if (most && !migs)
		return -ENOMEM;

	uint32_t count = 0;

	for (uint32_t i = 0; i < after->gpu_count; i++) {
		struct gpu *gpu = &after->gpus[i];
		uint32_t old = find(before, after, gpu);
		bool recall = gpu->state != GPU_STATE_OK && old < before->gpu_count;

		if (recall)
			remember_gpu(&before->gpus[old], gpu);

		const struct inventory *source = recall ? before : after;
		uint32_t parent = recall ? old : i;
		for (uint32_t m = 0; m < source->mig_count; m++) {
			if (source->migs[m].parent != parent)
				continue;
			migs[count] = source->migs[m];
			migs[count++].parent = i;
		}
	}

	free(after->migs);
	after->migs = migs;
	after->mig_count = count;

	return 0;
}
