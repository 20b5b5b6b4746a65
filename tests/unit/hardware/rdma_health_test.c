/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/rdma_health.h"

#include "unit/unit.h"

enum { SECOND = 1000000000 };

static void test_two_bad_readings(void **state)
{
	struct rdma_health health = {.state = RDMA_HEALTH_NEW};
	const uint64_t second = SECOND;
	assert_false(rdma_health_is_ok(&health));
	assert_true(rdma_health_read(&health, true, 1 * second));
	assert_true(rdma_health_is_ok(&health));
	assert_false(rdma_health_read(&health, false, 6 * second));
	assert_int_equal(health.state, RDMA_HEALTH_SUSPECT);
	assert_true(rdma_health_is_ok(&health));
	assert_true(rdma_health_read(&health, false, 11 * second));
	assert_false(rdma_health_is_ok(&health));
	assert_false(rdma_health_read(&health, false, 16 * second));
	/* one good reading heals */
	assert_true(rdma_health_read(&health, true, 17 * second));
	assert_true(rdma_health_is_ok(&health));
}

static void test_flap_is_not_told(void **state)
{
	struct rdma_health health = {.state = RDMA_HEALTH_NEW};
	const uint64_t second = SECOND;
	assert_true(rdma_health_read(&health, true, 0));
	for (uint64_t i = 1; i < 100; i++)
		assert_false(rdma_health_read(&health, i % 2 == 0, i * 5 * second));
	assert_true(rdma_health_is_ok(&health));
}

static void test_readings_that_come_early(void **state)
{
	struct rdma_health health = {.state = RDMA_HEALTH_NEW};
	const uint64_t second = SECOND;
	assert_true(rdma_health_read(&health, true, 0));
	for (uint64_t i = 0; i < 50; i++)
		assert_false(rdma_health_read(&health, false, 10 * second + i * second / 10));
	assert_true(rdma_health_read(&health, false, 15 * second));
}

static void test_bad_from_the_start(void **state)
{
	struct rdma_health health = {.state = RDMA_HEALTH_NEW};
	assert_false(rdma_health_read(&health, false, 0));
	assert_int_equal(health.state, RDMA_HEALTH_UNHEALTHY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_two_bad_readings),
	    cmocka_unit_test(test_flap_is_not_told),
	    cmocka_unit_test(test_readings_that_come_early),
	    cmocka_unit_test(test_bad_from_the_start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
