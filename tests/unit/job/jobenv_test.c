/* SPDX-License-Identifier: Apache-2.0 */
#include "job/jobenv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

static const char *find(char *const *environment, const char *name)
{
	size_t length = strlen(name);
	const char *found = NULL;
	for (; *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
			assert_null(found); /* nothing is set twice */
			found = *environment + length + 1;
		}
	return found;
}

static void foreign_launchers_leave_no_trace(void **state)
{
	static const char *const gone[] = {
	    "OMPI_COMM_WORLD_RANK=1",
	    "PMIX_RANK=1",
	    "PMI_RANK=1",
	    "PRTE_X=1",
	    "HYDRA_X=1",
	    "LISTEN_FDS=1",
	    "NOTIFY_SOCKET=x",
	    "SLUICE_X=1",
	    "SLUICE_LISTEN=1",
	};
	static const char *const kept[] = {
	    "PATH=/bin",
	    "LISTENER=1",
	    "CUDA_VISIBLE_DEVICES_X=1",
	    "=odd",
	    "odd",
	    "SLUICE_ROOT=/r",
	    "SLUICE_SIM_STATE=/s",
	    "SLUICE_PROFILES=/p",
	    "OMP_NUM_THREADS=1",
	    "SLUICE_RUNTIME_DIR=/t",
	    "SLUICE_STATE_DIR=/u",
	    "SLUICE_SOCKET=/v",
	};
	char *environment[32] = {NULL};
	size_t count = 0;
	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
		environment[count++] = (char *)(uintptr_t)gone[i];
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		environment[count++] = (char *)(uintptr_t)kept[i];
	struct jobenv_job job = {.id = "1", .name = "n"};
	char **made = NULL;
	assert_int_equal(jobenv_make(environment, &job, &made, NULL), 0);
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		assert_string_equal(made[i], kept[i]);
	for (char **at = made; *at; at++)
		for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
			assert_string_not_equal(*at, gone[i]);
	jobenv_free(made);
}

static void the_granted_gpus_and_no_others_are_named(void **state)
{
	static char inherited[][64] = {"CUDA_VISIBLE_DEVICES=0,1,2", "NVIDIA_VISIBLE_DEVICES=all",
				       "CUDA_DEVICE_ORDER=FASTEST_FIRST", "SLUICE_GPUS=x"};
	char *environment[] = {inherited[0], inherited[1], inherited[2], inherited[3], NULL};
	static const char *const uuids[] = {"GPU-a", "MIG-b"};
	struct jobenv_job job = {.id = "run-1", .name = "n", .uuids = uuids, .uuid_count = 2};
	char **made = NULL;
	assert_int_equal(jobenv_make(environment, &job, &made, NULL), 0);
	assert_string_equal(find(made, "CUDA_VISIBLE_DEVICES"), "GPU-a,MIG-b");
	assert_string_equal(find(made, "NVIDIA_VISIBLE_DEVICES"), "GPU-a,MIG-b");
	assert_string_equal(find(made, "SLUICE_GPUS"), "GPU-a,MIG-b");
	assert_string_equal(find(made, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
	assert_string_equal(find(made, "SLUICE_JOB_ID"), "run-1");
	assert_string_equal(find(made, "SLUICE_JOB_NAME"), "n");
	assert_string_equal(find(made, "SLUICE_ATTEMPT"), "1");
	jobenv_free(made);
}

static void an_attempt_has_its_number_and_instance(void **state)
{
	static char inherited[] = "SLUICE_JOB_INSTANCE=of another";
	char *environment[] = {inherited, NULL};
	struct jobenv_job job = {.id = "1", .name = "n", .attempt = "4", .instance = "abc"};
	char **made = NULL;
	assert_int_equal(jobenv_make(environment, &job, &made, NULL), 0);
	assert_string_equal(find(made, "SLUICE_ATTEMPT"), "4");
	assert_string_equal(find(made, "SLUICE_JOB_INSTANCE"), "abc");
	jobenv_free(made);
	job.instance = NULL;
	assert_int_equal(jobenv_make(environment, &job, &made, NULL), 0);
	assert_null(find(made, "SLUICE_JOB_INSTANCE"));
	jobenv_free(made);
}

static void a_cpu_job_sees_none(void **state)
{
	char *environment[] = {NULL};
	struct jobenv_job job = {.id = "1", .name = "n"};
	char **made = NULL;
	assert_int_equal(jobenv_make(environment, &job, &made, NULL), 0);
	assert_string_equal(find(made, "CUDA_VISIBLE_DEVICES"), ""); /* set and empty: none */
	assert_string_equal(find(made, "NVIDIA_VISIBLE_DEVICES"), "void");
	jobenv_free(made);
}

static void too_large_an_environment_is_refused(void **state)
{
	char *large = malloc(JOBENV_BYTES_MAX + 1);
	assert_non_null(large);
	memset(large, 'x', JOBENV_BYTES_MAX);
	large[JOBENV_BYTES_MAX] = '\0';
	char *environment[] = {large, NULL};
	struct jobenv_job job = {.id = "1", .name = "n"};
	char **made = NULL;
	assert_int_equal(jobenv_make(environment, &job, &made, NULL), -E2BIG);
	assert_null(made);
	free(large);
}

static void adapters_are_named_too(void **state)
{
	static char own[] = "NCCL_IB_HCA=mlx5_7", stale[] = "SLUICE_RDMA=x";
	char *environment[] = {stale, NULL}, *with[] = {own, NULL};
	struct jobenv_job job = {.id = "1", .name = "n", .adapters = "mlx5_0,mlx5_1"};
	char **made = NULL;
	assert_int_equal(jobenv_make(environment, &job, &made, NULL), 0);
	assert_string_equal(find(made, "SLUICE_RDMA"), "mlx5_0,mlx5_1");
	assert_string_equal(find(made, "NCCL_IB_HCA"), "=mlx5_0,mlx5_1");
	jobenv_free(made);
	assert_int_equal(jobenv_make(with, &job, &made, NULL), 0);
	assert_string_equal(find(made, "NCCL_IB_HCA"), "mlx5_7"); /* the user knows better */
	assert_string_equal(find(made, "SLUICE_RDMA"), "mlx5_0,mlx5_1");
	jobenv_free(made);
	job.adapters = "";
	assert_int_equal(jobenv_make(environment, &job, &made, NULL), 0);
	assert_null(find(made, "SLUICE_RDMA"));
	assert_null(find(made, "NCCL_IB_HCA"));
	jobenv_free(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(foreign_launchers_leave_no_trace),
	    cmocka_unit_test(the_granted_gpus_and_no_others_are_named),
	    cmocka_unit_test(an_attempt_has_its_number_and_instance),
	    cmocka_unit_test(a_cpu_job_sees_none),
	    cmocka_unit_test(too_large_an_environment_is_refused),
	    cmocka_unit_test(adapters_are_named_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
