/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/vitals.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/repeats.h"
#include "hardware/gpu.h"
#include "probe/client.h"
#include "unit/unit.h"
#include "web/view.h"

/* --- instead of the verdicts: --wrap ------------------------------------------------------------
 */

static enum xid_class class_of_13;

enum xid_class __wrap_vitals_class(const struct vitals *vitals, uint32_t xid);
bool __wrap_vitals_at(const struct vitals *vitals, size_t place, struct vitals_view *out);

enum xid_class __wrap_vitals_class(const struct vitals *vitals, uint32_t xid)
{
	return xid == 13 ? class_of_13 : xid_class_of(xid);
}

bool __wrap_vitals_at(const struct vitals *vitals, size_t place, struct vitals_view *out)
{
	if (place > 0)
		return false;
	*out = (struct vitals_view){.here = true};
	strcpy(out->uuid, "GPU-b");
	out->verdict.reason_count = 1;
	strcpy(out->verdict.reason[0].advice, "do this");
	return true;
}

/* The clock, and how much later it is. */
static uint64_t later_ns;

uint64_t __real_clock_now_ns(const struct clock *clock);
uint64_t __wrap_clock_now_ns(const struct clock *clock);

uint64_t __wrap_clock_now_ns(const struct clock *clock)
{
	return __real_clock_now_ns(clock) + later_ns;
}

/* --- the tests ---------------------------------------------------------------------------------
 */

static struct web_events *events;
static struct view *view;
static struct gpu gpus[2];
static const struct inventory inventory = {.gpu_count = 2, .gpus = gpus};

static int setup(void **state)
{
	events = NULL;
	view = calloc(1, sizeof(*view));
	if (!view || web_events_new(&events, NULL) < 0) {
		free(view);
		view = NULL;
		return -1;
	}
	class_of_13 = XID_APP;
	for (uint32_t i = 0; i < 2; i++) {
		gpus[i] = (struct gpu){.index = i + 4, .has_pci = true};
		gpus[i].pci.bus = (uint8_t)(i + 1);
		strcpy(gpus[i].uuid, i ? "GPU-b" : "GPU-a");
		strcpy(view->snapshot.gpu[i].uuid, gpus[i].uuid);
		(void)pci_address_to_string(&gpus[i].pci, view->snapshot.gpu[i].bus);
	}
	view->snapshot.gpu_count = 2;
	return 0;
}

static int teardown(void **state)
{
	events = web_events_free(events);
	free(view);
	return 0;
}

static void xid(uint32_t code, const char *uuid, const char *bus, uint32_t gi, bool history)
{
	struct probe_event event = {.kind = PROBE_EVENT_XID,
				    .source = *uuid ? PROBE_SOURCE_NVML : PROBE_SOURCE_KMSG,
				    .data = code,
				    .gi = gi,
				    .ci = gi,
				    .history = history};
	strcpy(event.uuid, uuid);
	strcpy(event.bus, bus);
	web_events_probe(events, &event, &inventory, NULL);
}

static void fill(void)
{
	web_events_fill(events, true, NULL, view);
}

static void test_xids_are_counted_once(void **state)
{
	xid(151, "GPU-b", "", SNAPSHOT_WHOLE_GPU, false);
	xid(151, "", "0000:02:00.0", SNAPSHOT_WHOLE_GPU, false);
	xid(151, "GPU-b", "", SNAPSHOT_WHOLE_GPU, true); /* before our time */
	xid(13, "GPU-b", "", 3, false);
	struct probe_event again = {.kind = PROBE_EVENT_XID_AGAIN, .data = 151};
	strcpy(again.uuid, "GPU-b");
	web_events_probe(events, &again, &inventory, NULL);
	fill();
	assert_int_equal(view->xid_count, 2);
	assert_int_equal(view->xid[0].gpu, 1);
	assert_int_equal(view->xid[0].xid, 151);
	assert_int_equal(view->xid[0].count, 2);
	assert_string_equal(view->xid[0].class_, "reboot");
	assert_string_equal(view->xid[0].text, xid_name(151));
	assert_true(view->xid[0].last_unix_ns > 0);
	assert_int_equal(view->xid[1].gi, 3);
	assert_int_equal(view->event_count, 4);
	assert_string_equal(view->event[0].source, "nvml");
	assert_string_equal(view->event[1].source, "kmsg");
	assert_string_equal(view->event[1].uuid, "GPU-b");
	assert_non_null(strstr(view->event[1].text, "on GPU 5"));
	assert_non_null(strstr(view->event[2].text, "before the agent began"));
	assert_non_null(strstr(view->event[3].text, "GPU instance 3"));
	assert_int_equal(view->event[0].health, VIEW_UNHEALTHY);
	assert_non_null(strstr(view->event[0].advice, "restart"));
	assert_int_equal(view->event[3].health, VIEW_HEALTHY);
	assert_int_equal(view->event[3].id, 4);
}

