/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread is asking the driver right now, in memory that another process can read: so that
 * whoever watches knows which call did not come back and on which GPU, even when the thread that
 * made it is in uninterruptible sleep or its process is stopped. Knows nothing of NVML.
 */
#ifndef SLUICE_HARDWARE_CALLMARK_H
#define SLUICE_HARDWARE_CALLMARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum call_mark_limits {
	CALL_MARK_FUNCTION_MAX = 64,
	CALL_MARK_BUS_MAX = 16,
	CALL_MARK_SLOTS = 2, /* the sampler and the event thread */
};
#define CALL_MARK_NO_GPU UINT32_MAX

struct call_mark {
	_Atomic uint64_t begin_ns;   /* CLOCK_MONOTONIC; 0: no call is under way */
	_Atomic uint64_t count;	     /* calls begun */
	uint32_t gpu;		     /* NVML's index, or CALL_MARK_NO_GPU */
	uint32_t allowance_ms;	     /* how long this call waits when all is well */
	char bus[CALL_MARK_BUS_MAX]; /* "0000:07:00.0" once it is known, else "" */
	char function[CALL_MARK_FUNCTION_MAX];
};

/* The page that probe and client share. */
struct call_marks {
	struct call_mark slot[CALL_MARK_SLOTS];
};

struct call_stuck {
	uint32_t gpu;
	char bus[CALL_MARK_BUS_MAX];
	char function[CALL_MARK_FUNCTION_MAX];
	uint64_t elapsed_ns;
};

/* CLOCK_MONOTONIC in nanoseconds. */
void call_mark_begin(struct call_mark *mark, uint32_t gpu, const char *bus, const char *function,
		     uint32_t allowance_ms);
void call_mark_end(struct call_mark *mark);
/*
 * Whether the call in `mark` has been under way for longer than `limit_ns` (plus its allowance) at
 * `now_ns`. True fills `out`. The page belongs to the other process: texts are cut and ended here.
 */
bool call_mark_is_stuck(const struct call_mark *mark, uint64_t now_ns, uint64_t limit_ns,
			struct call_stuck *out);
/* When the call in `mark` will be stuck; UINT64_MAX when none is under way. */
uint64_t call_mark_due(const struct call_mark *mark, uint64_t limit_ns);

#endif
