/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comparison as people read it, on a terminal or as a page, and as programs do. Pure but for what
 * the fingerprint reads.
 */
#ifndef SLUICE_BENCH_REPORT_H
#define SLUICE_BENCH_REPORT_H

#include <stdint.h>

struct buf;
struct compare_outcome;
struct inventory;

struct report {
	const struct compare_outcome *outcome; /* borrowed, all of these */
	const char *a, *b;		       /* the commands, or the files */
	const char *version, *started;	       /* RFC 3339 */
	double margin;
	uint64_t seed; /* of the order of the runs; 0: it is not known */
	int argc;
	char *const *argv;	      /* of the program */
	char *const *environment;     /* ends in NULL */
	const struct inventory *gpus; /* NULL: none, or nobody could be asked */
};

/* Each appends. As buf_add(). */
int report_text(const struct report *report, struct buf *out);
/* One page without anything from elsewhere: a plot of all runs in their order, one of the pairs'
 * ratios with the interval, and the tables. */
int report_html(const struct report *report, struct buf *out);
int report_json(const struct report *report, struct buf *out);

#endif
