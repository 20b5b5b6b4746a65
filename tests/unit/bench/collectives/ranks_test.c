/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

#define TEXTS(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})

static struct request request;
static struct ranks ranks;
static struct err err;

static int choose(char *const *environment, uint32_t processors, uint32_t gpus)
{
	const struct ranks_place place = {environment, processors, gpus};
	err = (struct err){0};
	return ranks_choose(&request, &place, &ranks, &err);
}

static void begin(enum request_backend backend, uint32_t asked)
{
	request = (struct request){.options = {.threads = 1, .gpus = 1, .backend = backend},
				   .ranks = asked};
}

static void what_is_there_decides(void **state)
{
	begin(REQUEST_BACKEND_AUTO, 0);
	assert_int_equal(choose(TEXTS("HOME=/"), 4, 0), 0);
	assert_int_equal(ranks.backend, REQUEST_BACKEND_SHM);
	assert_true(ranks.forks);
	assert_int_equal(ranks.ranks, 4);
	assert_int_equal(choose(TEXTS("HOME=/"), 1, 0), 0);
	assert_int_equal(ranks.ranks, 2); /* one alone has nobody to send to */
	assert_int_equal(choose(TEXTS("HOME=/"), 128, 0), 0);
	assert_int_equal(ranks.ranks, COLLECTIVE_SHM_RANKS_MAX);
	assert_int_equal(choose(TEXTS("HOME=/"), 4, 8), 0);
	assert_int_equal(ranks.backend, REQUEST_BACKEND_NCCL);
	assert_int_equal(ranks.ranks, 8);
	assert_int_equal(choose(TEXTS("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1"), 8, 0),
			 0);
	assert_int_equal(ranks.backend, REQUEST_BACKEND_MPI);
	assert_false(ranks.forks || ranks.leaves_gpus);
	assert_int_equal(ranks.local, 4);
	char *const *started[] = {
	    TEXTS("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1",
		  "OMPI_COMM_WORLD_LOCAL_SIZE=2"),
	    TEXTS("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1", "SLUICE_NCCL_ID_FILE=/x",
		  "OMPI_COMM_WORLD_LOCAL_RANK=1"),
	};
	assert_int_equal(choose(started[0], 8, 8), 0);
	assert_int_equal(ranks.backend, REQUEST_BACKEND_MPI);
	assert_true(ranks.leaves_gpus);
	assert_int_equal(ranks.local, 2);
	assert_int_equal(choose(started[1], 8, 8), 0);
	assert_int_equal(ranks.backend, REQUEST_BACKEND_NCCL);
	assert_true(ranks.is_planned);
	begin(REQUEST_BACKEND_SHM, 1);
	assert_int_equal(choose(TEXTS("HOME=/"), 4, 8), 0);
	assert_int_equal(ranks.ranks, 1);
}

static void what_cannot_be_is_refused(void **state)
{
	char *const *started = TEXTS("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1");
	begin(REQUEST_BACKEND_SHM, 65);
	assert_int_equal(choose(TEXTS("HOME=/"), 4, 0), -EINVAL);
	assert_non_null(strstr(err.text, "--backend shm takes 1 to 64"));
	begin(REQUEST_BACKEND_NCCL, 9);
	assert_int_equal(choose(TEXTS("HOME=/"), 4, 8), -EINVAL);
	assert_non_null(strstr(err.text, "there are 8 GPUs"));
	begin(REQUEST_BACKEND_MPI, 4);
	assert_int_equal(choose(TEXTS("HOME=/"), 4, 0), -EINVAL);
	assert_non_null(strstr(err.text, "mpirun -n 4"));
	begin(REQUEST_BACKEND_SHM, 0);
	assert_int_equal(choose(started, 4, 0), -EINVAL);
	assert_non_null(strstr(err.text, "4 processes were started"));
	/* by who starts processes, but no ranks of MPI */
	begin(REQUEST_BACKEND_AUTO, 0);
	assert_int_equal(choose(TEXTS("WORLD_SIZE=8", "RANK=1"), 4, 0), -EINVAL);
	assert_non_null(strstr(err.text, "WORLD_SIZE says that 8 processes were started, and each "
					 "would measure 4 ranks of its own"));
	assert_int_equal(choose(TEXTS("SLURM_NTASKS=2", "SLURM_PROCID=1"), 4, 0), -EINVAL);
	assert_int_equal(choose(TEXTS("WORLD_SIZE=4"), 4, 0), 0);
	assert_int_equal(choose(TEXTS("WORLD_SIZE=1"), 4, 0), 0);
	begin(REQUEST_BACKEND_AUTO, 3);
	assert_int_equal(choose(started, 4, 0), -EINVAL);
	assert_non_null(strstr(err.text, "--ranks 3, but 4 were started"));
	begin(REQUEST_BACKEND_AUTO, 8);
	request.options.gpus = 8;
	assert_int_equal(choose(started, 4, 0), -EINVAL);
	assert_non_null(strstr(err.text, "start 32 processes"));
	begin(REQUEST_BACKEND_SHM, 2);
	request.root = 2;
	assert_int_equal(choose(TEXTS("HOME=/"), 4, 0), -EINVAL);
	assert_non_null(strstr(err.text, "-r 2: there are 2 ranks"));
	begin(REQUEST_BACKEND_SHM, 4);
	request.split = (struct request_split){REQUEST_SPLIT_MOD, 2};
	assert_int_equal(choose(TEXTS("HOME=/"), 4, 0), -EINVAL);
	assert_non_null(strstr(err.text, "2 groups"));
	request.split.value = 1; /* all in one */
	assert_int_equal(choose(TEXTS("HOME=/"), 4, 0), 0);
}

static void ranks_of_nccl_may_be_on_several_machines(void **state)
{
	char *const *torch = TEXTS("RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=1", "MASTER_ADDR=head",
				   "MASTER_PORT=29500");
	begin(REQUEST_BACKEND_NCCL, 0);
	assert_int_equal(choose(torch, 4, 2), 0);
	assert_int_equal(ranks.backend, REQUEST_BACKEND_NCCL);
	assert_false(ranks.forks);
	assert_true(ranks.is_planned);
	assert_int_equal(ranks.plan.rank, 3);
	assert_int_equal(ranks.plan.local_rank, 1);
	begin(REQUEST_BACKEND_NCCL, 4);
	assert_int_equal(choose(torch, 4, 2), -EINVAL);
	assert_non_null(strstr(err.text, "--ranks 4, but 8 were started"));
	begin(REQUEST_BACKEND_NCCL, 0);
	assert_int_equal(choose(TEXTS("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1"), 4, 4),
			 -EINVAL);
	assert_non_null(strstr(err.text, "MASTER_ADDR"));
	/* one alone is nobody's */
	assert_int_equal(choose(TEXTS("RANK=0", "WORLD_SIZE=1"), 4, 4), 0);
	assert_true(ranks.forks);
}

static void there_is_a_processor(void **state)
{
	assert_true(ranks_processors() >= 1);
	assert_string_equal(ranks_backend_to_string(REQUEST_BACKEND_NCCL), "nccl");
	assert_string_equal(ranks_backend_to_string(REQUEST_BACKEND_AUTO), "auto");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_there_decides),
	    cmocka_unit_test(what_cannot_be_is_refused),
	    cmocka_unit_test(ranks_of_nccl_may_be_on_several_machines),
	    cmocka_unit_test(there_is_a_processor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
