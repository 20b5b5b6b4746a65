/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_estimate.h"

#include <string.h>

#include "base/clock.h"

enum estimate_limits {
	ESTIMATE_PARTS = 10, /* of which so many were done by then: */
	ESTIMATE_DONE = 9,
	ESTIMATE_MARGIN = 4, /* a quarter */
};

uint64_t schedule_estimate_ns(const struct schedule_history *history)
{
	uint32_t sorted[SCHEDULE_ESTIMATE_RUNS];
	size_t count = history->count;

	if (count < SCHEDULE_ESTIMATE_RUNS_MIN)
		return 0;

	for (size_t i = 0; i < count; i++) {
		size_t at = i;
		for (; at > 0 && sorted[at - 1] > history->run_ms[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = history->run_ms[i];
	}

	size_t rank = (count * ESTIMATE_DONE + ESTIMATE_PARTS - 1) / ESTIMATE_PARTS;
	uint64_t ms = sorted[rank - 1];

	return (ms + ms / ESTIMATE_MARGIN + 1) * CLOCK_NS_PER_MS;
}

void schedule_estimate_add(struct schedule_history *history, uint64_t ran_ns, bool has_succeeded)
{
	uint64_t estimate_ns = schedule_estimate_ns(history);
	uint64_t ran_ms = ran_ns / CLOCK_NS_PER_MS;

	if (estimate_ns > 0 && ran_ns > estimate_ns)
		*history = (struct schedule_history){.count = 0};
	if (!has_succeeded)
		return;

	history->run_ms[history->next] = ran_ms < UINT32_MAX ? (uint32_t)ran_ms : UINT32_MAX;
	history->next = (uint8_t)((history->next + 1) % SCHEDULE_ESTIMATE_RUNS);
	history->count += history->count < SCHEDULE_ESTIMATE_RUNS;
}
