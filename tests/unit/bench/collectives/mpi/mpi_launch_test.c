/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/mpi/mpi_launch.h"

#include <string.h>

#include "bench/collectives/mpi/mpi.h"
#include "unit/unit.h"

static struct mpi_launch launched(const char *const *environment)
{
	return mpi_launch_read((char *const *)(uintptr_t)environment);
}

#define LAUNCHED(...) launched((const char *const[]){__VA_ARGS__, NULL})

static void nobody_started_it(void **state)
{
	struct mpi_launch launch = LAUNCHED("PATH=/bin", "OMPI_COMM_WORLD_SIZES=4", "PMI_SIZ=3");
	assert_int_equal(launch.launcher, MPI_LAUNCHER_NONE);
	assert_int_equal(launch.ranks, 0);
	assert_null(launch.variable);
	assert_int_equal(mpi_launch_read(NULL).launcher, MPI_LAUNCHER_NONE);
	/* What an allocation says, not one of its ranks. */
	assert_int_equal(LAUNCHED("SLURM_NTASKS=8").launcher, MPI_LAUNCHER_NONE);
}

/* As mpirun.openmpi 4.1.4, mpirun.mpich 4.0.2 and srun set them. */
static void each_launcher_is_known(void **state)
{
	struct mpi_launch launch =
	    LAUNCHED("PMIX_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0");
	assert_int_equal(launch.launcher, MPI_LAUNCHER_OPEN_MPI);
	assert_int_equal(launch.ranks, 2);
	assert_string_equal(launch.variable, "OMPI_COMM_WORLD_SIZE");
	assert_false(launch.is_by_slurm);

	launch = LAUNCHED("MPI_LOCALNRANKS=3", "PMI_FD=6", "PMI_RANK=1", "PMI_SIZE=3");
	assert_int_equal(launch.launcher, MPI_LAUNCHER_PMI);
	assert_int_equal(launch.ranks, 3);

	launch =
	    LAUNCHED("SLURM_NTASKS=16", "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=0", "PMIX_RANK=0");
	assert_int_equal(launch.launcher, MPI_LAUNCHER_PMIX);
	assert_int_equal(launch.ranks, 4);
	assert_true(launch.is_by_slurm);

	launch = LAUNCHED("SLURM_NTASKS=16", "SLURM_PROCID=0", "PMI_RANK=0");
	assert_int_equal(launch.launcher, MPI_LAUNCHER_PMI);
	assert_int_equal(launch.ranks, 16);

	launch = LAUNCHED("WORLD_SIZE=4", "RANK=1");
	assert_int_equal(launch.launcher, MPI_LAUNCHER_OTHER);
	assert_int_equal(launch.ranks, 4);
	assert_int_equal(LAUNCHED("PMIX_RANK=3").launcher, MPI_LAUNCHER_PMIX);
	assert_int_equal(LAUNCHED("PMI_RANK=3").launcher, MPI_LAUNCHER_PMI);
}

/* An mpirun inside of a step of Slurm, with fewer ranks. */
static void the_nearest_launcher_counts(void **state)
{
	struct mpi_launch launch = LAUNCHED("WORLD_SIZE=32", "SLURM_NTASKS=16", "SLURM_PROCID=0",
					    "PMI_SIZE=2", "PMI_RANK=1");
	assert_int_equal(launch.ranks, 2);
	assert_string_equal(launch.variable, "PMI_SIZE");
}

static void what_is_no_number_of_ranks_announces_none(void **state)
{
	static const char *const texts[] = {
	    "OMPI_COMM_WORLD_SIZE=",	 "OMPI_COMM_WORLD_SIZE=two",
	    "OMPI_COMM_WORLD_SIZE=0",	 "OMPI_COMM_WORLD_SIZE=-2",
	    "OMPI_COMM_WORLD_SIZE=1025", "OMPI_COMM_WORLD_SIZE=99999999999999999999"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct mpi_launch launch = LAUNCHED(texts[i]);
		assert_int_equal(launch.launcher, MPI_LAUNCHER_OPEN_MPI);
		assert_int_equal(launch.ranks, 0);
	}
}

static void only_a_launcher_of_mpi_makes_ranks_of_mpi(void **state)
{
	const char *const torch[] = {"WORLD_SIZE=4", NULL}, *const open[] = {
								"OMPI_COMM_WORLD_SIZE=4", NULL};
	uint32_t ranks = 99;
	assert_false(mpi_is_launched((char *const *)(uintptr_t)torch, &ranks));
	assert_int_equal(ranks, 99);
	assert_true(mpi_is_launched((char *const *)(uintptr_t)open, &ranks));
	assert_int_equal(ranks, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nobody_started_it),
	    cmocka_unit_test(each_launcher_is_known),
	    cmocka_unit_test(the_nearest_launcher_counts),
	    cmocka_unit_test(what_is_no_number_of_ranks_announces_none),
	    cmocka_unit_test(only_a_launcher_of_mpi_makes_ranks_of_mpi),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
