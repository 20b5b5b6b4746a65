/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mlnotation.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

static void notations(void **state)
{
	static const struct {
		const char *text, *json; /* NULL: refused */
		bool is_python;
	} rows[] = {
	    {"{\"a\": [1, -2.5e3, true, null]}", "{\"a\": [1, -2.5e3, true, null]}", false},
	    {"{'a': (True, None,), 'b': u'x'}", "{\"a\": [true, null], \"b\": \"x\"}", true},
	    {"'\\'\\x41\\u00e9\\q\"'", "\"'\\u0041\\u00e9\\\\q\\\"\"", true},
	    {"[NaN, Infinity, -Infinity]", "[\"NaN\", \"Infinity\", \"-Infinity\"]", false},
	    {"[nan, inf, -inf]", "[\"NaN\", \"Infinity\", \"-Infinity\"]", true},
	    {"{file: ml_perf/x.py, n: .5}", "{\"file\": \"ml_perf/x.py\", \"n\": 0.5}", true},
	    {"[1, ]", "[1 ]", true},
	    {"'open", NULL, false},
	    {"'\\x4", NULL, false},
	    {"'\\u12g4'", NULL, false},
	    {"{1: 2; 3}", NULL, false},
	    {"\xff", NULL, false},
	    {"'a\\", NULL, false},
	    {"", "", false},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct buf out _cleanup_buf_;
		struct err err = {0};
		bool is_python = false;
		buf_init(&out, 1024);
		int rc =
		    mlnotation_to_json(rows[i].text, strlen(rows[i].text), &out, &is_python, &err);
		if (rc == -ENOMEM)
			continue;
		assert_int_equal(rc, rows[i].json ? 0 : -EINVAL);
		if (rows[i].json)
			assert_string_equal(buf_text(&out), rows[i].json);
		else
			assert_non_null(strstr(err.text, "byte "));
		assert_int_equal(is_python, rows[i].is_python);
	}
}

static void a_cap_is_kept(void **state)
{
	struct buf out _cleanup_buf_;
	bool is_python;
	buf_init(&out, 4);
	int rc = mlnotation_to_json("'abcdef'", 8, &out, &is_python, NULL);
	assert_true(rc == -ENOSPC || rc == -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(notations),
	    cmocka_unit_test(a_cap_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
