/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/collective.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "unit/unit.h"

static void names_are_read_back(void **state)
{
	for (int i = 0; i < COLLECTIVE_OP_COUNT; i++) {
		enum collective_op op;
		assert_int_equal(collective_op_parse(collective_op_to_string(i), &op), 0);
		assert_int_equal(op, i);
	}
	for (int i = 0; i < COLLECTIVE_TYPE_COUNT; i++) {
		enum collective_type type;
		assert_int_equal(collective_type_parse(collective_type_to_string(i), &type), 0);
		assert_int_equal(type, i);
		assert_true(collective_type_size(i) <= COLLECTIVE_ELEMENT_MAX);
	}
	for (int i = 0; i < COLLECTIVE_REDOP_COUNT; i++) {
		enum collective_redop redop;
		assert_int_equal(collective_redop_parse(collective_redop_to_string(i), &redop), 0);
		assert_int_equal(redop, i);
	}
	enum collective_op op = COLLECTIVE_REDUCE;
	enum collective_type type = COLLECTIVE_F64;
	enum collective_redop redop = COLLECTIVE_AVG;
	assert_int_equal(collective_op_parse("all-reduce", &op), -EINVAL);
	assert_int_equal(collective_op_parse("", &op), -EINVAL);
	assert_int_equal(collective_type_parse("f8", &type), -EINVAL);
	assert_int_equal(collective_redop_parse("mulsum", &redop), -EINVAL);
	assert_int_equal(op, COLLECTIVE_REDUCE);
	assert_int_equal(type, COLLECTIVE_F64);
	assert_int_equal(redop, COLLECTIVE_AVG);
	assert_int_equal(collective_op_parse("allreduce", &op), 0);
	assert_int_equal(op, COLLECTIVE_ALL_REDUCE);
	assert_int_equal(collective_type_parse("bf16", &type), 0);
	assert_int_equal(type, COLLECTIVE_BF16);
	assert_string_equal(collective_op_to_string(COLLECTIVE_OP_COUNT), "?");
	assert_string_equal(collective_type_to_string(COLLECTIVE_TYPE_COUNT), "?");
	assert_string_equal(collective_redop_to_string(COLLECTIVE_REDOP_COUNT), "?");
}

struct shape_case {
	enum collective_op op;
	enum collective_type type;
	uint64_t asked;
	uint32_t ranks;
	uint64_t param, send, receive, bytes, moved;
};

/* What nccl-tests prints for these sizes. */
static void sizes_are_rounded_as_nccl_tests_rounds(void **state)
{
	static const struct shape_case cases[] = {
	    {COLLECTIVE_ALL_REDUCE, COLLECTIVE_F32, 8, 8, 2, 2, 2, 8, 8},
	    {COLLECTIVE_ALL_REDUCE, COLLECTIVE_F32, 7, 8, 1, 1, 1, 4, 4},
	    {COLLECTIVE_ALL_REDUCE, COLLECTIVE_F64, 7, 2, 0, 0, 0, 0, 0},
	    {COLLECTIVE_BROADCAST, COLLECTIVE_F16, 1000, 3, 500, 500, 500, 1000, 1000},
	    {COLLECTIVE_SENDRECV, COLLECTIVE_I8, 13, 4, 13, 13, 13, 13, 13},
	    {COLLECTIVE_REDUCE, COLLECTIVE_U64, 24, 5, 3, 3, 3, 24, 24},
	    /* 1 KiB over 8 ranks: 128 bytes each, 32 floats */
	    {COLLECTIVE_ALL_GATHER, COLLECTIVE_F32, 1024, 8, 32, 32, 256, 1024, 1024},
	    {COLLECTIVE_ALL_GATHER, COLLECTIVE_F32, 64, 8, 0, 0, 0, 0, 0},
	    /* 1000 / 3 = 333 bytes: 83 floats, 80 of them are whole chunks of 16 bytes */
	    {COLLECTIVE_ALL_GATHER, COLLECTIVE_F32, 1000, 3, 80, 80, 240, 960, 960},
	    {COLLECTIVE_GATHER, COLLECTIVE_F32, 1000, 3, 80, 80, 240, 960, 960},
	    {COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_F32, 1000, 3, 80, 240, 80, 960, 960},
	    {COLLECTIVE_SCATTER, COLLECTIVE_I8, 1000, 3, 320, 960, 320, 960, 960},
	    {COLLECTIVE_ALLTOALL, COLLECTIVE_F64, 1000, 3, 40, 120, 120, 960, 960},
	    {COLLECTIVE_HYPERCUBE, COLLECTIVE_F32, 1024, 4, 64, 64, 256, 1024, 768},
	    /* distances 1, 2, 3 of 6 parts of 4096 bytes: 682, 1365 and 2048, in chunks */
	    {COLLECTIVE_ALLTOALLV, COLLECTIVE_I8, 4096, 4, 1024, 4080, 4080, 4080, 4080},
	    {COLLECTIVE_ALLTOALLV, COLLECTIVE_F32, 4096, 2, 512, 1024, 1024, 4096, 4096},
	    {COLLECTIVE_ALLTOALLV, COLLECTIVE_F32, 4096, 1, 1024, 1024, 1024, 4096, 4096},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct shape_case *one = &cases[i];
		struct collective_shape shape;
		collective_shape(one->op, one->type, one->asked, one->ranks, &shape);
		assert_int_equal(shape.param_count, one->param);
		assert_int_equal(shape.shown_count, one->param);
		assert_int_equal(shape.send_count, one->send);
		assert_int_equal(shape.receive_count, one->receive);
		assert_int_equal(shape.bytes, one->bytes);
		assert_int_equal(shape.moved_bytes, one->moved);
	}
}

