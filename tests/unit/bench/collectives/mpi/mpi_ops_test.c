/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/mpi/mpi_ops.h"

#include <stdint.h>

#include "bench/collectives/reduce.h"
#include "unit/unit.h"

static void sums_of_bytes_wrap(void **state)
{
	int8_t in[] = {100, -100, 1}, inout[] = {100, -100, 2};
	uint8_t in_u[] = {200, 255}, inout_u[] = {100, 1};
	int count = 2;
	mpi_op_of(COLLECTIVE_I8, COLLECTIVE_SUM, true)(in, inout, &count, NULL);
	assert_int_equal(inout[0], -56);
	assert_int_equal(inout[1], 56);
	assert_int_equal(inout[2], 2); /* not among them */
	mpi_op_of(COLLECTIVE_U8, COLLECTIVE_AVG, true)(in_u, inout_u, &count, NULL);
	assert_int_equal(inout_u[0], 44);
	assert_int_equal(inout_u[1], 0);
	count = 0;
	mpi_op_of(COLLECTIVE_I8, COLLECTIVE_SUM, true)(in, inout, &count, NULL);
	assert_int_equal(inout[0], -56);
}

static void floats_of_16_bits_are_floats(void **state)
{
	static const struct {
		enum collective_redop redop;
		float result;
	} wanted[] = {{COLLECTIVE_SUM, 2.5f},
		      {COLLECTIVE_PROD, -6},
		      {COLLECTIVE_MIN, -1.5f},
		      {COLLECTIVE_MAX, 4},
		      {COLLECTIVE_AVG, 2.5f}};
	int count = 1;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		uint16_t in = reduce_to_f16(4), inout = reduce_to_f16(-1.5f);
		mpi_op_of(COLLECTIVE_F16, wanted[i].redop, false)(&in, &inout, &count, NULL);
		assert_true(reduce_from_f16(inout) == wanted[i].result);
		in = reduce_to_bf16(4);
		inout = reduce_to_bf16(-1.5f);
		mpi_op_of(COLLECTIVE_BF16, wanted[i].redop, false)(&in, &inout, &count, NULL);
		assert_true(reduce_from_bf16(inout) == wanted[i].result);
	}
}

static void all_else_is_done_by_mpi(void **state)
{
	for (int type = 0; type < COLLECTIVE_TYPE_COUNT; type++) {
		for (int redop = 0; redop < COLLECTIVE_REDOP_COUNT; redop++) {
			bool is_16 = type == COLLECTIVE_F16 || type == COLLECTIVE_BF16;
			assert_int_equal(mpi_op_of((enum collective_type)type,
						   (enum collective_redop)redop, false) != NULL,
					 is_16);
		}
	}
	assert_null(mpi_op_of(COLLECTIVE_I8, COLLECTIVE_MAX, true));
	assert_null(mpi_op_of(COLLECTIVE_I32, COLLECTIVE_SUM, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sums_of_bytes_wrap),
	    cmocka_unit_test(floats_of_16_bits_are_floats),
	    cmocka_unit_test(all_else_is_done_by_mpi),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
