/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/html.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "unit/unit.h"

static void text_is_never_the_pages_own(void **state)
{
	struct buf out _cleanup_buf_;
	buf_init(&out, 1 << 16);
	assert_int_equal(html_text(&out, "a<b> & \"c\""), 0);
	assert_string_equal(buf_text(&out), "a&lt;b&gt; &amp; &quot;c&quot;");
}

static void a_page_begins_with_its_title(void **state)
{
	struct buf out _cleanup_buf_, small _cleanup_buf_;
	buf_init(&out, 1 << 16);
	buf_init(&small, 16);
	assert_int_equal(html_begin(&out, "<x>"), 0);
	assert_ptr_equal(strstr(buf_text(&out), "<!doctype html>"), buf_text(&out));
	assert_non_null(strstr(buf_text(&out), "<title>&lt;x&gt;</title>"));
	assert_null(strstr(buf_text(&out), "http"));
	assert_true(html_begin(&small, "x") < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(text_is_never_the_pages_own),
	    cmocka_unit_test(a_page_begins_with_its_title),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
