/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes lines of the exposition format, fast: a page has thousands of them, and each is a copy of
 * labels that were escaped once and a number. Knows nothing of what it writes. Used by metrics*.c.
 *
 * An error sticks: later calls do nothing, and metrics_out_end() says it.
 */
#ifndef SLUICE_WEB_METRICS_OUT_H
#define SLUICE_WEB_METRICS_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct metrics_family;

enum metrics_out_limits {
	METRICS_SCRATCH_MAX = 16 << 20, /* bytes of all labels of a page */
	METRICS_NUMBER_MAX = 32,
};

/* Labels in the scratch buffer, without braces; `length` 0: there are none, and no series. */
struct metrics_labels {
	uint32_t at, length;
};

struct metrics_out {
	struct buf *out;
	struct buf scratch; /* labels, escaped once */
	int rc;
	size_t start; /* of `out` */
	const struct metrics_family *family;
	const char *name;
	bool headed; /* HELP and TYPE of the family are written */
};

void metrics_out_begin(struct metrics_out *m, struct buf *out);
/* Frees the labels. 0, -ENOSPC or -ENOMEM; then `out` is as it was. */
int metrics_out_end(struct metrics_out *m);

/* What follows belongs to this family; its head is written with its first line. */
void metrics_out_family(struct metrics_out *m, const struct metrics_family *family,
			const char *name);

/* One line: name{labels,extra} number * 10^exponent. `extra` needs no escaping; "" or NULL: none.
 */
void metrics_out_line(struct metrics_out *m, struct metrics_labels labels, const char *extra,
		      int64_t number, int exponent);
void metrics_out_line_u64(struct metrics_out *m, struct metrics_labels labels, const char *extra,
			  uint64_t number, int exponent);

/* Labels are made from where metrics_labels_begin() said to what metrics_labels_end() returns. */
struct metrics_labels metrics_labels_begin(struct metrics_out *m);
void metrics_labels_text(struct metrics_out *m, const char *name, const char *value);
void metrics_labels_number(struct metrics_out *m, const char *name, uint64_t value);
/* Those labels again, as the first of the new ones. */
void metrics_labels_copy(struct metrics_out *m, struct metrics_labels from);
struct metrics_labels metrics_labels_end(struct metrics_out *m, struct metrics_labels begun);

/* number * 10^exponent without a needless digit; its length. `exponent`: METRICS_EXPONENT_*. */
size_t metrics_number(char out[METRICS_NUMBER_MAX], bool negative, uint64_t number, int exponent);

/* Labels that were there already, by a hash of 64 bits: a set of fixed size. */
struct metrics_seen {
	uint64_t *slot; /* 0: free */
	uint32_t mask;
};
/* `slots` (a power of two) is the caller's memory. At most half of it may be filled. */
void metrics_seen_init(struct metrics_seen *seen, uint64_t *slots, uint32_t count);
/* The same labels, or none when they are in the set already. */
struct metrics_labels metrics_seen_once(struct metrics_out *m, struct metrics_seen *seen,
					struct metrics_labels labels);

#endif
