/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is printed of a run of the collectives: the rows, headers and footers of nccl-tests, so that
 * what reads those reads ours; a table for people that has both timings; and what the run as a
 * whole shows, for the gates. Pure: rows in, text out. JSON is in sheet_json.h.
 *
 * Source of the formats: https://github.com/NVIDIA/nccl-tests/blob/master/src/util.cu (2.19)
 */
#ifndef SLUICE_BENCH_COLLECTIVES_SHEET_H
#define SLUICE_BENCH_COLLECTIVES_SHEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/collectives/measure.h"

struct buf;
struct nccl_check;
struct request;
struct world_member;

enum sheet_limits {
	SHEET_NUMBER_MAX = 24, /* bytes of a number as text */
	/* The latency is that of the smallest size, if that is no larger than this; and a peak
	 * bandwidth is judged from this size on. */
	SHEET_LATENCY_BYTES = 4096,
	SHEET_PEAK_BYTES = 1 << 20,
};

/* What a run shows of one operation. */
struct sheet_op {
	uint64_t rows;
	double peak_busbw;	 /* GB/s; NAN: none */
	uint64_t largest_bytes;	 /* measured */
	uint64_t smallest_bytes; /* not 0; UINT64_MAX: none */
	double latency_us;	 /* at the smallest, of the isolated timing where there is one */
};

struct sheet {
	const struct request *request; /* borrowed */
	uint32_t ranks;
	const char *version, *backend, *description; /* borrowed */
	const struct world_member *members;	     /* borrowed; `ranks` of them */
	const struct nccl_check *transport;	     /* borrowed; NULL: none */
	const char *failure; /* borrowed; why the run ended before its time, NULL: it did not */
	/* What sheet_count() has seen. */
	struct sheet_op ops[COLLECTIVE_OP_COUNT];
	uint64_t rows, wrong_sides; /* rows, and columns that had wrong elements or a hurt guard */
	uint64_t checked_sides;	    /* columns of which at least one element was compared */
	double busbw_sum;
	uint64_t busbw_count;
};

/* As nccl-tests prints numbers: two decimals if that fits `width`, else one, none, an exponent.
 * What is not finite is "N/A". Right-aligned. */
void sheet_number(double value, int width, char out[SHEET_NUMBER_MAX]);
/* Seconds of the "time" column: the stream timing where it was measured, else the isolated one. */
double sheet_time(const struct measure_side *side);

/* Of the times of single operations, each the slowest rank's, after `skip` of them. Seconds; false:
 * there are none. */
struct sheet_spread {
	double min, max, mean, p50, p95, p99, deviation;
	size_t count;
};
bool sheet_spread(const struct measure_side *side, uint32_t ranks, uint32_t skip,
		  struct sheet_spread *out);
/* The slowest rank of iteration `index`. */
double sheet_slowest(const struct measure_side *side, uint32_t ranks, size_t index);

void sheet_init(struct sheet *sheet, const struct request *request);
void sheet_count(struct sheet *sheet, const struct measure_row *row);
/* Whether the GPUs or their library are simulated ones: the backend's description says so. */
bool sheet_is_simulated(const struct sheet *sheet);
/* What nccl-tests' file calls okay: "true", "false", or "unchecked" where nothing was compared. */
const char *sheet_elements_okay(const struct sheet *sheet);
/* "unchecked" without NCCL_TESTS_MIN_BW. */
const char *sheet_average_okay(const struct sheet *sheet);
/* GB/s over all columns, as nccl-tests' last line; 0 where there are none. */
double sheet_average(const struct sheet *sheet);

/* All return 0, -ENOSPC or -ENOMEM. `stamp`: local time of the row, for -S; may be NULL. */
int sheet_nccl_head(const struct sheet *sheet, struct buf *out);
/* Before the first row, and before each of another operation. */
int sheet_nccl_columns(const struct sheet *sheet, enum collective_op op, struct buf *out);
int sheet_nccl_row(const struct sheet *sheet, const struct measure_row *row, const char *stamp,
		   struct buf *out);
int sheet_nccl_foot(const struct sheet *sheet, struct buf *out);
int sheet_text_columns(const struct sheet *sheet, enum collective_op op, struct buf *out);
int sheet_text_row(const struct sheet *sheet, const struct measure_row *row, const char *stamp,
		   struct buf *out);
int sheet_text_foot(const struct sheet *sheet, struct buf *out);

#endif
