/* SPDX-License-Identifier: Apache-2.0 */
#include "web/query.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

enum { ALL = QUERY_SET | QUERY_SERIES | QUERY_SINCE | QUERY_RESOLUTION };

static void test_good(void **state)
{
	struct query query;
	const char text[] = "series=power_mw&since=1763835000.25&resolution=10&set=dcgm";
	assert_int_equal(query_parse(text, strlen(text), ALL, &query, NULL), 0);
	assert_string_equal(query.series, "power_mw");
	assert_true(query.has_since && query.has_set);
	assert_true(query.since_unix_ns == INT64_C(1763835000250000000));
	assert_int_equal(query.resolution_s, 10);
	assert_int_equal(query.set, VIEW_SET_DCGM);
	assert_int_equal(query_parse("", 0, 0, &query, NULL), 0);
	assert_false(query.has_since || query.has_set);
	assert_int_equal(query_parse("since=0", 7, ALL, &query, NULL), 0);
	assert_true(query.has_since && query.since_unix_ns == 0);
	assert_int_equal(query_parse("since=5.1234567890123", 21, ALL, &query, NULL), 0);
	assert_true(query.since_unix_ns == 5123456789);
}

static void test_bad(void **state)
{
	static const struct {
		const char *text, *named;
		unsigned taken;
	} rows[] = {
	    {"set=x", "'set'", ALL},
	    {"set=ALL", "'set'", ALL},
	    {"set=all", "'set'", QUERY_SERIES},
	    {"set", "'set'", ALL},
	    {"set=all&set=all", "'set'", ALL},
	    {"series=", "'series'", ALL},
	    {"series=<b>", "'series'", ALL},
	    {"series=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "'series'",
	     ALL},
	    {"since=", "'since'", ALL},
	    {"since=-1", "'since'", ALL},
	    {"since=1e9", "'since'", ALL},
	    {"since=.5", "'since'", ALL},
	    {"since=5.", "'since'", ALL},
	    {"since=5.5x", "'since'", ALL},
	    {"since=5.1234567890x", "'since'", ALL},
	    {"since=99999999999999999999", "'since'", ALL},
	    {"since=9223372037", "'since'", ALL},
	    {"since=NaN", "'since'", ALL},
	    {"resolution=2", "'resolution'", ALL},
	    {"resolution=10s", "'resolution'", ALL},
	    {"<script>=1", "'?script?'", ALL},
	    {"&", "''", ALL},
	    {"=", "''", ALL},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct query query;
		struct err err = {.code = 0};
		assert_int_equal(
		    query_parse(rows[i].text, strlen(rows[i].text), rows[i].taken, &query, &err),
		    -EINVAL);
		assert_non_null(strstr(err.text, rows[i].named));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good),
	    cmocka_unit_test(test_bad),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
