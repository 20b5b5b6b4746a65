/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/mig.h"

#include <stdio.h>
#include <string.h>

#include "sim/error.h"
#include "sim/physics.h"

/* nvmlReturn_t */
enum {
	OK = 0,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	IN_USE = 19,
	INSUFFICIENT_RESOURCES = 23,
};

enum {
	EVENT_MIG_CONFIG_CHANGE = 0x100,
	COMPUTE_SLICES = 7, /* of a GPU, on every part that has MIG */
	LAYOUT_MAX = 8,
};

static uint32_t mask_of(uint32_t start, uint32_t size)
{
	return ((1U << size) - 1) << start;
}

static uint32_t used_memory_slices(const struct sim_model *model, const struct sim_gpu *gpu)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
		if (gpu->gi[i].used)
			used |= mask_of(gpu->gi[i].start,
					model->mig_profile[gpu->gi[i].profile].placement_size);
	}

	return used;
}

/* How many more instances of this row the compute slices and the row's own limit allow. */
static uint32_t allowed_instances(const struct sim_model *model, const struct sim_gpu *gpu,
				  uint32_t profile)
{
	const struct sim_mig_profile *row = &model->mig_profile[profile];
	uint32_t slices = 0, same = 0, slots = 0, allowed;

	for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
		if (!gpu->gi[i].used) {
			slots++;
			continue;
		}

		slices += model->mig_profile[gpu->gi[i].profile].slices;
		same += gpu->gi[i].profile == profile;
	}

	if (slices >= COMPUTE_SLICES || same >= row->max_count)
		return 0;

	allowed = (COMPUTE_SLICES - slices) / row->slices;
	if (allowed > row->max_count - same)
		allowed = row->max_count - same;

	return allowed < slots ? allowed : slots;
}

uint32_t sim_mig_row(const struct sim_model *model, uint32_t index)
{
	for (uint32_t i = 0; i < model->mig_profile_count; i++) {
		if (model->mig_profile[i].index == index)
			return i;
	}
	return SIM_WHOLE_GPU;
}

uint32_t sim_mig_remaining(const struct sim_machine *machine, uint32_t gpu, uint32_t profile)
{
	const struct sim_gpu *g = &machine->gpu[gpu];
	const struct sim_model *model = sim_model_of(machine, g);
	uint32_t used, count = 0, allowed;
	const struct sim_mig_profile *row;

	if (!g->mig_current || profile >= model->mig_profile_count)
		return 0;

	row = &model->mig_profile[profile];
	allowed = allowed_instances(model, g, profile);
	used = used_memory_slices(model, g);

	/* places of one row are equally long and listed in order: taking the first is best */
	for (uint32_t i = 0; i < row->placement_count && count < allowed; i++) {
		uint32_t mask = mask_of(row->placement_start[i], row->placement_size);

		if (used & mask)
			continue;

		used |= mask;
		count++;
	}

	return count;
}

static void changed(struct sim_machine *machine, uint32_t gpu, uint32_t gi, uint32_t ci)
{
	struct sim_event event = {
	    .tick = machine->tick,
	    .type = EVENT_MIG_CONFIG_CHANGE,
	    .gpu = gpu,
	    .gi = gi,
	    .ci = ci,
	};

	machine->gpu[gpu].mig_generation++;
	sim_machine_event(machine, &event);
}

/* The number an instance gets from its place in the tree of slices: the whole GPU 0, halves 1-2,
 * quarters 3-6, eighths 7-14. Sizes between take the next larger place. */
static uint32_t instance_id(const struct sim_machine *machine, uint32_t start, uint32_t size)
{
	uint32_t half = start / 4;

	if (size > 4)
		return 0;
	if (size > 2)
		return 1 + (machine->mig_gi_swapped ? 1 - half : half);
	return size == 2 ? 3 + start / 2 : 7 + start;
}

