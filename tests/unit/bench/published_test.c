/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/published.h"

#include <string.h>

#include "unit/unit.h"

static void all_rows_are_there_and_can_be_meant(void **state)
{
	size_t count = 0, spreads = 0;
	const struct published *row;
	for (; (row = published_at(count)); count++) {
		assert_true(row->minutes > 0);
		assert_true(row->spread == -1 || row->spread >= 0);
		assert_true(strcmp(row->scope, "per-system") == 0 ||
			    strcmp(row->scope, "max-scale") == 0 ||
			    strcmp(row->scope, "per-accelerator") == 0);
		spreads += row->spread >= 0;
		if (strcmp(row->system, "DGX-1") == 0 && strcmp(row->benchmark, "gnmt") == 0)
			assert_true(row->minutes == 20.55 && row->spread == 27);
	}
	assert_int_equal(count, 83);
	assert_int_equal(spreads, 31);
	assert_null(published_at(count + 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_rows_are_there_and_can_be_meant),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
