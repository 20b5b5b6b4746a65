/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MPI's launchers are told so that their own mpirun starts its daemons in the workers of a job
 * on one machine: names of hosts that resolve nowhere, our remote shell, and the loopback alone.
 * Each family reads its own variables, so all are set, whichever the job says it uses. Pure.
 *
 * Open MPI 4.1.4 and MPICH 4.0.2 were tried; the names of Open MPI 5 (PRRTE) and Intel MPI are
 * those of their documentation.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_MPIENV_H
#define SLUICE_LIBEXEC_SUPERVISE_MPIENV_H

#include <stdint.h>

#include "job/spec.h"

struct buf;
struct err;

enum mpienv_limits {
	MPIENV_HOST_MAX = SPEC_NAME_MAX + 24, /* "<job>-worker-255" */
	MPIENV_FILE_MAX = 64 << 10,
	MPIENV_VARIABLE_MAX = 8192,
};

/* Of one job; all borrowed. */
struct mpienv {
	const struct wants *wants;
	const char *job;       /* its name */
	const char *rsh;       /* path of sluice-rsh */
	const char *socket;    /* SLUICE_RSH */
	const char *directory; /* absolute; with the files of enum mpienv_file and "w<i>" */
	const char *memory;    /* the same, in a memory file system, with "w<i>"; "": none */
};

enum mpienv_file {
	MPIENV_OPENMPI,	 /* "hostfile.openmpi" */
	MPIENV_HYDRA,	 /* "hostfile.hydra": MPICH, Intel */
	MPIENV_DISCOVER, /* "discover_hosts.sh": as mpi-operator has it */
};
#define MPIENV_FILE_COUNT 3

/* How worker `index` is called: "<job>-worker-<i>"; where the launcher is the first of them that is
 * "<job>-launcher". */
void mpienv_host(const struct mpienv *mpi, uint32_t index, char out[MPIENV_HOST_MAX]);
/* Which worker is meant by such a name, with or without a domain behind it. -ENOENT. */
int mpienv_find(const struct mpienv *mpi, const char *host);

const char *mpienv_file_name(enum mpienv_file file);
/* Its text. -ENOMEM, -ENOSPC. */
int mpienv_file_text(const struct mpienv *mpi, enum mpienv_file file, struct buf *out);

/*
 * Each adds to `*environment`, which ends in NULL and whose strings are owned (jobenv_make()), in
 * place of what has the same name. -ENOMEM.
 */
int mpienv_launcher(const struct mpienv *mpi, char ***environment, struct err *err);
int mpienv_worker(const struct mpienv *mpi, uint32_t index, char ***environment, struct err *err);
/* Of WANTS_LAUNCHER_RANKS: what torch.distributed's env:// reads, and a worker's. LOCAL_RANK is 0
 * for each, as each sees its own GPUs alone. */
int mpienv_rank(const struct mpienv *mpi, uint32_t index, uint16_t port, char ***environment,
		struct err *err);
/* "NAME=VALUE", as above. */
int mpienv_set(char ***environment, const char *text, struct err *err);

#endif
