/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two binary interfaces of MPI behind one: the same calls, whose handles are addresses of
 * objects in Open MPI and numbers in MPICH and what descends from it. Knows nothing of which
 * library is opened and why; only mpi.c calls it. One library for each process: MPI cannot be
 * started a second time.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_MPI_MPI_SHIM_H
#define SLUICE_BENCH_COLLECTIVES_MPI_MPI_SHIM_H

#include <stdbool.h>

#include "bench/collectives/collective.h"

struct err;
struct mpi_shim;

enum mpi_shim_limits {
	MPI_SHIM_TEXT_MAX = 8192,     /* MPICH's MPI_MAX_LIBRARY_VERSION_STRING */
	MPI_SHIM_THREAD_FUNNELED = 1, /* the same number in both families */
};

struct mpi_shim_call {
	const void *send; /* or ops->in_place */
	void *receive;	  /* or ops->in_place, scatter's root */
	int count;	  /* elements, as the MPI call of that name counts them */
	enum collective_type type;
	enum collective_redop redop; /* AVG is SUM: the caller divides */
	int root;
};

/* Of alltoallv, in elements, one for each rank. */
struct mpi_shim_parts {
	const int *send_counts, *send_starts, *counts, *starts;
};

/* All return MPI's code: 0, or what explain() puts into words. */
struct mpi_shim_ops {
	const char *family;	      /* "Open MPI", "MPICH" */
	void *in_place;		      /* MPI_IN_PLACE */
	bool reduces_in_place_on_all; /* false: on rank 0 alone */
	/* MPI_Init_thread, unless somebody did it; errors of the communicator are returned from
	 * then on. What goes wrong before that, MPI says itself and ends the process. */
	int (*start)(struct mpi_shim *shim, int *out_rank, int *out_ranks);
	int (*finish)(struct mpi_shim *shim);
	void (*abort)(struct mpi_shim *shim, int code);
	void (*explain)(struct mpi_shim *shim, int code, char out[MPI_SHIM_TEXT_MAX]);
	int (*barrier)(struct mpi_shim *shim);
	int (*share)(struct mpi_shim *shim, const void *mine, void *all, int bytes);
	int (*all_reduce)(struct mpi_shim *shim, const struct mpi_shim_call *call);
	int (*reduce)(struct mpi_shim *shim, const struct mpi_shim_call *call);
	int (*reduce_scatter)(struct mpi_shim *shim, const struct mpi_shim_call *call);
	int (*all_gather)(struct mpi_shim *shim, const struct mpi_shim_call *call);
	int (*alltoall)(struct mpi_shim *shim, const struct mpi_shim_call *call);
	int (*alltoallv)(struct mpi_shim *shim, const struct mpi_shim_call *call,
			 const struct mpi_shim_parts *parts);
	int (*gather)(struct mpi_shim *shim, const struct mpi_shim_call *call);
	int (*scatter)(struct mpi_shim *shim, const struct mpi_shim_call *call);
	int (*broadcast)(struct mpi_shim *shim, const struct mpi_shim_call *call); /* receive */
	/* Sends to one rank what another, or the same, sends to us. */
	int (*exchange)(struct mpi_shim *shim, const struct mpi_shim_call *call, int to, int from);
};

struct mpi_shim {
	const struct mpi_shim_ops *ops;
};

/* `library` is what dlopen gave, and stays open. The caller frees `out` with free(). -ENOENT: a
 * call or a handle is missing, which the message names; -ENOMEM. */
int mpi_shim_new_open(void *library, struct mpi_shim **out, struct err *err);
int mpi_shim_new_mpich(void *library, struct mpi_shim **out, struct err *err);

#endif
