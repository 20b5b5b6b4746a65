/* SPDX-License-Identifier: Apache-2.0 */
/* MIG mode, instances and MIG devices. */
#include "mig.h"

#include <stdio.h>
#include <string.h>

#include "call.h"
#include "handle.h"
#include "impl.h"
#include "sim/mig.h"

void mig_device_name(const struct sim_model *model, const struct sim_gi *gi,
		     const struct sim_ci *ci, char *out, size_t size)
{
	const struct sim_mig_profile *row = &model->mig_profile[gi->profile];
	if (ci->slices < row->slices)
		snprintf(out, size, "%uc.%s", ci->slices, row->name);
	else
		snprintf(out, size, "%s", row->name);
}

/* Finds the `wanted`th MIG device, or (SIM_WHOLE_GPU) the number of the given one. They are counted
 * by GPU-instance id, as nvidia-smi lists them. */
static uint32_t mig_count(const struct sim_gpu *gpu, uint32_t wanted, uint32_t *gi, uint32_t *ci)
{
	enum { ID_END = 2 * SIM_MEMORY_SLICES };
	uint32_t slot[ID_END], index = 0;

	memset(slot, 0xff, sizeof(slot));

	for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
		if (gpu->gi[g].used && gpu->gi[g].id < ID_END)
			slot[gpu->gi[g].id] = g;
	}

	for (uint32_t id = 0; id < ID_END; id++) {
		for (uint32_t c = 0; slot[id] < SIM_GI_MAX && c < SIM_CI_MAX; c++) {
			uint32_t g = slot[id];
			if (!gpu->gi[g].ci[c].used)
				continue;

			if (index == wanted || (wanted == SIM_WHOLE_GPU && g == *gi && c == *ci)) {
				*gi = g;
				*ci = c;
				return index;
			}

			index++;
		}
	}

	return SIM_WHOLE_GPU;
}

uint32_t mig_index_of(const struct sim_gpu *gpu, uint32_t gi, uint32_t ci)
{
	return mig_count(gpu, SIM_WHOLE_GPU, &gi, &ci);
}

unsigned impl_DeviceGetMigMode(struct call *call, unsigned *current, unsigned *pending)
{
	if (!call_model(call)->has_mig || call_is_mig(call))
		return NVML_NOT_SUPPORTED;
	*current = call_gpu(call)->mig_current;
	*pending = call_gpu(call)->mig_pending;
	return NVML_OK;
}

unsigned impl_DeviceGetMaxMigDeviceCount(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->mig_current && !call_is_mig(call) ? SIM_GI_MAX : 0;
	return NVML_OK;
}

unsigned impl_DeviceGetMigDeviceHandleByIndex(struct call *call, unsigned index, void **out)
{
	uint32_t gi = 0, ci = 0;

	if (!call_model(call)->has_mig)
		return NVML_NOT_SUPPORTED;
	if (!call_gpu(call)->mig_current)
		return NVML_NOT_FOUND;
	if (index >= SIM_GI_MAX)
		return NVML_INVALID_ARGUMENT;
	if (mig_count(call_gpu(call), index, &gi, &ci) == SIM_WHOLE_GPU)
		return NVML_NOT_FOUND;

	void *handle = handle_of_mig(call->machine, call->gpu, gi, ci);
	if (!handle)
		return NVML_INSUFFICIENT_RESOURCES;

	*out = handle;
	return NVML_OK;
}

unsigned impl_DeviceIsMigDeviceHandle(struct call *call, unsigned *out)
{
	*out = call_is_mig(call);
	return NVML_OK;
}

unsigned impl_DeviceGetDeviceHandleFromMigDeviceHandle(struct call *call, void **out)
{
	if (!call_is_mig(call))
		return NVML_INVALID_ARGUMENT;
	*out = handle_of_gpu(call->gpu);
	return NVML_OK;
}

unsigned impl_DeviceGetGpuInstanceId(struct call *call, unsigned *out)
{
	if (!call_is_mig(call))
		return NVML_NOT_SUPPORTED;
	*out = call_gi(call)->id;
	return NVML_OK;
}

unsigned impl_DeviceGetComputeInstanceId(struct call *call, unsigned *out)
{
	if (!call_is_mig(call))
		return NVML_NOT_SUPPORTED;
	*out = call_ci(call)->id;
	return NVML_OK;
}

static const struct sim_mig_profile *mig_row(const struct call *call)
{
	return &call_model(call)->mig_profile[call_gi(call)->profile];
}

