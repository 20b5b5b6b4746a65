/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a kernel ran: the driver samples the utilisation of a GPU several times a second and
 * keeps the samples for some while. Each stands for the time since the one before it, so the sum
 * does not depend on when the driver is asked, as long as it is asked before samples are lost.
 */
#include "probe/sample_private.h"

enum {
	/* No driver samples less often than once a second: a longer gap has lost samples, or the
	 * GPU was off. What is not known is not counted. */
	GAP_MAX_US = 2000000,
	PERCENT = 100,
};
#define RATE_GAP_MAX_NS (10 * SAMPLE_SECOND_NS)
/* 2001: times before it are no times (some drivers count from anywhere). */
#define NO_TIME_US UINT64_C(1000000000000000)

bool sample_busy_take(struct sample_busy *busy, const struct nvml_sample *samples, uint32_t count,
		      uint32_t type, uint64_t limit_us)
{
	uint64_t newest_us = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (samples[i].timestamp_us < NO_TIME_US || samples[i].timestamp_us == UINT64_MAX)
			return false;
		if (samples[i].timestamp_us > newest_us && samples[i].timestamp_us <= limit_us)
			newest_us = samples[i].timestamp_us;
	}

	if (busy->seen_us == 0) { /* what was before is not ours to count */
		busy->seen_us = newest_us;
		return true;
	}

	for (uint32_t i = 0; i < count; i++) {
		uint64_t percent, at_us = samples[i].timestamp_us;
		if (at_us <= busy->seen_us || at_us > limit_us ||
		    !sample_number(type, &samples[i].value, &percent) || percent > PERCENT)
			continue; /* its time is that of the next one */

		uint64_t gap_us = at_us - busy->seen_us;
		busy->ns += (gap_us < GAP_MAX_US ? gap_us : GAP_MAX_US) * percent * 10;
		busy->seen_us = at_us;
	}

	return true;
}

/* Fills the room with samples that are newer than the last one; false when there is no such call.
 */
static bool read_samples(struct sampling *s, uint32_t *out_type, uint32_t *out_count)
{
	struct sample_room *room = &s->sampler->room;
	uint32_t want = READ_FIRST;

	for (uint32_t i = 0; i < READ_TRIES; i++) {
		if (!sample_room_want(room, want, sizeof(struct nvml_sample)))
			return false;

		uint32_t max = room->size / (uint32_t)sizeof(struct nvml_sample), count = max;
		int32_t rc = NVML_CALL(s->caller, samples, s->device, NVML_SAMPLING_GPU_UTILIZATION,
				       s->memory->busy.seen_us, out_type, &count, room->bytes);
		if (rc == NVML_NOT_FOUND) { /* nothing new */
			*out_count = 0;
			return true;
		}

		bool full = rc == NVML_OK && count >= max && max < SAMPLE_READ_MAX;
		if (rc == NVML_OK && !full) {
			*out_count = count < max ? count : max;
			return true;
		}

		if (!full && rc != NVML_INSUFFICIENT_SIZE)
			return sample_check(s, NVML_FN_samples, rc);

		want = count > max ? count : max * 2;
		if (want > SAMPLE_READ_MAX)
			want = SAMPLE_READ_MAX;
	}

	return false;
}

/* Without samples: what the GPU does now, it did since the last time. */
static bool take_rate(struct sampling *s)
{
	struct sample_busy *busy = &s->memory->busy;
	int64_t percent;
	uint64_t now_ns = s->sampler->now_ns;
	bool ok = snapshot_get(s->out, SNAPSHOT_UTIL_GPU, &percent);
	if (ok && busy->rate_ns > 0 && now_ns - busy->rate_ns <= RATE_GAP_MAX_NS)
		busy->ns += (now_ns - busy->rate_ns) / PERCENT * (uint64_t)percent;
	busy->rate_ns = ok ? now_ns : 0;
	busy->seen_us = 0;

	return ok;
}

void sample_busy(struct sampling *s)
{
	struct sample_busy *busy = &s->memory->busy;
	uint32_t type = NVML_VALUE_UINT, count = 0;
	int64_t is_divided = 0;

	if (s->out->mig_count > 0 ||
	    (snapshot_get(s->out, SNAPSHOT_MIG_MODE, &is_divided) && is_divided)) {
		*busy = (struct sample_busy){.ns = busy->ns};
		snapshot_drop(s->out, SNAPSHOT_BUSY);
		return;
	}

	bool ok = read_samples(s, &type, &count) &&
		  (count == 0 ||
		   sample_busy_take(busy, s->sampler->room.bytes, count, type, sample_limit_us(s)));
	if (ok)
		busy->rate_ns = 0;
	else
		ok = take_rate(s);

	sample_put(s, SNAPSHOT_BUSY, ok, busy->ns);
}
