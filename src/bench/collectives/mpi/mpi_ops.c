/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/mpi/mpi_ops.h"

#include <stddef.h>

#include "bench/collectives/reduce.h"

static void mpi_op_do(enum collective_type type, enum collective_redop redop, const void *in,
		      void *inout, const int *count)
{
	const void *const both[] = {in, inout};
	if (*count > 0)
		reduce_tree(reduce_best(), type, redop, both, 2, inout, (size_t)*count);
}

/* MPI tells such a function nothing by which these could be one. */
#define MPI_OP(name, type_, redop)                                                                 \
	static void mpi_op_##name(void *in, void *inout, int *count, void *type)                   \
	{                                                                                          \
		(void)type;                                                                        \
		mpi_op_do(type_, redop, in, inout, count);                                         \
	}
MPI_OP(i8_sum, COLLECTIVE_I8, COLLECTIVE_SUM)
MPI_OP(u8_sum, COLLECTIVE_U8, COLLECTIVE_SUM)
MPI_OP(f16_sum, COLLECTIVE_F16, COLLECTIVE_SUM)
MPI_OP(f16_prod, COLLECTIVE_F16, COLLECTIVE_PROD)
MPI_OP(f16_min, COLLECTIVE_F16, COLLECTIVE_MIN)
MPI_OP(f16_max, COLLECTIVE_F16, COLLECTIVE_MAX)
MPI_OP(bf16_sum, COLLECTIVE_BF16, COLLECTIVE_SUM)
MPI_OP(bf16_prod, COLLECTIVE_BF16, COLLECTIVE_PROD)
MPI_OP(bf16_min, COLLECTIVE_BF16, COLLECTIVE_MIN)
MPI_OP(bf16_max, COLLECTIVE_BF16, COLLECTIVE_MAX)

mpi_op_fn mpi_op_of(enum collective_type type, enum collective_redop redop, bool saturates)
{
	static const mpi_op_fn f16[] = {
	    [COLLECTIVE_SUM] = mpi_op_f16_sum, [COLLECTIVE_PROD] = mpi_op_f16_prod,
	    [COLLECTIVE_MIN] = mpi_op_f16_min, [COLLECTIVE_MAX] = mpi_op_f16_max,
	    [COLLECTIVE_AVG] = mpi_op_f16_sum,
	};
	static const mpi_op_fn bf16[] = {
	    [COLLECTIVE_SUM] = mpi_op_bf16_sum, [COLLECTIVE_PROD] = mpi_op_bf16_prod,
	    [COLLECTIVE_MIN] = mpi_op_bf16_min, [COLLECTIVE_MAX] = mpi_op_bf16_max,
	    [COLLECTIVE_AVG] = mpi_op_bf16_sum,
	};
	bool is_sum = redop == COLLECTIVE_SUM || redop == COLLECTIVE_AVG;

	if (type == COLLECTIVE_F16)
		return f16[redop];
	if (type == COLLECTIVE_BF16)
		return bf16[redop];
	if (saturates && is_sum && type == COLLECTIVE_I8)
		return mpi_op_i8_sum;
	if (saturates && is_sum && type == COLLECTIVE_U8)
		return mpi_op_u8_sum;

	return NULL;
}