/* The SMs of a compute instance: its share of the GPU instance's. */
static uint32_t mig_sm(const struct sim_mig_profile *row, uint32_t slices)
{
	return row->slices ? row->sm_count * slices / row->slices : 0;
}

unsigned impl_DeviceGetAttributes_v2(struct call *call, struct nvml_device_attributes *out)
{
	if (!call_is_mig(call))
		return NVML_NOT_SUPPORTED;

	const struct sim_mig_profile *row = mig_row(call);
	*out = (struct nvml_device_attributes){
	    .sm = mig_sm(row, call_ci(call)->slices),
	    .copy_engines = row->copy_engines,
	    .decoders = row->decoders,
	    .encoders = row->encoders,
	    .jpegs = row->jpegs,
	    .ofas = row->ofas,
	    .gi_slices = row->slices,
	    .ci_slices = call_ci(call)->slices,
	    .memory_mib = row->memory_mib,
	};
	return NVML_OK;
}

/* --- GPU instances --- */

/* The profile tables can be read without MIG mode since branch 535. */
static unsigned mig_table_refused(const struct call *call)
{
	if (!call_model(call)->has_mig)
		return NVML_NOT_SUPPORTED;
	return !call_gpu(call)->mig_current && nvml_age < 535 ? NVML_NOT_SUPPORTED : NVML_OK;
}

/* Looks a row up by NVML profile number, or by the id that nvidia-smi shows. */
static unsigned mig_find_row(const struct call *call, unsigned number, bool by_id, uint32_t *out)
{
	const struct sim_model *model = call_model(call);
	unsigned refused = mig_table_refused(call);
	if (refused != NVML_OK)
		return refused;

	for (uint32_t i = 0; i < model->mig_profile_count; i++) {
		if ((by_id ? model->mig_profile[i].id : model->mig_profile[i].index) == number) {
			*out = i;
			return NVML_OK;
		}
	}

	return !by_id && number < NVML_MIG_PROFILE_END ? NVML_NOT_SUPPORTED : NVML_INVALID_ARGUMENT;
}

static void mig_fill_profile(const struct call *call, uint32_t index,
			     struct nvml_gpu_instance_profile_info_v3 *out)
{
	const struct sim_mig_profile *row = &call_model(call)->mig_profile[index];
	*out = (struct nvml_gpu_instance_profile_info_v3){
	    .id = row->id,
	    .slices = row->slices,
	    .count = row->max_count,
	    .sm = row->sm_count,
	    .copy_engines = row->copy_engines,
	    .decoders = row->decoders,
	    .encoders = row->encoders,
	    .jpegs = row->jpegs,
	    .ofas = row->ofas,
	    .memory_mib = row->memory_mib,
	};
	snprintf(out->name, sizeof(out->name), "MIG %s", row->name);
}

unsigned impl_DeviceGetGpuInstanceProfileInfo(struct call *call, unsigned profile,
					      struct nvml_gpu_instance_profile_info *out)
{
	struct nvml_gpu_instance_profile_info_v3 full;
	uint32_t row = 0;
	unsigned result = mig_find_row(call, profile, false, &row);
	if (result != NVML_OK)
		return result;

	mig_fill_profile(call, row, &full);
	*out = (struct nvml_gpu_instance_profile_info){
	    .id = full.id,
	    .slices = full.slices,
	    .count = full.count,
	    .sm = full.sm,
	    .copy_engines = full.copy_engines,
	    .decoders = full.decoders,
	    .encoders = full.encoders,
	    .jpegs = full.jpegs,
	    .ofas = full.ofas,
	    .memory_mib = full.memory_mib,
	};
	return NVML_OK;
}

/* The caller's structure is version 2 or 3, as its word says. */
static unsigned mig_profile_versioned(const struct call *call, unsigned profile, bool by_id,
				      void *out)
{
	struct nvml_gpu_instance_profile_info_v3 full;
	struct nvml_gpu_instance_profile_info_v2 *two = out;
	uint32_t row = 0;
	unsigned version = version_of(out);
	bool is_two = version == NVML_WORD(*two, 2);

	if (!is_two && version != NVML_WORD(full, 3))
		return NVML_ARGUMENT_VERSION_MISMATCH;

	unsigned result = mig_find_row(call, profile, by_id, &row);
	if (result != NVML_OK)
		return result;

	mig_fill_profile(call, row, &full);
	full.version = version;

	if (!is_two) {
		memcpy(out, &full, sizeof(full));
		return NVML_OK;
	}

	two->id = full.id;
	two->p2p = 0;
	two->slices = full.slices;
	two->count = full.count;
	two->sm = full.sm;
	two->copy_engines = full.copy_engines;
	two->decoders = full.decoders;
	two->encoders = full.encoders;
	two->jpegs = full.jpegs;
	two->ofas = full.ofas;
	two->memory_mib = full.memory_mib;
	memcpy(two->name, full.name, sizeof(two->name));

	return NVML_OK;
}

