/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "hardware/snapshot.h"

int message_add(struct buf *out, enum message_kind kind, const void *body, size_t length)
{
	if (length > MESSAGE_BODY_MAX)
		return -ENOSPC;

	struct message_head head = {.magic = MESSAGE_MAGIC,
				    .version = MESSAGE_VERSION,
				    .kind = (uint16_t)kind,
				    .length = (uint32_t)length};
	int rc = buf_reserve(out, sizeof(head) + length);
	if (rc == 0)
		rc = buf_add(out, &head, sizeof(head));
	if (rc == 0 && length > 0)
		rc = buf_add(out, body, length);

	return rc;
}

int message_add_inventory(struct buf *out, const struct inventory *inventory)
{
	struct inventory head = *inventory;
	head.gpus = NULL;
	head.migs = NULL;

	size_t gpus = inventory->gpu_count * sizeof(struct gpu);
	size_t migs = inventory->mig_count * sizeof(struct mig_device);
	size_t length = sizeof(head) + gpus + migs;
	_cleanup_free_ unsigned char *body = malloc(length);
	if (!body)
		return -ENOMEM;

	memcpy(body, &head, sizeof(head));
	if (gpus)
		memcpy(body + sizeof(head), inventory->gpus, gpus);
	if (migs)
		memcpy(body + sizeof(head) + gpus, inventory->migs, migs);

	return message_add(out, MESSAGE_INVENTORY, body, length);
}

int message_next(const void *bytes, size_t length, enum message_kind *out_kind,
		 const void **out_body, size_t *out_length, size_t *out_used)
{
	struct message_head head;
	if (length < sizeof(head))
		return 0;

	memcpy(&head, bytes, sizeof(head));
	if (head.magic != MESSAGE_MAGIC || head.version != MESSAGE_VERSION ||
	    head.kind < MESSAGE_INVENTORY || head.kind > MESSAGE_DONE ||
	    head.length > MESSAGE_BODY_MAX)
		return -EPROTO;

	if (length - sizeof(head) < head.length)
		return 0;

	*out_kind = (enum message_kind)head.kind;
	*out_body = (const unsigned char *)bytes + sizeof(head);
	*out_length = head.length;
	*out_used = sizeof(head) + head.length;

	return 1;
}

static bool text_is_ended(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

#define ENDED(text) text_is_ended((text), sizeof(text))

/* A bool of the other side is a byte that may hold anything: look at it as one. */
static bool is_bool(const bool *value)
{
	unsigned char byte;
	memcpy(&byte, value, 1);
	return byte <= 1;
}

static bool gpu_is_valid(const struct gpu *gpu)
{
	if (!ENDED(gpu->uuid) || !ENDED(gpu->name) || !ENDED(gpu->serial) || !ENDED(gpu->vbios) ||
	    !ENDED(gpu->board_part) || !ENDED(gpu->reason) || !is_bool(&gpu->has_pci) ||
	    !is_bool(&gpu->has_fabric))
		return false;

	if (gpu->state > GPU_STATE_ERROR || gpu->mig_current > GPU_MIG_ENABLED ||
	    gpu->mig_pending > GPU_MIG_ENABLED || gpu->mig_max > GPU_MIG_MAX ||
	    gpu->link_count > GPU_LINK_MAX)
		return false;

	for (uint32_t i = 0; i < gpu->link_count; i++) {
		if (gpu->link[i].peer > GPU_LINK_OTHER)
			return false;
	}

	return true;
}

static bool inventory_is_valid(const struct inventory *inventory)
{
	if (!ENDED(inventory->driver_version) || !ENDED(inventory->nvml_version) ||
	    !ENDED(inventory->library_path) || !is_bool(&inventory->simulated))
		return false;

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		if (!gpu_is_valid(&inventory->gpus[i]))
			return false;
	}

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		const struct mig_device *mig = &inventory->migs[i];
		if (!ENDED(mig->uuid) || !ENDED(mig->profile) ||
		    mig->parent >= inventory->gpu_count)
			return false;
	}

	return true;
}

int message_read_inventory(const void *body, size_t length, struct inventory *out)
{
	struct inventory read;
	if (length < sizeof(read))
		return -EPROTO;

	memcpy(&read, body, sizeof(read));
	read.gpus = NULL;
	read.migs = NULL;
	if (read.gpu_count > GPU_MAX || read.mig_count > GPU_MAX * GPU_MIG_MAX)
		return -EPROTO;

	size_t gpus = read.gpu_count * sizeof(struct gpu);
	size_t migs = read.mig_count * sizeof(struct mig_device);
	if (length != sizeof(read) + gpus + migs)
		return -EPROTO;

	_cleanup_free_ struct gpu *gpu = gpus ? malloc(gpus) : NULL;
	_cleanup_free_ struct mig_device *mig = migs ? malloc(migs) : NULL;
	if ((gpus && !gpu) || (migs && !mig))
		return -ENOMEM;

	const unsigned char *bytes = body;

	if (gpus)
		memcpy(gpu, bytes + sizeof(read), gpus);
	if (migs)
		memcpy(mig, bytes + sizeof(read) + gpus, migs);
	read.gpus = gpu;
	read.migs = mig;
	if (!inventory_is_valid(&read))
		return -EPROTO;

	(void)take_ptr(gpu);
	(void)take_ptr(mig);
	*out = read;

	return 0;
}

int message_read_snapshot(const void *body, size_t length, struct snapshot **out)
{
	if (length < snapshot_length(0) || length > sizeof(struct snapshot))
		return -EPROTO;

	/* As much as there is, and not what 64 GPUs would need: a new one comes each second. */
	_cleanup_free_ struct snapshot *snapshot = malloc(length);
	if (!snapshot)
		return -ENOMEM;

	memcpy(snapshot, body, length);
	if (!snapshot_is_valid(snapshot, length))
		return -EPROTO;

	*out = take_ptr(snapshot);
	return 0;
}

int message_read_event(const void *body, size_t length, struct message_event *out)
{
	struct message_event read;
	if (length != sizeof(read))
		return -EPROTO;

	memcpy(&read, body, sizeof(read));
	if (read.event.kind >= PROBE_EVENT_KIND_COUNT || read.event.source > PROBE_SOURCE_PROBE ||
	    !ENDED(read.event.uuid) || !ENDED(read.event.bus) || !ENDED(read.event.text))
		return -EPROTO;

	*out = read;
	return 0;
}

int message_read_notice(const void *body, size_t length, struct message_notice *out)
{
	struct message_notice read;
	if (length != sizeof(read))
		return -EPROTO;

	memcpy(&read, body, sizeof(read));
	if (!ENDED(read.text) || read.code > 0 || read.code < -4095)
		return -EPROTO;

	*out = read;
	return 0;
}
