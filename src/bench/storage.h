/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a directory is read, in several ways, and beside another one: a volume beside the host's
 * own disk. Both in turns, each round in an order that a coin decides. Blocks. Knows nothing of
 * options and of how a report looks.
 */
#ifndef SLUICE_BENCH_STORAGE_H
#define SLUICE_BENCH_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/reader.h"
#include "bench/result.h"
#include "bench/verdict.h"

struct err;

enum storage_limits {
	STORAGE_CASES_MAX = 256,
	STORAGE_WHY_MAX = 256,
};

struct storage_plan {
	const char *path;    /* that is judged */
	const char *against; /* NULL: by nothing */
	const char *fio;     /* reads what it can in place of our own reader; NULL */
	uint64_t bytes;	     /* of the large file */
	size_t files, file_bytes;
	const struct reader_case *cases; /* borrowed */
	size_t case_count;
	uint64_t rounds, time_ns, seed;
	double margin;
	const atomic_bool *stop; /* ends it when it becomes true; NULL */
	/* May be NULL. */
	void (*progress)(const char *what, uint64_t done, uint64_t all, void *context);
	void *context;
};

struct storage_case {
	struct reader_case what;
	bool is_skipped;
	char why[STORAGE_WHY_MAX];
	struct result runs; /* sides A (`against`) and B (`path`), or "-"; metrics "rate" in
			       bytes/s, "reads" per second, "p50" and "p99" in s */
	bool has_verdict;
	struct verdict verdict;			    /* of the rate */
	double rate, rate_against, reads, p50, p99; /* medians; of `path`, but for the second */
};

struct storage_outcome {
	struct storage_case *cases; /* owned */
	size_t case_count;
	uint64_t wrong; /* blocks that hold what belongs elsewhere */
};
void storage_done(struct storage_outcome *outcome);

/* -EINTR, -ENOSPC, -ENOMEM, -EIO, ... with the path. Nothing is left in the directories. */
int storage_run(const struct storage_plan *plan, struct storage_outcome *out, struct err *err);

#endif
