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
 * Open MPI: a handle is the address of an object that libmpi.so.40 exports (4.x and 5.x: the
 * interface was last broken in 2017). Names: ompi/include/mpi.h.in of
 * https://github.com/open-mpi/ompi.
 */
struct ompi_object;
#define MPI_HANDLE		     const struct ompi_object *
#define SHIM_FAMILY		     "Open MPI"
#define SHIM_SATURATES		     true
#define SHIM_IN_PLACE		     ((void *)(uintptr_t)1)
#define SHIM_STATUS_IGNORE	     NULL
#define SHIM_REDUCES_IN_PLACE_ON_ALL true

#include "bench/collectives/mpi/mpi_shim.def"

static int shim_find_handles(void *library, struct shim_handles *out, struct err *err)
{
	const struct {
		const char *name;
		MPI_HANDLE *out;
	} objects[] = {
	    {"ompi_mpi_comm_world", &out->world},
	    {"ompi_mpi_errors_return", &out->errors_return},
	    {"ompi_mpi_byte", &out->bytes},
	    {"ompi_mpi_int8_t", &out->types[COLLECTIVE_I8]},
	    {"ompi_mpi_uint8_t", &out->types[COLLECTIVE_U8]},
	    {"ompi_mpi_int32_t", &out->types[COLLECTIVE_I32]},
	    {"ompi_mpi_uint32_t", &out->types[COLLECTIVE_U32]},
	    {"ompi_mpi_int64_t", &out->types[COLLECTIVE_I64]},
	    {"ompi_mpi_uint64_t", &out->types[COLLECTIVE_U64]},
	    /* Without arithmetic: see mpi_ops.h. */
	    {"ompi_mpi_uint16_t", &out->types[COLLECTIVE_F16]},
	    {"ompi_mpi_uint16_t", &out->types[COLLECTIVE_BF16]},
	    {"ompi_mpi_float", &out->types[COLLECTIVE_F32]},
	    {"ompi_mpi_double", &out->types[COLLECTIVE_F64]},
	    {"ompi_mpi_op_sum", &out->ops[COLLECTIVE_SUM]},
	    {"ompi_mpi_op_prod", &out->ops[COLLECTIVE_PROD]},
	    {"ompi_mpi_op_min", &out->ops[COLLECTIVE_MIN]},
	    {"ompi_mpi_op_max", &out->ops[COLLECTIVE_MAX]},
	};

	for (size_t i = 0; i < array_length(objects); i++) {
		*objects[i].out = dlsym(library, objects[i].name);
		if (!*objects[i].out)
			return err_set(err, -ENOENT, "the library has no %s", objects[i].name);
	}

	out->ops[COLLECTIVE_AVG] = out->ops[COLLECTIVE_SUM];
	return 0;
}

int mpi_shim_new_open(void *library, struct mpi_shim **out, struct err *err)
{
	return shim_new(library, out, err);
}
