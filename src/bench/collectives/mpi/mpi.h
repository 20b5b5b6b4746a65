/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives by the MPI library of this machine, which is loaded when it is asked for. The two
 * families have different binary interfaces (Open MPI: pointers to objects, libmpi.so.40; MPICH and
 * what descends from it: integers, libmpi.so.12 or libmpich.so.12); which one is used follows from
 * who started us, and from what is there.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_MPI_MPI_H
#define SLUICE_BENCH_COLLECTIVES_MPI_MPI_H

#include <stdbool.h>
#include <stdint.h>

struct backend;
struct err;

/* Whether the environment says that an mpirun started us, and with how many ranks; 0: it does not
 * say how many. Pure. */
bool mpi_is_launched(char *const *environment, uint32_t *out_ranks);
/* Loads the library, initialises it; the rank is this process's. `library` NULL: the one that fits.
 * -ENOENT: none can be loaded, and the message has what dlopen said, or it is of neither family;
 * -ENOTCONN: whoever started us announced another number of ranks than have found each other, so
 * that each would measure itself (exit 3, like -ENOENT); -ERANGE: more than COLLECTIVE_RANKS_MAX
 * ranks. A rank that was started alone is rank 0 of 1. Where MPI_Init fails MPI says so itself and
 * ends the process. */
int mpi_backend_new(const char *library, struct backend **out, struct err *err);

#endif
