/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions that MPI has not, or does otherwise, as functions that MPI_Op_create takes: floating
 * point of 16 bits, for which it has no types, and sums of 8-bit integers, which wrap here and
 * saturate in Open MPI since 4.1 where its component op/avx is used
 * (https://github.com/open-mpi/ompi/issues/8045), as the standard allows. A library's mistakes are
 * not mended here, so that a check finds them: MPICH 4.0.2 has min and max of unsigned integers as
 * of signed ones (https://github.com/pmodels/mpich/issues/6083). Pure.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_MPI_MPI_OPS_H
#define SLUICE_BENCH_COLLECTIVES_MPI_MPI_OPS_H

#include "bench/collectives/collective.h"

/* MPI_User_function: inout[i] = in[i] op inout[i]. `type` points to the handle of the type. */
typedef void (*mpi_op_fn)(void *in, void *inout, int *count, void *type);

/* NULL: MPI's own does it. `saturates`: the library is Open MPI. AVG is SUM, divided later. */
mpi_op_fn mpi_op_of(enum collective_type type, enum collective_redop redop, bool saturates);

#endif
