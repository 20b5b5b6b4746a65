/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last hours of each GPU in memory: ten minutes by the second, six hours by ten seconds. By
 * CLOCK_MONOTONIC, so that a wall clock that jumps moves nothing; by UUID, so that a GPU that comes
 * back under another number goes on where it was. A second of which nothing is known is a gap.
 *
 * A value takes 16 bits: whole numbers below 4096 exactly, larger ones to 1 in 4096. That is 44 KB
 * for a GPU, and memory that nothing was written to yet is not taken.
 */
#ifndef SLUICE_WEB_HISTORY_H
#define SLUICE_WEB_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct err;
struct history;
struct view;

enum history_limits {
	HISTORY_FINE = 600,    /* slots of a second */
	HISTORY_COARSE = 2160, /* slots of ten seconds */
	HISTORY_COARSE_S = 10,
	HISTORY_SERIES = 8,
};

struct history *history_new(struct err *err);
struct history *history_free(struct history *history);

/* Takes what is new in a view. Without memory for a GPU that GPU has no history. */
void history_note(struct history *history, const struct view *view);

/* The place of a series by its name, e.g. "power_mw"; -EINVAL and the names in `err`. */
int history_series(const char *name, struct err *err);

struct history_question {
	uint32_t series;
	uint32_t resolution_s; /* 1 or 10; 0: what fits `since` */
	bool has_since;
	int64_t since_unix_ns;
	uint64_t now_ns; /* both clocks at one moment */
	int64_t now_unix_ns;
};
/* Appends the answer of /api/v1/history, the GPUs in the order of `view`. 0, -ENOSPC, -ENOMEM. */
int history_render(const struct history *history, const struct view *view,
		   const struct history_question *question, struct buf *out, struct err *err);

/* How a value is kept; 0 is "not known". */
uint16_t history_pack(int64_t value);
int64_t history_unpack(uint16_t packed);

#endif
