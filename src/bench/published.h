/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published times to train, as data/README.md says where they come from, and how far the runs
 * behind them lie apart. Plain data.
 */
#ifndef SLUICE_BENCH_PUBLISHED_H
#define SLUICE_BENCH_PUBLISHED_H

#include <stddef.h>

struct published {
	const char *round, *submitter, *system; /* "v0.6", "NVIDIA", "DGX-1" */
	unsigned accelerators;			/* 0: not printed */
	const char *framework, *benchmark;
	double minutes;
	const char *scope; /* "per-system", "max-scale", "per-accelerator" */
	double spread; /* (longest - shortest) / minutes of its runs, in percent; -1: not known */
};

/* The i-th; NULL behind the last. */
const struct published *published_at(size_t i);

#endif
