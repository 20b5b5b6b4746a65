/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/unit.h"

static void test_a_process_is_prepared(void **state)
{
	(void)state;
	struct rlimit limit;
	int ends[2];
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	(void)umask(0);
	process_prepare();
	assert_int_equal(umask(0), 022);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(limit.rlim_cur == limit.rlim_max);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(close(ends[0]), 0);
	assert_int_equal(write(ends[1], "x", 1), -1); /* and we live */
	assert_int_equal(errno, EPIPE);
	assert_int_equal(close(ends[1]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_process_is_prepared)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
