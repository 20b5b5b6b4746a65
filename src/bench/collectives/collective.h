/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collective operations, their types and reductions, and what a size means for each: how many
 * elements a rank sends and receives, and the bandwidths that are printed for a time. The same
 * words and formulas as nccl-tests. Pure; knows nothing of how they are done.
 *
 * Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
 */
#ifndef SLUICE_BENCH_COLLECTIVES_COLLECTIVE_H
#define SLUICE_BENCH_COLLECTIVES_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum collective_limits {
	COLLECTIVE_RANKS_MAX = 1024,
	COLLECTIVE_SHM_RANKS_MAX = 64,
	COLLECTIVE_ELEMENT_MAX = 8,  /* bytes of the largest type */
	COLLECTIVE_BYTES_BITS = 50,  /* a size that is asked for is below 2^50 bytes */
	COLLECTIVE_CHUNK_BYTES = 16, /* what a rank's part is rounded down to */
};

enum collective_op {
	COLLECTIVE_ALL_REDUCE,
	COLLECTIVE_REDUCE_SCATTER,
	COLLECTIVE_ALL_GATHER,
	COLLECTIVE_ALLTOALL,
	COLLECTIVE_ALLTOALLV,
	COLLECTIVE_GATHER,
	COLLECTIVE_SCATTER,
	COLLECTIVE_BROADCAST,
	COLLECTIVE_REDUCE,
	COLLECTIVE_SENDRECV, /* a ring: to rank + 1, from rank - 1 */
	COLLECTIVE_HYPERCUBE,
	COLLECTIVE_OP_COUNT,
};

enum collective_type {
	COLLECTIVE_I8,
	COLLECTIVE_U8,
	COLLECTIVE_I32,
	COLLECTIVE_U32,
	COLLECTIVE_I64,
	COLLECTIVE_U64,
	COLLECTIVE_F16,
	COLLECTIVE_BF16,
	COLLECTIVE_F32,
	COLLECTIVE_F64,
	COLLECTIVE_TYPE_COUNT,
};

enum collective_redop {
	COLLECTIVE_SUM,
	COLLECTIVE_PROD,
	COLLECTIVE_MIN,
	COLLECTIVE_MAX,
	COLLECTIVE_AVG, /* the sum divided by the number of ranks */
	COLLECTIVE_REDOP_COUNT,
};

/* "all_reduce", "float" as nccl-tests prints types ("int8", "uint8", "int32", "uint32", "int64",
 * "uint64", "half", "bfloat16", "float", "double"), "sum". */
const char *collective_op_to_string(enum collective_op op);
const char *collective_type_to_string(enum collective_type type);
const char *collective_redop_to_string(enum collective_redop redop);
/* Those; for operations also "allreduce", "bcast" and the like, for types also "i8" ...
 * "f64". -EINVAL: `out` is untouched. */
int collective_op_parse(const char *text, enum collective_op *out);
int collective_type_parse(const char *text, enum collective_type *out);
int collective_redop_parse(const char *text, enum collective_redop *out);

size_t collective_type_size(enum collective_type type);
bool collective_op_reduces(enum collective_op op);
bool collective_op_has_root(enum collective_op op);
/* Whether the table has an in-place column for it. */
bool collective_op_has_in_place(enum collective_op op);

/*
 * What one row of the table means. All counts are in elements. `param_count` is what the operation
 * is called with (all_reduce, broadcast, reduce, sendrecv: the whole; all_gather, gather: what a
 * rank sends; reduce_scatter, scatter: what a rank receives; alltoall(v): what goes to one peer;
 * hypercube: what a rank contributes). An in-place call has its input where nccl-tests has it:
 * all_gather, gather and hypercube at receive + rank * param_count, reduce_scatter and scatter with
 * their result at send + rank * param_count, the others with send == receive.
 */
struct collective_shape {
	uint64_t param_count;
	uint64_t send_count,
	    receive_count;    /* of a rank's buffers; of the root's where it differs */
	uint64_t bytes;	      /* the size column: the larger of what is sent and received */
	uint64_t moved_bytes; /* S of the formulas; less than `bytes` for hypercube alone */
	uint64_t shown_count; /* the count column, as nccl-tests prints it */
	uint32_t element_bytes;
};
/* For a size that was asked for (of -b, -e; below 2^50), which is rounded down as nccl-tests
 * rounds: to whole elements, and where every rank has a part, those to multiples of 16 bytes. Small
 * sizes become 0 by that. `ranks`: 1 to COLLECTIVE_RANKS_MAX. */
void collective_shape(enum collective_op op, enum collective_type type, uint64_t asked_bytes,
		      uint32_t ranks, struct collective_shape *out);
/* For alltoallv: what rank `from` sends to rank `to`, in elements. As in nccl-tests it grows with
 * the distance (to - from) mod ranks, from nothing to oneself; the sum over either is
 * `shape->send_count` for every rank. What goes to or comes from one rank lies behind what belongs
 * to the ranks before it, without gaps. */
uint64_t collective_v_count(const struct collective_shape *shape, uint32_t ranks, uint32_t from,
			    uint32_t to);
/* GB/s (1e9 bytes) for `seconds` per operation; NAN where that is not above 0, and the bus
 * bandwidth of a single rank, over which nothing goes. */
double collective_algbw(const struct collective_shape *shape, double seconds);
double collective_busbw(enum collective_op op, const struct collective_shape *shape, uint32_t ranks,
			double seconds);

#endif
