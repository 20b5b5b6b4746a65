/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/mpienv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"

/* --- names and files -------------------------------------------------------------------------- */

void mpienv_host(const struct mpienv *mpi, uint32_t index, char out[MPIENV_HOST_MAX])
{
	bool has_launcher = mpi->wants->launcher_is_worker;
	if (has_launcher && index == 0)
		(void)snprintf(out, MPIENV_HOST_MAX, "%s-launcher", mpi->job); /* fits */
	else
		(void)snprintf(out, MPIENV_HOST_MAX, "%s-worker-%" PRIu32, mpi->job,
			       index - (has_launcher ? 1 : 0)); /* fits */
}

int mpienv_find(const struct mpienv *mpi, const char *host)
{
	size_t length = strcspn(host, ".");
	for (uint32_t i = 0; i < mpi->wants->workers; i++) {
		char name[MPIENV_HOST_MAX];
		mpienv_host(mpi, i, name);
		if (strlen(name) == length && strncmp(name, host, length) == 0)
			return (int)i;
	}

	return -ENOENT;
}

static uint32_t mpienv_slots(const struct mpienv *mpi)
{
	return mpi->wants->worker_slots > 0 ? mpi->wants->worker_slots : 1;
}

const char *mpienv_file_name(enum mpienv_file file)
{
	static const char *const names[MPIENV_FILE_COUNT] = {"hostfile.openmpi", "hostfile.hydra",
							     "discover_hosts.sh"};
	return names[file];
}

int mpienv_file_text(const struct mpienv *mpi, enum mpienv_file file, struct buf *out)
{
	uint32_t workers = mpi->wants->workers, slots = mpienv_slots(mpi);
	int rc = file == MPIENV_DISCOVER ? buf_add_text(out, "#!/bin/sh\n") : 0;

	if (mpi->wants->merge && file == MPIENV_OPENMPI)
		return buf_printf(out, "localhost slots=%" PRIu64 "\n", (uint64_t)workers * slots);

	for (uint32_t i = 0; rc == 0 && i < workers; i++) {
		char host[MPIENV_HOST_MAX];
		mpienv_host(mpi, i, host);

		if (file == MPIENV_OPENMPI)
			rc = buf_printf(out, "%s slots=%" PRIu32 "\n", host, slots);
		else if (file == MPIENV_HYDRA)
			rc = buf_printf(out, "%s:%" PRIu32 "\n", host, slots);
		else
			rc = buf_printf(out, "echo %s:%" PRIu32 "\n", host, slots);
	}

	return rc;
}

/* --- variables -------------------------------------------------------------------------------- */

int mpienv_set(char ***environment, const char *text, struct err *err)
{
	size_t count = 0, length = strcspn(text, "=") + 1;
	char *copy = strdup(text);
	for (; copy && (*environment)[count]; count++)
		if (strncmp((*environment)[count], text, length) == 0) {
			free((*environment)[count]);
			(*environment)[count] = copy;
			return 0;
		}

	char **more = copy ? reallocarray(*environment, count + 2, sizeof(*more)) : NULL;
	if (!more) {
		free(copy);
		return err_set(err, -ENOMEM, "no memory for the environment of a worker");
	}

	more[count] = copy;
	more[count + 1] = NULL;
	*environment = more;

	return 0;
}

static int mpienv_printf(char ***environment, struct err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int mpienv_printf(char ***environment, struct err *err, const char *format, ...)
{
	char text[MPIENV_VARIABLE_MAX];
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(text, sizeof(text), format, arguments);

	va_end(arguments);
	if (length < 0 || (size_t)length >= sizeof(text))
		return err_set(err, -ENAMETOOLONG, "a path of the job is too long for MPI: %.64s",
			       text);

	return mpienv_set(environment, text, err);
}

/*
 * Beside the agent and the hosts:
 *   no_tree_spawn: all daemons from mpirun itself, for workers have no SLUICE_RSH;
 *   leave_session_attached: orted would leave its session, and its remote shell would be over,
 * while it goes on: nobody could say of which worker it was when it dies; if_include of both:
 * without a network Open MPI 4.1.4 excludes the loopback and gives up; with only one of them it
 * hung.
 */
static const char *const mpienv_fixed[] = {
    "K_MPI_JOB_ROLE=launcher",
    "OMPI_MCA_plm_rsh_no_tree_spawn=1",
    "OMPI_MCA_orte_leave_session_attached=1",
    "OMPI_MCA_oob_tcp_if_include=lo",
    "OMPI_MCA_btl_tcp_if_include=lo",
    "OMPI_ALLOW_RUN_AS_ROOT=1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    "PRTE_MCA_plm_ssh_no_tree_spawn=1",
    "PRTE_MCA_prte_leave_session_attached=1",
    "PRTE_MCA_prte_if_include=lo",
    "PRTE_ALLOW_RUN_AS_ROOT=1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    "HYDRA_LAUNCHER=rsh",
    "HYDRA_IFACE=lo",
    "HYDRA_ENV=none",
    "I_MPI_HYDRA_BOOTSTRAP=rsh",
    "I_MPI_HYDRA_IFACE=lo",
};

/* Which of the two places each has: our remote shell, a file of hosts. */
static const struct mpienv_row {
	const char *name;
	int file; /* enum mpienv_file; -1: the remote shell */
} mpienv_rows[] = {
    {"OMPI_MCA_plm_rsh_agent", -1},
    {"PRTE_MCA_plm_ssh_agent", -1},
    {"HYDRA_LAUNCHER_EXEC", -1},
    {"I_MPI_HYDRA_BOOTSTRAP_EXEC", -1},
    {"OMPI_MCA_orte_default_hostfile", MPIENV_OPENMPI},
    {"PRTE_MCA_prte_default_hostfile", MPIENV_OPENMPI},
    {"HYDRA_HOST_FILE", MPIENV_HYDRA},
    {"I_MPI_HYDRA_HOST_FILE", MPIENV_HYDRA},
};

static void mpienv_unset(char **environment, const char *name)
{
	size_t length = strlen(name);

	for (; *environment; environment++) {
		if (strncmp(*environment, name, length) != 0 || (*environment)[length] != '=')
			continue;

		free(*environment);

		for (char **at = environment; *at; at++)
			at[0] = at[1];

		return;
	}
}

/* Intel's mpirun gives its own variables to all ranks, and has no setting against it: it is kept
 * from GPUs by rules alone. */
static void mpienv_unset_gpus(char **environment)
{
	static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
					    "SLUICE_GPUS"};
	for (size_t i = 0; i < array_length(names); i++)
		mpienv_unset(environment, names[i]);
}

