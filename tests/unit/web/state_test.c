/* SPDX-License-Identifier: Apache-2.0 */
#include "web/state.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "unit/unit.h"
#include "unit/web/sample_view.h"

#define S CLOCK_NS_PER_S

static struct view *make(uint32_t gpus, const char *hostile)
{
	const struct sample_options options = {.gpus = gpus,
					       .migs = 1,
					       .holders = 4,
					       .jobs = 2,
					       .processes = 4,
					       .events = 2,
					       .hostile = hostile};
	struct view *view = calloc(1, sizeof(*view));
	assert_non_null(view);
	sample_view_fill(view, &options, 1);
	return view;
}

typedef int (*renderer)(const struct state_at *at, struct buf *out, struct err *err);

static json_t *render(renderer how, const struct view *view)
{
	_cleanup_buf_ struct buf out;
	const struct state_at at = {.view = view,
				    .sequence = 8,
				    .now_ns = view->node.sample_ns + S / 2,
				    .now_unix_ns = 1500};
	struct err err;
	json_error_t where;
	buf_init(&out, 1 << 20);
	assert_int_equal(how(&at, &out, &err), 0);
	json_t *json = json_loads(buf_text(&out), JSON_REJECT_DUPLICATES, &where);
	if (!json)
		fail_msg("%s at %d", where.text, where.position);
	return json;
}

/* Whatever names are, it is JSON without a '<', and they come back as far as they are UTF-8. */
static void test_hostile_names(void **state)
{
	static const char *const names[] = {"</script><script>alert(1)</script>", "\"\\\n\r\t\x01",
					    "\xff\xfe\xc0\x80\xed\xa0\x80",
					    "\xe2\x80\xae\xe2\x80\xa8"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct view *view = make(2, names[i]);
		static const renderer all[] = {state_render, state_render_processes,
					       state_render_events};
		for (size_t k = 0; k < 3; k++)
			json_decref(render(all[k], view));
		json_t *json = render(state_render, view);
		const json_t *job = json_array_get(json_object_get(json, "jobs"), 0);
		const char *user = json_string_value(json_object_get(job, "user"));
		if (i != 2)
			assert_string_equal(user, names[i]);
		else
			assert_non_null(strstr(user, "\xef\xbf\xbd"));
		json_decref(json);
		free(view);
	}
}

static void test_absent(void **state)
{
	struct view *view = make(1, NULL);
	snapshot_drop_all(&view->snapshot.gpu[0]);
	view->gpu[0].numa_node = -1;
	view->holder[0].memory_bytes = SNAPSHOT_U64_ABSENT;
	view->holder[0].slot = SNAPSHOT_U32_ABSENT;
	view->holder[0].has_busy = false;
	json_t *json = render(state_render, view);
	const json_t *gpu = json_array_get(json_object_get(json, "gpus"), 0);
	assert_int_equal(json_object_size(json_object_get(gpu, "values")), 0);
	assert_null(json_object_get(gpu, "throttle"));
	assert_null(json_object_get(gpu, "numa"));
	const json_t *holder = json_array_get(json_object_get(json, "holders"), 0);
	assert_null(json_object_get(holder, "memory_bytes"));
	assert_null(json_object_get(holder, "slot"));
	assert_null(json_object_get(holder, "busy_seconds"));
	assert_null(json_object_get(holder, "job"));
	assert_non_null(json_object_get(holder, "pod"));
	json_decref(json);
	view->process[0].uid = SNAPSHOT_U32_ABSENT;
	json = render(state_render_processes, view);
	const json_t *processes = json_object_get(json, "processes");
	assert_null(json_object_get(json_array_get(processes, 0), "uid"));
	assert_int_equal(json_integer_value(json_object_get(json_array_get(processes, 1), "uid")),
			 0);
	assert_non_null(json_object_get(json_array_get(processes, 1), "uid"));
	json_decref(json);
	free(view);
}

static int64_t strangers_of(const struct view *view, size_t gpu)
{
	json_t *json = render(state_render, view);
	const json_t *about = json_array_get(json_object_get(json, "gpus"), gpu);
	int64_t count = json_integer_value(json_object_get(about, "strangers"));
	json_decref(json);
	return count;
}

/* A GPU that nobody was given may be in use all the same. */
static void test_strangers(void **state)
{
	struct view *view = make(2, NULL);
	view->holder_count = 0;
	view->process_count = 4;
	for (uint32_t i = 0; i < 4; i++)
		view->process[i] = (struct view_process){.gpu = 1,
							 .mig = SNAPSHOT_U32_ABSENT,
							 .pid = i + 1,
							 .type = SNAPSHOT_PROCESS_COMPUTE,
							 .holder = SNAPSHOT_U32_ABSENT};
	assert_int_equal(strangers_of(view, 0), 0);
	assert_int_equal(strangers_of(view, 1), 4);
	view->process[0].type = SNAPSHOT_PROCESS_GRAPHICS; /* a display hinders nobody */
	view->process[1].holder = 0;
	view->process[2].type = SNAPSHOT_PROCESS_MPS;
	view->process[3].mig = 1;
	assert_int_equal(strangers_of(view, 1), 2);
	assert_int_equal(view_strangers(view, 1, 1), 1);
	assert_int_equal(view_strangers(view, 1, 0), 0);
	free(view);
}

