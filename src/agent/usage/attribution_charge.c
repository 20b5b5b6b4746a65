/* SPDX-License-Identifier: Apache-2.0 */
/* How the busy time of a device is divided. */
#include <stdio.h>
#include <string.h>

#include "agent/usage/attribution_internal.h"
#include "agent/usage/holdings.h"

enum { MILLION = 1000000 };
#define ATTRIBUTION_LONG_NS UINT64_C(60000000000) /* without a sample: nobody knows who it was */

/* --- busy time ---------------------------------------------------------------------------------
 */

static struct attribution_gpu *attribution_gpu(struct attribution *attribution, const char *uuid)
{
	for (uint32_t i = 0; i < attribution->gpu_count; i++)
		if (strcmp(attribution->gpu[i].uuid, uuid) == 0)
			return &attribution->gpu[i];
	return NULL;
}

/* How much a counter has grown; absent when either is, or it went backwards. */
static uint64_t grown(uint64_t before, uint64_t now)
{
	if (before == SNAPSHOT_U64_ABSENT || now == SNAPSHOT_U64_ABSENT || now < before)
		return SNAPSHOT_U64_ABSENT;
	return now - before;
}

static void attribution_set_busy(const struct attribution *attribution, uint32_t gpu, uint32_t mig,
				 bool is_told)
{
	struct holding *at;
	for (size_t i = 0; (at = holdings_at(attribution->holdings, i)); i++)
		if (at->is_here && at->view.gpu == gpu && at->view.mig == mig)
			at->view.has_busy = is_told || at->view.processes == 0;
}

static void attribution_charge_gpu(struct attribution *attribution, const struct view *view,
				   uint32_t g, uint64_t elapsed_ns, const struct gathered *gathered,
				   struct attribution_gpu *before)
{
	const struct snapshot_gpu *gpu = &view->snapshot.gpu[g];
	struct holdings_use uses[SNAPSHOT_PROCESS_MAX + 1];
	struct holdings_device device = {.elapsed_ns = elapsed_ns};
	size_t count = 0;

	for (uint32_t p = 0; p < gpu->process_count; p++) {
		uint32_t percent = gpu->process[p].util_sm;
		uses[count++] = (struct holdings_use){
		    gathered->holding[p],
		    percent == SNAPSHOT_U32_ABSENT || percent <= 100 ? percent : 100};
	}

	/* Somebody of whom nothing else is known. */
	if (gpu->process_total > gpu->process_count)
		uses[count++] = (struct holdings_use){NULL, SNAPSHOT_U32_ABSENT};
	device.busy_ns = grown(before->busy_ns, view->gpu[g].busy_ns);
	device.energy_mj = grown(before->energy_mj, view->gpu[g].energy_mj);

	bool is_told = holdings_charge(&before->purse, &device, uses, count);
	attribution_set_busy(
	    attribution, g, SNAPSHOT_U32_ABSENT,
	    is_told && (before->purse.tells || view->gpu[g].busy_ns != SNAPSHOT_U64_ABSENT));
}

/* Whether `owner` alone is in the GPU instance: nobody else was given a part of it, and every
 * process there is his. */
static bool attribution_is_alone(const struct attribution *attribution, const struct view *view,
				 uint32_t g, uint32_t gi, const struct gathered *gathered,
				 struct holding **out_owner)
{
	const struct snapshot_gpu *gpu = &view->snapshot.gpu[g];
	struct holding *owner = NULL, *at;

	for (size_t i = 0; (at = holdings_at(attribution->holdings, i)); i++) {
		if (!at->is_here || at->view.gpu != g || at->view.mig == SNAPSHOT_U32_ABSENT ||
		    gpu->mig[at->view.mig].gi != gi)
			continue;
		if (owner && strcmp(owner->owner, at->owner) != 0)
			return false;
		if (!owner || at->view.mig < owner->view.mig)
			owner = at;
	}

	for (uint32_t p = 0; p < gpu->process_count; p++)
		if (gpu->process[p].gi == gi && !gathered->holding[p])
			return false;

	*out_owner = owner;
	return owner && gpu->process_total == gpu->process_count;
}

/* The activity of a GPU instance is its owner's, if it has one. No driver tells more. Its first
 * compute instance has it. */
static void attribution_charge_mig(const struct attribution *attribution, const struct view *view,
				   uint32_t g, uint64_t elapsed_ns, const struct gathered *gathered)
{
	const struct snapshot_gpu *gpu = &view->snapshot.gpu[g];

	for (uint32_t m = 0; m < gpu->mig_count; m++) {
		uint32_t activity = gpu->mig[m].activity[SNAPSHOT_ACTIVITY_GRAPHICS];
		struct holding *owner = NULL;

		if (activity == SNAPSHOT_U32_ABSENT) {
			attribution_set_busy(attribution, g, m, false);
			continue;
		}

		bool is_alone =
		    attribution_is_alone(attribution, view, g, gpu->mig[m].gi, gathered, &owner);
		const struct holdings_device device = {
		    .elapsed_ns = elapsed_ns,
		    .busy_ns = elapsed_ns * (activity < MILLION ? activity : MILLION) / MILLION,
		    .energy_mj = SNAPSHOT_U64_ABSENT};
		const struct holdings_use use = {owner, SNAPSHOT_U32_ABSENT};
		struct holdings_purse purse = {0};

		if (is_alone)
			(void)holdings_charge(&purse, &device, &use, 1);
		attribution_set_busy(attribution, g, m, is_alone);
	}
}

void attribution_charge(struct attribution *attribution, const struct view *view, uint32_t g,
			const struct gathered *gathered)
{
	const struct snapshot_gpu *gpu = &view->snapshot.gpu[g];
	struct attribution_gpu *before = attribution_gpu(attribution, gpu->uuid);
	uint64_t elapsed_ns = view->snapshot.taken_ns - attribution->taken_ns;

	/* Seen for the first time, or not for long: who is here now may not have been then. */
	if (!before || elapsed_ns > ATTRIBUTION_LONG_NS)
		return;
	if (gpu->mig_count > 0)
		attribution_charge_mig(attribution, view, g, elapsed_ns, gathered);
	else
		attribution_charge_gpu(attribution, view, g, elapsed_ns, gathered, before);
}

/* What the next sample is compared with. */
void attribution_remember(struct attribution *attribution, const struct view *view)
{
	struct attribution_gpu now[SNAPSHOT_GPU_MAX];

	for (uint32_t g = 0; g < view->snapshot.gpu_count; g++) {
		const struct attribution_gpu *before =
		    attribution_gpu(attribution, view->snapshot.gpu[g].uuid);

		now[g] = (struct attribution_gpu){.busy_ns = view->gpu[g].busy_ns,
						  .energy_mj = view->gpu[g].energy_mj};
		if (before)
			now[g].purse = before->purse;
		(void)snprintf(now[g].uuid, sizeof(now[g].uuid), "%s", view->snapshot.gpu[g].uuid);
	}

	attribution->gpu_count = view->snapshot.gpu_count;
	memcpy(attribution->gpu, now, attribution->gpu_count * sizeof(now[0]));
	attribution->taken_ns = view->snapshot.taken_ns;
}
