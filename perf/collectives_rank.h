/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of perf/collectives.c: does what it is told over a socket, one order after the other, and
 * sleeps between them, so that ranks of several libraries can stay alive beside each other. And
 * what is said on that socket. Knows nothing of the other libraries and of gates.
 */
#ifndef SLUICE_PERF_COLLECTIVES_RANK_H
#define SLUICE_PERF_COLLECTIVES_RANK_H

#include <stdbool.h>
#include <stdint.h>

struct backend;

enum rank_limits {
	RANK_SAMPLES_MAX = 256, /* in an answer */
	RANK_TEXT_MAX = 256,
};

enum rank_timing {
	RANK_STREAM, /* one operation after the other: how fast they can be had */
	RANK_SINGLE, /* new data, a barrier, the operation: what a program waits */
	RANK_USED,   /* the same, and the last result is read before: its lines are here, too */
	RANK_TIMING_COUNT,
};

struct rank_hello {
	uint32_t world, rank, ranks;
	int32_t pid;
	char description[RANK_TEXT_MAX];
};

struct rank_order {
	uint64_t bytes;		      /* of an all_reduce of f32, sum */
	uint32_t warmups, iterations; /* operations; of each stream where it is RANK_STREAM */
	uint32_t streams;	      /* one after the other */
	uint32_t timing;	      /* enum rank_timing */
	uint8_t is_registered, is_checked;
};

struct rank_answer {
	uint32_t sample_count;
	double
	    samples[RANK_SAMPLES_MAX]; /* seconds per operation: of a stream, or of a single one */
	uint64_t wrong;		       /* elements */
	char error[RANK_TEXT_MAX];     /* "": none */
};

/* Connects to the socket of that path, says who it is and obeys until the other side is gone. 0:
 * that came to pass in order; 1. */
int rank_serve(struct backend *backend, uint32_t world, const char *path);

#endif