unsigned impl_DeviceGetGpuInstanceProfileInfoV(struct call *call, unsigned profile, void *out)
{
	return mig_profile_versioned(call, profile, false, out);
}

unsigned impl_DeviceGetGpuInstanceProfileInfoByIdV(struct call *call, unsigned id, void *out)
{
	return mig_profile_versioned(call, id, true, out);
}

unsigned impl_DeviceGetGpuInstancePossiblePlacements_v2(struct call *call, unsigned id,
							struct nvml_placement *out, unsigned *count)
{
	struct nvml_placement list[SIM_PLACEMENT_MAX];
	uint32_t index = 0;
	unsigned result = mig_find_row(call, id, true, &index);
	if (result != NVML_OK)
		return result;

	const struct sim_mig_profile *row = &call_model(call)->mig_profile[index];
	for (uint32_t i = 0; i < row->placement_count; i++)
		list[i] = (struct nvml_placement){row->placement_start[i], row->placement_size};

	if (!out) { /* asking for the number is no error here */
		*count = row->placement_count;
		return NVML_OK;
	}

	return array_out(list, row->placement_count, sizeof(list[0]), out, count);
}

unsigned impl_DeviceGetGpuInstanceRemainingCapacity(struct call *call, unsigned id, unsigned *out)
{
	uint32_t row = 0;
	unsigned result = mig_find_row(call, id, true, &row);
	if (result != NVML_OK)
		return result;
	if (!call_gpu(call)->mig_current)
		return NVML_NOT_SUPPORTED;

	*out = sim_mig_remaining(call->machine, call->gpu, row);
	return NVML_OK;
}

/* The caller's array holds as many as the profile allows; `count` only tells how many came. */
unsigned impl_DeviceGetGpuInstances(struct call *call, unsigned id, void **out, unsigned *count)
{
	uint32_t row = 0;
	unsigned result = mig_find_row(call, id, true, &row);

	if (!out)
		return NVML_INVALID_ARGUMENT;
	if (result != NVML_OK)
		return result;
	if (!call_gpu(call)->mig_current)
		return NVML_NOT_SUPPORTED;

	unsigned have = 0;
	for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
		const struct sim_gi *gi = &call_gpu(call)->gi[i];
		if (gi->used && gi->profile == row)
			out[have++] = handle_of_gi(call->machine, call->gpu, i);
	}

	*count = have;
	return NVML_OK;
}

unsigned impl_DeviceGetGpuInstanceById(struct call *call, unsigned id, void **out)
{
	if (!call_model(call)->has_mig || !call_gpu(call)->mig_current)
		return NVML_NOT_SUPPORTED;

	for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
		const struct sim_gi *gi = &call_gpu(call)->gi[i];
		if (!gi->used || gi->id != id)
			continue;
		*out = handle_of_gi(call->machine, call->gpu, i);
		return *out ? NVML_OK : NVML_INSUFFICIENT_RESOURCES;
	}

	return NVML_NOT_FOUND;
}

unsigned impl_GpuInstanceGetInfo(struct call *call, struct nvml_gpu_instance_info *out)
{
	*out = (struct nvml_gpu_instance_info){
	    .device = handle_of_gpu(call->gpu),
	    .id = call_gi(call)->id,
	    .profile_id = mig_row(call)->id,
	    .placement = {call_gi(call)->start, mig_row(call)->placement_size},
	};
	return NVML_OK;
}

/* --- compute instances --- */

/* Compute-instance profiles are numbered by their slices: 1, 2, 3, 4, 7, 8, 6. */
static const uint8_t mig_ci_slices[] = {1, 2, 3, 4, 7, 8, 6};
enum { MIG_CI_PROFILE_END = 8 }; /* 7 is one slice with media engines */

static unsigned mig_ci_profile_of(uint32_t slices)
{
	for (unsigned i = 0; i < sizeof(mig_ci_slices); i++) {
		if (mig_ci_slices[i] == slices)
			return i;
	}
	return 0;
}

