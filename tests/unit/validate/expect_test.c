/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/expect.h"

#include <math.h>

#include "hardware/gpu.h"
#include "unit/unit.h"

static void is(double value, double wanted)
{
	assert_true(fabs(value - wanted) < 1e-9);
}

static void links(void **state)
{
	(void)state;
	is(expect_pcie(3, 16), 15.76);
	is(expect_host(3, 16), 11.82);
	is(expect_host(4, 16), 0.75 * 1.969 * 16);
	is(expect_host(5, 8), 0.75 * 3.938 * 8);
	is(expect_host(0, 16), 0); /* not known */
	is(expect_host(99, 16), 0);
	is(expect_peer(GPU_ARCH_VOLTA, 2), 0.85 * 50);
	is(expect_peer(GPU_ARCH_AMPERE, 12), 255);
	is(expect_peer(GPU_ARCH_HOPPER, 18), 382.5);
	is(expect_peer(GPU_ARCH_BLACKWELL, 18), 765);
	is(expect_peer(GPU_ARCH_PASCAL, 4), 68);
	is(expect_peer(GPU_ARCH_TURING, 0), 0);
	is(expect_peer(GPU_ARCH_UNKNOWN, 4), 0);
	is(expect_all_reduce(GPU_ARCH_AMPERE, 12), 210);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(links)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
