/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/cpus.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/unit.h"

static void cores_come_before_their_second_threads(void **state)
{
	/* Two cores of two threads, numbered side by side; and one after the other. */
	struct cpu beside[] = {{0, 0}, {1, 0}, {2, 2}, {3, 2}};
	struct cpu after[] = {{0, 0}, {1, 1}, {2, 0}, {3, 1}};
	const uint32_t wanted[] = {0, 2, 1, 3};
	cpus_order(beside, 4);
	cpus_order(after, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(beside[i].number, wanted[i]);
		assert_int_equal(after[i].number, i);
	}
	/* The first thread of a core may be one that this process must not use. */
	struct cpu some[] = {{3, 1}, {5, 2}, {6, 2}};
	cpus_order(some, 3);
	assert_int_equal(some[1].number, 5);
	cpus_order(some, 0);
}

static void one_is_chosen_and_bound_to(void **state)
{
	int32_t cpu = -1, too_many[CPUS_MAX];
	assert_int_equal(cpus_choose(1, &cpu), 0);
	assert_true(cpu >= 0);
	assert_int_equal(cpus_choose(CPUS_MAX, too_many), -ENOSPC);
	pid_t child = fork(); /* binding stays there */
	assert_true(child >= 0);
	if (child == 0)
		_exit(cpus_pin(cpu) == 0 && cpus_pinned() == cpu ? 0 : 1);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(cores_come_before_their_second_threads),
	    cmocka_unit_test(one_is_chosen_and_bound_to),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
