/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/failmalloc.h"
#include "unit/unit.h"

static void test_empty_allocates_nothing(void **state)
{
	struct buf buf;
	buf_init(&buf, 10);
	assert_null(buf.data);
	assert_string_equal(buf_text(&buf), "");
	buf_clear(&buf);
	buf_consume(&buf, 0);
	assert_null(buf.data);
	buf_done(&buf);
}

static void test_grows_and_ends_in_nul(void **state)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 100000);
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(buf_printf(&buf, "%d,", i % 10), 0);
		assert_int_equal(buf.data[buf.length], '\0');
	}
	assert_int_equal(buf.length, 20000);
	assert_memory_equal(buf.data, "0,1,2,3,", 8);
	assert_string_equal(buf.data + 19998, "9,");
}

static void test_max_is_exact(void **state)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 5);
	assert_int_equal(buf_add_text(&buf, "abc"), 0);
	assert_int_equal(buf_add_text(&buf, "def"), -ENOSPC);
	assert_int_equal(buf_printf(&buf, "%d", 100), -ENOSPC);
	assert_string_equal(buf_text(&buf), "abc");
	assert_int_equal(buf_add_text(&buf, "de"), 0);
	assert_string_equal(buf_text(&buf), "abcde");
	assert_int_equal(buf_add(&buf, "", 0), 0);
	assert_int_equal(buf_add(&buf, "f", 1), -ENOSPC);
	assert_true(buf.capacity <= 6);
}

static void test_unlimited_does_not_overflow(void **state)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, SIZE_MAX);
	assert_int_equal(buf_add_text(&buf, "abc"), 0);
	assert_int_equal(buf_reserve(&buf, SIZE_MAX), -ENOSPC);
	assert_int_equal(buf_reserve(&buf, SIZE_MAX - 3), -ENOSPC);
	assert_int_equal(buf_reserve(&buf, SIZE_MAX - 4), -ENOMEM);
	assert_string_equal(buf_text(&buf), "abc");
}

static void test_binary_content(void **state)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 100);
	assert_int_equal(buf_add(&buf, "a\0b", 3), 0);
	assert_int_equal(buf_add(&buf, "c", 1), 0);
	assert_int_equal(buf.length, 4);
	assert_memory_equal(buf.data, "a\0bc", 5);
}

static void test_consume_and_clear(void **state)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 100);
	assert_int_equal(buf_add_text(&buf, "hello world"), 0);
	buf_consume(&buf, 6);
	assert_string_equal(buf_text(&buf), "world");
	buf_consume(&buf, 5);
	assert_string_equal(buf_text(&buf), "");
	assert_int_equal(buf_add_text(&buf, "x"), 0);
	buf_clear(&buf);
	assert_int_equal(buf.length, 0);
	assert_string_equal(buf_text(&buf), "");
}

static void test_reserve_then_fill(void **state)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 4096);
	assert_int_equal(buf_reserve(&buf, 1000), 0);
	assert_true(buf.capacity > 1000);
	assert_string_equal(buf_text(&buf), "");
	memset(buf.data, 'x', 1000);
	buf.length = 1000;
	assert_int_equal(buf_add_text(&buf, "y"), 0);
	assert_int_equal(buf.data[999], 'x');
	assert_string_equal(buf.data + 1000, "y");
}

static void test_take(void **state)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 100);
	char *text = buf_take(&buf);
	assert_non_null(text);
	assert_string_equal(text, "");
	free(text);
	assert_int_equal(buf_add_text(&buf, "mine"), 0);
	text = buf_take(&buf);
	assert_string_equal(text, "mine");
	assert_int_equal(buf.length, 0);
	assert_null(buf.data);
	assert_int_equal(buf.max, 100);
	free(text);
}

static int use_buf(void *context)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 10000);
	for (int i = 0; i < 1000; i++) {
		size_t before = buf.length;
		int rc = buf_printf(&buf, "%d,", i);
		if (rc < 0) {
			assert_int_equal(buf.length, before);
			return rc;
		}
	}
	char *text = buf_take(&buf);
	assert_non_null(text);
	free(text);
	text = buf_take(&buf);
	if (!text)
		return -ENOMEM;
	free(text);
	return 0;
}

static void test_out_of_memory(void **state)
{
	assert_true(failmalloc_each(use_buf, NULL) > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_empty_allocates_nothing),
	    cmocka_unit_test(test_grows_and_ends_in_nul),
	    cmocka_unit_test(test_max_is_exact),
	    cmocka_unit_test(test_unlimited_does_not_overflow),
	    cmocka_unit_test(test_binary_content),
	    cmocka_unit_test(test_consume_and_clear),
	    cmocka_unit_test(test_reserve_then_fill),
	    cmocka_unit_test(test_take),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
