/* SPDX-License-Identifier: Apache-2.0 */
#include "handle.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "api.h"

enum handle_kind { HANDLE_IS_GPU, HANDLE_IS_GI, HANDLE_IS_CI, HANDLE_IS_MIG };

/* One entry per handle ever given out; an entry is used again, under another tag, once its instance
 * is gone and the table is full. */
struct handle_entry {
	bool used;
	uint8_t kind;
	uint8_t tag;
	struct handle_target target;
	uint32_t gi_generation, ci_generation;
};

enum { HANDLE_STRIDE = 64 };

/* Handles are addresses in here; nothing is ever stored. */
static char handle_space[HANDLE_MAX * HANDLE_STRIDE];
static struct handle_entry handle_entry[HANDLE_MAX]; /* after the GPUs' */
static uint32_t handle_count;
static pthread_mutex_t handle_mutex = PTHREAD_MUTEX_INITIALIZER;

void handle_lock(void)
{
	pthread_mutex_lock(&handle_mutex);
}

void handle_unlock(void)
{
	pthread_mutex_unlock(&handle_mutex);
}

static void *handle_address(uint32_t slot, uint8_t tag)
{
	return &handle_space[slot * HANDLE_STRIDE + tag];
}

void *handle_of_gpu(uint32_t gpu)
{
	return gpu < SIM_GPU_MAX ? handle_address(gpu, 0) : NULL;
}

/* Does the entry's instance still exist, as the same one? */
static bool handle_is_current(const struct sim_machine *machine, const struct handle_entry *entry)
{
	if (entry->target.gpu >= machine->gpu_count)
		return false;

	const struct sim_gi *gi = &machine->gpu[entry->target.gpu].gi[entry->target.gi];
	if (!gi->used || gi->generation != entry->gi_generation)
		return false;
	if (entry->kind == HANDLE_IS_GI)
		return true;

	const struct sim_ci *ci = &gi->ci[entry->target.ci];
	return ci->used && ci->generation == entry->ci_generation;
}

/* Entries are used again in turn: an old handle fits again only after 64 rounds of the table. */
static uint32_t handle_free_slot(const struct sim_machine *machine)
{
	static uint32_t next;
	const uint32_t entries = HANDLE_MAX - SIM_GPU_MAX;

	if (handle_count < entries)
		return SIM_GPU_MAX + handle_count++;

	for (uint32_t i = 0; i < entries; i++) {
		uint32_t slot = SIM_GPU_MAX + next;

		next = (next + 1) % entries;
		if (handle_is_current(machine, &handle_entry[slot]))
			continue;

		handle_entry[slot].tag = (uint8_t)((handle_entry[slot].tag + 1) % HANDLE_STRIDE);
		return slot;
	}

	return HANDLE_MAX;
}

static void *handle_of(const struct sim_machine *machine, enum handle_kind kind, uint32_t gpu,
		       uint32_t gi, uint32_t ci)
{
	const struct sim_gi *instance = &machine->gpu[gpu].gi[gi];
	uint32_t ci_generation = ci == SIM_WHOLE_GPU ? 0 : instance->ci[ci].generation;
	void *result = NULL;

	handle_lock();

	for (uint32_t slot = SIM_GPU_MAX; slot < SIM_GPU_MAX + handle_count; slot++) {
		const struct handle_entry *entry = &handle_entry[slot];
		if (entry->kind == kind && entry->target.gpu == gpu && entry->target.gi == gi &&
		    entry->target.ci == ci && entry->gi_generation == instance->generation &&
		    entry->ci_generation == ci_generation) {
			result = handle_address(slot, entry->tag);
			break;
		}
	}

	if (!result) {
		uint32_t slot = handle_free_slot(machine);
		if (slot < HANDLE_MAX) {
			uint8_t tag = handle_entry[slot].tag;
			handle_entry[slot] = (struct handle_entry){
			    .used = true,
			    .kind = (uint8_t)kind,
			    .tag = tag,
			    .target = {.gpu = gpu, .gi = gi, .ci = ci},
			    .gi_generation = instance->generation,
			    .ci_generation = ci_generation,
			};
			result = handle_address(slot, tag);
		}
	}

	handle_unlock();
	return result;
}

void *handle_of_gi(const struct sim_machine *machine, uint32_t gpu, uint32_t gi)
{
	return handle_of(machine, HANDLE_IS_GI, gpu, gi, SIM_WHOLE_GPU);
}

void *handle_of_ci(const struct sim_machine *machine, uint32_t gpu, uint32_t gi, uint32_t ci)
{
	return handle_of(machine, HANDLE_IS_CI, gpu, gi, ci);
}

void *handle_of_mig(const struct sim_machine *machine, uint32_t gpu, uint32_t gi, uint32_t ci)
{
	return handle_of(machine, HANDLE_IS_MIG, gpu, gi, ci);
}

static unsigned handle_find(const struct sim_machine *machine, const void *handle,
			    enum handle_kind kind, struct handle_target *out)
{
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)handle_space;
	if (offset >= sizeof(handle_space))
		return NVML_INVALID_ARGUMENT;

	uint32_t slot = (uint32_t)(offset / HANDLE_STRIDE);
	uint32_t tag = (uint32_t)(offset % HANDLE_STRIDE);

	if (slot < SIM_GPU_MAX) {
		if (kind != HANDLE_IS_MIG || tag != 0 || slot >= machine->gpu_count)
			return NVML_INVALID_ARGUMENT;
		*out = (struct handle_target){slot, SIM_WHOLE_GPU, SIM_WHOLE_GPU};
		return NVML_OK;
	}

	handle_lock();
	struct handle_entry entry = handle_entry[slot];

	handle_unlock();
	if (!entry.used || entry.kind != kind || entry.tag != tag)
		return NVML_INVALID_ARGUMENT;
	if (!handle_is_current(machine, &entry))
		return NVML_NOT_FOUND;

	*out = entry.target;
	return NVML_OK;
}

unsigned handle_device(const struct sim_machine *machine, const void *handle,
		       struct handle_target *out)
{
	return handle_find(machine, handle, HANDLE_IS_MIG, out);
}

unsigned handle_gi(const struct sim_machine *machine, const void *handle, struct handle_target *out)
{
	return handle_find(machine, handle, HANDLE_IS_GI, out);
}

unsigned handle_ci(const struct sim_machine *machine, const void *handle, struct handle_target *out)
{
	return handle_find(machine, handle, HANDLE_IS_CI, out);
}
