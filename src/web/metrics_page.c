/* SPDX-License-Identifier: Apache-2.0 */
#include "web/metrics_page.h"

#include <string.h>

_Static_assert((int)METRICS_SLOT_MAX > 2 * (int)VIEW_HOLDER_MAX, "at most half of a set is filled");

bool metrics_gpu_has_mig(const struct snapshot_gpu *gpu)
{
	int64_t mode = 0;
	return gpu->mig_count > 0 || (snapshot_get(gpu, SNAPSHOT_MIG_MODE, &mode) && mode == 1);
}

bool metrics_mig_is_first(const struct snapshot_gpu *gpu, uint32_t mig)
{
	for (uint32_t i = 0; i < mig; i++)
		if (gpu->mig[i].gi == gpu->mig[mig].gi)
			return false;
	return true;
}

void metrics_labels_some(struct metrics_out *m, const char *name, const char *value)
{
	if (value[0] != '\0')
		metrics_labels_text(m, name, value);
}

struct metrics_seen metrics_page_seen(struct metrics_page *page, uint32_t count)
{
	struct metrics_seen seen;
	uint32_t slots = 16;
	while (slots < METRICS_SLOT_MAX && slots < 2 * count + 2)
		slots *= 2;
	metrics_seen_init(&seen, page->slot, slots);
	return seen;
}

static void page_migs(struct metrics_page *page, uint32_t place, struct metrics_seen *seen)
{
	struct metrics_out *m = &page->out;
	const struct snapshot_gpu *gpu = &page->view->snapshot.gpu[place];

	for (uint32_t i = 0; i < gpu->mig_count; i++) {
		const struct snapshot_mig *mig = &gpu->mig[i];
		page->mig[place][i] = (struct metrics_labels){0};
		if (page->gpu[place].length == 0)
			continue;

		struct metrics_labels labels = metrics_labels_begin(m);

		metrics_labels_copy(m, page->gpu[place]);
		metrics_labels_number(m, "gpu_instance_id", mig->gi);
		metrics_labels_number(m, "compute_instance_id", mig->ci);
		metrics_labels_text(m, "mig_profile", mig->profile);
		metrics_labels_text(m, "mig_uuid", mig->uuid);
		page->mig[place][i] = metrics_seen_once(m, seen, metrics_labels_end(m, labels));
	}
}

void metrics_page_begin(struct metrics_page *page, const struct view *view, uint64_t now_ns,
			struct buf *out)
{
	struct metrics_out *m = &page->out;
	uint32_t count = view->snapshot.gpu_count;

	page->view = view;
	page->now_ns = now_ns;
	metrics_out_begin(m, out);

	struct metrics_seen seen = metrics_page_seen(page, count);
	for (uint32_t i = 0; i < count; i++) {
		struct metrics_labels labels = metrics_labels_begin(m);
		metrics_labels_number(m, "gpu", view->snapshot.gpu[i].index);
		metrics_labels_text(m, "uuid", view->snapshot.gpu[i].uuid);
		page->gpu[i] = metrics_seen_once(m, &seen, metrics_labels_end(m, labels));
	}

	seen = metrics_page_seen(page, count * SNAPSHOT_MIG_MAX);
	for (uint32_t i = 0; i < count; i++)
		page_migs(page, i, &seen);
}
