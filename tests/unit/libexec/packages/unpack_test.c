/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/unpack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "tests/unit/unit.h"

/* "sluice\n", packed by xz 5.4 and zstd 1.5. */
#ifdef HAVE_LZMA
static const unsigned char packed_xz[] = {
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01,
    0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x06, 0x73, 0x6c, 0x75, 0x69, 0x63,
    0x65, 0x0a, 0x00, 0x00, 0x8d, 0xdb, 0x7f, 0xfc, 0x77, 0x6c, 0xfc, 0x62, 0x00, 0x01, 0x1f, 0x07,
    0x16, 0x2e, 0xb8, 0x73, 0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a};
#endif
#ifdef HAVE_ZSTD
static const unsigned char packed_zstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x39,
					    0x00, 0x00, 0x73, 0x6c, 0x75, 0x69, 0x63,
					    0x65, 0x0a, 0xbb, 0x5b, 0x6e, 0x3f};
#endif

static int rig_add(const char *data, size_t length, void *context)
{
	return buf_add(context, data, length);
}

static int rig_unpack(const void *bytes, size_t length, size_t size, uint64_t max, struct buf *out,
		      struct err *err)
{
	struct unpack *unpack = unpack_new(max, rig_add, out);
	int result = 0;
	assert_non_null(unpack);
	for (size_t at = 0; at < length && result == 0; at += size)
		result = unpack_feed(unpack, (const char *)bytes + at,
				     length - at < size ? length - at : size, err);
	if (result == 0)
		result = unpack_end(unpack, err);
	assert_null(unpack_free(unpack));
	return result;
}

/* Packs by zlib; returns the length. */
static size_t rig_gzip(const char *text, size_t length, unsigned char *out, size_t size)
{
	z_stream stream = {.next_in = (Bytef *)(uintptr_t)text,
			   .avail_in = (uInt)length,
			   .next_out = out,
			   .avail_out = (uInt)size};
	assert_int_equal(
	    deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	(void)deflateEnd(&stream);
	return size - stream.avail_out;
}

static void rig_check(const void *bytes, size_t length, const char *wanted)
{
	for (size_t size = 1; size <= length + 1; size++) {
		_cleanup_buf_ struct buf out;
		struct err err = {0};
		buf_init(&out, 1000);
		assert_int_equal(rig_unpack(bytes, length, size, 1000, &out, &err), 0);
		assert_string_equal(buf_text(&out), wanted);
	}
	/* Without its end. */
	for (size_t cut = 7; cut < length; cut++) {
		_cleanup_buf_ struct buf out;
		struct err err = {0};
		buf_init(&out, 1000);
		int result = rig_unpack(bytes, cut, 5, 1000, &out, &err);
		assert_true(result == -EBADMSG);
		assert_true(*err.text);
	}
}

static void test_each_kind(void **state)
{
	unsigned char packed[256];
	size_t length = rig_gzip("sluice\n", 7, packed, sizeof(packed));
	rig_check(packed, length, "sluice\n");
#ifdef HAVE_LZMA
	rig_check(packed_xz, sizeof(packed_xz), "sluice\n");
#endif
#ifdef HAVE_ZSTD
	rig_check(packed_zstd, sizeof(packed_zstd), "sluice\n");
#endif
}

static void test_plain_text(void **state)
{
	static const char *const texts[] = {"", "a", "Package: a\n", "\x1f", "\3757zX"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		_cleanup_buf_ struct buf out;
		struct err err = {0};
		buf_init(&out, 1000);
		assert_int_equal(rig_unpack(texts[i], strlen(texts[i]), 3, 1000, &out, &err), 0);
		assert_string_equal(buf_text(&out), texts[i]);
	}
}

static void test_several_members(void **state)
{
	unsigned char packed[256];
	size_t length = rig_gzip("one ", 4, packed, sizeof(packed));
	length += rig_gzip("two", 3, packed + length, sizeof(packed) - length);
	for (size_t size = 1; size <= length; size++) {
		_cleanup_buf_ struct buf out;
		struct err err = {0};
		buf_init(&out, 1000);
		assert_int_equal(rig_unpack(packed, length, size, 1000, &out, &err), 0);
		assert_string_equal(buf_text(&out), "one two");
	}
	/* What comes behind is no third one. */
	_cleanup_buf_ struct buf out;
	struct err err = {0};
	buf_init(&out, 1000);
	memcpy(packed + length, "garbage", 7);
	assert_int_equal(rig_unpack(packed, length + 7, 1000, 1000, &out, &err), -EBADMSG);
}

static void test_a_bomb(void **state)
{
	enum { SIZE = 8 << 20 };
	char *zeros = calloc(1, SIZE);
	unsigned char packed[32 << 10];
	assert_non_null(zeros);
	size_t length = rig_gzip(zeros, SIZE, packed, sizeof(packed));
	free(zeros);
	_cleanup_buf_ struct buf out;
	struct err err = {0};
	buf_init(&out, SIZE);
	assert_int_equal(rig_unpack(packed, length, 1000, 1 << 20, &out, &err), -EFBIG);
	assert_true(out.length <= 1 << 20);
	buf_clear(&out);
	/* The sink's own limit ends it as well. */
	out.max = 100000;
	assert_int_equal(rig_unpack(packed, length, 1000, SIZE, &out, &err), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_kind),
	    cmocka_unit_test(test_plain_text),
	    cmocka_unit_test(test_several_members),
	    cmocka_unit_test(test_a_bomb),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