/* The place for an instance whose caller does not say: SIM_WHOLE_GPU when there is none. */
static uint32_t choose_start(const struct sim_mig_profile *row, uint32_t used)
{
	uint32_t best = SIM_WHOLE_GPU;

	for (uint32_t i = 0; i < row->placement_count; i++) {
		uint32_t start = row->placement_start[i];

		if (used & mask_of(start, row->placement_size))
			continue;
		if (best == SIM_WHOLE_GPU || (row->slices == 2 ? start < best : start > best))
			best = start;
	}

	return best;
}

static bool is_placement(const struct sim_mig_profile *row, uint32_t start)
{
	for (uint32_t i = 0; i < row->placement_count; i++) {
		if (row->placement_start[i] == start)
			return true;
	}
	return false;
}

uint32_t sim_mig_create_gi(struct sim_machine *machine, uint32_t gpu, uint32_t profile,
			   uint32_t start, uint32_t *out_slot)
{
	struct sim_gpu *g = &machine->gpu[gpu];
	const struct sim_model *model = sim_model_of(machine, g);
	const struct sim_mig_profile *row;
	uint32_t used, slot = 0;

	if (!g->mig_current)
		return NOT_SUPPORTED;
	if (profile >= model->mig_profile_count)
		return INVALID_ARGUMENT;

	row = &model->mig_profile[profile];
	if (start != SIM_WHOLE_GPU && !is_placement(row, start))
		return INVALID_ARGUMENT;

	used = used_memory_slices(model, g);
	if (start == SIM_WHOLE_GPU)
		start = choose_start(row, used);
	if (start == SIM_WHOLE_GPU || used & mask_of(start, row->placement_size) ||
	    allowed_instances(model, g, profile) == 0)
		return INSUFFICIENT_RESOURCES;

	while (g->gi[slot].used)
		slot++;

	g->gi[slot] = (struct sim_gi){
	    .used = true,
	    .id = instance_id(machine, start, row->placement_size),
	    .profile = profile,
	    .start = start,
	    .generation = g->mig_generation + 1,
	};
	changed(machine, gpu, g->gi[slot].id, SIM_WHOLE_GPU);
	*out_slot = slot;

	return OK;
}

uint32_t sim_mig_destroy_gi(struct sim_machine *machine, uint32_t gpu, uint32_t slot)
{
	struct sim_gpu *g = &machine->gpu[gpu];
	uint32_t id;

	if (slot >= SIM_GI_MAX || !g->gi[slot].used)
		return NOT_FOUND;

	id = g->gi[slot].id;

	for (uint32_t i = 0; i < SIM_CI_MAX; i++) {
		if (g->gi[slot].ci[i].used)
			return IN_USE;
	}

	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		if (g->process[i].pid != 0 && g->process[i].gi == id)
			return IN_USE;
	}

	g->gi[slot] = (struct sim_gi){0};
	changed(machine, gpu, id, SIM_WHOLE_GPU);
	return OK;
}

/* nvml.h numbers the profiles of compute instances by their size in slices. */
static uint32_t compute_profile_index(uint32_t slices)
{
	static const uint32_t index[] = {0, 0, 1, 2, 3, SIM_WHOLE_GPU, 6, 4, 5};

	return slices >= 1 && slices < sizeof(index) / sizeof(index[0]) ? index[slices]
									: SIM_WHOLE_GPU;
}

static void compute_instance_uuid(const struct sim_machine *machine, uint32_t gpu,
				  const struct sim_gi *gi, struct sim_ci *ci)
{
	uint64_t counter = (uint64_t)gi->id << 8 | ci->id, high, low;

	if (machine->mig_uuid_fresh)
		counter |= (uint64_t)ci->generation << 16;
	high = sim_hash(machine->seed, gpu, SIM_HASH_MIG_UUID, counter << 1);
	low = sim_hash(machine->seed, gpu, SIM_HASH_MIG_UUID, counter << 1 | 1);
	(void)snprintf(ci->uuid, sizeof(ci->uuid), "MIG-%s-%04x-5%03x-%04x-%012llx",
		       SIM_UUID_PREFIX, (unsigned)(high & 0xffff), (unsigned)(high >> 16 & 0xfff),
		       (unsigned)(high >> 32 & 0x3fff) | 0x8000,
		       (unsigned long long)(low & 0xffffffffffff));
}

