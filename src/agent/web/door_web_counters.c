/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_counters.h"

#include <string.h>

/* Bits of nvmlClocksEventReasons (nvml.h) that mean the reason, in the order of
 * view_throttle_to_string(); 0: no bit does. */
static const uint64_t throttle_bits[WEB_THROTTLES] = {
    0x04,	 /* power: SwPowerCap */
    0x20 | 0x40, /* thermal: SwThermalSlowdown, HwThermalSlowdown */
    0x10,	 /* sync_boost */
    0,		 /* board */
    0,		 /* low_util */
    0,		 /* reliability */
    0x20,	 /* sw_thermal */
    0x40,	 /* hw_thermal */
    0x80,	 /* hw_power_brake */
};

static struct web_counter *counters_find(const struct web_counters *counters, const char *uuid)
{
	for (uint32_t i = 0; uuid[0] && i < counters->count; i++) {
		if (strcmp(counters->gpu[i].uuid, uuid) == 0)
			return (struct web_counter *)&counters->gpu[i];
	}
	return NULL;
}

static struct web_counter *counters_meet(struct web_counters *counters,
					 const struct snapshot *snapshot, const char *uuid)
{
	struct web_counter *counter = counters_find(counters, uuid);
	if (counter || !uuid[0])
		return counter;

	uint32_t place = counters->count;
	if (place == SNAPSHOT_GPU_MAX) {
		/* One that is gone gives way; there is one, or all here were known. */
		for (place = 0; place < SNAPSHOT_GPU_MAX; place++) {
			if (!snapshot_find(snapshot, counters->gpu[place].uuid))
				break;
		}

		if (place == SNAPSHOT_GPU_MAX)
			return NULL;
	} else {
		counters->count++;
	}

	counter = &counters->gpu[place];
	*counter = (struct web_counter){.sampled_ns = 0};
	memcpy(counter->uuid, uuid, sizeof(counter->uuid));
	counter->uuid[sizeof(counter->uuid) - 1] = '\0';

	return counter;
}

/* A probe counts from its own beginning: one that tells less than the one before is another. */
static void add_busy(struct web_counter *counter, const struct snapshot_gpu *gpu)
{
	int64_t busy;
	if (!snapshot_get(gpu, SNAPSHOT_BUSY, &busy) || busy < 0)
		return;
	bool goes_on = counter->has_busy && busy >= counter->busy_last;
	counter->busy_ns += (uint64_t)(goes_on ? busy - counter->busy_last : busy);
	counter->busy_last = busy;
	counter->has_busy = true;
}

static void add_energy(struct web_counter *counter, const struct snapshot_gpu *gpu, uint64_t for_ns)
{
	int64_t value;
	if (snapshot_get(gpu, SNAPSHOT_ENERGY, &value) && value >= 0)
		counter->energy_is_counted = true;
	if (counter->energy_is_counted || !snapshot_get(gpu, SNAPSHOT_POWER, &value) || value < 0 ||
	    value > WEB_POWER_MAX_MW)
		return;

	counter->energy_is_summed = true;
	counter->energy_uj += (uint64_t)value * (for_ns / 1000) / 1000; /* mW x us = nJ */
}

static void add_throttle(struct web_counter *counter, const struct snapshot_gpu *gpu,
			 uint64_t for_ns)
{
	int64_t bits, value;
	bool has_bits = snapshot_get(gpu, SNAPSHOT_THROTTLE, &bits);

	for (uint32_t i = 0; i < WEB_THROTTLES; i++) {
		if (snapshot_get(gpu, SNAPSHOT_VIOLATION_POWER + i, &value) && value >= 0)
			counter->throttle_counted |= UINT32_C(1) << i;
		if ((counter->throttle_counted >> i & 1) || !has_bits || throttle_bits[i] == 0)
			continue;

		counter->throttle_summed |= UINT32_C(1) << i;
		if ((uint64_t)bits & throttle_bits[i])
			counter->throttle_ns[i] += for_ns;
	}
}

void web_counters_sample(struct web_counters *counters, const struct snapshot *snapshot)
{
	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[i];
		uint64_t sampled_ns = gpu->sampled_ns[SNAPSHOT_FAST];
		struct web_counter *counter = counters_meet(counters, snapshot, gpu->uuid);
		if (!counter || sampled_ns <= counter->sampled_ns)
			continue;

		uint64_t for_ns = sampled_ns - counter->sampled_ns;
		if (counter->sampled_ns == 0 || for_ns > WEB_COUNTERS_GAP_NS)
			for_ns = 0;
		add_busy(counter, gpu);
		add_energy(counter, gpu, for_ns);
		add_throttle(counter, gpu, for_ns);
		counter->sampled_ns = sampled_ns;
	}
}

static uint64_t counted_of(const struct web_counter *counter, const struct snapshot_gpu *gpu,
			   uint32_t reason)
{
	int64_t value;
	if (snapshot_get(gpu, SNAPSHOT_VIOLATION_POWER + reason, &value) && value >= 0)
		return (uint64_t)value;
	bool is_summed = (counter->throttle_summed & ~counter->throttle_counted) >> reason & 1;
	return is_summed && snapshot_get(gpu, SNAPSHOT_THROTTLE, &value)
		   ? counter->throttle_ns[reason]
		   : SNAPSHOT_U64_ABSENT;
}

void web_counters_of(const struct web_counters *counters, const struct snapshot_gpu *gpu,
		     struct web_counted *out)
{
	const struct web_counter *counter = counters_find(counters, gpu->uuid);
	int64_t value;

	*out =
	    (struct web_counted){.busy_ns = SNAPSHOT_U64_ABSENT, .energy_mj = SNAPSHOT_U64_ABSENT};
	for (uint32_t i = 0; i < WEB_THROTTLES; i++)
		out->throttle_ns[i] = counter ? counted_of(counter, gpu, i) : SNAPSHOT_U64_ABSENT;

	if (!counter)
		return;

	/* What a GPU does not tell now is not told, either. */
	if (counter->has_busy && snapshot_get(gpu, SNAPSHOT_BUSY, &value))
		out->busy_ns = counter->busy_ns;

	if (snapshot_get(gpu, SNAPSHOT_ENERGY, &value) && value >= 0) {
		out->energy_mj = (uint64_t)value;
	} else if (counter->energy_is_summed && !counter->energy_is_counted &&
		   snapshot_get(gpu, SNAPSHOT_POWER, &value)) {
		out->energy_mj = counter->energy_uj / 1000;
		out->energy_estimated = true;
	}
}
