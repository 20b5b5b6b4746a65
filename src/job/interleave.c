/* SPDX-License-Identifier: Apache-2.0 */
#include "job/interleave.h"

#include <errno.h>
#include <string.h>

enum { INTERLEAVE_STREAM_BIT = 63, INTERLEAVE_BYTE_BITS = 8 };

void interleave_format(enum interleave_stream stream, uint64_t length,
		       uint8_t out[INTERLEAVE_RECORD])
{
	uint64_t value = length | (uint64_t)stream << INTERLEAVE_STREAM_BIT;
	for (int i = 0; i < INTERLEAVE_RECORD; i++)
		out[i] = (uint8_t)(value >> (i * INTERLEAVE_BYTE_BITS));
}

int interleave_parse(const uint8_t record[INTERLEAVE_RECORD], enum interleave_stream *out_stream,
		     uint64_t *out_length)
{
	uint64_t value = 0;
	for (int i = 0; i < INTERLEAVE_RECORD; i++)
		value |= (uint64_t)record[i] << (i * INTERLEAVE_BYTE_BITS);

	uint64_t length = value & ~(UINT64_C(1) << INTERLEAVE_STREAM_BIT);
	if (length == 0)
		return -EBADMSG;

	*out_stream = value >> INTERLEAVE_STREAM_BIT ? INTERLEAVE_ERR : INTERLEAVE_OUT;
	*out_length = length;
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static uint64_t interleave_left(const struct interleave *self, const uint64_t *sizes,
				enum interleave_stream stream)
{
	return sizes[stream] > self->at[stream] ? sizes[stream] - self->at[stream] : 0;
}

void interleave_sizes(const struct interleave *self, uint64_t out_before, uint64_t err_size,
		      uint64_t out_after, uint64_t sizes[INTERLEAVE_STREAMS])
{
	bool has_errors = err_size > self->at[INTERLEAVE_ERR];
	sizes[INTERLEAVE_OUT] = has_errors ? out_after : out_before;
	sizes[INTERLEAVE_ERR] = err_size;
}

bool interleave_is_stuck(const struct interleave *self, const uint64_t sizes[INTERLEAVE_STREAMS])
{
	bool has_more = interleave_left(self, sizes, INTERLEAVE_OUT) > 0 ||
			interleave_left(self, sizes, INTERLEAVE_ERR) > 0;
	return has_more && sizes[INTERLEAVE_OUT] > 0 && sizes[INTERLEAVE_ERR] > 0;
}

static void interleave_give(struct interleave *self, enum interleave_stream stream, uint64_t length,
			    struct interleave_piece *out)
{
	*out = (struct interleave_piece){
	    .stream = stream, .offset = self->at[stream], .length = length};
	self->at[stream] += length;
}

/* What the records say. */
static bool interleave_told(struct interleave *self, const struct interleave_view *view,
			    struct interleave_piece *out, bool *out_waits)
{
	size_t count = view->index_length / INTERLEAVE_RECORD;

	while (!self->is_bad && self->record < count && self->record < INTERLEAVE_RECORDS_MAX) {
		enum interleave_stream stream;
		uint64_t length;
		const uint8_t *record = view->index + self->record * INTERLEAVE_RECORD;

		if (interleave_parse(record, &stream, &length) < 0) {
			self->is_bad = true;
			break;
		}

		uint64_t left = length > self->used ? length - self->used : 0;
		uint64_t shown = left < self->ahead[stream] ? left : self->ahead[stream];
		self->used += shown;
		self->ahead[stream] -= shown;
		left -= shown;

		uint64_t there = interleave_left(self, view->sizes, stream);
		if (left > 0 && there > 0) {
			uint64_t given = left < there ? left : there;
			self->used += given;
			interleave_give(self, stream, given, out);
			return true;
		}

		if (left > 0 && !view->is_final) {
			*out_waits = true; /* for what it tells of */
			return false;
		}

		if (left == 0 && self->record + 1 == count)
			break; /* it may grow */

		self->record++;
		self->used = 0;
	}

	return false;
}

bool interleave_next(struct interleave *self, const struct interleave_view *view,
		     struct interleave_piece *out)
{
	bool waits = false;
	if (interleave_told(self, view, out, &waits))
		return true;
	if (waits || (!view->is_final && interleave_is_stuck(self, view->sizes)))
		return false;

	for (int i = 0; i < INTERLEAVE_STREAMS; i++) {
		enum interleave_stream stream = (enum interleave_stream)i;
		uint64_t left = interleave_left(self, view->sizes, stream);
		if (left == 0)
			continue;

		self->ahead[stream] += left;
		interleave_give(self, stream, left, out);
		return true;
	}

	return false;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* How long the next line is, of what is left of a stream: with its end, or all. */
static uint64_t interleave_line(const char *text, uint64_t at, uint64_t size)
{
	const char *end = memchr(text + at, '\n', (size_t)(size - at));
	return end ? (uint64_t)(end - text) + 1 - at : size - at;
}

size_t interleave_split(const struct interleave_window *window,
			void (*add)(enum interleave_stream stream, uint64_t length, void *context),
			void *context)
{
	uint64_t at[INTERLEAVE_STREAMS] = {0};
	size_t turns[INTERLEAVE_STREAMS];
	turns[window->first] = window->run_count - window->run_count / 2;
	turns[!window->first] = window->run_count / 2;

	for (size_t i = 0; i < window->run_count; i++) {
		enum interleave_stream stream =
		    i % 2 ? (enum interleave_stream) !window->first : window->first;
		uint64_t left = window->grown[stream] - at[stream], given = left;
		if (left == 0)
			return window->run_count - i;
		if (--turns[stream] > 0 && window->text[stream])
			given = interleave_line(window->text[stream], at[stream],
						window->grown[stream]);

		at[stream] += given;
		add(stream, given, context);
	}

	for (int i = 0; i < INTERLEAVE_STREAMS; i++)
		if (window->grown[i] > at[i])
			add((enum interleave_stream)i, window->grown[i] - at[i], context);

	return 0;
}
