/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "job/jobenv.h"
#include "libexec/supervise/mpienv.h"
#include "unit/unit.h"

static struct wants wants = {
    .launcher = WANTS_LAUNCHER_OPENMPI, .workers = 2, .worker_gpus = 1, .worker_slots = 3};
static const struct mpienv mpi = {.wants = &wants,
				  .job = "sum",
				  .rsh = "/l/rsh",
				  .socket = "s/1",
				  .directory = "/d",
				  .memory = "/m"};

/* Of one variable; NULL, and nothing is set twice. */
static const char *find(char *const *environment, const char *name)
{
	size_t length = strlen(name);
	const char *found = NULL;
	for (; *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
			assert_null(found);
			found = *environment + length + 1;
		}
	return found;
}

static char **empty(void)
{
	char **environment = calloc(1, sizeof(*environment));
	assert_non_null(environment);
	return environment;
}

static void check_file(const struct mpienv *of, enum mpienv_file file, const char *wanted)
{
	struct buf text _cleanup_buf_;
	buf_init(&text, MPIENV_FILE_MAX);
	assert_int_equal(mpienv_file_text(of, file, &text), 0);
	assert_string_equal(buf_text(&text), wanted);
}

static void files_of_hosts(void **state)
{
	check_file(&mpi, MPIENV_OPENMPI, "sum-worker-0 slots=3\nsum-worker-1 slots=3\n");
	check_file(&mpi, MPIENV_HYDRA, "sum-worker-0:3\nsum-worker-1:3\n");
	check_file(&mpi, MPIENV_DISCOVER, "#!/bin/sh\necho sum-worker-0:3\necho sum-worker-1:3\n");
	struct wants other = wants;
	struct mpienv merged = mpi;
	other.merge = true;
	merged.wants = &other;
	check_file(&merged, MPIENV_OPENMPI, "localhost slots=6\n");
	other.merge = false;
	other.launcher_is_worker = true;
	other.worker_slots = 0;
	check_file(&merged, MPIENV_HYDRA, "sum-launcher:1\nsum-worker-0:1\n");
}

static void names_of_hosts(void **state)
{
	assert_int_equal(mpienv_find(&mpi, "sum-worker-0"), 0);
	assert_int_equal(mpienv_find(&mpi, "sum-worker-1"), 1);
	assert_int_equal(mpienv_find(&mpi, "sum-worker-1.sum.default.svc"), 1);
	assert_int_equal(mpienv_find(&mpi, "sum-worker-2"), -ENOENT);
	assert_int_equal(mpienv_find(&mpi, "sum-worker-"), -ENOENT);
	assert_int_equal(mpienv_find(&mpi, "sum-worker-01"), -ENOENT);
	assert_int_equal(mpienv_find(&mpi, "sum-launcher"), -ENOENT);
	assert_int_equal(mpienv_find(&mpi, ""), -ENOENT);
}

static void what_a_launcher_is_told(void **state)
{
	char **made = empty();
	struct err err;
	assert_int_equal(mpienv_launcher(&mpi, &made, &err), 0);
	assert_string_equal(find(made, "SLUICE_RSH"), "s/1");
	assert_string_equal(find(made, "SLUICE_HOSTFILE"), "/d/hostfile.openmpi");
	assert_string_equal(find(made, "K_MPI_JOB_ROLE"), "launcher");
	assert_string_equal(find(made, "OMPI_MCA_plm_rsh_agent"), "/l/rsh");
	assert_string_equal(find(made, "OMPI_MCA_orte_default_hostfile"), "/d/hostfile.openmpi");
	assert_string_equal(find(made, "OMPI_MCA_oob_tcp_if_include"), "lo");
	assert_string_equal(find(made, "OMPI_MCA_btl_tcp_if_include"), "lo");
	assert_string_equal(find(made, "PRTE_MCA_plm_ssh_agent"), "/l/rsh");
	assert_string_equal(find(made, "HYDRA_LAUNCHER"), "rsh");
	assert_string_equal(find(made, "HYDRA_LAUNCHER_EXEC"), "/l/rsh");
	assert_string_equal(find(made, "HYDRA_ENV"), "none");
	assert_string_equal(find(made, "HYDRA_HOST_FILE"), "/d/hostfile.hydra");
	assert_string_equal(find(made, "I_MPI_HYDRA_BOOTSTRAP_EXEC"), "/l/rsh");
	assert_null(find(made, "OMPI_MCA_orte_fork_agent"));
	made = jobenv_free(made);

	struct wants other = wants;
	struct mpienv of = mpi;
	of.wants = &other;
	other.launcher = WANTS_LAUNCHER_MPICH;
	made = empty();
	assert_int_equal(mpienv_launcher(&of, &made, &err), 0);
	assert_string_equal(find(made, "SLUICE_HOSTFILE"), "/d/hostfile.hydra");
	made = jobenv_free(made);
	other.launcher = WANTS_LAUNCHER_INTEL;
	made = empty();
	assert_int_equal(mpienv_set(&made, "CUDA_VISIBLE_DEVICES=", &err), 0);
	assert_int_equal(mpienv_set(&made, "A=1", &err), 0);
	assert_int_equal(mpienv_launcher(&of, &made, &err), 0);
	assert_null(find(made, "CUDA_VISIBLE_DEVICES"));
	assert_string_equal(find(made, "A"), "1");
	made = jobenv_free(made);
	other.launcher = WANTS_LAUNCHER_OPENMPI;
	other.merge = true;
	made = empty();
	assert_int_equal(mpienv_launcher(&of, &made, &err), 0);
	assert_string_equal(find(made, "OMPI_MCA_orte_fork_agent"), "/l/rsh --enter");
	made = jobenv_free(made);
}

static void what_a_worker_is_told(void **state)
{
	char **made = empty();
	struct err err;
	/* In place of what the submitter had. */
	assert_int_equal(mpienv_set(&made, "K_MPI_JOB_ROLE=launcher", &err), 0);
	assert_int_equal(mpienv_set(&made, "RANK=9", &err), 0);
	assert_int_equal(mpienv_worker(&mpi, 1, &made, &err), 0);
	assert_string_equal(find(made, "K_MPI_JOB_ROLE"), "worker");
	assert_string_equal(find(made, "SLUICE_WORKER"), "1");
	assert_string_equal(find(made, "SLUICE_WORKER_NAME"), "sum-worker-1");
	assert_string_equal(find(made, "OMPI_MCA_orte_tmpdir_base"), "/d/w1");
	assert_string_equal(find(made, "OMPI_MCA_btl_vader_backing_directory"), "/m/w1");
	assert_null(find(made, "SLUICE_RSH"));
	assert_string_equal(find(made, "RANK"), "9");
	assert_int_equal(mpienv_rank(&mpi, 1, 4711, &made, &err), 0);
	assert_string_equal(find(made, "RANK"), "1");
	assert_string_equal(find(made, "WORLD_SIZE"), "2");
	assert_string_equal(find(made, "LOCAL_RANK"), "0");
	assert_string_equal(find(made, "MASTER_ADDR"), "127.0.0.1");
	assert_string_equal(find(made, "MASTER_PORT"), "4711");
	made = jobenv_free(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(files_of_hosts),
	    cmocka_unit_test(names_of_hosts),
	    cmocka_unit_test(what_a_launcher_is_told),
	    cmocka_unit_test(what_a_worker_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
