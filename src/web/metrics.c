/* SPDX-License-Identifier: Apache-2.0 */
#include "web/metrics.h"

#include "base/err.h"
#include "web/metrics_page.h"

int metrics_render(const struct view *view, uint64_t now_ns, enum view_set set, struct buf *out,
		   struct err *err)
{
	struct metrics_page page;
	metrics_page_begin(&page, view, now_ns, out);
	if (set != VIEW_SET_DCGM)
		metrics_native(&page);
	if (set != VIEW_SET_NATIVE && view->settings.dcgm != VIEW_DCGM_OFF)
		metrics_dcgm(&page);

	int rc = metrics_out_end(&page.out);
	return rc < 0 ? err_set(err, rc, "metrics: %s", err_describe(rc)) : 0;
}
