/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Prometheus reads: the view as text of the exposition format 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/). Pure: nothing but the view and
 * the time decides, and it knows nothing of HTTP. Two sets of names: our own (metrics.def) and
 * those of NVIDIA's dcgm-exporter (dcgm.def). Both files are tables; the man page is made from
 * them.
 *
 * What is not known has no series; nothing is 0 because it is not known. Whatever a name holds, the
 * text is valid UTF-8, and no series appears twice.
 */
#ifndef SLUICE_WEB_METRICS_H
#define SLUICE_WEB_METRICS_H

#include <stdint.h>

#include "web/view.h"

struct buf;
struct err;

enum metrics_limits {
	METRICS_LABELS_MAX = 12, /* of a series of our own names */
};

/*
 * Appends all series of `set`. `now_ns` is CLOCK_MONOTONIC. 0, -ENOSPC (more than `out` takes) or
 * -ENOMEM; `out` is then as it was.
 */
int metrics_render(const struct view *view, uint64_t now_ns, enum view_set set, struct buf *out,
		   struct err *err);

/* One row of a table, for documents and tests. */
struct metrics_family {
	const char *name;
	const char *name_new; /* DCGM's new name; NULL: it has but one */
	const char *type;     /* "gauge", "counter" */
	const char *labels;   /* beside those that every series of its kind has; "" */
	const char *help;
	const char *source; /* where the figure comes from; "" for DCGM's names */
};

/* Row `index` of our own names, of DCGM's; NULL behind the last. */
const struct metrics_family *metrics_family(uint32_t index);
const struct metrics_family *metrics_dcgm_family(uint32_t index);

#endif