static void farther_ranks_get_more_of_alltoallv(void **state)
{
	struct collective_shape shape;
	collective_shape(COLLECTIVE_ALLTOALLV, COLLECTIVE_I8, 4096, 4, &shape);
	static const uint64_t by_distance[] = {0, 672, 1360, 2048};
	for (uint32_t from = 0; from < 4; from++)
		for (uint32_t to = 0; to < 4; to++)
			assert_int_equal(collective_v_count(&shape, 4, from, to),
					 by_distance[(to - from) & 3]);
}

static bool near(double value, double wanted)
{
	return fabs(value - wanted) < 1e-9 * wanted;
}

static void bandwidths_follow_the_formulas(void **state)
{
	static const double factors[COLLECTIVE_OP_COUNT] = {
	    [COLLECTIVE_ALL_REDUCE] = 1.5,  [COLLECTIVE_REDUCE_SCATTER] = 0.75,
	    [COLLECTIVE_ALL_GATHER] = 0.75, [COLLECTIVE_ALLTOALL] = 0.75,
	    [COLLECTIVE_ALLTOALLV] = 0.75,  [COLLECTIVE_GATHER] = 0.75,
	    [COLLECTIVE_SCATTER] = 0.75,    [COLLECTIVE_BROADCAST] = 1,
	    [COLLECTIVE_REDUCE] = 1,	    [COLLECTIVE_SENDRECV] = 1,
	    [COLLECTIVE_HYPERCUBE] = 1,
	};
	for (int i = 0; i < COLLECTIVE_OP_COUNT; i++) {
		struct collective_shape shape;
		collective_shape(i, COLLECTIVE_F32, 1 << 20, 4, &shape);
		double algbw = collective_algbw(&shape, 1e-3);
		assert_true(near(algbw, (double)shape.moved_bytes / 1e6));
		assert_true(near(collective_busbw(i, &shape, 4, 1e-3), algbw * factors[i]));
		assert_true(isnan(collective_busbw(i, &shape, 1, 1e-3)));
		assert_true(isnan(collective_algbw(&shape, 0)));
		assert_true(isnan(collective_algbw(&shape, NAN)));
	}
}

static void each_operation_has_its_columns(void **state)
{
	assert_true(collective_op_reduces(COLLECTIVE_REDUCE));
	assert_false(collective_op_reduces(COLLECTIVE_SENDRECV));
	assert_true(collective_op_has_root(COLLECTIVE_SCATTER));
	assert_false(collective_op_has_root(COLLECTIVE_ALL_GATHER));
	assert_false(collective_op_has_in_place(COLLECTIVE_ALLTOALLV));
	assert_true(collective_op_has_in_place(COLLECTIVE_HYPERCUBE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_are_read_back),
	    cmocka_unit_test(sizes_are_rounded_as_nccl_tests_rounds),
	    cmocka_unit_test(farther_ranks_get_more_of_alltoallv),
	    cmocka_unit_test(bandwidths_follow_the_formulas),
	    cmocka_unit_test(each_operation_has_its_columns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
