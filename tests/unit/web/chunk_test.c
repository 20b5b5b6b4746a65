/* SPDX-License-Identifier: Apache-2.0 */
#include "web/chunk.h"

#include <string.h>

#include <zlib.h>

#include "unit/unit.h"

static void test_counted(void **state)
{
	struct chunk *chunk = chunk_new(100, NULL);
	if (!chunk)
		return; /* failmalloc */
	assert_ptr_equal(chunk_ref(chunk), chunk);
	assert_null(chunk_unref(chunk));
	assert_int_equal(chunk->references, 1);
	if (buf_add_text(&chunk->buf, "text") == 0) {
		chunk_trim(chunk);
		assert_string_equal(buf_text(&chunk->buf), "text");
	}
	assert_null(chunk_unref(chunk));
	assert_null(chunk_unref(NULL));
}

static void test_gzip(void **state)
{
	struct chunk *chunk = chunk_new(1 << 20, NULL);
	char line[] = "sluice_gpu_utilization_ratio{gpu=\"0\"} 0.5\n", *back = NULL;
	size_t length = 0;
	if (!chunk)
		return;
	for (int i = 0; i < 1000; i++) {
		if (buf_add_text(&chunk->buf, line) < 0)
			break;
		length += sizeof(line) - 1;
	}
	struct chunk *packed = chunk_gzip(chunk, NULL);
	if (packed) {
		z_stream stream = {.next_in = (Bytef *)packed->buf.data,
				   .avail_in = (uInt)packed->buf.length};
		back = test_malloc(length + 1);
		stream.next_out = (Bytef *)back;
		stream.avail_out = (uInt)length + 1;
		assert_true(packed->buf.length < length / 4 + 32);
		if (inflateInit2(&stream, 15 + 16) == Z_OK) {
			assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
			assert_int_equal(stream.total_out, length);
			assert_memory_equal(back, buf_text(&chunk->buf), length);
			(void)inflateEnd(&stream);
		}
		test_free(back);
	}
	chunk_unref(packed);
	chunk_unref(chunk);
}

static void test_empty_gzip(void **state)
{
	struct chunk *chunk = chunk_new(1, NULL);
	struct chunk *packed = chunk ? chunk_gzip(chunk, NULL) : NULL;
	if (packed)
		assert_int_equal(packed->buf.length, 20);
	chunk_unref(packed);
	chunk_unref(chunk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_counted),
	    cmocka_unit_test(test_gzip),
	    cmocka_unit_test(test_empty_gzip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
