/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/attribution.h"

#include <stdlib.h>

#include "base/err.h"
#include "unit/unit.h"
#include "web/view.h"

static void test_a_machine_without_gpus(void **state)
{
	struct attribution *attribution = NULL;
	const struct attribution_options options = {.root = ""};
	struct view *view = calloc(1, sizeof(*view));
	struct err err = {0};
	(void)state;
	assert_non_null(view);
	view->holder_count = view->process_count = 7;
	assert_int_equal(attribution_new(&options, &attribution, &err), 0);
	attribution_fill(attribution, 0, view);
	assert_int_equal(view->holder_count, 0);
	assert_int_equal(view->process_count, 0);
	attribution_stop(attribution);
	assert_null(attribution_free(attribution));
	free(view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_machine_without_gpus)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
