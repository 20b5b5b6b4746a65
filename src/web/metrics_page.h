/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page of metrics while it is made: the view, and for each GPU, MIG instance and holder the
 * labels that all of its series share. Used by metrics*.c only.
 */
#ifndef SLUICE_WEB_METRICS_PAGE_H
#define SLUICE_WEB_METRICS_PAGE_H

#include "web/metrics_out.h"
#include "web/view.h"

/* Slots of the largest set: twice the holders, a power of two. */
enum { METRICS_SLOT_MAX = 4096 };

struct metrics_page {
	const struct view *view;
	uint64_t now_ns;
	struct metrics_out out;
	/* None for those that were there already, with everything that belongs to them. */
	struct metrics_labels gpu[SNAPSHOT_GPU_MAX];
	struct metrics_labels mig[SNAPSHOT_GPU_MAX][SNAPSHOT_MIG_MAX];
	struct metrics_labels holder[VIEW_HOLDER_MAX];
	uint64_t slot[METRICS_SLOT_MAX];
};

/* Makes the labels of GPUs and MIG instances. */
void metrics_page_begin(struct metrics_page *page, const struct view *view, uint64_t now_ns,
			struct buf *out);
/* A set for `count` labels; the one before is gone. */
struct metrics_seen metrics_page_seen(struct metrics_page *page, uint32_t count);

/* MIG mode is on, or instances are there: the driver tells no use of the GPU as a whole. */
bool metrics_gpu_has_mig(const struct snapshot_gpu *gpu);
/* The first of its GPU instance, for which memory and activity are told. */
bool metrics_mig_is_first(const struct snapshot_gpu *gpu, uint32_t mig);
/* A label unless its value is "". */
void metrics_labels_some(struct metrics_out *m, const char *name, const char *value);

/* All families of our own names, of DCGM's. */
void metrics_native(struct metrics_page *page);
void metrics_dcgm(struct metrics_page *page);

#endif
