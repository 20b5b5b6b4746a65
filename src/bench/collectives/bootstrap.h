/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks of an NCCL run meet before NCCL connects them, and what they tell each other beside
 * it: the unique id, times, verdicts. Ranks of one machine that were forked share a board of
 * memory; ranks on several machines, started by somebody else, meet over TCP at rank 0. Knows
 * nothing of NCCL.
 *
 * Whoever connects to the port may be hostile: a message has a fixed head and a cap, nothing is
 * believed of it that was not asked for, and every wait has a deadline. What is exchanged is not
 * secret, and NCCL's own connections are not encrypted either: the port belongs into the cluster's
 * network.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_BOOTSTRAP_H
#define SLUICE_BENCH_COLLECTIVES_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bootstrap;
struct bootstrap_board;
struct err;

enum bootstrap_limits {
	BOOTSTRAP_HOST_MAX = 256,
	BOOTSTRAP_FILE_MAX = 4096,
	BOOTSTRAP_LINE_MAX = 512, /* of the file */
	BOOTSTRAP_HEAD = 32,	  /* bytes of a message before its content */
	BOOTSTRAP_SHARE_MAX = 4096,
	BOOTSTRAP_RANKS_MAX = 1024,
	BOOTSTRAP_BOARD_RANKS_MAX = 64,
};

/* ---- ranks that are forked ---- */

/* Made before the fork. -EINVAL, -ENOMEM. */
int bootstrap_board_new(uint32_t ranks, struct bootstrap_board **out, struct err *err);
struct bootstrap_board *bootstrap_board_free(struct bootstrap_board *board); /* NULL */
/* In the process that is `rank`. The board must outlive it. -EEXIST: another is that rank. */
int bootstrap_enter(struct bootstrap_board *board, uint32_t rank, struct bootstrap **out,
		    struct err *err);

/* ---- ranks that somebody else started ---- */

struct bootstrap_plan {
	uint32_t rank, ranks, local_rank; /* local: among those of this machine; the GPU's number */
	char host[BOOTSTRAP_HOST_MAX];	  /* of rank 0; "" */
	uint16_t port;			  /* 0: none */
	char file[BOOTSTRAP_FILE_MAX];	  /* in which rank 0 says where it is; "" */
};

/*
 * What the environment says of us: rank and number by RANK and WORLD_SIZE (torchrun),
 * OMPI_COMM_WORLD_*, PMI_* or SLURM_*; where to meet by SLUICE_NCCL_ID_FILE, a path that all ranks
 * see, or MASTER_ADDR and MASTER_PORT. 0: nobody started us as one of several; 1: `out` is filled.
 * -EINVAL: a variable is no number, the rank is not below the number, or there is no place to meet;
 * the message names the variables. Pure.
 */
int bootstrap_plan(char *const *environment, struct bootstrap_plan *out, struct err *err);
/* Meets the others: rank 0 listens, all come. -ETIMEDOUT names the ranks that did not come. */
int bootstrap_connect(const struct bootstrap_plan *plan, uint64_t timeout_ns,
		      struct bootstrap **out, struct err *err);

/* ---- both ---- */

uint32_t bootstrap_rank(const struct bootstrap *bootstrap);
uint32_t bootstrap_ranks(const struct bootstrap *bootstrap);
struct bootstrap *bootstrap_free(struct bootstrap *bootstrap); /* NULL */
/* All ranks' `bytes` at `mine` in the order of the ranks. All call it with the same size, 0 to
 * BOOTSTRAP_SHARE_MAX. -ETIMEDOUT names a rank that did not come; -EPIPE: one is gone; -EPROTO: one
 * speaks of something else. */
int bootstrap_share(struct bootstrap *bootstrap, const void *mine, void *all, size_t bytes,
		    uint64_t timeout_ns, struct err *err);
/* The others' calls fail from now on. */
void bootstrap_abort(struct bootstrap *bootstrap);

/* ---- what is read from outside ---- */

enum bootstrap_kind {
	BOOTSTRAP_HELLO = 1, /* to rank 0: who I am */
	BOOTSTRAP_WELCOME,   /* all are there */
	BOOTSTRAP_SHARE,     /* to rank 0: what is mine */
	BOOTSTRAP_ALL,	     /* from rank 0: everybody's */
};

struct bootstrap_head {
	enum bootstrap_kind kind;
	uint32_t rank, ranks;
	uint32_t bytes;	   /* of content that follows */
	uint32_t sequence; /* counts the shares */
	uint64_t token;	   /* of the file; 0 without one */
};

void bootstrap_head_write(const struct bootstrap_head *head, uint8_t out[BOOTSTRAP_HEAD]);
/* -EPROTO: not of this protocol; -EMSGSIZE: more content than its kind may have; -ERANGE: rank not
 * below ranks, or too many. Pure. */
int bootstrap_head_parse(const uint8_t data[BOOTSTRAP_HEAD], struct bootstrap_head *out);
/* "sluice-nccl/1 HOST PORT TOKEN\n". -EINVAL: anything else; -EAGAIN: its beginning. Pure. */
int bootstrap_file_parse(const char *text, size_t length, char out_host[BOOTSTRAP_HOST_MAX],
			 uint16_t *out_port, uint64_t *out_token);

#endif
