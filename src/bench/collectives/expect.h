/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a class of machines is expected to reach, as a file says it, and whether a run did:
 *
 *   # OP TYPE SIZE METRIC RELATION VALUE
 *   all_reduce float any  peak_busbw >= 230
 *   all_reduce float 8    latency_us <= 25
 *
 * SIZE: that of a row ("8", "256M"), or "any": the best over all. Both columns, in place and out of
 * place, count, and the better one decides. Pure.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_EXPECT_H
#define SLUICE_BENCH_COLLECTIVES_EXPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/collectives/measure.h"

struct err;

enum expect_limits {
	EXPECT_BYTES_MAX = 1 << 20, /* of a file */
	EXPECT_LINES_MAX = 4096,
	EXPECT_LINE_MAX = 256, /* bytes of one */
	EXPECT_TEXT_MAX = 160, /* of a line said again */
};
#define EXPECT_ANY_SIZE UINT64_MAX

enum expect_metric { EXPECT_PEAK_BUSBW, EXPECT_LATENCY_US };
enum expect_status { EXPECT_SKIP, EXPECT_PASS, EXPECT_SLOW };

struct expect_line {
	enum collective_op op;
	enum collective_type type;
	uint64_t size; /* EXPECT_ANY_SIZE */
	enum expect_metric metric;
	bool is_at_least; /* ">="; else "<=" */
	double limit;
	uint32_t number; /* of the line in the file, from 1 */
	double value;	 /* the best so far; NAN: none */
};

struct expect {
	struct expect_line *lines; /* owned */
	size_t count;
};

/* `out` is initialised here; a file with comments alone has no lines. -EINVAL names the line, and
 * what was wanted there; -E2BIG, -ENOMEM. Takes anything. */
int expect_parse(const char *text, size_t length, struct expect *out, struct err *err);
void expect_done(struct expect *expect);
#define _cleanup_expect_ __attribute__((cleanup(expect_done)))

/* A row that was measured with `ranks` ranks. */
void expect_row(struct expect *expect, const struct measure_row *row, uint32_t ranks);
enum expect_status expect_status(const struct expect_line *line);
/* "all_reduce float any peak_busbw >= 230". */
void expect_text(const struct expect_line *line, char out[EXPECT_TEXT_MAX]);

#endif
