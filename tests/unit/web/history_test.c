/* SPDX-License-Identifier: Apache-2.0 */
#include "web/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "unit/unit.h"
#include "unit/web/sample_view.h"
#include "web/view.h"

#define S	CLOCK_NS_PER_S
#define WALL_S	INT64_C(1763835000) /* what the wall shows at 0 of the other clock */
#define START_S UINT64_C(100000)

struct fixture {
	struct view *view;
	struct history *history;
};

static struct fixture make(uint32_t gpus)
{
	struct fixture fixture = {.view = calloc(1, sizeof(struct view)),
				  .history = history_new(NULL)};
	const struct sample_options options = {.gpus = gpus};
	assert_non_null(fixture.view);
	assert_non_null(fixture.history);
	sample_view_fill(fixture.view, &options, 0);
	return fixture;
}

static void done(struct fixture *fixture)
{
	history_free(fixture->history);
	free(fixture->view);
}

static void note(struct fixture *fixture, uint64_t at_ns, int64_t power)
{
	for (uint32_t i = 0; i < fixture->view->snapshot.gpu_count; i++) {
		fixture->view->snapshot.gpu[i].sampled_ns[SNAPSHOT_FAST] = at_ns;
		if (power < 0)
			snapshot_drop(&fixture->view->snapshot.gpu[i], SNAPSHOT_POWER);
		else
			snapshot_put(&fixture->view->snapshot.gpu[i], SNAPSHOT_POWER, power + i);
	}
	history_note(fixture->history, fixture->view);
}

static json_t *ask(struct fixture *fixture, uint32_t resolution_s, int64_t back_s, uint64_t now_ns)
{
	_cleanup_buf_ struct buf out;
	struct err err;
	int64_t now_unix_ns = WALL_S * (int64_t)S + (int64_t)now_ns;
	const struct history_question question = {
	    .series = (uint32_t)history_series("power_mw", NULL),
	    .resolution_s = resolution_s,
	    .has_since = back_s >= 0,
	    .since_unix_ns = now_unix_ns - back_s * (int64_t)S,
	    .now_ns = now_ns,
	    .now_unix_ns = now_unix_ns,
	};
	buf_init(&out, 1 << 20);
	assert_int_equal(history_render(fixture->history, fixture->view, &question, &out, &err), 0);
	json_t *json = json_loads(buf_text(&out), 0, NULL);
	assert_non_null(json);
	return json;
}

static json_t *values(const json_t *json, size_t gpu)
{
	return json_object_get(json_array_get(json_object_get(json, "gpus"), gpu), "values");
}

/* The value `back` places before the newest; -1: a gap. */
static int64_t value(const json_t *json, size_t gpu, size_t back)
{
	const json_t *all = values(json, gpu);
	const json_t *one = json_array_get(all, json_array_size(all) - 1 - back);
	assert_non_null(one);
	return json_is_null(one) ? -1 : json_integer_value(one);
}

static void test_pack(void **state)
{
	for (int64_t i = 0; i < 4096; i++)
		assert_int_equal(history_unpack(history_pack(i)), i);
	for (int64_t i = 4096; i < INT64_C(1) << 40; i += i / 13 + 1) {
		int64_t back = history_unpack(history_pack(i));
		assert_true(llabs(back - i) <= i / 4096);
	}
	assert_int_equal(history_unpack(history_pack(-5)), 0);
	assert_int_equal(history_unpack(history_pack(INT64_C(80) << 30)), INT64_C(80) << 30);
	assert_true(history_unpack(history_pack(INT64_MAX)) >= INT64_C(1) << 41);
	assert_true(history_pack(0) != 0);
}

static void test_seconds(void **state)
{
	struct fixture fixture = make(2);
	for (uint64_t i = 0; i < 700; i++)
		note(&fixture, (START_S + i) * S + 5000, (int64_t)i);
	uint64_t now = (START_S + 699) * S + S / 2;
	json_t *json = ask(&fixture, 1, -1, now);
	assert_int_equal(json_array_size(values(json, 0)), HISTORY_FINE);
	assert_int_equal(value(json, 0, 0), 699);
	assert_int_equal(value(json, 1, 0), 700);
	assert_int_equal(value(json, 0, HISTORY_FINE - 1), 100);
	assert_true(json_number_value(json_object_get(json, "end_unix")) ==
		    (double)WALL_S + START_S + 700);
	json_decref(json);
	json = ask(&fixture, 0, 30, now);
	assert_int_equal(json_array_size(values(json, 0)), 30);
	json_decref(json);
	json = ask(&fixture, 10, -1, now);
	assert_int_equal(json_array_size(values(json, 0)), HISTORY_COARSE);
	assert_int_equal(value(json, 0, 0), 684); /* the mean of 680 ... 689 */
	assert_int_equal(value(json, 0, 69), -1);
	json_decref(json);
	/* one that lies ahead of us asks for nothing */
	json = ask(&fixture, 1, 0, now);
	assert_int_equal(json_array_size(values(json, 0)), 0);
	json_decref(json);
	done(&fixture);
}

