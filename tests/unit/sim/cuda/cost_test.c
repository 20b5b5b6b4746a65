/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/cost.h"

#include "sim/machine.h"
#include "unit/unit.h"

/* Rates of the peak are within a twentieth of what NVIDIA's tables say. */
static void test_tensor_rates_are_those_of_the_tables(void **state)
{
	static const struct {
		struct sim_model model;
		uint64_t low, high; /* TFLOP/s */
	} rows[] = {
	    {{.cc_major = 7, .cc_minor = 0, .sm_count = 80, .sm_max_mhz = 1530}, 119, 131},
	    {{.cc_major = 7, .cc_minor = 5, .sm_count = 40, .sm_max_mhz = 1590}, 62, 68},
	    {{.cc_major = 8, .cc_minor = 0, .sm_count = 108, .sm_max_mhz = 1410}, 297, 327},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct cost_rates rates;

		cost_rates(&rows[i].model, rows[i].model.sm_count, &rates);
		assert_in_range(rates.tensor / 1000000, rows[i].low, rows[i].high);
		assert_true(rates.gemm < rates.burn && rates.burn < rates.tensor);
	}
}

static void test_a_part_of_a_gpu_has_its_part_of_the_rates(void **state)
{
	const struct sim_model model = {.cc_major = 8,
					.sm_count = 100,
					.sm_max_mhz = 1000,
					.memory_bus_bits = 5120,
					.mem_max_mhz = 1215};
	struct cost_rates whole, part;

	(void)state;
	cost_rates(&model, 100, &whole);
	cost_rates(&model, 25, &part);
	assert_int_equal(part.tensor, whole.tensor / 4);
	assert_int_equal(part.memory, whole.memory / 4);
}

static void test_times_neither_overflow_nor_vanish(void **state)
{
	(void)state;
	assert_int_equal(cost_ns(0, 1000), 1);
	assert_int_equal(cost_ns(1500, 1000), 1500);
	assert_int_equal(cost_ns(1, 3000), 1);
	assert_int_equal(cost_ns(5, 0), 5000);
	assert_int_equal(cost_ns(UINT64_MAX, 1), UINT64_MAX / 4);
}

static void test_links_are_faster_than_the_bus(void **state)
{
	const struct sim_model model = {
	    .pcie_gen_max = 3, .pcie_width_max = 16, .nvlink_version = 2};

	(void)state;
	assert_int_equal(cost_peer_rate(&model, 6), 6 * 25000 * 9 / 10);
	assert_in_range(cost_peer_rate(&model, 0), 8000, 15760);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tensor_rates_are_those_of_the_tables),
	    cmocka_unit_test(test_a_part_of_a_gpu_has_its_part_of_the_rates),
	    cmocka_unit_test(test_times_neither_overflow_nor_vanish),
	    cmocka_unit_test(test_links_are_faster_than_the_bus),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
