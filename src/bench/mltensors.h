/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors of each benchmark that a run of the closed division says that it initialised, each
 * once (round 1.1; RNN-T from 1.0 on). Pure.
 */
#ifndef SLUICE_BENCH_MLTENSORS_H
#define SLUICE_BENCH_MLTENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mltensors_limits {
	MLTENSORS_LISTS = 8,
	MLTENSORS_WORDS = 7, /* of 64 tensors: BERT has 398 */
	MLTENSORS_NAME_MAX = 128,
};

struct mltensors {
	size_t lines;
	uint64_t nameless_line; /* the first without a name; 0: none */
	struct mltensors_list {
		uint64_t seen[MLTENSORS_WORDS];
		char wrong[MLTENSORS_NAME_MAX]; /* the first that is unknown, or there again */
		bool is_again;
	} lists[MLTENSORS_LISTS];
};

/* A line says that `name` was initialised; NULL: it does not say what. */
void mltensors_line(struct mltensors *tensors, uint64_t number, const char *name);
/* Whether those lines are not exactly the tensors of the benchmark, each once; `out`: why, cut to
 * `size`. A benchmark without a list is never wrong. */
bool mltensors_are_wrong(const struct mltensors *tensors, const char *benchmark, char *out,
			 size_t size);

/* How many the benchmark has; the i-th in `out` (false: there is none). */
size_t mltensors_count(const char *benchmark);
bool mltensors_name(const char *benchmark, size_t i, char *out, size_t size);

#endif
