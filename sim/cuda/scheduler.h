/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who computes when: discrete events over all contexts of the simulated GPUs. Each GPU (or MIG
 * compute instance) has one compute engine, which goes round its contexts in slices of time with a
 * cost for each switch and takes a kernel away in its middle, and three copy engines, which serve
 * in order. Plain data of fixed size without pointers, so that it can live in memory that processes
 * share. Integers throughout: the same calls give the same times. It knows no clock but its own, no
 * process and no memory.
 */
#ifndef SLUICE_SIM_CUDA_SCHEDULER_H
#define SLUICE_SIM_CUDA_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#define SCHED_NEVER UINT64_MAX

enum sched_limits {
	SCHED_UNIT_MAX = 64,	/* GPUs and MIG compute instances */
	SCHED_CONTEXT_MAX = 64, /* of all processes */
	SCHED_RING = 512,	/* operations of a context that are not yet collected */
	SCHED_GAP_MAX = 1024,	/* remembered times in which a context was switched out */
};

enum sched_engine {
	SCHED_COMPUTE,
	SCHED_COPY_IN,
	SCHED_COPY_OUT,
	SCHED_COPY_PEER,
	SCHED_ENGINE_COUNT,
	SCHED_NO_ENGINE = SCHED_ENGINE_COUNT /* events, waits: done as soon as their turn comes */
};

enum sched_op_flag {
	SCHED_ELAPSED = 1,  /* ends so long after its begin, whether it computes or not (sl_spin) */
	SCHED_BARRIER = 2,  /* of the legacy default stream: after all earlier, before all later */
	SCHED_BLOCKING = 4, /* of a stream that waits for the default stream */
	SCHED_STUCK = 8,    /* never ends */
};

enum sched_op_state { SCHED_WAITING, SCHED_RUNNING, SCHED_DONE };

/* What is to be done. `after` and `after_number`: an operation of that context (index, number) that
 * must be done first; after_number 0: none. `before`: number of the one before it in its stream. */
struct sched_request {
	uint64_t cost_ns;
	uint64_t ready_ns; /* not before */
	uint64_t before, after_number;
	uint32_t after;
	uint32_t flags;	 /* enum sched_op_flag */
	uint32_t engine; /* enum sched_engine */
};

struct sched_op {
	struct sched_request request;
	uint64_t left_ns;
	uint64_t begin_ns, done_ns;
	uint64_t order; /* counts what is done, over all contexts */
	uint32_t state; /* enum sched_op_state */
	uint32_t reserved;
};

struct sched_gap {
	uint64_t out_ns, in_ns;
};

/* Operations first <= number < next are kept; number n lies at ring[n % SCHED_RING]. */
struct sched_context {
	bool used;
	uint32_t unit;
	uint32_t owner;	    /* of the caller: which process */
	uint64_t first;	    /* not yet collected */
	uint64_t undone;    /* all before it are done */
	uint64_t next;	    /* numbers begin with 1 */
	uint64_t submitted; /* ever */
	uint64_t finished;
	uint64_t busy_ns; /* of the compute engine */
	uint64_t kernels_done;
	uint64_t out_ns; /* when it was switched out in the middle of a kernel; 0: it was not */
	uint64_t gap_count;
	struct sched_gap gap[SCHED_GAP_MAX]; /* ring */
	struct sched_op ring[SCHED_RING];
};

struct sched_unit {
	bool used;
	uint64_t key;	 /* of the caller */
	uint32_t holder; /* context of the compute engine; SCHED_CONTEXT_MAX: none yet */
	uint32_t running_context[SCHED_ENGINE_COUNT]; /* SCHED_CONTEXT_MAX: nothing runs */
	uint64_t running_op[SCHED_ENGINE_COUNT];
	uint64_t end_ns[SCHED_ENGINE_COUNT];
	uint64_t since_ns;   /* the compute engine's piece of work began */
	uint64_t slice_end;  /* of the holder */
	uint64_t switch_end; /* 0: no switch is under way */
	uint64_t busy_ns, switch_ns, switches;
};

struct sched {
	uint64_t now_ns;
	uint64_t slice_ns, switch_ns; /* parameters */
	uint64_t done_count;
	uint32_t unit_top, context_top; /* one more than the highest ever used */
	struct sched_unit unit[SCHED_UNIT_MAX];
	struct sched_context context[SCHED_CONTEXT_MAX];
};

/* `out` zeroed before. slice_ns 0 counts as 1. */
void sched_init(struct sched *out, uint64_t slice_ns, uint64_t switch_ns);

/* A context on the unit that the caller calls `key`. Its index, or SCHED_CONTEXT_MAX: no room. */
uint32_t sched_open(struct sched *sched, uint64_t key, uint32_t owner);
/* Forgets the context and what it had queued. */
void sched_close(struct sched *sched, uint32_t context);

/* The operation's number; 0: the ring is full, collect first. */
uint64_t sched_submit(struct sched *sched, uint32_t context, const struct sched_request *request);

/* Is it done? Numbers that were collected are. */
bool sched_is_done(const struct sched *sched, uint32_t context, uint64_t number);
/* Are all up to and with `number` done? */
bool sched_all_done(const struct sched *sched, uint32_t context, uint64_t number);

/* When something happens next if nobody submits: SCHED_NEVER when nothing will. */
uint64_t sched_next_event(const struct sched *sched);
/* Lets everything happen up to and with that time. Times before now are now. */
void sched_advance(struct sched *sched, uint64_t ns);

/* An SCHED_ELAPSED operation ends now, or as soon as it begins. */
void sched_release(struct sched *sched, uint32_t context, uint64_t number);
/* An SCHED_STUCK operation that needs no engine may end from that time on. */
void sched_unstick(struct sched *sched, uint32_t context, uint64_t number, uint64_t ready_ns);
/* Whether all that an operation waits for is done: its turn has come. */
bool sched_has_turn(const struct sched *sched, uint32_t context, uint64_t number);
/* An operation that is kept, or NULL. */
const struct sched_op *sched_op(const struct sched *sched, uint32_t context, uint64_t number);
/* Gives the operation number `first` back when it is done, so that its place is free. False: it is
 * not done, or there is none. */
bool sched_collect(struct sched *sched, uint32_t context, struct sched_op *out);

#endif
