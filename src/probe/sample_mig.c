/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of MIG instances: it belongs to the GPU instance, so the driver is asked once for each. */
#include "probe/sample_private.h"

/* Handles are looked up once; those of instances that are gone answer with an error. */
static void look_up(struct sampling *s)
{
	struct sample_memory *memory = s->memory;
	memory->mig_count = 0;
	for (uint32_t index = 0; index < GPU_MIG_MAX && memory->mig_count < SNAPSHOT_MIG_MAX;
	     index++) {
		nvml_device mig;
		uint32_t gi;
		bool known = false;

		if (NVML_CALL(s->caller, mig_by_index, s->device, index, &mig) != NVML_OK ||
		    NVML_CALL(s->caller, gi_id, mig, &gi) != NVML_OK)
			continue;

		for (uint32_t i = 0; i < memory->mig_count; i++)
			known |= memory->mig[i].gi == gi;

		if (!known)
			memory->mig[memory->mig_count++] =
			    (struct sample_mig){.device = mig, .gi = gi};
	}
}

static bool read_memory(struct sampling *s, nvml_device mig, struct nvml_memory_v2 *out)
{
	*out = (struct nvml_memory_v2){.version = NVML_STRUCT_WORD(struct nvml_memory_v2, 2)};
	if (NVML_CALL(s->caller, memory_v2, mig, out) == NVML_OK)
		return true;

	struct nvml_memory old = {.total = 0};
	int32_t rc = NVML_CALL(s->caller, memory, mig, &old);

	out->total = old.total;
	out->used = old.used;
	out->free = old.free;

	return sample_check(s, NVML_FN_memory, rc);
}

void sample_mig(struct sampling *s)
{
	struct snapshot_gpu *out = s->out;
	struct sample_memory *memory = s->memory;

	if (out->mig_count == 0) {
		memory->mig_count = 0;
		return;
	}

	if (memory->mig_count == 0)
		look_up(s);

	for (uint32_t i = 0; i < out->mig_count; i++)
		out->mig[i].memory_used = out->mig[i].memory_free = SNAPSHOT_U64_ABSENT;

	uint32_t count = memory->mig_count;

	for (uint32_t i = 0; i < count; i++) {
		struct nvml_memory_v2 now;
		if (!read_memory(s, memory->mig[i].device, &now) || now.used > now.total) {
			memory->mig_count = 0; /* look again next time */
			continue;
		}

		for (uint32_t k = 0; k < out->mig_count; k++) {
			struct snapshot_mig *to = &out->mig[k];
			if (to->gi != memory->mig[i].gi)
				continue;

			to->memory_total = now.total;
			to->memory_used = now.used;
			to->memory_free = now.free;
		}
	}
}
