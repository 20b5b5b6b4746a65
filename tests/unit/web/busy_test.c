/* SPDX-License-Identifier: Apache-2.0 */
#include "web/busy.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "unit/unit.h"
#include "unit/web/sample_view.h"
#include "web/view.h"

#define S CLOCK_NS_PER_S

static void note(struct busy *busy, struct view *view, uint64_t second, uint64_t busy_ns)
{
	view->node.sample_ns = second * S;
	view->holder[0].busy_ns = busy_ns;
	busy_note(busy, view);
}

static void test_ratio(void **state)
{
	struct view *view = test_calloc(1, sizeof(*view));
	struct busy *busy = busy_new(NULL);
	const struct sample_options options = {.gpus = 2, .holders = 3};
	uint32_t ratio = 7;
	sample_view_fill(view, &options, 0);
	if (!busy) {
		test_free(view);
		return; /* failmalloc */
	}
	note(busy, view, 100, 0);
	assert_false(busy_ratio(busy, view, 0, &ratio)); /* no time has passed */
	note(busy, view, 102, S);
	if (busy_ratio(busy, view, 0, &ratio)) {
		assert_in_range(ratio, 499, 500);
		note(busy, view, 110, 2 * S);
		note(busy, view, 112, 3 * S);
		if (busy_ratio(busy, view, 0, &ratio))
			assert_in_range(ratio, 249, 500);
		/* another place in the list, the same holder */
		struct view_holder first = view->holder[0];
		view->holder[0] = view->holder[2];
		view->holder[2] = first;
		assert_true(busy_ratio(busy, view, 2, &ratio));
		/* a counter that began anew is not known; one that runs away is all of the time */
		view->holder[2].busy_ns = 0;
		if (busy_ratio(busy, view, 2, &ratio))
			assert_int_equal(ratio, 0);
		view->holder[2].busy_ns = 1000 * S;
		assert_true(busy_ratio(busy, view, 2, &ratio));
		assert_int_equal(ratio, 1000);
		/* somebody new */
		view->holder[1].job = 99;
		assert_false(busy_ratio(busy, view, 1, &ratio));
	}
	busy_free(busy);
	test_free(view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_ratio)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
