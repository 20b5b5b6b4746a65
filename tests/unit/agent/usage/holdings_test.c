/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/usage/holdings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

#define ABSENT	SNAPSHOT_U32_ABSENT
#define NOTHING SNAPSHOT_U64_ABSENT

static struct holdings *holdings;
static struct view *view;

static int setup(void **state)
{
	struct err err = {0};
	(void)state;
	view = calloc(1, sizeof(*view));
	return view && holdings_new(&holdings, &err) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	holdings = holdings_free(holdings);
	free(view);
	return 0;
}

static struct holding *touch(const char *owner, const char *device)
{
	struct holding *holding = holdings_touch(holdings, owner, device);
	assert_non_null(holding);
	return holding;
}

static void test_rounds(void **state)
{
	(void)state;
	holdings_begin(holdings, 0);
	struct holding *a = touch("a", "GPU-1");
	assert_ptr_equal(touch("a", "GPU-1"), a);
	assert_ptr_not_equal(touch("a", "GPU-0"), a);
	assert_ptr_equal(holdings_find(holdings, "a", "GPU-1"), a);
	assert_null(holdings_find(holdings, "b", "GPU-1"));
	a->view.gpu = 1;
	a->view.busy_ns = 5;
	holdings_give(a, 3);
	holdings_give(a, 1);
	holdings_add_process(a, 10);
	holdings_add_process(a, NOTHING);
	holdings_end(holdings, 1);
	holdings_emit(holdings, view);
	assert_int_equal(view->holder_count, 2);
	assert_int_equal(a->place, 1);
	assert_int_equal(view->holder[1].slot, 1);
	assert_int_equal(view->holder[1].slot_count, 2);
	assert_int_equal(view->holder[1].processes, 2);
	assert_int_equal(view->holder[1].memory_bytes, NOTHING);

	/* It leaves, and comes back in time. */
	holdings_begin(holdings, 0);
	assert_null(holdings_find(holdings, "a", "GPU-1"));
	holdings_end(holdings, 2);
	holdings_emit(holdings, view);
	assert_int_equal(view->holder_count, 0);
	holdings_begin(holdings, 0);
	a = touch("a", "GPU-1");
	assert_int_equal(a->view.busy_ns, 5);
	assert_int_equal(a->view.slot, ABSENT);
	assert_int_equal(a->view.processes, 0);
	holdings_end(holdings, 3);
	/* And too late. */
	holdings_begin(holdings, 0);
	holdings_end(holdings, 4);
	holdings_begin(holdings, 0);
	holdings_end(holdings, 4 + HOLDINGS_DORMANT_NS);
	assert_int_equal(holdings_count(holdings), 0);
	holdings_begin(holdings, 0);
	assert_int_equal(touch("a", "GPU-1")->view.busy_ns, 0);
}

/* Ten thousand pods come and go: what is kept of them is bounded. */
static void test_churn(void **state)
{
	char owner[32];
	(void)state;
	for (unsigned i = 0; i < 10000; i++) {
		holdings_begin(holdings, 0);
		(void)snprintf(owner, sizeof(owner), "p:ml/pod-%u/main", i);
		(void)touch(owner, "GPU-0");
		holdings_end(holdings, i + 1);
		assert_in_range(holdings_count(holdings), 1, HOLDINGS_DORMANT_MAX + 1);
	}
}

static void test_merge(void **state)
{
	(void)state;
	holdings_begin(holdings, 0);
	struct holding *stranger = touch("c:1", "GPU-0");
	stranger->view.busy_ns = 7;
	stranger->view.energy_mj = 3;
	holdings_end(holdings, 1);
	holdings_begin(holdings, 0);
	struct holding *pod = touch("p:1", "GPU-0");
	pod->view.busy_ns = 1;
	holdings_merge(holdings, "c:1", pod);
	holdings_merge(holdings, "c:1", pod);
	holdings_merge(holdings, "p:1", pod);
	assert_int_equal(pod->view.busy_ns, 8);
	assert_int_equal(pod->view.energy_mj, 3);
	assert_int_equal(holdings_count(holdings), 1);
}

