/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who started this process as a rank of how many, as far as the environment says: the variables
 * that mpirun's of both families, Slurm and others set. Pure; knows no library.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_MPI_MPI_LAUNCH_H
#define SLUICE_BENCH_COLLECTIVES_MPI_MPI_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

enum mpi_launcher {
	MPI_LAUNCHER_NONE,
	MPI_LAUNCHER_OPEN_MPI, /* mpirun of Open MPI */
	MPI_LAUNCHER_PMI,      /* Hydra (MPICH, Intel MPI, MVAPICH), and Slurm with PMI */
	MPI_LAUNCHER_PMIX,     /* srun --mpi=pmix, prun: either family */
	MPI_LAUNCHER_OTHER,    /* announces ranks, but not how they find each other */
};

struct mpi_launch {
	enum mpi_launcher launcher;
	bool is_by_slurm;
	uint32_t ranks;	      /* 0: not announced */
	const char *variable; /* which one said how many; a literal; NULL */
};

/*
 * `environment` is like environ. The most telling of these wins: OMPI_COMM_WORLD_SIZE (Open MPI),
 * PMI_SIZE, MV2_COMM_WORLD_SIZE (MVAPICH), PMIX_RANK with SLURM_STEP_NUM_TASKS,
 * SLURM_STEP_NUM_TASKS or SLURM_NTASKS with SLURM_PROCID, WORLD_SIZE (torchrun, Kubeflow). One that
 * is not a number from 1 to COLLECTIVE_RANKS_MAX announces 0 ranks.
 */
struct mpi_launch mpi_launch_read(char *const *environment);

#endif
