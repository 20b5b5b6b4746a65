/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU performance monitoring (Hopper and later): what was active between two samples of the
 * driver's counters, for the GPU and for each of its MIG instances. No lock on the profiling
 * hardware is taken, so it gets along with profilers.
 * https://docs.nvidia.com/deploy/nvml-api/group__GPM.html
 */
#include "base/check.h"
#include "probe/sample_private.h"

enum {
	PPM_PER_PERCENT = 10000,
	PPM_FULL = 1000000,
	PERCENT_MAX = 101, /* rounding in the driver */
};
/* The driver wants at least so long between two samples. */
#define APART_NS	   (SAMPLE_SECOND_NS / 10)
#define MIB_PER_SECOND_MAX 1e9
/* Without a new value for so long the last one is not true any more. */
#define STALE_NS (5 * SAMPLE_SECOND_NS)

/* In the order of enum snapshot_activity, then PCIe. */
static const uint32_t ids[] = {
    NVML_GPM_GRAPHICS, NVML_GPM_SM,   NVML_GPM_OCCUPANCY, NVML_GPM_TENSOR,  NVML_GPM_DRAM,
    NVML_GPM_FP64,     NVML_GPM_FP32, NVML_GPM_FP16,	  NVML_GPM_PCIE_TX, NVML_GPM_PCIE_RX};
_Static_assert(array_length(ids) == SNAPSHOT_ACTIVITY_COUNT + 2, "one for each activity");

static bool is_supported(struct sampling *s)
{
	struct sample_memory *memory = s->memory;
	if (memory->gpm_supported == SAMPLE_UNKNOWN) {
		struct nvml_gpm_support support = {.version = 1};
		bool ok = GET(s, gpm_support, &support);
		memory->gpm_supported = ok && support.supported ? SAMPLE_YES : SAMPLE_NO;
	}
	return memory->gpm_supported == SAMPLE_YES;
}

/* Parts of a million, or SNAPSHOT_U32_ABSENT. */
static uint32_t parts(const struct nvml_gpm_metric *metric)
{
	if (metric->result != NVML_OK || !(metric->value >= 0 && metric->value <= PERCENT_MAX))
		return SNAPSHOT_U32_ABSENT;
	uint32_t ppm = (uint32_t)(metric->value * PPM_PER_PERCENT + 0.5);
	return ppm < PPM_FULL ? ppm : PPM_FULL;
}

static void put_activity(struct sampling *s, uint32_t gi, const struct nvml_gpm_metric *metric)
{
	for (uint32_t k = 0; k < SNAPSHOT_ACTIVITY_COUNT; k++) {
		uint32_t ppm = metric ? parts(&metric[k]) : SNAPSHOT_U32_ABSENT;

		if (gi == SNAPSHOT_WHOLE_GPU) {
			sample_put_u32(s, SNAPSHOT_ACTIVITY + k, true, ppm);
			continue;
		}

		bool first = true; /* compute instance of it */
		for (uint32_t i = 0; i < s->out->mig_count; i++) {
			if (s->out->mig[i].gi != gi)
				continue;
			s->out->mig[i].activity[k] = first ? ppm : SNAPSHOT_U32_ABSENT;
			first = false;
		}
	}
}

/* Takes a sample into the older of the two and reads what was between them. */
static void read_one(struct sampling *s, struct sample_gpm *gpm)
{
	uint64_t now_ns = s->sampler->now_ns;
	uint32_t next = 1 - gpm->newest;

	if (gpm->taken_ns > 0 && now_ns - gpm->taken_ns < APART_NS)
		return; /* the last values stand */

	for (uint32_t i = 0; i < 2; i++) {
		if (!gpm->sample[i] &&
		    !sample_check(s, NVML_FN_gpm_alloc,
				  NVML_CALL(s->caller, gpm_alloc, &gpm->sample[i])))
			return;
	}

	int32_t rc = gpm->gi == SNAPSHOT_WHOLE_GPU
			 ? NVML_CALL(s->caller, gpm_get, s->device, gpm->sample[next])
			 : NVML_CALL(s->caller, gpm_mig_get, s->device, gpm->gi, gpm->sample[next]);
	if (!sample_check(s, gpm->gi == SNAPSHOT_WHOLE_GPU ? NVML_FN_gpm_get : NVML_FN_gpm_mig_get,
			  rc)) {
		gpm->taken_ns = 0;
		put_activity(s, gpm->gi, NULL);
		return;
	}

	if (gpm->taken_ns > 0 && now_ns - gpm->taken_ns > STALE_NS)
		put_activity(s, gpm->gi, NULL);

	bool has_pair = gpm->taken_ns > 0;
	struct nvml_gpm_metrics metrics = {.version = 1,
					   .count = array_length(ids),
					   .first = gpm->sample[gpm->newest],
					   .second = gpm->sample[next]};
	for (uint32_t i = 0; i < array_length(ids); i++)
		metrics.metric[i].id = ids[i];

	bool ok = has_pair &&
		  sample_check(s, NVML_FN_gpm_metrics, NVML_CALL(s->caller, gpm_metrics, &metrics));
	if (ok && metrics.metric[0].result == NVML_NO_DATA)
		return; /* too near to the one before: that one is compared with again */

	gpm->newest = next;
	gpm->taken_ns = now_ns;
	put_activity(s, gpm->gi, ok ? metrics.metric : NULL);

	if (gpm->gi != SNAPSHOT_WHOLE_GPU || s->memory->pcie_bytes != SAMPLE_NO)
		return;

	for (uint32_t i = 0; i < 2; i++) {
		const struct nvml_gpm_metric *rate = &metrics.metric[SNAPSHOT_ACTIVITY_COUNT + i];
		bool have = ok && rate->result == NVML_OK && rate->value >= 0 &&
			    rate->value < MIB_PER_SECOND_MAX;
		sample_put(s, SNAPSHOT_PCIE_TX + i, have,
			   have ? (uint64_t)(rate->value * 1048576.0) : 0);
	}
}

/* The one for an instance; rows of instances that are gone are used again. */
static struct sample_gpm *gpm_of(struct sampling *s, uint32_t gi)
{
	struct sample_gpm *unused = NULL;

	for (uint32_t i = 1; i < array_length(s->memory->gpm); i++) {
		struct sample_gpm *gpm = &s->memory->gpm[i];
		bool lives = false;

		if (gpm->sample[0] && gpm->gi == gi)
			return gpm;

		for (uint32_t k = 0; k < s->out->mig_count; k++)
			lives |= gpm->sample[0] && s->out->mig[k].gi == gpm->gi;

		if (!lives && !unused)
			unused = gpm;
	}

	if (unused) {
		unused->gi = gi;
		unused->taken_ns = 0;
	}

	return unused;
}

void sample_gpm(struct sampling *s)
{
	if (!is_supported(s)) {
		put_activity(s, SNAPSHOT_WHOLE_GPU, NULL);
		return;
	}

	s->memory->gpm[0].gi = SNAPSHOT_WHOLE_GPU;
	read_one(s, &s->memory->gpm[0]);

	for (uint32_t i = 0; i < s->out->mig_count; i++) {
		bool first = true;
		for (uint32_t k = 0; k < i; k++)
			first &= s->out->mig[k].gi != s->out->mig[i].gi;

		struct sample_gpm *gpm = first ? gpm_of(s, s->out->mig[i].gi) : NULL;
		if (gpm)
			read_one(s, gpm);
	}
}