static unsigned mig_ci_row(const struct call *call, unsigned profile, uint32_t *out_slices)
{
	if (profile >= MIG_CI_PROFILE_END)
		return NVML_INVALID_ARGUMENT;
	if (profile >= sizeof(mig_ci_slices) || mig_ci_slices[profile] > mig_row(call)->slices)
		return NVML_NOT_SUPPORTED;
	*out_slices = mig_ci_slices[profile];
	return NVML_OK;
}

static unsigned mig_ci_fill(const struct call *call, unsigned profile, unsigned engine,
			    struct nvml_compute_instance_profile_info_v3 *out)
{
	const struct sim_mig_profile *row = mig_row(call);
	uint32_t slices = 0;

	if (engine != 0)
		return NVML_INVALID_ARGUMENT;

	unsigned result = mig_ci_row(call, profile, &slices);
	if (result != NVML_OK)
		return result;

	*out = (struct nvml_compute_instance_profile_info_v3){
	    .id = profile,
	    .slices = slices,
	    .count = row->slices / slices,
	    .sm = mig_sm(row, slices),
	    .copy_engines = row->copy_engines,
	    .decoders = row->decoders,
	    .encoders = row->encoders,
	    .jpegs = row->jpegs,
	    .ofas = row->ofas,
	};
	if (slices == row->slices)
		snprintf(out->name, sizeof(out->name), "MIG %s", row->name);
	else
		snprintf(out->name, sizeof(out->name), "MIG %uc.%s", slices, row->name);

	return NVML_OK;
}

unsigned
impl_GpuInstanceGetComputeInstanceProfileInfo(struct call *call, unsigned profile, unsigned engine,
					      struct nvml_compute_instance_profile_info *out)
{
	struct nvml_compute_instance_profile_info_v3 full;
	unsigned result = mig_ci_fill(call, profile, engine, &full);
	/* The same members follow the version word. */
	if (result == NVML_OK)
		memcpy(out, &full.id, sizeof(*out));
	return result;
}

unsigned impl_GpuInstanceGetComputeInstanceProfileInfoV(struct call *call, unsigned profile,
							unsigned engine, void *out)
{
	struct nvml_compute_instance_profile_info_v3 full;
	unsigned version = version_of(out);
	size_t size = sizeof(struct nvml_compute_instance_profile_info_v2);

	if (version == NVML_WORD(full, 3))
		size = sizeof(full);
	else if (version != NVML_WORD(struct nvml_compute_instance_profile_info_v2, 2))
		return NVML_ARGUMENT_VERSION_MISMATCH;

	unsigned result = mig_ci_fill(call, profile, engine, &full);

	full.version = version;
	if (result == NVML_OK)
		memcpy(out, &full, size); /* version 3 only adds to the end */

	return result;
}

unsigned impl_GpuInstanceGetComputeInstanceRemainingCapacity(struct call *call, unsigned profile,
							     unsigned *out)
{
	uint32_t slices = 0, used = 0;
	unsigned result = mig_ci_row(call, profile, &slices);
	if (result != NVML_OK)
		return result;

	for (uint32_t i = 0; i < SIM_CI_MAX; i++)
		used += call_gi(call)->ci[i].used ? call_gi(call)->ci[i].slices : 0;

	*out = used < mig_row(call)->slices ? (mig_row(call)->slices - used) / slices : 0;
	return NVML_OK;
}

unsigned impl_GpuInstanceGetComputeInstancePossiblePlacements(struct call *call, unsigned profile,
							      struct nvml_placement *out,
							      unsigned *count)
{
	struct nvml_placement list[SIM_CI_MAX + 1];
	unsigned have = 0;
	uint32_t slices = 0;
	unsigned result = mig_ci_row(call, profile, &slices);
	if (result != NVML_OK)
		return result;

	for (uint32_t start = 0; start + slices <= mig_row(call)->slices; start += slices)
		list[have++] = (struct nvml_placement){start, slices};

	if (!out) {
		*count = have;
		return NVML_OK;
	}

	return array_out(list, have, sizeof(list[0]), out, count);
}

unsigned impl_GpuInstanceGetComputeInstances(struct call *call, unsigned profile, void **out,
					     unsigned *count)
{
	uint32_t slices = 0;

	if (!out)
		return NVML_INVALID_ARGUMENT;

	unsigned result = mig_ci_row(call, profile, &slices);
	if (result != NVML_OK)
		return result;

	unsigned have = 0;
	for (uint32_t i = 0; i < SIM_CI_MAX; i++) {
		const struct sim_ci *ci = &call_gi(call)->ci[i];
		if (ci->used && ci->slices == slices)
			out[have++] = handle_of_ci(call->machine, call->gpu, call->gi, i);
	}

	*count = have;
	return NVML_OK;
}

