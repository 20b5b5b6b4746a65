/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be said of two sides that were measured in pairs: whether one costs more than the other,
 * or whether they are the same within a margin, which is another claim than "no difference was
 * found". Also the order in which to measure them. Pure; runs nothing.
 */
#ifndef SLUICE_BENCH_VERDICT_H
#define SLUICE_BENCH_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/stats.h"

struct err;

enum verdict_limits {
	VERDICT_PAIRS_MIN = 6,
	VERDICT_PAIRS_MAX = 100000,
	VERDICT_BLOCK = 4, /* runs: ABBA or BAAB */
};

enum verdict_kind {
	VERDICT_EQUIVALENT,	     /* within the margin on both sides, and no difference seen */
	VERDICT_DIFFERENT_BUT_SMALL, /* within the margin, and different */
	VERDICT_SLOWER,		     /* B is worse than A by more than the margin */
	VERDICT_FASTER,		     /* better by more */
	VERDICT_INCONCLUSIVE,
	VERDICT_TOO_FEW, /* pairs */
	VERDICT_FAILED,	 /* a run failed */
	VERDICT_REFUSED, /* a side differs from itself, or cannot be told apart so finely */
};
/* "EQUIVALENT", "DIFFERENT-BUT-SMALL", ... */
const char *verdict_to_string(enum verdict_kind kind);

/* --- the order -------------------------------------------------------------------------------- */

/* Which side run `i` (from 0) is: false: A. Blocks of four, each ABBA or BAAB by a coin that the
 * seed decides, so that a slow drift of the machine meets both alike. */
bool verdict_run_is_b(uint64_t seed, uint64_t i);
/* The same of pair `i`: whether B ran first in it. */
bool verdict_pair_is_ba(uint64_t seed, uint64_t i);

/* --- the verdict ------------------------------------------------------------------------------ */

struct verdict_pair {
	double a, b;	 /* above 0; a time, or a rate */
	bool b_is_first; /* of the two */
};

struct verdict_question {
	const struct verdict_pair *pairs; /* borrowed; in the order in which they were measured */
	size_t count;
	bool higher_is_better; /* a rate */
	double margin;	       /* 0.01: within 1 % counts as the same; above 0 */
	unsigned looks;	       /* how often the data are looked at in all: 0 and 1 are once */
};

struct verdict {
	enum verdict_kind kind;
	size_t units;	/* pairs that count, or blocks */
	bool by_blocks; /* whoever runs second has it worse, or better: blocks of two pairs are
			   compared */
	/* All as what B is worse by, 0.02 for 2 %: above 0 is worse. */
	double estimate, geometric_mean;
	struct stats_interval within_90, within_95;
	bool excludes_zero; /* the latter */
	double p;	    /* that there is no difference; not corrected for several metrics */
	/* By how much the second of a pair is worse. */
	double slot_effect;
	struct stats_interval slot_within_95;
	double trend_a, trend_b; /* probability of such a trend of a side where there is none */
	double deviation;	 /* of the pairs, or blocks, in logarithms */
	size_t pairs_equivalent, pairs_one_sided; /* that it would take; SIZE_MAX: hopeless */
};

/* -EINVAL: a value that is not above 0, or no margin; -ENOMEM. Too few pairs are a verdict. */
int verdict_make(const struct verdict_question *question, struct verdict *out, struct err *err);
/* Of a side against itself with the same plan: true when nothing can be said with this margin
 * (`out_half_width`: what the machine can resolve). */
bool verdict_calibration_fails(const struct verdict *self, double margin, double *out_half_width);

#endif
