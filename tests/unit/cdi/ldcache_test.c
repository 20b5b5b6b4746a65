/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/ldcache.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "tests/unit/unit.h"

enum { OLD = 1, NEW = 2 };

struct line {
	uint32_t flags;
	const char *name, *path;
};

static void add_u32(struct buf *buf, uint32_t value)
{
	assert_int_equal(buf_add(buf, &value, sizeof(value)), 0);
}

static void add_zeros(struct buf *buf, size_t count)
{
	while (count-- > 0)
		assert_int_equal(buf_add(buf, "", 1), 0);
}

/* A cache as ldconfig writes it. */
static void make(struct buf *out, int form, const struct line *lines, uint32_t count)
{
	buf_init(out, 1 << 20);
	if (form & OLD) {
		assert_int_equal(buf_add(out, "ld.so-1.7.0", 12), 0);
		add_u32(out, count);
		for (uint32_t i = 0; i < count * 3; i++)
			add_u32(out, 0);
		add_zeros(out, -out->length % 8);
	}
	uint32_t offset = 48 + 24 * count;
	assert_int_equal(buf_add_text(out, "glibc-ld.so.cache1.1"), 0);
	add_u32(out, count);
	add_zeros(out, 24);
	for (uint32_t i = 0; i < count; i++) {
		add_u32(out, lines[i].flags);
		add_u32(out, offset);
		offset += (uint32_t)strlen(lines[i].name) + 1;
		add_u32(out, offset);
		offset += (uint32_t)strlen(lines[i].path) + 1;
		add_zeros(out, 12);
	}
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(buf_add(out, lines[i].name, strlen(lines[i].name) + 1), 0);
		assert_int_equal(buf_add(out, lines[i].path, strlen(lines[i].path) + 1), 0);
	}
}

static const struct line lines[] = {
    {0x0303, "libcuda.so.1", "/usr/lib64/libcuda.so.1"},
    {0x0a03, "libcuda.so.1", "/usr/lib/aarch64/libcuda.so.1"},
    {0x0000, "libc.so.4", "/lib/libc.so.4"}, /* libc4: not ELF */
    {0x0003, "libcuda.so.1", "/usr/lib/libcuda.so.1"},
    {0x0803, "libx32.so.1", "/usr/libx32/libx32.so.1"},
    {0x0903, "libhf.so.1", "/usr/lib/hf/libhf.so.1"},
    {0x0503, "libppc.so.1", "/usr/lib/ppc/libppc.so.1"},
};
enum { LINES = sizeof(lines) / sizeof(lines[0]) };

static void expect_lines(const struct buf *buf)
{
	struct ldcache cache;
	assert_int_equal(ldcache_parse(buf->data, buf->length, &cache, NULL), 0);
	struct ldcache_entry entry;
	uint32_t at = 0;
	for (size_t i = 0; i < LINES; i++) {
		if (!(lines[i].flags & 1))
			continue;
		assert_true(ldcache_next(&cache, &at, &entry));
		assert_string_equal(entry.name, lines[i].name);
		assert_string_equal(entry.path, lines[i].path);
		assert_int_equal(entry.arch, lines[i].flags & 0xff00);
	}
	assert_false(ldcache_next(&cache, &at, &entry));
}

static void test_reads_both_forms(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf alone, combined;
	make(&alone, NEW, lines, LINES);
	expect_lines(&alone);
	make(&combined, OLD | NEW, lines, LINES);
	assert_true(combined.length > alone.length);
	expect_lines(&combined);
	/* The old part has to be as long as a multiple of 8. */
	_cleanup_buf_ struct buf odd;
	make(&odd, OLD | NEW, lines, 2);
	struct ldcache cache;
	assert_int_equal(ldcache_parse(odd.data, odd.length, &cache, NULL), 0);
	assert_int_equal(cache.count, 2);
}

static void expect_bad(const void *bytes, size_t length, int code, const char *text)
{
	struct ldcache cache = {.count = 77};
	struct err err = {0};
	assert_int_equal(ldcache_parse(bytes, length, &cache, &err), code);
	assert_non_null(strstr(err.text, text));
	assert_non_null(strstr(err.text, "/etc/ld.so.cache"));
	assert_int_equal(cache.count, 77);
}

static void put_u32(struct buf *buf, size_t offset, uint32_t value)
{
	assert_true(offset + sizeof(value) <= buf->length);
	memcpy(buf->data + offset, &value, sizeof(value));
}

static void test_believes_nothing(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf buf, old;
	expect_bad("", 0, -EINVAL, "not a cache");
	expect_bad("garbage that is long enough to hold a header and some more of it", 64, -EINVAL,
		   "not a cache");
	make(&buf, NEW, lines, LINES);
	/* Cut anywhere: an error, except that whatever follows the last text may go. */
	for (size_t length = 0; length < buf.length; length++) {
		const char *why = length < 48		     ? "not a cache"
				  : length < 48 + 24 * LINES ? "claims 7 libraries"
							     : "points outside";
		expect_bad(buf.data, length, -EINVAL, why);
	}
	expect_bad(buf.data, (size_t)LDCACHE_SIZE_MAX + 1, -EFBIG, "more than");
	put_u32(&buf, 20, LDCACHE_COUNT_MAX + 1);
	expect_bad(buf.data, buf.length, -EFBIG, "claims");
	put_u32(&buf, 20, 1000);
	expect_bad(buf.data, buf.length, -EINVAL, "claims 1000 libraries");
	put_u32(&buf, 20, LINES);
	put_u32(&buf, 48 + 4, UINT32_MAX);
	expect_bad(buf.data, buf.length, -EINVAL, "library 0 points outside");
	put_u32(&buf, 48 + 4, (uint32_t)buf.length);
	expect_bad(buf.data, buf.length, -EINVAL, "library 0 points outside");
	put_u32(&buf, 48 + 4, 0);
	put_u32(&buf, 48 + 8, (uint32_t)buf.length);
	expect_bad(buf.data, buf.length, -EINVAL, "library 0 points outside");
	put_u32(&buf, 48 + 8, 0);
	buf.data[28] = 3;
	expect_bad(buf.data, buf.length, -EINVAL, "byte order");
	buf.data[28] = 1;
	expect_bad(buf.data, buf.length, -EINVAL, "byte order");
	buf.data[28] = 2;
	buf.data[buf.length - 1] = 'x'; /* the last text does not end */
	expect_bad(buf.data, buf.length, -EINVAL, "library 6 points outside");

	make(&old, OLD | NEW, lines, LINES);
	put_u32(&old, 12, UINT32_MAX);
	expect_bad(old.data, old.length, -EINVAL, "its old part claims 4294967295");
	put_u32(&old, 12, 0);
	expect_bad(old.data, old.length, -EINVAL, "not a cache");
}

/* The machine's own, if it is one of glibc. */
static void test_reads_this_machine(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, LDCACHE_SIZE_MAX);
	if (file_read(LDCACHE_PATH, &buf, NULL) < 0)
		skip();
	struct ldcache cache;
	struct err err = {0};
	if (ldcache_parse(buf.data, buf.length, &cache, &err) < 0)
		fail_msg("%s", err.text);
	struct ldcache_entry entry;
	uint32_t at = 0, count = 0;
	while (ldcache_next(&cache, &at, &entry)) {
		assert_int_equal(entry.path[0], '/');
		count++;
	}
	assert_true(count > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_reads_both_forms),
	    cmocka_unit_test(test_believes_nothing),
	    cmocka_unit_test(test_reads_this_machine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
