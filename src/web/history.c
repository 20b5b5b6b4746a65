/* SPDX-License-Identifier: Apache-2.0 */
#include "web/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "web/view.h"

enum history_internals {
	PACK_BITS = 11, /* of the mantissa, without its leading one */
	PACK_CODE_MAX = UINT16_MAX,
};
#define SUM_LARGEST (INT64_C(1) << 42) /* about what 16 bits can keep */
/* A second apart, give or take: two samples that lie in slots with one between them. */
#define JITTER_NS UINT64_C(1900000000)

static const uint32_t series_values[HISTORY_SERIES] = {
    SNAPSHOT_UTIL_GPU,		 SNAPSHOT_UTIL_MEMORY, SNAPSHOT_MEMORY_USED, SNAPSHOT_TEMPERATURE,
    SNAPSHOT_TEMPERATURE_MEMORY, SNAPSHOT_POWER,       SNAPSHOT_CLOCK_SM,    SNAPSHOT_PCIE_RX,
};

/* Slot numbers are times divided by the slot's length; a ring has the newest slots. */
struct history_gpu {
	char uuid[SNAPSHOT_TEXT_MAX];
	uint64_t sampled_ns;	     /* of the newest value */
	uint64_t fine, coarse;	     /* newest slots */
	int64_t sum[HISTORY_SERIES]; /* of the coarse slot that is being filled */
	uint32_t count[HISTORY_SERIES];
	uint16_t fine_ring[HISTORY_SERIES][HISTORY_FINE];
	uint16_t coarse_ring[HISTORY_SERIES][HISTORY_COARSE];
};

struct history {
	struct history_gpu *gpu[SNAPSHOT_GPU_MAX]; /* owned; NULL behind the last */
};

/* --- values in 16 bits ------------------------------------------------------------------------ */

uint16_t history_pack(int64_t value)
{
	uint64_t mantissa = value < 0 ? 0 : (uint64_t)value, rest = 0;
	uint32_t exponent = 0;
	while (mantissa >= UINT64_C(2) << PACK_BITS) {
		rest = mantissa & 1;
		mantissa >>= 1;
		exponent++;
	}

	mantissa += rest; /* to the nearest */
	if (mantissa == UINT64_C(2) << PACK_BITS) {
		mantissa >>= 1;
		exponent++;
	}

	/* Below 2^11 there is no leading one: exponent 0 there, and one more above. */
	uint64_t code = mantissa;

	if (mantissa >= UINT64_C(1) << PACK_BITS)
		code = (uint64_t)(exponent + 1) << PACK_BITS |
		       (mantissa & ((UINT64_C(1) << PACK_BITS) - 1));

	return (uint16_t)(code < PACK_CODE_MAX ? code + 1 : PACK_CODE_MAX);
}

int64_t history_unpack(uint16_t packed)
{
	uint32_t code = (uint32_t)packed - 1;
	uint32_t exponent = code >> PACK_BITS;
	int64_t mantissa = code & ((1U << PACK_BITS) - 1);
	if (exponent == 0)
		return mantissa;
	return (mantissa | INT64_C(1) << PACK_BITS) << (exponent - 1);
}

/* --- remembering ------------------------------------------------------------------------------ */

struct history *history_new(struct err *err)
{
	struct history *history = calloc(1, sizeof(*history));
	if (!history)
		(void)err_set(err, -ENOMEM, "out of memory for the history");
	return history;
}

struct history *history_free(struct history *history)
{
	if (!history)
		return NULL;
	for (size_t i = 0; i < array_length(history->gpu); i++)
		free(history->gpu[i]);
	free(history);
	return NULL;
}

static struct history_gpu *history_find(const struct history *history, const char *uuid)
{
	for (size_t i = 0; i < array_length(history->gpu) && history->gpu[i]; i++) {
		if (strcmp(history->gpu[i]->uuid, uuid) == 0)
			return history->gpu[i];
	}
	return NULL;
}

/* A place for a GPU that was not there before; if all are taken, that of the one unseen longest. */
static struct history_gpu *history_add(struct history *history, const char *uuid)
{
	size_t place = 0;

