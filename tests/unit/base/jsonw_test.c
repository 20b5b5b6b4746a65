/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonw.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "unit/unit.h"

static void test_structure(void **state)
{
	_cleanup_buf_ struct buf out;
	struct jsonw json;
	buf_init(&out, 4096);
	jsonw_init(&json, &out);
	jsonw_object(&json, NULL);
	jsonw_u64(&json, "a", UINT64_MAX);
	jsonw_array(&json, "b");
	jsonw_i64(&json, NULL, INT64_MIN);
	jsonw_object(&json, NULL);
	jsonw_end_object(&json);
	jsonw_array(&json, NULL);
	jsonw_end_array(&json);
	jsonw_null(&json, NULL);
	jsonw_end_array(&json);
	jsonw_bool(&json, "c", true);
	jsonw_bool(&json, "d", false);
	jsonw_word(&json, "e", "");
	jsonw_word(&json, "f", "g");
	jsonw_raw(&json, "h", "[1]", 3);
	jsonw_end_object(&json);
	if (json.rc < 0)
		return; /* failmalloc */
	assert_string_equal(buf_text(&out),
			    "{\"a\":18446744073709551615,\"b\":[-9223372036854775808,{},[],null],"
			    "\"c\":true,\"d\":false,\"f\":\"g\",\"h\":[1]}");
}

static void test_decimal(void **state)
{
	static const struct {
		int64_t number;
		unsigned places;
		const char *text;
	} rows[] = {
	    {0, 3, "0"},
	    {1500, 3, "1.5"},
	    {-1500, 3, "-1.5"},
	    {5, 3, "0.005"},
	    {-50, 3, "-0.05"},
	    {1000, 3, "1"},
	    {1763835000123, 3, "1763835000.123"},
	    {999999, 6, "0.999999"},
	    {1000000, 6, "1"},
	    {7, 0, "7"},
	    {INT64_MIN, 9, "-9223372036.854775808"},
	    {5, 40, "0.000000005"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_buf_ struct buf out;
		struct jsonw json;
		buf_init(&out, 100);
		jsonw_init(&json, &out);
		jsonw_decimal(&json, NULL, rows[i].number, rows[i].places);
		if (json.rc == 0)
			assert_string_equal(buf_text(&out), rows[i].text);
	}
}

static void test_text(void **state)
{
	static const struct {
		const char *text, *json;
	} rows[] = {
	    {"", "\"\""},
	    {"plain text of more than eight bytes", "\"plain text of more than eight bytes\""},
	    {"a\"b\\c", "\"a\\\"b\\\\c\""},
	    {"\n\t\x01\x7f", "\"\\u000a\\u0009\\u0001\\u007f\""},
	    {"</script><!--", "\"\\u003c/script>\\u003c!--\""},
	    {"\xe2\x80\xa8\xe2\x80\xa9", "\"\\u2028\\u2029\""},
	    {"\xc2\x9b\xe2\x80\xae\xe2\x81\xa6", "\"\\u009b\\u202e\\u2066\""},
	    {"\xc3\xa4\xf0\x9f\x98\x80", "\"\xc3\xa4\xf0\x9f\x98\x80\""},
	    {"a\xff\xc3", "\"a\xef\xbf\xbd\xef\xbf\xbd\""},
	    {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_buf_ struct buf out;
		struct jsonw json;
		buf_init(&out, 1000);
		jsonw_init(&json, &out);
		jsonw_text(&json, NULL, rows[i].text);
		if (json.rc == 0)
			assert_string_equal(buf_text(&out), rows[i].json);
	}
}

static void test_full(void **state)
{
	_cleanup_buf_ struct buf out;
	struct jsonw json;
	buf_init(&out, 10);
	jsonw_init(&json, &out);
	jsonw_text(&json, NULL, "longer than there is room for");
	jsonw_u64(&json, NULL, 5);
	assert_true(json.rc == -ENOSPC || json.rc == -ENOMEM);
	assert_true(out.length <= 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_structure),
	    cmocka_unit_test(test_decimal),
	    cmocka_unit_test(test_text),
	    cmocka_unit_test(test_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
