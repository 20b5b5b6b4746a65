/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives done the plain way, for tests: element by element, in the order of the ranks, on one
 * rank after the other; and a backend that does them between threads or forked processes and makes
 * the mistakes that it is told to make.
 */
#ifndef TESTS_UNIT_BENCH_COLLECTIVES_PLAIN_H
#define TESTS_UNIT_BENCH_COLLECTIVES_PLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/collectives/backend.h"

enum plain_limits { PLAIN_RANKS_MAX = 64 };

/* left = left (redop) right, as a library does it in the type. */
void plain_combine(enum collective_type type, enum collective_redop redop, void *left,
		   const void *right);
void plain_divide(enum collective_type type, uint32_t ranks, void *element);
/* What `rank` must have in the end of what all sent: `receive_count` elements at `out`. */
void plain_result(const struct backend_call *call, const void *const *sent, uint32_t ranks,
		  uint32_t rank, uint8_t *out);

enum plain_fault {
	PLAIN_RIGHT,
	PLAIN_WRONG_ELEMENT, /* element `at` of the result has another last bit */
	PLAIN_STALE,	     /* nothing is written at all */
	PLAIN_SOURCE,	     /* element `at` of the source is changed */
	PLAIN_BEFORE,	     /* the byte before the result */
	PLAIN_BEHIND,	     /* the byte behind the result */
	PLAIN_ERROR,	     /* the call returns -EIO */
	PLAIN_STALL,	     /* it does not return until it is aborted */
	PLAIN_HANG,	     /* it never returns */
	PLAIN_STOP,	     /* the process is stopped (SIGSTOP) */
	PLAIN_KILL,	     /* the process kills itself */
	PLAIN_EXIT,	     /* exit(3) */
};

struct plain_options {
	uint32_t ranks;
	bool is_device; /* its memory cannot be read by this process */
	enum plain_fault fault;
	uint32_t fault_rank;
	uint64_t fault_at;	  /* element */
	uint64_t fault_operation; /* from this one on, counted from 0 */
};

/* What the ranks share: memory that is also shared with processes that are forked from here on. */
struct plain_world;
struct plain_world *plain_world_new(const struct plain_options *options);
struct plain_world *plain_world_free(struct plain_world *world);
/* How many ranks are in their first operation, or beyond. */
uint32_t plain_world_started(const struct plain_world *world);
bool plain_world_is_aborted(const struct plain_world *world);
/* In the thread or process that is `rank`. NULL: no memory. */
struct backend *plain_backend_new(struct plain_world *world, uint32_t rank);

#endif
