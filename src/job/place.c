/* SPDX-License-Identifier: Apache-2.0 */
#include "job/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "hardware/snapshot.h"

/* Copies text of limited length; both ends are NUL-terminated and of the same or a larger size. */
static void place_copy(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from); /* cut if need be: only shown */
}

static bool place_process_is_on(const struct snapshot_process *process,
				const struct mig_device *mig)
{
	if (!(process->type & (SNAPSHOT_PROCESS_COMPUTE | SNAPSHOT_PROCESS_MPS)))
		return false;
	return !mig || (process->gi == mig->gi &&
			(process->ci == mig->ci || process->ci == SNAPSHOT_WHOLE_GPU));
}

static void place_find_outsider(const struct snapshot_gpu *gpu, const struct mig_device *mig,
				place_stranger *stranger, void *context, struct place_unit *out)
{
	for (uint32_t i = 0; i < gpu->process_count; i++) {
		const struct snapshot_process *process = &gpu->process[i];
		if (!place_process_is_on(process, mig))
			continue;

		const char *user = stranger ? stranger(process->pid, context) : "";
		if (!user)
			continue;

		out->outsider = process->pid;
		place_copy(out->outsider_user, sizeof(out->outsider_user), user);
		return;
	}
}

void place_describe(const struct inventory *inventory, const struct snapshot *snapshot,
		    uint32_t gpu_place, uint32_t mig_place, place_stranger *stranger, void *context,
		    struct place_unit *out)
{
	const struct gpu *gpu = &inventory->gpus[gpu_place];
	const struct mig_device *mig =
	    mig_place == PLACE_WHOLE ? NULL : &inventory->migs[mig_place];
	const struct snapshot_gpu *now = snapshot ? snapshot_find(snapshot, gpu->uuid) : NULL;
	uint32_t state = gpu->state;
	const char *reason = gpu->reason;

	if (state == GPU_STATE_OK && now && now->state != GPU_STATE_OK) {
		state = now->state; /* the newer of the two: it hung since */
		reason = now->reason;
	}

	*out = (struct place_unit){.index = gpu->index,
				   .gpu = gpu_place,
				   .mig = mig_place,
				   .healthy = state == GPU_STATE_OK};
	place_copy(out->uuid, sizeof(out->uuid), mig ? mig->uuid : gpu->uuid);
	place_copy(out->reason, sizeof(out->reason),
		   reason[0] ? reason : gpu_state_to_string(state));

	if (mig)
		(void)snprintf(out->label, sizeof(out->label), "MIG %u:%u", gpu->index, mig->index);
	else
		(void)snprintf(out->label, sizeof(out->label), "GPU %u", gpu->index);

	if (now)
		place_find_outsider(now, mig, stranger, context, out);
}

static bool place_is_whole(const struct gpu *gpu)
{
	return gpu->mig_current != GPU_MIG_ENABLED;
}

static const struct gpu *place_gpu_by_index(const struct inventory *inventory, uint64_t index)
{
	for (uint32_t i = 0; i < inventory->gpu_count; i++)
		if (inventory->gpus[i].index == index)
			return &inventory->gpus[i];
	return NULL;
}

static const struct mig_device *place_mig_by_index(const struct inventory *inventory,
						   const struct gpu *gpu, uint64_t index)
{
	for (uint32_t i = 0; i < inventory->mig_count; i++)
		if (&inventory->gpus[inventory->migs[i].parent] == gpu &&
		    inventory->migs[i].index == index)
			return &inventory->migs[i];
	return NULL;
}

/* What one id names: 0 and either a GPU or, with its parent, a MIG device. */
static int place_read_id(const struct inventory *inventory, const char *id,
			 const struct gpu **out_gpu, const struct mig_device **out_mig,
			 struct err *err)
{
	const char *colon = strchr(id, ':');
	uint64_t gpu_index, mig_index;

	*out_mig = NULL;
	*out_gpu = NULL;

	if (parse_u64(id, 0, UINT32_MAX - 1, &gpu_index) == 0) {
		*out_gpu = place_gpu_by_index(inventory, gpu_index);
	} else if (colon &&
		   parse_u64_span(id, (size_t)(colon - id), 0, UINT32_MAX - 1, &gpu_index) == 0 &&
		   parse_u64(colon + 1, 0, UINT32_MAX - 1, &mig_index) == 0) {
		*out_gpu = place_gpu_by_index(inventory, gpu_index);
		if (*out_gpu)
			*out_mig = place_mig_by_index(inventory, *out_gpu, mig_index);

		if (!*out_mig)
			*out_gpu = NULL;
	} else if (text_starts_with(id, "GPU-")) {
		*out_gpu = inventory_find_gpu(inventory, id);
	} else if (text_starts_with(id, "MIG-")) {
		*out_mig = inventory_find_mig(inventory, id);
		if (*out_mig)
			*out_gpu = &inventory->gpus[(*out_mig)->parent];
	} else {
		return err_set(err, -EINVAL,
			       "'%s' is no GPU: an index (3), a MIG device (3:1) or a UUID is "
			       "wanted; `sluice devices` shows them",
			       id);
	}

	if (!*out_gpu)
		return err_set(err, -ENOENT,
			       "this machine has no GPU '%s': `sluice devices` shows what it has",
			       id);

	return 0;
}

int place_resolve(const struct inventory *inventory, const char *id, uint32_t *out_gpu,
		  uint32_t *out_mig, struct err *err)
{
	const struct gpu *gpu;
	const struct mig_device *mig;
	int rc = place_read_id(inventory, id, &gpu, &mig, err);
	if (rc < 0)
		return rc;

	if (!mig && !place_is_whole(gpu))
		return err_set(err, -EINVAL,
			       "GPU %u is split into MIG devices and is not given as a whole: name "
			       "one of them (%u:0)",
			       gpu->index, gpu->index);

	*out_gpu = (uint32_t)(gpu - inventory->gpus);
	*out_mig = mig ? (uint32_t)(mig - inventory->migs) : PLACE_WHOLE;
	return 0;
}

int place_next_id(const char **list, char out[GPU_UUID_MAX], struct err *err)
{
	const char *at = *list;
	if (!at)
		return 0;

	size_t length = strcspn(at, ",");
	if (length == 0 || length >= GPU_UUID_MAX)
		return err_set(err, -EINVAL, "the list of GPUs has an entry that is %s: '%.80s'",
			       length ? "too long" : "empty", at);

	memcpy(out, at, length);
	out[length] = '\0';
	*list = at[length] == ',' ? at + length + 1 : NULL;

	return 1;
}
