/* SPDX-License-Identifier: Apache-2.0 */
#include "web/metrics.h"

#include "base/buf.h"
#include "base/err.h"

int metrics_render(const struct view *view, uint64_t now_ns, enum view_set set, struct buf *out,
		   struct err *err)
{
	int rc = buf_printf(out,
			    "# HELP sluice_gpus GPUs that the driver has.\n"
			    "# TYPE sluice_gpus gauge\nsluice_gpus %u\n",
			    view->snapshot.gpu_count);
	return rc < 0 ? err_set(err, rc, "no room for the metrics") : 0;
}
