/* SPDX-License-Identifier: Apache-2.0 */
/* What a job holds in the ledger, and what others hold there, for the scheduler. */
#include "doors/queue/queue_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/unit.h"
#include "units/ledger.h"

enum { GRANTS = 2 };

struct machine {
	struct queue queue;
	struct queue_job job;
	struct queue_run run;
	struct launch_grant grants[GRANTS];
};

static struct machine *machine;

static int set_up(void **state)
{
	(void)state;
	machine = calloc(1, sizeof(*machine));
	assert_non_null(machine);
	machine->queue.ledger = ledger_new();
	assert_non_null(machine->queue.ledger);
	machine->job =
	    (struct queue_job){.queue = &machine->queue, .job = {.id = 12, .started_unix_ns = 5}};
	machine->run = (struct queue_run){.owner = &machine->job, .grants = machine->grants};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	(void)ledger_free(machine->queue.ledger);
	free(machine);
	return 0;
}

static void grant(const char *uuid, uint32_t slot_count, uint64_t slots)
{
	struct launch_grant *to = &machine->grants[machine->run.grant_count++];
	*to = (struct launch_grant){.slot_count = slot_count, .slots = {slots}};
	(void)snprintf(to->uuid, sizeof(to->uuid), "%s", uuid);
}

static int pod_takes(const char *unit)
{
	const struct ledger_lease lease = {.unit = unit,
					   .resource = "nvidia.com/gpu",
					   .holder = "ns/pod/main",
					   .door = POLICY_DOOR_KUBELET};
	return ledger_take(machine->queue.ledger, &lease, NULL);
}

static const char *held(void)
{
	static char text[256];
	size_t length = 0;
	text[0] = '\0';
	for (size_t i = 0; i < ledger_count(machine->queue.ledger); i++) {
		const struct ledger_lease *lease = ledger_at(machine->queue.ledger, i);
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s %s",
					   i ? "; " : "", lease->unit, lease->holder);
	}
	return text;
}

static void whole_devices_and_slots(void **state)
{
	(void)state;
	struct err err = {0};
	grant("GPU-a", 1, 1);
	grant("GPU-b", 4, 0xA);
	assert_int_equal(queue_lease_take(&machine->run, &err), 0);
	assert_string_equal(held(), "GPU-a job 12; GPU-b::1 job 12; GPU-b::3 job 12");
	assert_int_equal(ledger_at(machine->queue.ledger, 0)->job, 12);
	assert_int_equal(ledger_at(machine->queue.ledger, 0)->since_unix_ns, 5);
	assert_int_equal(queue_lease_take(&machine->run, &err), 0); /* it has them */
	queue_lease_end(&machine->run);
	assert_string_equal(held(), "");
	queue_lease_end(&machine->run);

	machine->grants[1].slots[0] = 0xF;
	assert_int_equal(queue_lease_take(&machine->run, &err), 0);
	assert_string_equal(held(), "GPU-a job 12; GPU-b job 12");
}

static void all_or_none(void **state)
{
	(void)state;
	struct err err = {0};
	grant("GPU-a", 1, 1);
	grant("GPU-b", 4, 0xA);
	assert_int_equal(pod_takes("GPU-b::2"), 0);
	assert_int_equal(queue_lease_take(&machine->run, &err), -EBUSY);
	assert_string_equal(
	    err.text, "unit 'GPU-b::1' cannot be had while 'GPU-b::2' is held by ns/pod/main");
	assert_string_equal(held(), "GPU-b::2 ns/pod/main");
	queue_lease_end(&machine->run); /* what it has not it does not end */
	assert_string_equal(held(), "GPU-b::2 ns/pod/main");
}

/* A job that runs has its GPU; who is first in the ledger has it there until they let go. */
static void what_is_so_is_entered_later(void **state)
{
	(void)state;
	grant("GPU-a", 1, 1);
	assert_int_equal(pod_takes("GPU-a"), 0);
	queue_lease_enter(&machine->run);
	assert_true(machine->run.is_contested);
	assert_string_equal(held(), "GPU-a ns/pod/main");
	assert_int_equal(ledger_release_holder(machine->queue.ledger, "ns/pod/main"), 1);
	queue_lease_enter(&machine->run);
	assert_false(machine->run.is_contested);
	assert_string_equal(held(), "GPU-a job 12");
	queue_lease_enter(&machine->run);
	assert_int_equal(pod_takes("GPU-a"), -EBUSY);
}

static void what_others_hold_is_marked(void **state)
{
	(void)state;
	static const struct ledger_device described[] = {
	    {.uuid = "GPU-a"}, {.uuid = "GPU-b"}, {.uuid = "MIG-c", .gpu = "GPU-a"}};
	struct schedule_device devices[] = {
	    {.unit = {.uuid = "GPU-a"}}, {.unit = {.uuid = "GPU-b"}}, {.unit = {.uuid = "MIG-c"}}};
	struct schedule_machine scheduled = {.devices = devices, .device_count = 3};

	assert_int_equal(ledger_describe(machine->queue.ledger, described, 3, NULL), 0);
	grant("GPU-a", 1, 1);
	assert_int_equal(queue_lease_take(&machine->run, NULL), 0);
	assert_int_equal(pod_takes("GPU-b::2"), 0);
	queue_lease_mark(&machine->queue, &scheduled);
	assert_string_equal(devices[0].holder, ""); /* our own: the scheduler knows */
	assert_string_equal(devices[1].holder, "pod ns/pod/main");
	assert_string_equal(devices[2].holder, "job 12"); /* has all of its GPU */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(whole_devices_and_slots, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(all_or_none, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(what_is_so_is_entered_later, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(what_others_hold_is_marked, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
