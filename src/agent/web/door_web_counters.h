/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the GPUs that do not fall when a probe is replaced: the time a kernel ran, which each
 * probe counts from its own beginning, and what the driver does not count and has to be summed up
 * from what it says each second: energy from power, throttling from the reasons of the instant.
 * Pure: samples in, counters out.
 *
 * What the driver counts itself is passed on as it is. Such a counter falls when the driver is
 * loaded anew or the GPU was reset, and then only.
 */
#ifndef SLUICE_AGENT_WEB_DOOR_WEB_COUNTERS_H
#define SLUICE_AGENT_WEB_DOOR_WEB_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/snapshot.h"

enum web_counter_limits {
	WEB_THROTTLES = 9,
	WEB_POWER_MAX_MW = 10000000, /* more is no power of a GPU */
};
/* Between two samples: what lies further apart tells nothing of the time between. */
#define WEB_COUNTERS_GAP_NS UINT64_C(5000000000)

struct web_counter {
	char uuid[SNAPSHOT_TEXT_MAX];
	uint64_t sampled_ns; /* of the last sample that was added; 0: none */
	bool has_busy;
	int64_t busy_last; /* as the probe had it */
	uint64_t busy_ns;
	uint64_t energy_uj;	/* summed up; microjoules, so that nothing is lost */
	bool energy_is_counted; /* by the driver: it was there at least once */
	bool energy_is_summed;
	uint32_t throttle_counted; /* bit N: the driver counts reason N */
	uint32_t throttle_summed;  /* bit N: it was summed up at least once */
	uint64_t throttle_ns[WEB_THROTTLES];
};

struct web_counters {
	uint32_t count;
	struct web_counter gpu[SNAPSHOT_GPU_MAX]; /* of GPUs that are or were here */
};

/* Adds a sample: once for each snapshot; one that is not newer is left out. */
void web_counters_sample(struct web_counters *counters, const struct snapshot *snapshot);

/* What of a GPU is known now. SNAPSHOT_U64_ABSENT: not known. */
struct web_counted {
	uint64_t busy_ns, energy_mj, throttle_ns[WEB_THROTTLES];
	bool energy_estimated;
};
void web_counters_of(const struct web_counters *counters, const struct snapshot_gpu *gpu,
		     struct web_counted *out);

#endif
