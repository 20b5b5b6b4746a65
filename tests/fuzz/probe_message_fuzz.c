/* SPDX-License-Identifier: Apache-2.0 */
/* What a probe sends: frames, and the bodies of every kind, whatever the head says. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/snapshot.h"
#include "probe/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_bodies(const void *body, size_t length)
{
	struct inventory inventory;
	struct snapshot *snapshot;
	struct message_event event;
	struct message_notice notice;
	if (message_read_inventory(body, length, &inventory) == 0) {
		if (inventory.gpu_count > GPU_MAX)
			abort();
		for (uint32_t i = 0; i < inventory.gpu_count; i++)
			(void)strlen(inventory.gpus[i].uuid);
		inventory_done(&inventory);
	}
	if (message_read_snapshot(body, length, &snapshot) == 0) {
		int64_t value;
		for (uint32_t i = 0; i < snapshot->gpu_count; i++)
			(void)snapshot_get(&snapshot->gpu[i], SNAPSHOT_POWER, &value);
		free(snapshot);
	}
	(void)message_read_event(body, length, &event);
	(void)message_read_notice(body, length, &notice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *at = data;
	size_t left = size;
	enum message_kind kind;
	const void *body;
	size_t length, used;
	while (message_next(at, left, &kind, &body, &length, &used) == 1) {
		if (used > left || length > used)
			abort();
		read_bodies(body, length);
		at += used;
		left -= used;
	}
	read_bodies(data, size);
	return 0;
}
