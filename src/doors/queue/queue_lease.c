/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs hold, in the ledger of all doors; and what others hold there, for the scheduler. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "doors/queue/queue_internal.h"
#include "units/ledger.h"

enum { QUEUE_LEASE_HOLDER_MAX = sizeof("job 18446744073709551615") };

static void queue_lease_holder(const struct queue_run *run, char out[QUEUE_LEASE_HOLDER_MAX])
{
	(void)snprintf(out, QUEUE_LEASE_HOLDER_MAX, "job %" PRIu64, run->owner->job.id);
}

static size_t queue_lease_slots(const struct launch_grant *grant)
{
	size_t count = 0;
	for (uint32_t slot = 0; slot < grant->slot_count; slot++)
		count += launch_grant_has(grant, slot);
	return count;
}

/* A job with every slot of a device holds the device; else each slot is a unit of its own. */
static int queue_lease_grant(struct ledger *ledger, const struct launch_grant *grant,
			     struct ledger_lease *lease, struct err *err)
{
	char unit[POLICY_ID_MAX];
	int rc = 0;

	if (queue_lease_slots(grant) == grant->slot_count) {
		lease->unit = grant->uuid;
		return ledger_take(ledger, lease, err);
	}

	lease->unit = unit;
	for (uint32_t slot = 0; rc == 0 && slot < grant->slot_count; slot++) {
		if (!launch_grant_has(grant, slot))
			continue;

		(void)snprintf(unit, sizeof(unit), "%.*s::%" PRIu32, GPU_UUID_MAX - 1, grant->uuid,
			       slot);
		rc = ledger_take(ledger, lease, err);
	}

	return rc;
}

int queue_lease_take(struct queue_run *run, struct err *err)
{
	const struct job *job = &run->owner->job;
	char holder[QUEUE_LEASE_HOLDER_MAX];
	struct ledger_lease lease = {.resource = "",
				     .holder = holder,
				     .door = POLICY_DOOR_QUEUE,
				     .job = job->id,
				     .since_unix_ns = job->started_unix_ns ? job->started_unix_ns
									   : clock_unix_ns()};
	int rc = 0;

	if (run->has_leases)
		return 0;

	queue_lease_holder(run, holder);
	run->has_leases = true;
	for (size_t i = 0; rc == 0 && i < run->grant_count; i++)
		rc = queue_lease_grant(run->owner->queue->ledger, &run->grants[i], &lease, err);

	if (rc < 0)
		queue_lease_end(run);
	return rc;
}

void queue_lease_end(struct queue_run *run)
{
	char holder[QUEUE_LEASE_HOLDER_MAX];

	if (!run->has_leases)
		return;

	queue_lease_holder(run, holder);
	(void)ledger_release_holder(run->owner->queue->ledger, holder);
	run->has_leases = false;
}

void queue_lease_enter(struct queue_run *run)
{
	struct err err = {0};
	bool was_contested = run->is_contested;

	run->is_contested = queue_lease_take(run, &err) < 0;
	if (run->is_contested && !was_contested)
		log_write(run->owner->queue->options.log, LOG_LEVEL_WARNING, NULL,
			  "job %" PRIu64 " has a GPU that somebody else has as well: %s",
			  run->owner->job.id, err.text);
}

void queue_lease_mark(const struct queue *queue, struct schedule_machine *machine)
{
	for (size_t i = 0; i < machine->device_count; i++) {
		struct schedule_device *device = &machine->devices[i];
		const struct ledger_lease *lease = ledger_obstacle(queue->ledger, device->unit.uuid,
								   POLICY_DOOR_QUEUE, LEDGER_ANY);

		if (lease)
			(void)snprintf(device->holder, sizeof(device->holder), "%s%s",
				       lease->door == POLICY_DOOR_KUBELET ? "pod " : "",
				       lease->holder); /* cut if need be */
	}
}
