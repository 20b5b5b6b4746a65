/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures one operation at one size on one rank, and checks every element of its result. Called by
 * all ranks alike; what comes out is the same on all of them. Knows nothing of tables.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_MEASURE_H
#define SLUICE_BENCH_COLLECTIVES_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/collectives/backend.h"

enum measure_average { /* -a: how the ranks' times become one */
		       MEASURE_RANK_0,
		       MEASURE_MEAN,
		       MEASURE_MIN,
		       MEASURE_MAX,
};

struct measure_plan {
	enum collective_op op;
	enum collective_type type;
	enum collective_redop redop;
	uint32_t root;
	struct collective_shape shape;
	enum backend_memory memory;
	uint32_t warmups, iterations; /* -w, -n */
	uint32_t checks;	      /* -c; 0: none */
	bool checks_all;	      /* --check all: a checksum of every iteration, too */
	bool is_dirty;		      /* the source is written anew before every operation */
	bool is_unaligned;	      /* -u */
	bool has_stream, has_isolated;
	enum measure_average average;
	uint64_t seed;
};

/* One column of the table: out of place, or in place. Seconds per operation; NAN where not
 * measured. `isolated` is the median over iterations of the slowest rank's time. */
struct measure_side {
	bool is_there;
	double stream, isolated;
	uint64_t wrong; /* elements on all ranks; 0 when not checked */
	bool is_checked, is_guard_hurt;
	uint32_t wrong_rank;	/* the first that has one */
	uint64_t wrong_element; /* and where; for the message */
	double *samples;	/* owned; isolated, [iteration][rank], seconds; NULL */
	size_t sample_count;
};

struct measure_row {
	struct measure_plan plan;
	struct measure_side out_of_place, in_place;
};
void measure_row_done(struct measure_row *row);

/* Where a rank is, for whoever waits for it; written by the rank, read by others. */
struct measure_progress {
	uint64_t size;	    /* bytes of the row it is in */
	uint32_t op;	    /* enum collective_op */
	uint32_t phase;	    /* enum measure_phase */
	uint64_t operation; /* the number of the last one completed in it */
	uint64_t beat_ns;   /* CLOCK_MONOTONIC */
};
enum measure_phase {
	MEASURE_STARTS,
	MEASURE_ALLOCATES,
	MEASURE_WARMS,
	MEASURE_STREAM,
	MEASURE_ISOLATED,
	MEASURE_CHECKS,
	MEASURE_ENDS,
	MEASURE_PHASE_COUNT
};
const char *measure_phase_to_string(enum measure_phase phase);

/* `out` is initialised here. `progress` may be NULL. The backend's errors; a wrong element is no
 * error: out->*.wrong. */
int measure_run(struct backend *backend, const struct measure_plan *plan,
		struct measure_progress *progress, struct measure_row *out, struct err *err);

#endif
