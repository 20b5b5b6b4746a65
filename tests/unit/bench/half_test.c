/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/half.h"

#include <math.h>
#include <string.h>

#include "unit/unit.h"

static float from_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static void every_half_is_itself(void **state)
{
	for (uint32_t half = 0; half < 0x10000; half++) {
		float value = half_to_float((uint16_t)half);
		if (isnan(value)) {
			assert_true(isnan(half_to_float(half_from_float(value))));
			continue;
		}
		assert_int_equal(half_from_float(value), half);
	}
}

static void halves_are_rounded_to_the_nearest_and_ties_to_even(void **state)
{
	assert_int_equal(half_from_float(1.0f), 0x3c00);
	assert_int_equal(half_from_float(-2.0f), 0xc000);
	assert_int_equal(half_from_float(1.0f + 0x1p-11f), 0x3c00); /* tie: down to even */
	assert_int_equal(half_from_float(1.0f + 0x3p-11f), 0x3c02); /* tie: up to even */
	assert_int_equal(half_from_float(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01); /* more than half */
	assert_int_equal(half_from_float(65504.0f), 0x7bff);
	assert_int_equal(half_from_float(65519.9f), 0x7bff);
	assert_int_equal(half_from_float(65520.0f), 0x7c00); /* infinite */
	assert_int_equal(half_from_float(INFINITY), 0x7c00);
	assert_int_equal(half_from_float(-1e30f), 0xfc00);
	assert_int_equal(half_from_float(0x1p-24f), 1); /* the smallest */
	assert_int_equal(half_from_float(0x1p-25f), 0); /* tie */
	assert_int_equal(half_from_float(0x1.000002p-25f), 1);
	assert_int_equal(half_from_float(0x1p-40f), 0);
	assert_int_equal(half_from_float(0x1.ff8p-15f),
			 0x3ff); /* the largest without a leading one */
	assert_int_equal(half_from_float(0x1.fffp-15f), 0x400); /* carries into the exponent */
	assert_int_equal(half_from_float(-0.0f), 0x8000);
	assert_true(isnan(half_to_float(half_from_float(from_bits(0x7f800001)))));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_half_is_itself),
	    cmocka_unit_test(halves_are_rounded_to_the_nearest_and_ties_to_even),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
