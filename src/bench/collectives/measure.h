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

enum measure_limits {
	MEASURE_TEXT_MAX = 96,
	MEASURE_SAMPLES_MAX = 1 << 22, /* of all ranks in one column: 32 MiB */
};

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
	bool checks_all;	      /* --check all: every iteration, too */
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
	uint32_t wrong_rank;		   /* the first that has one */
	uint64_t wrong_element;		   /* and where, in its result; for the message */
	bool is_source_changed;		   /* that element is one of its source instead */
	char wrong_text[MEASURE_TEXT_MAX]; /* "is 3, must be 4" */
	uint32_t hurt_rank;		   /* the first whose guards were written to */
	/* Owned; isolated, [iteration][rank], seconds; NULL. Kept of the first iterations as far as
	 * MEASURE_SAMPLES_MAX goes; more of them are not done. */
	double *samples;
	size_t sample_count;
};

struct measure_row {
	struct measure_plan plan;
	struct measure_side out_of_place, in_place;
};
void measure_row_done(struct measure_row *row);

/* Where a rank is, for whoever waits for it: written by the rank with relaxed atomic stores, read
 * by others with relaxed loads. */
struct measure_progress {
	uint64_t size;	    /* bytes of the row it is in */
	uint32_t op;	    /* enum collective_op */
	uint32_t phase;	    /* enum measure_phase */
	uint64_t operation; /* how many are completed in it */
	uint64_t total;	    /* and in the row */
	uint64_t beat_ns;   /* CLOCK_MONOTONIC; when the phase began */
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

/*
 * What is done, in this order: buffers; for each column warm-ups, `iterations` operations back to
 * back (barrier before, sync after), as many one by one (each after a barrier; a rank's time is
 * that until its own sync), and the checks: new data, one operation, all elements compared, the
 * source of an operation that is not in place as well. The operations that are timed use data that
 * repeat every 4 KiB, so that writing them again costs little; that time is left out where it is
 * more than reading the clock is, from 4 KiB on. With `checks_all` these results are compared too,
 * outside the time.
 */
/* `out` is initialised here. `progress` may be NULL. The backend's errors; a wrong element is no
 * error: out->*.wrong. */
int measure_run(struct backend *backend, const struct measure_plan *plan,
		struct measure_progress *progress, struct measure_row *out, struct err *err);

/* Bytes of memory that one rank needs for it, buffers with their guards; UINT64_MAX: too many. */
uint64_t measure_memory_bytes(const struct measure_plan *plan);

#endif