	for (size_t i = 0; i < array_length(history->gpu); i++) {
		if (!history->gpu[i]) {
			place = i;
			break;
		}

		if (history->gpu[i]->sampled_ns < history->gpu[place]->sampled_ns)
			place = i;
	}

	if (history->gpu[place])
		memset(history->gpu[place], 0, sizeof(*history->gpu[place]));
	else
		history->gpu[place] = calloc(1, sizeof(*history->gpu[place]));

	if (history->gpu[place])
		memcpy(history->gpu[place]->uuid, uuid, sizeof(history->gpu[place]->uuid));

	return history->gpu[place];
}

/* The slots behind `last` up to `now` are of the past's past: they become gaps. */
static void ring_clear(uint16_t *ring, uint32_t size, uint64_t last, uint64_t now)
{
	uint64_t count = now - last < size ? now - last : size;
	if (last == 0)
		return; /* new: nothing was ever written */
	for (uint64_t i = 0; i < count; i++)
		ring[(now - i) % size] = 0;
}

static void gpu_close_coarse(struct history_gpu *gpu)
{
	for (uint32_t k = 0; k < HISTORY_SERIES; k++) {
		if (gpu->count[k] > 0)
			gpu->coarse_ring[k][gpu->coarse % HISTORY_COARSE] =
			    history_pack(gpu->sum[k] / (int64_t)gpu->count[k]);
		gpu->sum[k] = 0;
		gpu->count[k] = 0;
	}
}

static void gpu_note(struct history_gpu *gpu, const struct snapshot_gpu *now)
{
	uint64_t at = now->sampled_ns[SNAPSHOT_FAST];
	uint64_t fine = at / CLOCK_NS_PER_S, coarse = fine / HISTORY_COARSE_S;
	bool fills =
	    gpu->sampled_ns > 0 && fine == gpu->fine + 2 && at - gpu->sampled_ns < JITTER_NS;

	if (coarse != gpu->coarse)
		gpu_close_coarse(gpu);

	for (uint32_t k = 0; k < HISTORY_SERIES; k++) {
		int64_t value;

		ring_clear(gpu->fine_ring[k], HISTORY_FINE, gpu->fine, fine);
		ring_clear(gpu->coarse_ring[k], HISTORY_COARSE, gpu->coarse, coarse);
		if (!snapshot_get(now, series_values[k], &value))
			continue;

		gpu->fine_ring[k][fine % HISTORY_FINE] = history_pack(value);
		if (fills)
			gpu->fine_ring[k][(fine - 1) % HISTORY_FINE] = history_pack(value);
		gpu->sum[k] += value < 0 ? 0 : value > SUM_LARGEST ? SUM_LARGEST : value;
		gpu->count[k]++;
	}

	gpu->fine = fine;
	gpu->coarse = coarse;
	gpu->sampled_ns = at;
}

void history_note(struct history *history, const struct view *view)
{
	for (uint32_t i = 0; i < view->snapshot.gpu_count; i++) {
		const struct snapshot_gpu *now = &view->snapshot.gpu[i];
		if (now->sampled_ns[SNAPSHOT_FAST] == 0)
			continue;

		struct history_gpu *gpu = history_find(history, now->uuid);
		if (!gpu)
			gpu = history_add(history, now->uuid);

		/* A clock that went backwards is no clock of ours: wait until it is here again. */
		if (gpu && now->sampled_ns[SNAPSHOT_FAST] > gpu->sampled_ns)
			gpu_note(gpu, now);
	}
}

/* --- telling ---------------------------------------------------------------------------------- */

int history_series(const char *name, struct err *err)
{
	for (uint32_t i = 0; i < HISTORY_SERIES; i++) {
		if (strcmp(snapshot_value_to_string(series_values[i]), name) == 0)
			return (int)i;
	}

	char names[ERR_TEXT_MAX / 2] = "";
	size_t at = 0;

	for (uint32_t i = 0; i < HISTORY_SERIES; i++) {
		const char *word = snapshot_value_to_string(series_values[i]);
		size_t length = strlen(word);
		if (at + length + 3 > sizeof(names))
			break;
		if (i > 0) {
			memcpy(names + at, ", ", 2);
			at += 2;
		}

		memcpy(names + at, word, length + 1);
		at += length;
	}

	return err_set(err, -EINVAL, "parameter 'series' is one of %s", names);
}

