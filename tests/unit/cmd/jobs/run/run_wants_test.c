/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_wants.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cmd/jobs/run/run_options.h"
#include "job/wants.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static const struct run_options plain = {.busy_outsiders = RUN_OUTSIDERS_NOT_GIVEN};

static void test_nothing(void **state)
{
	const struct wants nothing = {.priority = 0};
	struct wants wants;
	assert_int_equal(run_wants_make(&plain, &wants, NULL), 0);
	assert_true(wants_are_equal(&wants, &nothing));
}

static void test_all(void **state)
{
	struct run_options options = plain;
	options.priority = -7;
	options.cpus = 1.5;
	options.mem_bytes = 4096;
	options.gpu_memory_bytes = 80;
	options.prefer = "1,0";
	options.gpu_type = "*A100*";
	options.busy_outsiders = RUN_OUTSIDERS_SHARE;
	const struct wants wanted = {.priority = -7,
				     .cpu_milli = 1500,
				     .mem_bytes = 4096,
				     .gpu_memory_bytes = 80,
				     .outsiders = WANTS_OUTSIDERS_SHARE,
				     .prefer = (char *)"1,0",
				     .gpu_type = (char *)"*A100*"};
	struct wants wants;
	assert_int_equal(run_wants_make(&options, &wants, NULL), 0);
	assert_true(wants_are_equal(&wants, &wanted));
	wants_done(&wants);
}

static void test_outsiders(void **state)
{
	static const uint32_t wanted[] = {WANTS_OUTSIDERS_WAIT, WANTS_OUTSIDERS_IGNORE,
					  WANTS_OUTSIDERS_SHARE};
	for (uint32_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		struct run_options options = {.busy_outsiders = i};
		struct wants wants;
		assert_int_equal(run_wants_make(&options, &wants, NULL), 0);
		assert_int_equal(wants.outsiders, wanted[i]);
		wants_done(&wants);
	}
}

static void test_workers(void **state)
{
	struct run_options options = plain;
	struct wants wants;
	options.gpus = RUN_GPUS_NOT_GIVEN;
	options.workers = 4;
	assert_int_equal(run_wants_make(&options, &wants, NULL), 0);
	assert_int_equal(wants.workers, 4);
	assert_int_equal(wants.worker_gpus, 1);
	assert_int_equal(wants.worker_slots, 1);
	assert_int_equal(wants.launcher, WANTS_LAUNCHER_OPENMPI);
	wants_done(&wants);
	options.gpu_ids = "0,1,2,3,4,5,6,7";
	options.slots = 3;
	options.mpi = RUN_MPI_INTEL;
	assert_int_equal(run_wants_make(&options, &wants, NULL), 0);
	assert_int_equal(wants.worker_gpus, 2);
	assert_int_equal(wants.worker_slots, 3);
	assert_int_equal(wants.launcher, WANTS_LAUNCHER_INTEL);
	wants_done(&wants);
}

static void test_refused(void **state)
{
	char long_name[WANTS_NAME_MAX + 1];
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	const struct {
		struct run_options options;
		const char *says;
	} cases[] = {
	    {{.cpus = 0.0001}, "--cpus"},
	    {{.prefer = ""}, "--prefer is empty"},
	    {{.gpu_type = ""}, "--gpu-type is empty"},
	    {{.gpu_type = long_name}, "--gpu-type is longer than"},
	    {{.gpu_type = "a\nb"}, "control character"},
	    {{.slots = 2}, "--slots is for jobs with --workers"},
	    {{.mpi_merge = true}, "--mpi-merge is for jobs with --workers"},
	    {{.mpi = RUN_MPI_RANKS}, "--mpi is for jobs with --workers"},
	    {{.workers = 2, .mpi = RUN_MPI_MPICH, .mpi_merge = true}, "is for Open MPI"},
	    {{.workers = 2, .mpi = RUN_MPI_RANKS, .slots = 2},
	     "--slots is for jobs with an mpirun"},
	    {{.workers = 2, .gpu_ids = "0,1,2"}, "cannot share evenly"},
	    {{.workers = 2, .image = "x"}, "--workers and --image"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err = {0};
		struct wants wants;
		assert_int_equal(run_wants_make(&cases[i].options, &wants, &err), -EINVAL);
		if (!strstr(err.text, cases[i].says))
			fail_msg("'%s' instead of '%s'", err.text, cases[i].says);
		wants_done(&wants);
	}
}

static int make(void *context)
{
	struct run_options options = plain;
	options.prefer = "1,0";
	options.gpu_type = "*A100*";
	struct wants wants;
	int rc = run_wants_make(&options, &wants, NULL);
	wants_done(&wants);
	return rc;
}

static void test_out_of_memory(void **state)
{
	assert_true(failmalloc_each(make, NULL) >= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nothing),   cmocka_unit_test(test_all),
	    cmocka_unit_test(test_outsiders), cmocka_unit_test(test_workers),
	    cmocka_unit_test(test_refused),   cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