/* One record with a number, and one or three without. */
static void test_a_gpu_falls_off_the_bus_once(void **state)
{
	xid(79, "", "0000:02:00.0", SNAPSHOT_WHOLE_GPU, false);
	xid(79, "", "0000:02:00.0", SNAPSHOT_WHOLE_GPU, false);
	xid(79, "GPU-a", "", SNAPSHOT_WHOLE_GPU, false); /* another one, too */
	fill();
	assert_int_equal(view->xid_count, 2);
	assert_int_equal(view->xid[0].count, 1);
	assert_int_equal(view->event_count, 2);
}

static void test_the_class_is_that_of_the_policy(void **state)
{
	xid(13, "GPU-a", "", SNAPSHOT_WHOLE_GPU, false);
	fill();
	assert_string_equal(view->xid[0].class_, "app");
	class_of_13 = XID_RESET;
	fill();
	assert_string_equal(view->xid[0].class_, "reset");
	assert_int_equal(view->xid[0].count, 1);
}

static void test_gpus_that_are_gone_keep_their_counts(void **state)
{
	xid(48, "GPU-b", "", SNAPSHOT_WHOLE_GPU, false);
	view->snapshot.gpu_count = 1;
	fill();
	assert_int_equal(view->xid_count, 0);
	view->snapshot.gpu_count = 2;
	fill();
	assert_int_equal(view->xid_count, 1);
	/* One that nobody knows is told of, and counted for nobody. */
	xid(48, "", "", SNAPSHOT_WHOLE_GPU, false);
	fill();
	assert_int_equal(view->xid_count, 1);
	assert_int_equal(view->event_count, 2);
}

/* Known by its address first, by its UUID later. */
static void test_one_gpu_by_two_names(void **state)
{
	struct probe_event event = {.kind = PROBE_EVENT_XID,
				    .data = 48,
				    .gi = SNAPSHOT_WHOLE_GPU,
				    .ci = SNAPSHOT_WHOLE_GPU};
	strcpy(event.bus, "0000:02:00.0");
	web_events_probe(events, &event, NULL, NULL);
	xid(48, "GPU-b", "", SNAPSHOT_WHOLE_GPU, false);
	fill();
	assert_int_equal(view->xid_count, 1);
	assert_int_equal(view->xid[0].count, 2);
}

static void test_too_many(void **state)
{
	for (uint32_t i = 0; i < VIEW_XID_MAX + 50; i++, later_ns += REPEATS_EVERY_NS)
		xid(1000 + i, "GPU-a", "", SNAPSHOT_WHOLE_GPU, false);
	fill();
	assert_int_equal(view->xid_count, VIEW_XID_MAX);
	assert_int_equal(view->event_count, VIEW_EVENT_MAX);
	assert_int_equal(view->event[0].id, 51); /* the oldest gave way */
	for (uint32_t i = 1; i < VIEW_EVENT_MAX; i++)
		assert_int_equal(view->event[i].id, view->event[i - 1].id + 1);
	xid(1000, "GPU-a", "", SNAPSHOT_WHOLE_GPU, false);
	fill();
	assert_int_equal(view->xid[0].count, 2);
}