uint32_t sim_mig_create_ci(struct sim_machine *machine, uint32_t gpu, uint32_t slot,
			   uint32_t slices, uint32_t *out_ci_slot)
{
	struct sim_gpu *g = &machine->gpu[gpu];
	uint32_t used = 0, start = 0, id = 0, ci_slot = 0, ids = 0, total;
	struct sim_gi *gi;
	struct sim_ci *ci;

	if (slot >= SIM_GI_MAX || !g->gi[slot].used)
		return NOT_FOUND;

	gi = &g->gi[slot];
	total = sim_model_of(machine, g)->mig_profile[gi->profile].slices;
	if (slices > total || compute_profile_index(slices) == SIM_WHOLE_GPU)
		return INVALID_ARGUMENT;

	for (uint32_t i = 0; i < SIM_CI_MAX; i++) {
		if (!gi->ci[i].used)
			continue;
		used |= mask_of(gi->ci[i].start, gi->ci[i].slices);
		ids |= 1U << gi->ci[i].id;
	}

	while (start + slices <= total && used & mask_of(start, slices))
		start++;

	if (start + slices > total)
		return INSUFFICIENT_RESOURCES;

	while (gi->ci[ci_slot].used)
		ci_slot++;

	while (ids & 1U << id)
		id++;

	ci = &gi->ci[ci_slot];
	*ci = (struct sim_ci){
	    .used = true,
	    .id = id,
	    .profile_index = compute_profile_index(slices),
	    .slices = slices,
	    .start = start,
	    .generation = g->mig_generation + 1,
	};
	compute_instance_uuid(machine, gpu, gi, ci);
	changed(machine, gpu, gi->id, id);
	*out_ci_slot = ci_slot;

	return OK;
}

uint32_t sim_mig_destroy_ci(struct sim_machine *machine, uint32_t gpu, uint32_t slot,
			    uint32_t ci_slot)
{
	struct sim_gpu *g = &machine->gpu[gpu];
	uint32_t gi, ci;

	if (slot >= SIM_GI_MAX || !g->gi[slot].used || ci_slot >= SIM_CI_MAX ||
	    !g->gi[slot].ci[ci_slot].used)
		return NOT_FOUND;

	gi = g->gi[slot].id;
	ci = g->gi[slot].ci[ci_slot].id;
	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		const struct sim_process *process = &g->process[i];

		if (process->pid != 0 && process->gi == gi &&
		    (process->ci == ci || process->ci == SIM_WHOLE_GPU))
			return IN_USE;
	}

	g->gi[slot].ci[ci_slot] = (struct sim_ci){0};
	changed(machine, gpu, gi, ci);
	return OK;
}

uint32_t sim_mig_set_mode(struct sim_machine *machine, uint32_t gpu, bool enabled)
{
	struct sim_gpu *g = &machine->gpu[gpu];

	if (!sim_model_of(machine, g)->has_mig)
		return NOT_SUPPORTED;

	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		if (g->process[i].pid != 0)
			return IN_USE;
	}

	g->mig_pending = enabled;
	return OK;
}

void sim_mig_reset(struct sim_machine *machine, uint32_t gpu)
{
	struct sim_gpu *g = &machine->gpu[gpu];
	bool had_instances = false;

	for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
		had_instances = had_instances || g->gi[i].used;
		g->gi[i] = (struct sim_gi){0};
	}

	if (g->mig_current != g->mig_pending || had_instances) {
		g->mig_current = g->mig_pending;
		changed(machine, gpu, SIM_WHOLE_GPU, SIM_WHOLE_GPU);
	}
}

/* Which rows, in order, make up a ready layout: their compute slices, + 100 for "+me". */
struct layout {
	const char *name;
	uint32_t first, last; /* GPUs */
	bool mig;
	uint32_t rows[LAYOUT_MAX]; /* ended by 0 */
};

