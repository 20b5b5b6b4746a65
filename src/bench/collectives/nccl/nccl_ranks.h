/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of an NCCL run as a command starts them: forked on this machine, or started on several
 * by somebody else; and what rank 0 finds out about their connections, told to whoever prints.
 * Knows nothing of rows and tables.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_NCCL_NCCL_RANKS_H
#define SLUICE_BENCH_COLLECTIVES_NCCL_NCCL_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/collectives/bootstrap.h"
#include "bench/collectives/nccl/nccl_transport.h"

struct backend;
struct err;

enum { NCCL_NOTE_MAX = 2048 };

/* Lies in memory that forked ranks share; rank 0 fills it before the run begins. */
struct nccl_note {
	bool has_transport, has_check;
	struct nccl_check check;
	char lines[NCCL_NOTE_MAX];    /* how the ranks are connected: lines that end in \n; "" */
	char room[2 * NCCL_TEXT_MAX]; /* why /dev/shm may be too small; "" */
};

struct nccl_ranks {
	bool is_launched; /* by `plan`; else forked */
	struct bootstrap_plan plan;
	struct bootstrap_board *board; /* owned; of forked ranks */
	struct bootstrap *bootstrap;   /* owned; of this rank */
	struct nccl_note *note;	       /* owned */
};

/* Before the fork: what the ranks share, and whether /dev/shm has room for them. `plan` NULL:
 * `ranks` will be forked. -ENOMEM, -EINVAL. */
int nccl_ranks_prepare(uint32_t ranks, const struct bootstrap_plan *plan, struct nccl_ranks *out,
		       struct err *err);
/* In the process that is one of them; `rank` of forked ones. `root`: before /sys, "" for this
 * machine. The errors of bootstrap_connect() and nccl_backend_new(). */
int nccl_ranks_start(struct nccl_ranks *ranks, uint32_t rank, const char *library, const char *root,
		     uint64_t timeout_ns, uint64_t start_timeout_ns, struct backend **out,
		     struct err *err);
void nccl_ranks_done(struct nccl_ranks *ranks);

#endif
