/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/mpi/mpi_shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "bench/collectives/mpi/mpi_ops.h"

/*
 * MPICH and what keeps to its binary interface (Intel MPI, MVAPICH, Cray MPICH): a handle is a
 * number, with the size of a type in its second byte from below. Values: mpi.h of MPICH 4.0.2;
 * https://www.mpich.org/abi/ promises them since 3.1.
 */
#define MPI_HANDLE	   int
#define SHIM_FAMILY	   "MPICH"
#define SHIM_SATURATES	   false
#define SHIM_IN_PLACE	   ((void *)(intptr_t)-1)
#define SHIM_STATUS_IGNORE ((void *)(uintptr_t)1)
/* MPICH 4.0 to 4.1.1 and 4.2.0 read MPI_IN_PLACE as an address in MPI_Reduce on ranks other than 0:
 * https://github.com/pmodels/mpich/issues/6540, seen by tests/e2e/test_collectives_mpi.py. */
#define SHIM_REDUCES_IN_PLACE_ON_ALL false

#include "bench/collectives/mpi/mpi_shim.def"

static int shim_find_handles(void *library, struct shim_handles *out, struct err *err)
{
	(void)library; /* they are in no library */
	(void)err;

	static const struct shim_handles handles = {
	    .world = 0x44000000,
	    .errors_return = 0x54000001,
	    .bytes = 0x4c00010d,
	    .types =
		{
		    [COLLECTIVE_I8] = 0x4c000137,
		    [COLLECTIVE_U8] = 0x4c00013b,
		    [COLLECTIVE_I32] = 0x4c000439,
		    [COLLECTIVE_U32] = 0x4c00043d,
		    [COLLECTIVE_I64] = 0x4c00083a,
		    [COLLECTIVE_U64] = 0x4c00083e,
		    [COLLECTIVE_F16] = 0x4c00023c, /* uint16, without arithmetic: see mpi_ops.h */
		    [COLLECTIVE_BF16] = 0x4c00023c,
		    [COLLECTIVE_F32] = 0x4c00040a,
		    [COLLECTIVE_F64] = 0x4c00080b,
		},
	    .ops =
		{
		    [COLLECTIVE_SUM] = 0x58000003,
		    [COLLECTIVE_PROD] = 0x58000004,
		    [COLLECTIVE_MIN] = 0x58000002,
		    [COLLECTIVE_MAX] = 0x58000001,
		    [COLLECTIVE_AVG] = 0x58000003,
		},
	};
	*out = handles;
	return 0;
}

int mpi_shim_new_mpich(void *library, struct mpi_shim **out, struct err *err)
{
	return shim_new(library, out, err);
}
