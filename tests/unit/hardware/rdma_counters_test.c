/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/rdma_counters.h"

#include <string.h>

#include "unit/hardware/rdma_tree.h"
#include "unit/unit.h"

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		uint32_t unit;
		uint64_t count; /* RDMA_COUNTER_UNKNOWN: refused */
	} rows[] = {
	    {"250000\n", 4, 1000000},
	    {"0\n", 1, 0},
	    {"4611686018427387903\n", 4, UINT64_C(18446744073709551612)},
	    {"4611686018427387904\n", 4, 0}, /* goes round */
	    {"18446744073709551615\n", 4, UINT64_C(18446744073709551612)},
	    {"18446744073709551616\n", 4, RDMA_COUNTER_UNKNOWN},
	    {"18446744073709551614", 1, UINT64_MAX - 1},
	    {"18446744073709551615", 1, RDMA_COUNTER_UNKNOWN},
	    {"", 1, RDMA_COUNTER_UNKNOWN},
	    {"-1\n", 1, RDMA_COUNTER_UNKNOWN},
	    {"N/A (no PMA)\n", 1, RDMA_COUNTER_UNKNOWN},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t count = RDMA_COUNTER_UNKNOWN;
		int rc =
		    rdma_counter_parse(rows[i].text, strlen(rows[i].text), rows[i].unit, &count);
		assert_int_equal(rc == 0, rows[i].count != RDMA_COUNTER_UNKNOWN);
		assert_true(count == rows[i].count);
	}
}

static void test_read(void **state)
{
	struct rdma_counters counters;
	rdma_counters_read(unit_top, "mlx5_0", 1, &counters);
	for (uint32_t i = 0; i < RDMA_COUNTER_COUNT; i++) {
		assert_true(counters.value[i] == RDMA_COUNTER_UNKNOWN);
		assert_string_not_equal(rdma_counter_to_string(i), "unknown");
	}
	rdma_tree_write(unit_top, "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data",
			"250000\n");
	rdma_tree_write(unit_top, "sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent",
			"7\n");
	rdma_counters_read(unit_top, "mlx5_0", 1, &counters);
	for (uint32_t i = 0; i < RDMA_COUNTER_COUNT; i++) {
		uint64_t wanted = i == RDMA_COUNTER_RECEIVED_BYTES ? 1000000
				  : i == RDMA_COUNTER_CNP_SENT	   ? 7
								   : RDMA_COUNTER_UNKNOWN;
		assert_true(counters.value[i] == wanted);
	}
	assert_string_equal(rdma_counter_to_string(RDMA_COUNTER_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_parse),
	    cmocka_unit_test_setup_teardown(test_read, unit_top_setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
