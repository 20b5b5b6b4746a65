/* SPDX-License-Identifier: Apache-2.0 */
#include "web/chunk.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <zlib.h>

#include "base/err.h"

enum chunk_internals {
	GZIP_WINDOW = 15 + 16, /* 16: with gzip's head and checksum */
	GZIP_LEVEL = 1,
	GZIP_MEMORY = 8,
};

struct chunk *chunk_new(size_t max, struct err *err)
{
	struct chunk *chunk = malloc(sizeof(*chunk));
	if (!chunk) {
		(void)err_set(err, -ENOMEM, "out of memory for an answer");
		return NULL;
	}

	buf_init(&chunk->buf, max);
	chunk->references = 1;
	return chunk;
}

struct chunk *chunk_ref(struct chunk *chunk)
{
	chunk->references++;
	return chunk;
}

struct chunk *chunk_unref(struct chunk *chunk)
{
	if (!chunk || --chunk->references > 0)
		return NULL;
	buf_done(&chunk->buf);
	free(chunk);
	return NULL;
}

void chunk_trim(struct chunk *chunk)
{
	if (!chunk->buf.data || chunk->buf.capacity == chunk->buf.length + 1)
		return;
	char *data = realloc(chunk->buf.data, chunk->buf.length + 1);
	if (!data)
		return; /* then it stays as large as it is */
	chunk->buf.data = data;
	chunk->buf.capacity = chunk->buf.length + 1;
}

struct chunk *chunk_gzip(const struct chunk *chunk, struct err *err)
{
	z_stream stream = {.next_in = (Bytef *)(uintptr_t)buf_text(&chunk->buf)};
	if (chunk->buf.length > UINT_MAX / 2 ||
	    deflateInit2(&stream, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		(void)err_set(err, -ENOMEM, "out of memory for compressing an answer");
		return NULL;
	}

	size_t bound = deflateBound(&stream, (uLong)chunk->buf.length);
	struct chunk *packed = chunk_new(bound, err);
	if (packed && buf_reserve(&packed->buf, bound) < 0) {
		(void)err_set(err, -ENOMEM, "out of memory for a compressed answer");
		packed = chunk_unref(packed);
	}

	if (packed) {
		stream.avail_in = (uInt)chunk->buf.length;
		stream.next_out = (Bytef *)packed->buf.data;
		stream.avail_out = (uInt)bound;

		/* deflateBound() has promised that this is enough */
		(void)deflate(&stream, Z_FINISH);
		packed->buf.length = stream.total_out;
		chunk_trim(packed);
	}

	(void)deflateEnd(&stream);
	return packed;
}