int mpienv_launcher(const struct mpienv *mpi, char ***environment, struct err *err)
{
	if (mpi->wants->launcher == WANTS_LAUNCHER_INTEL)
		mpienv_unset_gpus(*environment);

	bool is_hydra = mpi->wants->launcher == WANTS_LAUNCHER_MPICH ||
			mpi->wants->launcher == WANTS_LAUNCHER_INTEL;
	int rc = mpienv_printf(environment, err, "SLUICE_RSH=%s", mpi->socket);
	if (rc == 0)
		rc =
		    mpienv_printf(environment, err, "SLUICE_WORKERS=%" PRIu32, mpi->wants->workers);
	if (rc < 0 || mpi->wants->launcher == WANTS_LAUNCHER_RANKS)
		return rc;

	rc = mpienv_printf(environment, err, "SLUICE_HOSTFILE=%s/%s", mpi->directory,
			   mpienv_file_name(is_hydra ? MPIENV_HYDRA : MPIENV_OPENMPI));
	if (rc == 0)
		rc = mpienv_printf(environment, err, "SLUICE_DISCOVER_HOSTS=%s/%s", mpi->directory,
				   mpienv_file_name(MPIENV_DISCOVER));

	for (size_t i = 0; rc == 0 && i < array_length(mpienv_fixed); i++)
		rc = mpienv_set(environment, mpienv_fixed[i], err);

	for (size_t i = 0; rc == 0 && i < array_length(mpienv_rows); i++) {
		const struct mpienv_row *row = &mpienv_rows[i];
		if (row->file < 0)
			rc = mpienv_printf(environment, err, "%s=%s", row->name, mpi->rsh);
		else
			rc = mpienv_printf(environment, err, "%s=%s/%s", row->name, mpi->directory,
					   mpienv_file_name((enum mpienv_file)row->file));
	}

	if (rc == 0 && mpi->wants->merge)
		rc = mpienv_printf(environment, err, "OMPI_MCA_orte_fork_agent=%s --enter",
				   mpi->rsh);

	return rc;
}

int mpienv_worker(const struct mpienv *mpi, uint32_t index, char ***environment, struct err *err)
{
	char host[MPIENV_HOST_MAX];
	mpienv_host(mpi, index, host);

	int rc = mpienv_printf(environment, err, "SLUICE_WORKER=%" PRIu32, index);
	if (rc == 0)
		rc = mpienv_printf(environment, err, "SLUICE_WORKER_NAME=%s", host);
	if (rc == 0)
		rc =
		    mpienv_printf(environment, err, "SLUICE_WORKERS=%" PRIu32, mpi->wants->workers);
	if (rc == 0)
		rc = mpienv_set(environment, "K_MPI_JOB_ROLE=worker", err);

	/* Daemons of one host share a directory in /tmp, and one that writes the map of the machine
	 * there while another one removes it has died of it (Open MPI 4.1.4, hwloc 2.9). */
	if (rc == 0)
		rc = mpienv_printf(environment, err, "OMPI_MCA_orte_tmpdir_base=%s/w%" PRIu32,
				   mpi->directory, index);

	/* Named by the machine and the rank below one daemon: two daemons on one machine would give
	 * each other's ranks the same memory. */
	if (rc == 0 && mpi->memory[0])
		rc = mpienv_printf(environment, err,
				   "OMPI_MCA_btl_vader_backing_directory=%s/w%" PRIu32, mpi->memory,
				   index);

	if (rc == 0 && mpi->memory[0])
		rc = mpienv_printf(environment, err,
				   "OMPI_MCA_btl_sm_backing_directory=%s/w%" PRIu32, mpi->memory,
				   index);

	if (rc == 0)
		rc = mpienv_printf(environment, err, "PRTE_MCA_prte_tmpdir_base=%s/w%" PRIu32,
				   mpi->directory, index);

	return rc;
}

int mpienv_rank(const struct mpienv *mpi, uint32_t index, uint16_t port, char ***environment,
		struct err *err)
{
	int rc = mpienv_worker(mpi, index, environment, err);
	if (rc == 0)
		rc = mpienv_printf(environment, err, "RANK=%" PRIu32, index);
	if (rc == 0)
		rc = mpienv_printf(environment, err, "JOB_COMPLETION_INDEX=%" PRIu32, index);
	if (rc == 0)
		rc = mpienv_printf(environment, err, "WORLD_SIZE=%" PRIu32, mpi->wants->workers);

	if (rc == 0)
		rc = mpienv_set(environment, "LOCAL_RANK=0", err);
	if (rc == 0)
		rc = mpienv_set(environment, "LOCAL_WORLD_SIZE=1", err);
	if (rc == 0)
		rc = mpienv_set(environment, "MASTER_ADDR=127.0.0.1", err);
	if (rc == 0)
		rc = mpienv_printf(environment, err, "MASTER_PORT=%u", (unsigned)port);

	return rc;
}
