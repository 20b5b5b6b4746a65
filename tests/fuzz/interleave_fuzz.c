/* SPDX-License-Identifier: Apache-2.0 */
/* Any index beside files of any size: each byte of both is shown once, in its file's order, whether
 * it ends at once or was followed before. */
#include "job/interleave.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(struct interleave *self, const struct interleave_view *view,
		 uint64_t shown[INTERLEAVE_STREAMS])
{
	struct interleave_piece piece;

	while (interleave_next(self, view, &piece)) {
		if (piece.length == 0 || piece.offset != shown[piece.stream] ||
		    piece.length > view->sizes[piece.stream] - piece.offset)
			abort();
		shown[piece.stream] += piece.length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct interleave self = {0};
	uint64_t shown[INTERLEAVE_STREAMS] = {0};
	if (size < 4)
		return 0;

	struct interleave_view view = {
	    .index = data + 4, .index_length = (size - 4) / 2, .sizes = {data[0], data[1]}};
	show(&self, &view, shown);
	view.sizes[0] += data[2];
	view.sizes[1] += data[3];
	view.index_length = size - 4;
	show(&self, &view, shown);
	view.is_final = true;
	show(&self, &view, shown);
	if (shown[0] != view.sizes[0] || shown[1] != view.sizes[1])
		abort();
	return 0;
}
