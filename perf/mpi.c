/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers add to the start of an MPI job: eight ranks that do nothing, below one mpirun as it
 * is, and with each in a worker of its own. In turns, for a busy machine slows both.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/gate.h"
#include "perf/queue_rig.h"

extern char **environ;

enum {
	MPI_PAIRS = 9,
};

static struct rig mpi_rig;

static uint64_t mpi_run(const char *const argv[])
{
	posix_spawn_file_actions_t files;
	pid_t pid;
	int status;
	uint64_t began = gate_now_ns();

	rig_must(posix_spawn_file_actions_init(&files) == 0 &&
		     posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY,
						      0) == 0 &&
		     posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv,
				  environ) == 0,
		 "cannot start '%s'", argv[0]);
	(void)posix_spawn_file_actions_destroy(&files);
	rig_must(waitpid(pid, &status, 0) == pid && status == 0, "'%s %s' failed", argv[0],
		 argv[1]);

	return gate_now_ns() - began;
}

static bool mpi_is_there(const char *program)
{
	char command[128];
	(void)snprintf(command, sizeof(command), "command -v %s >/dev/null", program); /* fits */
	return system(command) == 0;
}

static void mpi_family(struct gate_report *report, const char *family, const char *plain_option)
{
	uint64_t more[MPI_PAIRS], with[MPI_PAIRS], without[MPI_PAIRS];
	char mpirun[32], name[64];

	(void)snprintf(mpirun, sizeof(mpirun), "mpirun.%s", family);
	(void)snprintf(name, sizeof(name), "mpi_start_8_workers_%s_more", family);

	if (!mpi_is_there(mpirun)) {
		gate_note(report, "%s is not installed: tools/setup mpi", mpirun);
		return;
	}

	const char *const plain[] = {mpirun, "-np", "8", plain_option, "/bin/true", NULL};
	const char *const workers[] = {BENCH_SLUICE, "run", "--workers", "8",	      "-g",
				       "1",	     "--",  mpirun,	 "/bin/true", NULL};

	for (int i = 0; i < MPI_PAIRS; i++) {
		without[i] = mpi_run(plain);
		with[i] = mpi_run(workers);
		more[i] = with[i] > without[i] ? with[i] - without[i] : 0;
	}

	gate_note(report, "%s, 8 ranks: median %.0f ms, in 8 workers %.0f ms", mpirun,
		  gate_quantile(without, MPI_PAIRS, 0.5) / 1e6,
		  gate_quantile(with, MPI_PAIRS, 0.5) / 1e6);
	gate_time(report, name, gate_quantile(more, MPI_PAIRS, 0.5), "ms", 1000, more, MPI_PAIRS);
}

int main(int argc, char **argv)
{
	struct gate_report *report =
	    gate_open(argc, argv, "mpi",
		      "Measures how much later an MPI job with 8 workers has run.", true, NULL);

	rig_open(&mpi_rig);
	(void)rig_start_agent(&mpi_rig);
	rig_must(setenv("SLUICE_SOCKET", mpi_rig.socket, 1) == 0 &&
		     setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1) == 0 &&
		     setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1) == 0,
		 "no memory");
	mpi_family(report, "openmpi", "--oversubscribe");

	/* An option that changes nothing: both command lines are as long. */
	mpi_family(report, "mpich", "-print-all-exitcodes");
	rig_terminate_agent(&mpi_rig);
	return gate_close(report);
}
