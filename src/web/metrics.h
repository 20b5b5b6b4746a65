/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view as Prometheus reads it: text format 0.0.4. Pure: nothing but the view decides.
 */
#ifndef SLUICE_WEB_METRICS_H
#define SLUICE_WEB_METRICS_H

#include <stdint.h>

#include "web/view.h"

struct buf;
struct err;

/* Appends all series of `set` to `out`. `now_ns` is CLOCK_MONOTONIC. 0, -ENOSPC, -ENOMEM. */
int metrics_render(const struct view *view, uint64_t now_ns, enum view_set set, struct buf *out,
		   struct err *err);

#endif
