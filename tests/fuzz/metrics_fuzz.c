/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a valid view holds, the page is well formed: no series twice, at most 12 labels on our
 * own, bounded, and the same when it is made again. */
#include "web/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "fuzz/exposition.h"
#include "fuzz/made_view.h"

enum {
	PAGE_MAX = 64 << 20,
	/* Of our own and DCGM's names: for a GPU, a MIG instance, a holder, anything else. */
	PER_GPU = 400,
	PER_MIG = 30,
	PER_HOLDER = 8,
	REST = 4096,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct view view;
	_cleanup_buf_ struct buf first;
	_cleanup_buf_ struct buf second;
	struct exposition page;
	buf_init(&first, PAGE_MAX);
	buf_init(&second, PAGE_MAX);
	made_view(&view, data, size);
	if (!view_is_valid(&view))
		abort();
	enum view_set set = size > 0 ? data[0] % 3 : VIEW_SET_ALL;
	if (metrics_render(&view, 1, set, &first, NULL) < 0 ||
	    metrics_render(&view, 1, set, &second, NULL) < 0)
		abort();
	if (first.length != second.length ||
	    (first.length && memcmp(first.data, second.data, first.length) != 0))
		abort();
	exposition_read(buf_text(&first), first.length, &page);
	if (page.problem[0]) {
		fprintf(stderr, "%s\n", page.problem);
		abort();
	}
	size_t gpus = view.snapshot.gpu_count;
	if (page.most_labels > METRICS_LABELS_MAX ||
	    page.series > gpus * (PER_GPU + SNAPSHOT_MIG_MAX * PER_MIG) +
			      (size_t)view.holder_count * PER_HOLDER + REST)
		abort();
	return 0;
}
