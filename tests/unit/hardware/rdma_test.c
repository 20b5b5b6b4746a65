/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/rdma.h"

#include <string.h>

#include "base/check.h"
#include "unit/unit.h"

static int rate(const char *text, uint32_t *out)
{
	*out = RDMA_UNKNOWN;
	return rdma_parse_rate(text, strlen(text), out);
}

static void test_rate(void **state)
{
	static const struct {
		const char *text;
		uint32_t mbit; /* RDMA_UNKNOWN: refused */
	} rows[] = {
	    {"100 Gb/sec (4X EDR)\n", 100000}, {"2.5 Gb/sec (1X SDR)\n", 2500},
	    {"400 Gb/sec (4X NDR)", 400000},   {"25 Gb/sec", 25000},
	    {"0 Gb/sec (1X SDR)", 0},	       {"", RDMA_UNKNOWN},
	    {"Gb/sec", RDMA_UNKNOWN},	       {"100", RDMA_UNKNOWN},
	    {"100 Mb/sec", RDMA_UNKNOWN},      {"100 Gb/second", RDMA_UNKNOWN},
	    {"-1 Gb/sec", RDMA_UNKNOWN},       {"99999999999999999999 Gb/sec", RDMA_UNKNOWN},
	    {"2. Gb/sec", RDMA_UNKNOWN},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		uint32_t mbit;
		assert_int_equal(rate(rows[i].text, &mbit) == 0, rows[i].mbit != RDMA_UNKNOWN);
		assert_int_equal(mbit, rows[i].mbit);
	}
}

static void test_state(void **state)
{
	uint32_t number = RDMA_UNKNOWN;
	assert_int_equal(rdma_parse_state("4: ACTIVE\n", 10, &number), 0);
	assert_int_equal(number, RDMA_STATE_ACTIVE);
	assert_int_equal(rdma_parse_state("5: LinkUp", 9, &number), 0);
	assert_int_equal(number, RDMA_PHYS_LINK_UP);
	static const char *const bad[] = {
	    "", "4", "4:", "4: ", ": ACTIVE", "ACTIVE", "x: ACTIVE", "4:ACTIVE", "400: ACTIVE"};
	number = 77;
	for (size_t i = 0; i < array_length(bad); i++)
		assert_true(rdma_parse_state(bad[i], strlen(bad[i]), &number) < 0);
	assert_int_equal(number, 77);
}

static void test_small_parsers(void **state)
{
	uint32_t major = 0, minor = 0;
	assert_int_equal(rdma_parse_dev("231:192\n", 8, &major, &minor), 0);
	assert_int_equal(major, 231);
	assert_int_equal(minor, 192);
	assert_true(rdma_parse_dev("231", 3, &major, &minor) < 0);
	assert_true(rdma_parse_dev("", 0, &major, &minor) < 0);
	assert_true(rdma_parse_dev("1:2:3", 5, &major, &minor) < 0);
	assert_int_equal(rdma_parse_link_layer("InfiniBand\n", 11), RDMA_LAYER_INFINIBAND);
	assert_int_equal(rdma_parse_link_layer("Ethernet", 8), RDMA_LAYER_ETHERNET);
	assert_int_equal(rdma_parse_link_layer("Ether", 5), RDMA_LAYER_UNKNOWN);
	assert_int_equal(rdma_parse_link_type("1\n", 2), RDMA_LINK_ETHER);
	assert_int_equal(rdma_parse_link_type("32\n", 3), RDMA_LINK_INFINIBAND);
	assert_int_equal(rdma_parse_link_type("772\n", 4), RDMA_LINK_OTHER);
	assert_int_equal(rdma_parse_netns("Y\n", 2), RDMA_NETNS_SHARED);
	assert_int_equal(rdma_parse_netns("N\n", 2), RDMA_NETNS_EXCLUSIVE);
	assert_int_equal(rdma_parse_netns("", 0), RDMA_NETNS_UNKNOWN);
}

static void test_words(void **state)
{
	assert_string_equal(rdma_reason_to_string(RDMA_REASON_NODE_WRONG),
			    "node has wrong numbers");
	for (uint32_t i = 0; i < RDMA_REASON_COUNT; i++)
		assert_string_not_equal(rdma_reason_to_string(i), "unknown");
	for (uint32_t i = 0; i < RDMA_NODE_KINDS; i++)
		assert_string_not_equal(rdma_node_kind_to_string(i), "unknown");
	assert_string_equal(rdma_node_state_to_string(77), "unknown");
	assert_string_equal(rdma_link_layer_to_string(RDMA_LAYER_ETHERNET), "Ethernet");
	assert_string_equal(rdma_link_type_to_string(RDMA_LINK_INFINIBAND), "infiniband");
	assert_string_equal(rdma_link_type_to_string(RDMA_LINK_OTHER), "");
	assert_string_equal(rdma_netns_to_string(RDMA_NETNS_EXCLUSIVE), "exclusive");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rate),
	    cmocka_unit_test(test_state),
	    cmocka_unit_test(test_small_parsers),
	    cmocka_unit_test(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