/* One that does not stop is counted, and told of now and then: it does not drive out the others. */
static void test_a_storm(void **state)
{
	const struct probe_event lost = {.kind = PROBE_EVENT_GPU_REMOVED, .uuid = "GPU-b"};
	xid(62, "GPU-b", "", SNAPSHOT_WHOLE_GPU, false);
	for (uint32_t i = 0; i < 100000; i++) {
		xid(48, "GPU-a", "", SNAPSHOT_WHOLE_GPU, false);
		web_events_verdict(events, "", 2, HEALTH_UNKNOWN, HEALTH_UNHEALTHY, "why", NULL);
		web_events_probe(events, &lost, &inventory, NULL);
	}
	fill();
	assert_int_equal(view->event[0].xid, 62);
	assert_int_equal(view->event_count, 1 + 3 * REPEATS_BURST);
	assert_int_equal(view->xid[1].count, 100000);
	later_ns += REPEATS_EVERY_NS;
	xid(48, "GPU-a", "", SNAPSHOT_WHOLE_GPU, false);
	fill();
	assert_int_equal(view->event_count, 2 + 3 * REPEATS_BURST);
}

static void test_what_else_happens(void **state)
{
	struct probe_event event = {.kind = PROBE_EVENT_REPLACED};
	uint64_t failed;
	web_events_verdict(events, "GPU-b", 5, HEALTH_HEALTHY, HEALTH_UNHEALTHY, "why", NULL);
	strcpy(event.text, "because");
	web_events_probe(events, &event, &inventory, NULL);
	event.kind = PROBE_EVENT_HUNG;
	web_events_probe(events, &event, &inventory, NULL);
	event.kind = PROBE_EVENT_DRIVER_DOWN;
	web_events_probe(events, &event, &inventory, NULL);
	web_events_probe(events, &event, &inventory, NULL); /* still */
	event.kind = PROBE_EVENT_INVENTORY;
	web_events_probe(events, &event, &inventory, NULL);
	web_events_probe(events, &event, &inventory, NULL); /* no news */
	event.kind = PROBE_EVENT_SNAPSHOT;
	web_events_probe(events, &event, &inventory, NULL);
	web_events_configuration(events, RELOAD_APPLIED, "/c.yaml");
	web_events_configuration(events, RELOAD_REFUSED, "/c.yaml:3:1: no");
	web_events_configuration(events, RELOAD_MISSING, "specified config x does not exist");
	web_events_adapter(events, true, "mlx5_0 is down");
	static const uint32_t kinds[] = {PROBE_EVENT_GPU_ADDED, PROBE_EVENT_GPU_REMOVED,
					 PROBE_EVENT_GPU_RESET, PROBE_EVENT_MIG_CHANGED,
					 PROBE_EVENT_DRIVER_RESTART};
	for (size_t i = 0; i < 5; i++) {
		event.kind = kinds[i];
		web_events_probe(events, &event, &inventory, NULL);
	}
	fill();
	assert_int_equal(view->event_count, 14);
	assert_string_equal(view->event[0].kind, "health");
	assert_string_equal(view->event[0].text, "GPU 5 is unhealthy (was healthy): why");
	assert_string_equal(view->event[0].advice, "do this");
	assert_non_null(strstr(view->event[1].text, "because"));
	assert_int_equal(view->event[3].health, VIEW_UNHEALTHY);
	assert_string_equal(view->event[4].text, "the driver answers");
	assert_string_equal(view->event[5].kind, "configuration");
	assert_non_null(strstr(view->event[6].text, "/c.yaml:3:1"));
	assert_string_equal(view->event[8].kind, "adapter");
	assert_int_equal(web_events_probe_restarts(events), 1);
	assert_int_equal(web_events_reloads(events, &failed), 1);
	assert_int_equal(failed, 1);
	assert_int_equal(web_events_generation(events), 14);
}

static void test_none(void **state)
{
	uint64_t failed;
	struct web_events *some = events;
	events = NULL;
	xid(13, "GPU-a", "", 0, false);
	web_events_verdict(NULL, "", 0, HEALTH_UNKNOWN, HEALTH_HEALTHY, "", NULL);
	web_events_configuration(NULL, RELOAD_APPLIED, "");
	web_events_adapter(NULL, false, "");
	fill();
	assert_int_equal(view->event_count + view->xid_count, 0);
	assert_int_equal(web_events_generation(NULL) + web_events_probe_restarts(NULL), 0);
	assert_int_equal(web_events_reloads(NULL, &failed), 0);
	assert_null(web_events_free(NULL));
	events = some;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_xids_are_counted_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_gpu_falls_off_the_bus_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_the_class_is_that_of_the_policy, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_gpus_that_are_gone_keep_their_counts, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_one_gpu_by_two_names, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_too_many, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_storm, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_what_else_happens, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_none, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