static void test_gaps(void **state)
{
	struct fixture fixture = make(1);
	note(&fixture, START_S * S, 7);
	note(&fixture, (START_S + 1) * S, -1); /* not known */
	note(&fixture, (START_S + 2) * S, 8);
	note(&fixture, (START_S + 10) * S, 9); /* the driver hung */
	json_t *json = ask(&fixture, 1, -1, (START_S + 10) * S);
	assert_int_equal(value(json, 0, 0), 9);
	for (size_t i = 1; i < 8; i++)
		assert_int_equal(value(json, 0, i), -1);
	assert_int_equal(value(json, 0, 8), 8);
	assert_int_equal(value(json, 0, 9), -1);
	assert_int_equal(value(json, 0, 10), 7);
	json_decref(json);
	/* it hangs still: the end moves on without values */
	json = ask(&fixture, 1, -1, (START_S + 100) * S);
	assert_int_equal(value(json, 0, 0), -1);
	assert_int_equal(value(json, 0, 88), 9);
	json_decref(json);
	/* longer than the ring: nothing of before is left in it */
	note(&fixture, (START_S + 5000) * S, 10);
	json = ask(&fixture, 1, -1, (START_S + 5000) * S);
	assert_int_equal(value(json, 0, 0), 10);
	for (size_t i = 1; i < HISTORY_FINE; i++)
		assert_int_equal(value(json, 0, i), -1);
	json_decref(json);
	done(&fixture);
}

/* A sampler that is a little early or late makes no hole. */
static void test_jitter(void **state)
{
	struct fixture fixture = make(1);
	note(&fixture, START_S * S + S - 1000, 5);
	note(&fixture, (START_S + 2) * S + 1000, 6);
	json_t *json = ask(&fixture, 1, -1, (START_S + 2) * S + 2000);
	assert_int_equal(value(json, 0, 0), 6);
	assert_int_equal(value(json, 0, 1), 6);
	assert_int_equal(value(json, 0, 2), 5);
	json_decref(json);
	done(&fixture);
}

/* A view that says the same twice, or a clock that goes back, changes nothing. */
static void test_clock(void **state)
{
	struct fixture fixture = make(1);
	note(&fixture, START_S * S, 5);
	note(&fixture, START_S * S, 6);
	note(&fixture, (START_S - 50) * S, 7);
	json_t *json = ask(&fixture, 1, -1, START_S * S);
	assert_int_equal(value(json, 0, 0), 5);
	assert_int_equal(value(json, 0, 50), -1);
	json_decref(json);
	/* a wall that jumped by a year moves the end, and no value */
	done(&fixture);
}

/* By UUID: a GPU that goes and comes back has a gap, and a new one begins with nothing. */
static void test_gpus_come_and_go(void **state)
{
	struct fixture fixture = make(2);
	char uuid[SNAPSHOT_TEXT_MAX];
	memcpy(uuid, fixture.view->snapshot.gpu[0].uuid, sizeof(uuid));
	note(&fixture, START_S * S, 5);
	/* GPU 0 is gone; what was 1 is 0 */
	struct snapshot_gpu lost = fixture.view->snapshot.gpu[0];
	fixture.view->snapshot.gpu[0] = fixture.view->snapshot.gpu[1];
	fixture.view->snapshot.gpu_count = 1;
	note(&fixture, (START_S + 1) * S, 50);
	json_t *json = ask(&fixture, 1, -1, (START_S + 1) * S);
	assert_int_equal(value(json, 0, 0), 50);
	assert_int_equal(value(json, 0, 1), 6);
	json_decref(json);
	fixture.view->snapshot.gpu[1] = lost;
	fixture.view->snapshot.gpu_count = 2;
	note(&fixture, (START_S + 2) * S, 70);
	json = ask(&fixture, 1, -1, (START_S + 2) * S);
	assert_int_equal(value(json, 1, 0), 71);
	assert_int_equal(value(json, 1, 1), -1);
	assert_int_equal(value(json, 1, 2), 5);
	json_decref(json);
	/* more names than there is room for: the ones unseen longest go */
	for (uint32_t i = 0; i < 3 * SNAPSHOT_GPU_MAX; i++) {
		memset(fixture.view->snapshot.gpu[1].uuid, 'a' + (int)(i % 26), 1 + i / 26);
		note(&fixture, (START_S + 3 + i) * S, 80);
	}
	json = ask(&fixture, 1, -1, (START_S + 2 + 3 * SNAPSHOT_GPU_MAX) * S);
	assert_int_equal(value(json, 0, 0), 80);
	assert_int_equal(value(json, 1, 0), 81);
	json_decref(json);
	done(&fixture);
}

static void test_series(void **state)
{
	struct err err;
	assert_int_equal(history_series("utilization_gpu_percent", NULL), 0);
	assert_int_equal(history_series("pcie_rx_bytes_per_second", NULL), HISTORY_SERIES - 1);
	assert_int_equal(history_series("busy_ns", &err), -EINVAL);
	assert_non_null(strstr(err.text, "pcie_rx_bytes_per_second"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_pack),   cmocka_unit_test(test_seconds),
	    cmocka_unit_test(test_gaps),   cmocka_unit_test(test_jitter),
	    cmocka_unit_test(test_clock),  cmocka_unit_test(test_gpus_come_and_go),
	    cmocka_unit_test(test_series),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
