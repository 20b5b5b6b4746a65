/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "unit/unit.h"

static void test_decode(void **state)
{
	static const struct {
		const char *text;
		uint32_t character;
		size_t size;
	} cases[] = {
	    {"a", 'a', 1},
	    {"\xc3\xa4", 0xe4, 2},
	    {"\xe2\x82\xac", 0x20ac, 3},
	    {"\xf0\x9f\x98\x80", 0x1f600, 4},
	    {"\xf4\x8f\xbf\xbf", 0x10ffff, 4},
	    {"\xc0\xaf", TEXT_INVALID, 1},	   /* overlong */
	    {"\xe0\x80\xaf", TEXT_INVALID, 1},	   /* overlong */
	    {"\xed\xa0\x80", TEXT_INVALID, 1},	   /* surrogate */
	    {"\xf4\x90\x80\x80", TEXT_INVALID, 1}, /* beyond Unicode */
	    {"\x80", TEXT_INVALID, 1},
	    {"\xe2\x82", TEXT_INVALID, 1}, /* cut short */
	    {"\xe2\x41\x41", TEXT_INVALID, 1},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		size_t size = 0;
		assert_int_equal(text_decode(cases[i].text, strlen(cases[i].text), &size),
				 cases[i].character);
		assert_int_equal(size, cases[i].size);
	}
}

static void test_escape(void **state)
{
	static const struct {
		const char *text;
		const char *escaped;
	} cases[] = {
	    {"NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"},
	    {"\x1b[31mred", "\\x1b[31mred"},
	    {"a\tb\nc\r\x7f", "a\\x09b\\x0ac\\x0d\\x7f"},
	    {"\xc2\x9b", "\\u009b"},	 /* C1: CSI */
	    {"\xe2\x80\xae", "\\u202e"}, /* right-to-left override */
	    {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
	    {"\xff\xfe", "\\xff\\xfe"},
	    {"", ""},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		_cleanup_buf_ struct buf out;
		buf_init(&out, 100);
		assert_int_equal(text_escape(&out, cases[i].text, strlen(cases[i].text)), 0);
		assert_string_equal(buf_text(&out), cases[i].escaped);
	}
	_cleanup_buf_ struct buf small;
	buf_init(&small, 3);
	assert_int_equal(text_escape(&small, "ab\x01", 3), -ENOSPC);
}

static void test_width_and_fit(void **state)
{
	assert_int_equal(text_width("abc", 3), 3);
	assert_int_equal(text_width("\xc3\xa4", 2), 1);
	assert_int_equal(text_width("e\xcc\x81", 3), 1);		/* combining accent */
	assert_int_equal(text_width("\xe6\xbc\xa2\xe5\xad\x97", 6), 4); /* two wide characters */
	assert_int_equal(text_fit("abc", 3, 2), 2);
	assert_int_equal(text_fit("abc", 3, 9), 3);
	assert_int_equal(text_fit("\xe6\xbc\xa2\xe5\xad\x97", 6, 3), 3);
	assert_int_equal(text_fit("e\xcc\x81x", 4, 1), 3);
}

static void test_plain(void **state)
{
	char text[41];
	for (size_t length = 0; length < sizeof(text) - 1; length++) {
		memset(text, ' ', sizeof(text));
		assert_int_equal(text_plain(text, length), length);
		memset(text, '~', sizeof(text));
		assert_int_equal(text_plain(text, length), length);
		for (size_t at = 0; at < length; at++) {
			for (int byte = 0; byte < 256; byte++) {
				memset(text, 'a', sizeof(text));
				text[at] = (char)byte;
				bool is_plain = byte >= ' ' && byte <= '~';
				assert_int_equal(text_plain(text, length), is_plain ? length : at);
			}
		}
	}
	/* one that looks at eight at a time may borrow from the next */
	assert_int_equal(text_plain("abc\0 \x80\x7f\xff", 8), 3);
	assert_int_equal(text_plain("\xff\x7f\x1f    ", 8), 0);
	assert_int_equal(text_plain("abcdefg\x1f", 8), 7);
}

static void test_numbers(void **state)
{
	static const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 1234567890, UINT64_MAX};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		char text[TEXT_U64_MAX], expected[32];
		(void)snprintf(expected, sizeof(expected), "%" PRIu64, numbers[i]);
		assert_int_equal(text_u64(text, numbers[i]), strlen(expected));
		assert_string_equal(text, expected);
	}
}

static void test_copy_reads_no_further(void **state)
{
	char *bytes = malloc(3); /* nothing follows: a sanitizer sees who looks for the NUL */
	assert_non_null(bytes);
	memcpy(bytes, "abc", 3);
	char *copy = text_copy(bytes, 3);
	char *none = text_copy(NULL, 0);
	assert_non_null(copy);
	assert_non_null(none);
	assert_string_equal(copy, "abc");
	assert_string_equal(none, "");
	free(bytes);
	free(copy);
	free(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_decode),	  cmocka_unit_test(test_escape),
	    cmocka_unit_test(test_width_and_fit), cmocka_unit_test(test_plain),
	    cmocka_unit_test(test_numbers),	  cmocka_unit_test(test_copy_reads_no_further),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
