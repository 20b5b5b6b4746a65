/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which backend a run uses, and how its ranks come about: forked by us with shared memory or NCCL,
 * or started by an mpirun. Decides from what was asked for, from who started us, and from what is
 * there. Knows nothing of rows.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_RANKS_H
#define SLUICE_BENCH_COLLECTIVES_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/collectives/nccl/nccl_ranks.h"
#include "bench/collectives/request.h"

struct backend;
struct err;
struct shm_world;
struct world_seat;

struct ranks {
	enum request_backend backend; /* never REQUEST_BACKEND_AUTO */
	bool forks;		      /* else this process is one of the ranks */
	uint32_t ranks;	     /* that are forked; else that somebody announced, 1 at least */
	uint32_t local;	     /* of them on this machine, as far as is known; 1 at least */
	bool leaves_gpus;    /* there are GPUs, and nothing says where ranks of NCCL meet */
	uint64_t timeout_ns; /* of one wait in the backend */
	uint64_t start_timeout_ns;
	char *const *environment; /* borrowed */
	struct shm_world *world;  /* owned */
	const char *library;	  /* borrowed; NULL: the usual one */
	const char *root;	  /* borrowed: before /sys; NULL: this machine */
	bool is_planned;	  /* NCCL's ranks are on several machines, by `plan` */
	struct bootstrap_plan plan;
	struct nccl_ranks nccl; /* owned */
};

/* What is around us. */
struct ranks_place {
	char *const *environment; /* ends in NULL; borrowed until ranks_done() */
	uint32_t processors;	  /* that this process may use */
	uint32_t gpus;		  /* in sight, with a library for them */
};

/*
 * Decides; nothing is made yet. -EINVAL: what was asked for cannot be here, and the message says
 * what can: an mpirun started other than --ranks says, or each of its processes would measure by
 * itself; too many ranks. Pure.
 */
int ranks_choose(const struct request *request, const struct ranks_place *place, struct ranks *out,
		 struct err *err);
/* What the ranks share, before they are forked. -ENOMEM, -errno. */
int ranks_prepare(struct ranks *ranks, struct err *err);
/* In each rank's process; for world_job.start. */
int ranks_start(struct ranks *ranks, struct world_seat *seat, struct backend **out,
		struct err *err);
void ranks_done(struct ranks *ranks);

const char *ranks_backend_to_string(enum request_backend backend);
/* How many GPUs NCCL could use here: 0 without libnccl.so.2 or a driver. Asks in a process of its
 * own, since CUDA does not survive a fork. */
uint32_t ranks_gpus(void);
/* Processors that this process may run on; 1 at least. */
uint32_t ranks_processors(void);

#endif