static void test_charge(void **state)
{
	struct holdings_device device = {.elapsed_ns = 1000, .busy_ns = 500, .energy_mj = 100};
	struct holdings_purse purse = {0};
	(void)state;
	holdings_begin(holdings, 0);
	struct holding *a = touch("a", "GPU-0"), *b = touch("b", "GPU-0");
	/* Nobody told, two of them: nobody gets anything, now or later. */
	struct holdings_use uses[] = {{a, ABSENT}, {b, ABSENT}, {NULL, ABSENT}};
	assert_false(holdings_charge(&purse, &device, uses, 2));
	assert_int_equal(purse.busy_ns, 0);
	/* Alone. */
	assert_true(holdings_charge(&purse, &device, uses, 1));
	assert_int_equal(a->view.busy_ns, 500);
	assert_int_equal(a->view.energy_mj, 100);
	/* Scaled down, and somebody who is not counted has his part. */
	uses[0].percent = 50;
	uses[1].percent = 25;
	uses[2].percent = 25;
	assert_true(holdings_charge(&purse, &device, uses, 3));
	assert_int_equal(a->view.busy_ns, 500 + 250);
	assert_int_equal(b->view.busy_ns, 125);
	assert_int_equal(b->view.energy_mj, 25);
	/* The device's time came late: what was told before is still owed, and no more than that.
	 */
	uses[0].percent = uses[1].percent = uses[2].percent = 0;
	device.busy_ns = 1000;
	assert_true(holdings_charge(&purse, &device, uses, 3));
	assert_int_equal(a->view.busy_ns, 750 + 250);
	assert_int_equal(b->view.busy_ns, 250);
	/* It came early: it is there when the shares are told. Not more than that either. */
	device.busy_ns = 0;
	uses[1].percent = 100;
	assert_true(holdings_charge(&purse, &device, uses, 3));
	assert_int_equal(a->view.busy_ns, 1000);
	assert_int_equal(b->view.busy_ns, 250 + 500);
	assert_int_equal(purse.busy_ns, 0);
	/* A round without shares is made up for by the next one. */
	a->owed_ns = b->owed_ns = 0;
	device.busy_ns = 600;
	uses[0].percent = uses[1].percent = uses[2].percent = ABSENT;
	assert_true(holdings_charge(&purse, &device, uses, 3));
	assert_int_equal(a->view.busy_ns, 1000);
	uses[0].percent = 60;
	assert_true(holdings_charge(&purse, &device, uses, 3));
	assert_int_equal(a->view.busy_ns, 1000 + 1200);
	assert_int_equal(purse.busy_ns, 0);
	/* Without the device's counter it is the time that passes. */
	a->view.busy_ns = 1000;
	purse = (struct holdings_purse){0};
	a->owed_ns = b->owed_ns = 0;
	device.busy_ns = device.energy_mj = NOTHING;
	uses[0].percent = uses[1].percent = 100;
	assert_true(holdings_charge(&purse, &device, uses, 2));
	assert_int_equal(a->view.busy_ns, 1000 + 500);
	assert_int_equal(b->view.busy_ns, 750 + 500);
	uses[0].percent = ABSENT;
	purse = (struct holdings_purse){0};
	assert_false(holdings_charge(&purse, &device, uses, 1));
	assert_int_equal(a->view.busy_ns, 1500);
}

/* What nobody claims is not kept for whoever comes. */
static void test_window(void **state)
{
	const struct holdings_device busy = {.elapsed_ns = 20 * HOLDINGS_WINDOW_NS,
					     .busy_ns = 20 * HOLDINGS_WINDOW_NS,
					     .energy_mj = 1000};
	const struct holdings_device idle = {.elapsed_ns = 20 * HOLDINGS_WINDOW_NS};
	struct holdings_purse purse = {0};
	(void)state;
	holdings_begin(holdings, 0);
	struct holding *a = touch("a", "GPU-0");
	struct holdings_use use = {a, 0};
	assert_true(holdings_charge(&purse, &busy, &use, 1));
	assert_int_equal(purse.busy_ns, HOLDINGS_WINDOW_NS);
	assert_int_equal(purse.energy_mj, 50);
	use.percent = 100;
	assert_true(holdings_charge(&purse, &idle, &use, 1));
	assert_int_equal(a->view.busy_ns, HOLDINGS_WINDOW_NS);
	assert_int_equal(a->view.energy_mj, 50);
	assert_int_equal(a->owed_ns, HOLDINGS_WINDOW_NS);
	assert_true(holdings_charge(&purse, &busy, &use, 1));
	assert_int_equal(a->view.busy_ns, HOLDINGS_WINDOW_NS * 21);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_rounds, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_churn, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_merge, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_charge, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_window, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
