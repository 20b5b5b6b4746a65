/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/meter.h"

#include "base/clock.h"

void meter_init(struct meter *meter, uint64_t start_ns, uint64_t run_ns, uint64_t margin_ns,
		void (*each)(const struct meter_second *second, void *context), void *context)
{
	*meter = (struct meter){.start_ns = start_ns,
				.last_ns = start_ns,
				.from_ns = start_ns + margin_ns,
				.to_ns = start_ns + run_ns - margin_ns,
				.each = each,
				.context = context};
	meter->has_from = margin_ns == 0;
}

/* How much of what happened between the last completion and this one had happened by `at`. */
static double meter_part(const struct meter *meter, uint64_t at, uint64_t now_ns)
{
	double whole = (double)(now_ns - meter->last_ns);
	return whole > 0 ? (double)(at - meter->last_ns) / whole : 1;
}

static void meter_end_second(struct meter *meter, uint64_t end_ns, double by, double gpu_by)
{
	double gpu_ns = gpu_by - meter->gpu_at_second;
	struct meter_second second = {.index = meter->second,
				      .counts = end_ns - CLOCK_NS_PER_S >= meter->from_ns &&
						end_ns <= meter->to_ns,
				      .units = by - meter->at_second,
				      .gpu_ns = (uint64_t)(gpu_ns + 0.5),
				      .wall_ns = CLOCK_NS_PER_S};
	if (second.counts) {
		if (meter->counted == 0 || second.units < meter->rate_min)
			meter->rate_min = second.units;
		if (meter->counted == 0 || second.units > meter->rate_max)
			meter->rate_max = second.units;
		meter->counted++;
		meter->gpu_ns_counted += gpu_ns;
	}

	meter->at_second = by;
	meter->gpu_at_second = gpu_by;
	meter->second++;

	if (meter->each)
		meter->each(&second, meter->context);
}

void meter_add(struct meter *meter, uint64_t now_ns, double units, uint64_t gpu_ns)
{
	if (now_ns < meter->last_ns)
		now_ns = meter->last_ns;
	if (!meter->has_from && now_ns >= meter->from_ns) {
		meter->at_from = meter->units + units * meter_part(meter, meter->from_ns, now_ns);
		meter->has_from = true;
	}

	if (!meter->has_to && now_ns >= meter->to_ns) {
		meter->at_to = meter->units + units * meter_part(meter, meter->to_ns, now_ns);
		meter->has_to = true;
	}

	while (meter->second < METER_SECONDS_MAX) {
		uint64_t end = meter->start_ns + (meter->second + UINT64_C(1)) * CLOCK_NS_PER_S;
		if (end > now_ns)
			break;

		double part = meter_part(meter, end, now_ns);
		meter_end_second(meter, end, meter->units + units * part,
				 meter->gpu_ns + (double)gpu_ns * part);
	}

	meter->units += units;
	meter->gpu_ns += (double)gpu_ns;
	meter->last_ns = now_ns;
}

double meter_rate(const struct meter *meter)
{
	if (!meter->has_from)
		return 0;
	uint64_t to = meter->has_to ? meter->to_ns : meter->last_ns;
	double done = (meter->has_to ? meter->at_to : meter->units) - meter->at_from;
	return to > meter->from_ns ? done * 1e9 / (double)(to - meter->from_ns) : 0;
}