unsigned impl_GpuInstanceGetComputeInstanceById(struct call *call, unsigned id, void **out)
{
	for (uint32_t i = 0; i < SIM_CI_MAX; i++) {
		const struct sim_ci *ci = &call_gi(call)->ci[i];
		if (!ci->used || ci->id != id)
			continue;
		*out = handle_of_ci(call->machine, call->gpu, call->gi, i);
		return *out ? NVML_OK : NVML_INSUFFICIENT_RESOURCES;
	}

	return NVML_NOT_FOUND;
}

unsigned impl_ComputeInstanceGetInfo_v2(struct call *call, struct nvml_compute_instance_info *out)
{
	*out = (struct nvml_compute_instance_info){
	    .device = handle_of_gpu(call->gpu),
	    .gpu_instance = handle_of_gi(call->machine, call->gpu, call->gi),
	    .id = call_ci(call)->id,
	    .profile_id = mig_ci_profile_of(call_ci(call)->slices),
	    .placement = {call_ci(call)->start, call_ci(call)->slices},
	};
	return NVML_OK;
}

/* --- changes --- */

unsigned impl_DeviceSetMigMode(struct call *call, unsigned mode, unsigned *activation)
{
	if (mode > 1)
		return NVML_INVALID_ARGUMENT;
	if (!call_model(call)->has_mig)
		return NVML_NOT_SUPPORTED;

	unsigned result = sim_mig_set_mode(call->change, call->gpu, mode != 0);
	if (result != NVML_OK)
		return result;

	*activation = call_gpu(call)->mig_current == call_gpu(call)->mig_pending
			  ? NVML_OK
			  : NVML_RESET_REQUIRED;
	return NVML_OK;
}

static unsigned mig_create_gi(struct call *call, unsigned id, uint32_t start, void **out)
{
	uint32_t row = 0, slot = 0;
	unsigned result = mig_find_row(call, id, true, &row);
	if (result != NVML_OK)
		return result;
	if (!call_gpu(call)->mig_current)
		return NVML_NOT_SUPPORTED;

	call->in_trees = true;
	result = sim_mig_create_gi(call->change, call->gpu, row, start, &slot);
	if (result != NVML_OK)
		return result;

	*out = handle_of_gi(call->machine, call->gpu, slot);
	return *out ? NVML_OK : NVML_INSUFFICIENT_RESOURCES;
}

unsigned impl_DeviceCreateGpuInstance(struct call *call, unsigned id, void **out)
{
	return mig_create_gi(call, id, SIM_WHOLE_GPU, out);
}

unsigned impl_DeviceCreateGpuInstanceWithPlacement(struct call *call, unsigned id,
						   const struct nvml_placement *placement,
						   void **out)
{
	return mig_create_gi(call, id, placement->start, out);
}

unsigned impl_GpuInstanceDestroy(struct call *call)
{
	call->in_trees = true;
	return sim_mig_destroy_gi(call->change, call->gpu, call->gi);
}

unsigned impl_GpuInstanceCreateComputeInstance(struct call *call, unsigned profile, void **out)
{
	uint32_t slices = 0, slot = 0;
	unsigned result = mig_ci_row(call, profile, &slices);

	call->in_trees = true;
	if (result == NVML_OK)
		result = sim_mig_create_ci(call->change, call->gpu, call->gi, slices, &slot);
	if (result != NVML_OK)
		return result;

	*out = handle_of_ci(call->machine, call->gpu, call->gi, slot);
	return *out ? NVML_OK : NVML_INSUFFICIENT_RESOURCES;
}

unsigned impl_GpuInstanceCreateComputeInstanceWithPlacement(struct call *call, unsigned profile,
							    const struct nvml_placement *placement,
							    void **out)
{
	unsigned result = impl_GpuInstanceCreateComputeInstance(call, profile, out);
	if (result != NVML_OK)
		return result;

	/* The machine chooses the place; another wish than its choice cannot be met. */
	for (uint32_t i = 0; i < SIM_CI_MAX; i++) {
		if (handle_of_ci(call->machine, call->gpu, call->gi, i) == *out &&
		    call_gi(call)->ci[i].start != placement->start)
			return NVML_INSUFFICIENT_RESOURCES;
	}

	return NVML_OK;
}

unsigned impl_ComputeInstanceDestroy(struct call *call)
{
	call->in_trees = true;
	return sim_mig_destroy_ci(call->change, call->gpu, call->gi, call->ci);
}