/* What a question comes to: `count` slots of `slot_ns`, the last one number `end`. */
struct history_span {
	bool is_fine;
	uint64_t slot_ns, end, count;
};

static struct history_span history_span(const struct history *history,
					const struct history_question *question)
{
	struct history_span span = {.is_fine = question->resolution_s == 1};
	int64_t back_ns = 0; /* how far before now it begins */

	if (question->has_since && question->since_unix_ns < question->now_unix_ns)
		back_ns = question->now_unix_ns - question->since_unix_ns;
	if (question->resolution_s == 0)
		span.is_fine =
		    !question->has_since || back_ns <= (int64_t)(HISTORY_FINE * CLOCK_NS_PER_S);

	span.slot_ns = CLOCK_NS_PER_S * (span.is_fine ? 1 : HISTORY_COARSE_S);
	/* The newest slot of which a GPU has all. If none has said anything lately, the gap until
	 * now is shown. */
	uint64_t now = question->now_ns / span.slot_ns;
	span.end = now > 2 ? now - 2 : 0;

	for (size_t i = 0; i < array_length(history->gpu) && history->gpu[i]; i++) {
		const struct history_gpu *gpu = history->gpu[i];
		uint64_t newest = span.is_fine ? gpu->fine : gpu->coarse - 1;
		if (newest > span.end && newest <= now)
			span.end = newest;
	}

	span.count = span.is_fine ? HISTORY_FINE : HISTORY_COARSE;
	if (question->has_since && (uint64_t)back_ns / span.slot_ns < span.count)
		span.count = (uint64_t)back_ns / span.slot_ns;

	return span;
}

static void put_values(struct jsonw *json, const struct history_gpu *gpu,
		       const struct history_span *span, uint32_t series)
{
	uint32_t size = span->is_fine ? HISTORY_FINE : HISTORY_COARSE;

	jsonw_array(json, "values");

	for (uint64_t i = 0; i < span->count; i++) {
		/* before the machine started it becomes a huge number, that of no slot */
		uint64_t slot = span->end - span->count + 1 + i;
		uint64_t newest = !gpu ? 0 : span->is_fine ? gpu->fine : gpu->coarse;
		uint16_t packed = 0;

		if (gpu && slot <= newest && newest - slot < size)
			packed = span->is_fine ? gpu->fine_ring[series][slot % size]
					       : gpu->coarse_ring[series][slot % size];
		if (packed)
			jsonw_i64(json, NULL, history_unpack(packed));
		else
			jsonw_null(json, NULL);
	}

	jsonw_end_array(json);
}

int history_render(const struct history *history, const struct view *view,
		   const struct history_question *question, struct buf *out, struct err *err)
{
	struct history_span span = history_span(history, question);
	/* The end of the last slot, on the wall. */
	uint64_t end_ns = (span.end + 1) * span.slot_ns;
	int64_t end_unix_ns = question->now_unix_ns - ((int64_t)question->now_ns - (int64_t)end_ns);
	struct jsonw json;

	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "series", snapshot_value_to_string(series_values[question->series]));
	jsonw_u64(&json, "resolution_seconds", span.slot_ns / CLOCK_NS_PER_S);
	jsonw_decimal(&json, "end_unix", end_unix_ns / (int64_t)CLOCK_NS_PER_MS, 3);
	jsonw_array(&json, "gpus");

	for (uint32_t i = 0; i < view->snapshot.gpu_count; i++) {
		const struct snapshot_gpu *gpu = &view->snapshot.gpu[i];

		jsonw_object(&json, NULL);
		jsonw_text(&json, "uuid", gpu->uuid);
		jsonw_u64(&json, "index", gpu->index);
		put_values(&json, history_find(history, gpu->uuid), &span, question->series);
		jsonw_end_object(&json);
	}

	jsonw_end_array(&json);
	jsonw_end_object(&json);
	return json.rc < 0 ? err_set(err, json.rc, "no room for the history") : 0;
}
