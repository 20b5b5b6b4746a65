/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank, for test_mpi.py: sums the ranks, says "RANK SIZE SUM WORKER GPUS" and ends with the
 * code of its first argument in its last rank. With "wait DIRECTORY" it leaves its pid there and
 * waits.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : "-";
}

static void wait_for_ever(const char *directory, int rank)
{
	char path[4096], final[4096];
	(void)snprintf(final, sizeof(final), "%s/rank-%d", directory, rank);
	(void)snprintf(path, sizeof(path), "%s/.rank-%d", directory, rank);
	FILE *file = fopen(path, "w");
	if (!file)
		return;
	fprintf(file, "%d\n", (int)getpid());
	fclose(file);
	(void)rename(path, final);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	int rank, size, sum = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("%d %d %d %s %s\n", rank, size, sum, variable("SLUICE_WORKER"),
	       variable("CUDA_VISIBLE_DEVICES"));
	fflush(stdout);
	if (argc > 2 && strcmp(argv[1], "wait") == 0)
		wait_for_ever(argv[2], rank);
	MPI_Finalize();
	return argc == 2 && rank == size - 1 ? (int)(argv[1][0] - '0') : 0;
}