/* Who they are: also those in a container that was not given the GPU; the first few. */
static void test_outside(void **state)
{
	struct view *view = make(2, NULL);
	view->process_count = 12;
	view->holder_count = 2;
	view->holder[0].allocated = false;
	view->holder[1].allocated = true;
	(void)snprintf(view->holder[0].id, sizeof(view->holder[0].id), "%s", "0123456789ab");
	for (uint32_t i = 0; i < 12; i++)
		view->process[i] = (struct view_process){.gpu = 1,
							 .mig = SNAPSHOT_U32_ABSENT,
							 .pid = i + 1,
							 .type = SNAPSHOT_PROCESS_COMPUTE,
							 .holder = SNAPSHOT_U32_ABSENT,
							 .name = "python3",
							 .user = "carol"};
	view->process[0].type = SNAPSHOT_PROCESS_GRAPHICS;
	view->process[1].holder = 1;
	view->process[2].holder = 0;
	json_t *json = render(state_render, view);
	const json_t *gpus = json_object_get(json, "gpus");
	assert_int_equal(json_array_size(json_object_get(json_array_get(gpus, 0), "outside")), 0);
	const json_t *outside = json_object_get(json_array_get(gpus, 1), "outside");
	assert_int_equal(json_array_size(outside), 8);
	const json_t *first = json_array_get(outside, 0);
	assert_int_equal(json_integer_value(json_object_get(first, "pid")), 3);
	assert_string_equal(json_string_value(json_object_get(first, "id")), "0123456789ab");
	assert_string_equal(json_string_value(json_object_get(first, "user")), "carol");
	assert_null(json_object_get(json_array_get(outside, 1), "id"));
	json_decref(json);
	free(view);
}

static void test_claims(void **state)
{
	struct view *view = make(2, NULL);
	view->gpu[1].drained = true;
	strcpy(view->gpu[1].claim, "drained: the fan");
	json_t *json = render(state_render, view);
	const json_t *gpus = json_object_get(json, "gpus");
	assert_null(json_object_get(json_array_get(gpus, 0), "claim"));
	assert_null(json_object_get(json_array_get(gpus, 1), "reserved"));
	assert_true(json_is_true(json_object_get(json_array_get(gpus, 1), "drained")));
	assert_string_equal(json_string_value(json_object_get(json_array_get(gpus, 1), "claim")),
			    "drained: the fan");
	json_decref(json);
	free(view);
}

static void test_stale(void **state)
{
	struct view *view = make(1, NULL);
	uint64_t at = view->node.sample_ns, age = 0;
	assert_false(state_is_stale(view, at));
	assert_false(state_is_stale(view, at + VIEW_STALE_NS));
	assert_true(state_is_stale(view, at + VIEW_STALE_NS + 1));
	assert_true(state_age(view, at + S, &age) && age == S);
	assert_true(state_age(view, at - S, &age) && age == 0); /* a clock that went back */
	assert_false(state_is_stale(view, at - S));
	view->node.sample_ns = 0; /* none yet */
	view->node.started_ns = at;
	assert_false(state_age(view, at, &age));
	assert_false(state_is_stale(view, at + S));
	assert_true(state_is_stale(view, at + 6 * S));
	view->snapshot.driver_ok = 0;
	assert_false(state_is_stale(view, at + 6 * S));
	free(view);
}

static void test_full(void **state)
{
	struct view *view = make(1, NULL);
	struct state_at at = {.view = view};
	for (size_t max = 0; max < 3000; max += 97) {
		_cleanup_buf_ struct buf out;
		struct err err = {.code = 0};
		buf_init(&out, max);
		assert_true(state_render(&at, &out, &err) < 0);
		assert_true(out.length <= max && err.text[0] != '\0');
	}
	free(view);
}

static void test_words(void **state)
{
	assert_string_equal(state_health_to_string(VIEW_DEGRADED), "degraded");
	assert_string_equal(state_health_to_string(77), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_hostile_names), cmocka_unit_test(test_absent),
	    cmocka_unit_test(test_strangers),	  cmocka_unit_test(test_stale),
	    cmocka_unit_test(test_claims),	  cmocka_unit_test(test_outside),
	    cmocka_unit_test(test_full),	  cmocka_unit_test(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
