/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tables that nccl-tests print, of all generations, and ours: which columns there are is
 * what the header line says.
 *
 *   to about 2022:  no root, often no redop; "error" is the largest deviation (6e-08), and no count
 *   since:          "root" and "#wrong", the number of wrong elements
 *   2025:           columns i_min .. i_cv% of single operations (-I), "timestamp" (-S)
 *
 * Anything else that programs print between the rows is passed over. Pure; one line at a time.
 *
 * Source: https://github.com/NVIDIA/nccl-tests, src/common.cu and src/util.cu; that "error" is
 * misread as a count: https://github.com/NVIDIA/nccl-tests/issues/118, /176
 */
#ifndef SLUICE_BENCH_NCCLTABLE_H
#define SLUICE_BENCH_NCCLTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum nccltable_limits {
	NCCLTABLE_LINE_MAX = 1024, /* bytes of a line that is looked at */
	NCCLTABLE_COLUMNS_MAX = 32,
	NCCLTABLE_NAME_MAX = 16,
};

enum nccltable_column {
	NCCLTABLE_SIZE,
	NCCLTABLE_COUNT,
	NCCLTABLE_TYPE,
	NCCLTABLE_REDOP,
	NCCLTABLE_ROOT,
	NCCLTABLE_TIME,
	NCCLTABLE_ALGBW,
	NCCLTABLE_BUSBW,
	NCCLTABLE_ERROR,
	NCCLTABLE_WRONG,
	NCCLTABLE_MIN, /* i_min */
	NCCLTABLE_MAX,
	NCCLTABLE_P99,
	NCCLTABLE_CV,
	NCCLTABLE_TIMESTAMP,
	NCCLTABLE_COLUMN_COUNT,
};

/* Out of place, or in place. NAN: no such column, or N/A. */
struct nccltable_side {
	double time_us, algbw, busbw; /* GB/s */
	double error;		      /* the largest deviation */
	double wrong;		      /* elements; printed as %g, so cut to 6 digits */
	double min_us, max_us, p99_us, cv_percent;
};

struct nccltable_row {
	uint64_t size, count;					  /* bytes, elements */
	char type[NCCLTABLE_NAME_MAX], redop[NCCLTABLE_NAME_MAX]; /* redop "": none */
	int64_t root;						  /* -1: none, or no such column */
	struct nccltable_side out_of_place, in_place;
};

/* What was read so far. */
struct nccltable {
	enum nccltable_column columns[NCCLTABLE_COLUMNS_MAX];
	size_t column_count;   /* 0: no header has come */
	uint64_t rows, broken; /* rows that were read, and those that could not be */
	double peak_busbw;     /* GB/s, of both columns of all rows; NAN: none */
	bool has_wrong;	       /* a row or the last line says that elements are wrong */
};

void nccltable_init(struct nccltable *table);
/* One line without its end. 1: a row, in `out`; 0: anything else; -EBADMSG: it begins as a row and
 * does not fit the header: cut, or of another program. The message says what was wanted. Takes
 * anything. */
int nccltable_line(struct nccltable *table, const char *line, size_t length,
		   struct nccltable_row *out, struct err *err);

#endif