static const struct layout layouts[] = {
    {"none", 0, SIM_GPU_MAX, false, {0}},
    {"single", 0, SIM_GPU_MAX, true, {1, 1, 1, 1, 1, 1, 1, 0}},
    {"mixed", 0, 4, false, {0}},
    {"mixed", 4, 6, true, {3, 2, 2, 0}},
    {"mixed", 6, 8, true, {101, 1, 1, 1, 1, 1, 1, 0}},
    {"half", 0, 4, true, {1, 1, 1, 1, 1, 1, 1, 0}},
    {"empty", 0, 1, true, {0}},
    {"hetero", 0, SIM_GPU_MAX, true, {3, 2, 2, 0}},
};

static uint32_t layout_row(const struct sim_model *model, uint32_t wanted)
{
	uint32_t slices = wanted % 100, best = SIM_WHOLE_GPU;

	for (uint32_t i = 0; i < model->mig_profile_count; i++) {
		const struct sim_mig_profile *row = &model->mig_profile[i];
		bool is_me = strstr(row->name, "+me") != NULL;

		if (row->slices != slices || is_me != (wanted >= 100))
			continue;

		/* of 1g.5gb and 1g.10gb the small one */
		if (best == SIM_WHOLE_GPU || row->memory_mib < model->mig_profile[best].memory_mib)
			best = i;
	}

	return best;
}

static int apply_layout(struct sim_machine *machine, uint32_t gpu, const struct layout *layout,
			struct sim_error *error)
{
	struct sim_gpu *g = &machine->gpu[gpu];
	const struct sim_model *model = sim_model_of(machine, g);

	if (!layout->mig)
		return 0;
	if (!model->has_mig)
		return sim_fail(error, SIM_EXIT_INPUT,
				"MIG layout '%s': GPU %u (%s) is not a MIG part", layout->name, gpu,
				model->name);

	g->mig_current = g->mig_pending = true;

	for (uint32_t i = 0; layout->rows[i] != 0; i++) {
		uint32_t row = layout_row(model, layout->rows[i]), slot, ci_slot;

		if (row == SIM_WHOLE_GPU ||
		    sim_mig_create_gi(machine, gpu, row, SIM_WHOLE_GPU, &slot) != OK ||
		    sim_mig_create_ci(machine, gpu, slot, model->mig_profile[row].slices,
				      &ci_slot) != OK)
			return sim_fail(error, SIM_EXIT_INPUT,
					"MIG layout '%s': a %ug instance does not fit on GPU %u",
					layout->name, layout->rows[i] % 100, gpu);
	}

	return 0;
}

int sim_mig_layout(struct sim_machine *machine, const char *layout, struct sim_error *error)
{
	const char *names[] = {"none", "single", "mixed", "half", "empty", "hetero"};
	uint32_t pending = machine->pending_count;
	bool is_known = false;
	const char *nearest;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		is_known = is_known || strcmp(names[i], layout) == 0;

	if (!is_known) {
		nearest =
		    sim_nearest(layout, strlen(layout), names, sizeof(names) / sizeof(names[0]));
		return sim_fail(error, SIM_EXIT_INPUT,
				"unknown MIG layout '%.40s'%s%s%s; there is: none single mixed "
				"half empty hetero",
				layout, nearest ? " (did you mean " : "", nearest ? nearest : "",
				nearest ? "?)" : "");
	}

	for (uint32_t gpu = 0; gpu < machine->gpu_count; gpu++) {
		struct sim_gpu *g = &machine->gpu[gpu];

		memset(g->gi, 0, sizeof(g->gi));
		g->mig_current = g->mig_pending = false;

		for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
			if (strcmp(layouts[i].name, layout) == 0 && gpu >= layouts[i].first &&
			    gpu < layouts[i].last &&
			    apply_layout(machine, gpu, &layouts[i], error) < 0)
				return -1;
		}
	}

	machine->pending_count = pending;
	return 0;
}
