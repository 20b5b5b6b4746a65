/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/mpi/mpi_launch.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/parse.h"
#include "bench/collectives/collective.h"

static const char *mpi_launch_value(char *const *environment, const char *name)
{
	size_t length = strlen(name);
	for (; environment && *environment; environment++) {
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return *environment + length + 1;
	}
	return NULL;
}

struct mpi_launch mpi_launch_read(char *const *environment)
{
	/* What says how many, which of them count only beside another, and who sets it. */
	static const struct {
		const char *size, *beside;
		enum mpi_launcher launcher;
	} announced[] = {
	    {"OMPI_COMM_WORLD_SIZE", NULL, MPI_LAUNCHER_OPEN_MPI},
	    {"PMI_SIZE", NULL, MPI_LAUNCHER_PMI},
	    {"MV2_COMM_WORLD_SIZE", NULL, MPI_LAUNCHER_PMI},
	    {"SLURM_STEP_NUM_TASKS", "PMIX_RANK", MPI_LAUNCHER_PMIX},
	    {"SLURM_NTASKS", "PMIX_RANK", MPI_LAUNCHER_PMIX},
	    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", MPI_LAUNCHER_OTHER},
	    {"SLURM_NTASKS", "SLURM_PROCID", MPI_LAUNCHER_OTHER},
	    {"WORLD_SIZE", NULL, MPI_LAUNCHER_OTHER},
	};
	struct mpi_launch launch = {.is_by_slurm =
					mpi_launch_value(environment, "SLURM_PROCID") != NULL};

	for (size_t i = 0; i < array_length(announced); i++) {
		const char *value = mpi_launch_value(environment, announced[i].size);
		if (!value ||
		    (announced[i].beside && !mpi_launch_value(environment, announced[i].beside)))
			continue;

		uint64_t ranks;
		if (parse_u64(value, 1, COLLECTIVE_RANKS_MAX, &ranks) < 0)
			ranks = 0;
		launch.launcher = announced[i].launcher;
		launch.variable = announced[i].size;
		launch.ranks = (uint32_t)ranks;

		/* PMI_RANK without PMI_SIZE is all that Slurm gives for PMI 2. */
		if (launch.launcher == MPI_LAUNCHER_OTHER &&
		    mpi_launch_value(environment, "PMI_RANK"))
			launch.launcher = MPI_LAUNCHER_PMI;

		return launch;
	}

	if (mpi_launch_value(environment, "PMIX_RANK"))
		launch.launcher = MPI_LAUNCHER_PMIX;
	else if (mpi_launch_value(environment, "PMI_RANK"))
		launch.launcher = MPI_LAUNCHER_PMI;

	return launch;
}
