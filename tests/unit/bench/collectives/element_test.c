/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/element.h"
#include "bench/half.h"

#include <math.h>
#include <string.h>

#include "unit/unit.h"

static uint32_t bits_of(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static void sixteen_bits_come_back(void **state)
{
	for (uint32_t i = 0; i < 65536; i++) {
		uint16_t bits = (uint16_t)i;
		float half = half_to_float(bits), brain = element_bf16_to_f32(bits);
		if (isnan(half))
			assert_true(isnan(half_to_float(half_from_float(half))));
		else
			assert_int_equal(half_from_float(half), bits);
		if (isnan(brain))
			assert_true(isnan(element_bf16_to_f32(element_bf16_from_f32(brain))));
		else
			assert_int_equal(element_bf16_from_f32(brain), bits);
	}
}

/* Between two neighbours: the nearer, and in the middle the even one. */
static void rounding_is_to_nearest_even(void **state)
{
	for (uint32_t i = 0; i < 0x7bff; i++) {
		float low = half_to_float((uint16_t)i);
		float high = half_to_float((uint16_t)(i + 1)), middle = (low + high) / 2;
		assert_int_equal(half_from_float(middle), i + (i & 1));
		assert_int_equal(half_from_float(nextafterf(middle, 0)), i);
		assert_int_equal(half_from_float(-nextafterf(middle, INFINITY)), 0x8000 | (i + 1));
	}
	assert_int_equal(half_from_float(65519.996F), 0x7bff);
	assert_int_equal(half_from_float(65520), 0x7c00);
	assert_int_equal(half_from_float(-1e30F), 0xfc00);
	assert_int_equal(half_from_float(-0.0F), 0x8000);
	assert_int_equal(element_bf16_from_f32(1 + 0x1p-8F), 0x3f80);
	assert_int_equal(element_bf16_from_f32(1 + 3 * 0x1p-8F), 0x3f82);
	assert_int_equal(element_bf16_from_f32(INFINITY), 0x7f80);
	assert_int_equal(element_bf16_from_f32(3.4e38F), 0x7f80);
	assert_int_equal(bits_of(element_bf16_to_f32(0xc040)), bits_of(-3));
}

static void elements_are_printed(void **state)
{
	char text[ELEMENT_TEXT_MAX];
	int8_t small = -3;
	uint8_t byte = 253;
	int64_t least = INT64_MIN;
	uint64_t most = UINT64_MAX;
	uint16_t half = 0x3c00, brain = 0x7f80;
	float single = 0.1F;
	double twice = -0.1;
	element_print(COLLECTIVE_I8, &small, text);
	assert_string_equal(text, "-3");
	element_print(COLLECTIVE_U8, &byte, text);
	assert_string_equal(text, "253");
	element_print(COLLECTIVE_I64, &least, text);
	assert_string_equal(text, "-9223372036854775808");
	element_print(COLLECTIVE_U64, &most, text);
	assert_string_equal(text, "18446744073709551615");
	element_print(COLLECTIVE_F16, &half, text);
	assert_string_equal(text, "1 (0x3c00)");
	element_print(COLLECTIVE_BF16, &brain, text);
	assert_string_equal(text, "inf (0x7f80)");
	element_print(COLLECTIVE_F32, &single, text);
	assert_string_equal(text, "0.100000001");
	element_print(COLLECTIVE_F64, &twice, text);
	assert_string_equal(text, "-0.10000000000000001");
	assert_true(element_value(COLLECTIVE_F64, &twice) == -0.1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sixteen_bits_come_back),
	    cmocka_unit_test(rounding_is_to_nearest_even),
	    cmocka_unit_test(elements_are_printed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
