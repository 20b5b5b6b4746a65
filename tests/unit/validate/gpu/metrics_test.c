/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/metrics.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "unit/unit.h"

static const char page[] = "# HELP used_bytes Memory\n"
			   "# TYPE used_bytes gauge\n"
			   "used_bytes{gpu=\"0\",uuid=\"GPU-aaaa\"} 123\n"
			   "used_bytes{gpu=\"1\",uuid=\"GPU-bbbb\"} 45.5\n"
			   "used_bytes_total{gpu=\"1\",uuid=\"GPU-cccc\"} 7\n"
			   "other{uuid=\"GPU-aaaa\"} 8\n"
			   "broken{uuid=\"GPU-aaaa\"} NaN\n"
			   "short{uuid=\"GPU-aaaa\"}\n"
			   "last{uuid=\"GPU-aaaa\"} 9";

static void what_is_there(void **state)
{
	static const struct {
		const char *name, *uuid;
		double value; /* -1: none */
	} rows[] = {{"used_bytes", "GPU-aaaa", 123}, {"used_bytes", "GPU-bbbb", 45.5},
		    {"used_bytes", "GPU-cccc", -1},  {"used_bytes", "GPU-aaa", -1},
		    {"used", "GPU-aaaa", -1},	     {"other", "GPU-aaaa", 8},
		    {"broken", "GPU-aaaa", -1},	     {"short", "GPU-aaaa", -1},
		    {"last", "GPU-aaaa", 9},	     {"# HELP", "GPU-aaaa", -1},
		    {"used_bytes", "aaaa", -1}};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		double value = -1;
		bool is_there =
		    metrics_find(page, sizeof(page) - 1, rows[i].name, rows[i].uuid, &value);
		assert_int_equal(is_there, rows[i].value >= 0);
		assert_true(value == rows[i].value);
	}
}

/* Cut at every byte. */
static void half_a_page(void **state)
{
	(void)state;
	for (size_t length = 0; length < sizeof(page); length++) {
		char *cut = test_malloc(length + 1);
		double value = 0;
		memcpy(cut, page, length);
		(void)metrics_find(cut, length, "last", "GPU-aaaa", &value);
		(void)metrics_find(cut, length, "short", "GPU-aaaa", &value);
		test_free(cut);
	}
}

static void nobody_there(void **state)
{
	struct buf text _cleanup_buf_;
	struct err err = {.code = 0};
	(void)state;
	buf_init(&text, METRICS_TEXT_MAX);
	assert_true(metrics_fetch("127.0.0.1:1", UINT64_C(1000000000), &text, &err) < 0);
	assert_non_null(strstr(err.text, "127.0.0.1:1"));
	assert_true(metrics_fetch("no address", UINT64_C(1000000000), &text, &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_there),
	    cmocka_unit_test(half_a_page),
	    cmocka_unit_test(nobody_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
