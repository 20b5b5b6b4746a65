/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices a list names; the rest is seen through the library (driver_test.c). */
#include "sim/cuda/device.h"

#include "unit/unit.h"

static const char *const uuids[] = {"GPU-51ce51ce-0000", "GPU-51ce51ce-0001", "GPU-51ce51ce-0010",
				    "MIG-51ce51ce-0000"};
static uint32_t chosen[SIM_GPU_MAX];

static uint32_t choose(const char *list)
{
	return devices_choose(list, uuids, 4, chosen);
}

static void test_numbers_and_uuids_choose_in_their_order(void **state)
{
	(void)state;
	assert_int_equal(choose("2, 0"), 2);
	assert_int_equal(chosen[0], 2);
	assert_int_equal(chosen[1], 0);
	assert_int_equal(choose("GPU-51ce51ce-0001,MIG-51ce"), 2);
	assert_int_equal(chosen[0], 1);
	assert_int_equal(chosen[1], 3);
}

static void test_a_list_ends_at_what_names_none_or_several(void **state)
{
	(void)state;
	assert_int_equal(choose("1,7,0"), 1);
	assert_int_equal(choose("-1"), 0);
	assert_int_equal(choose(""), 0);
	assert_int_equal(choose("0,GPU-51ce51ce-000"), 1);
	assert_int_equal(choose("0,3"), 1); /* a MIG device has no number */
	assert_int_equal(choose("NoDevFiles"), 0);
	assert_int_equal(choose("99999999999999999999"), 0);
}

static void test_a_device_named_twice_leaves_none(void **state)
{
	(void)state;
	assert_int_equal(choose("0,1,0"), 0);
	assert_int_equal(choose("0,GPU-51ce51ce-0000"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_numbers_and_uuids_choose_in_their_order),
	    cmocka_unit_test(test_a_list_ends_at_what_names_none_or_several),
	    cmocka_unit_test(test_a_device_named_twice_leaves_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
