/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <errno.h>

#include "base/check.h"
#include "unit/unit.h"

static void test_u64(void **state)
{
	uint64_t value = 7;
	assert_int_equal(parse_u64("0", 0, 10, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(parse_u64("18446744073709551615", 0, UINT64_MAX, &value), 0);
	assert_true(value == UINT64_MAX);
	assert_int_equal(parse_u64("10", 0, 10, &value), 0);

	value = 7;
	static const char *const wrong[] = {"",	  " 1",	  "1 ",	 "+1",
					    "-1", "0x10", "1.0", "1a",
					    "a",  ",",	  "\t3", "99999999999999999999x"};
	for (size_t i = 0; i < array_length(wrong); i++)
		assert_int_equal(parse_u64(wrong[i], 0, UINT64_MAX, &value), -EINVAL);
	assert_int_equal(parse_u64("11", 0, 10, &value), -ERANGE);
	assert_int_equal(parse_u64("2", 3, 10, &value), -ERANGE);
	assert_int_equal(parse_u64("18446744073709551616", 0, UINT64_MAX, &value), -ERANGE);
	assert_int_equal(parse_u64("99999999999999999999999", 0, UINT64_MAX, &value), -ERANGE);
	assert_int_equal(value, 7);
}

static void test_i64(void **state)
{
	int64_t value = 7;
	assert_int_equal(parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &value), 0);
	assert_true(value == INT64_MIN);
	assert_int_equal(parse_i64("9223372036854775807", INT64_MIN, INT64_MAX, &value), 0);
	assert_true(value == INT64_MAX);
	assert_int_equal(parse_i64("-0", -1, 1, &value), 0);
	assert_int_equal(value, 0);

	value = 7;
	assert_int_equal(parse_i64("9223372036854775808", INT64_MIN, INT64_MAX, &value), -ERANGE);
	assert_int_equal(parse_i64("-9223372036854775809", INT64_MIN, INT64_MAX, &value), -ERANGE);
	assert_int_equal(parse_i64("-2", -1, 1, &value), -ERANGE);
	assert_int_equal(parse_i64("-", -1, 1, &value), -EINVAL);
	assert_int_equal(parse_i64("--1", -1, 1, &value), -EINVAL);
	assert_int_equal(parse_i64("", -1, 1, &value), -EINVAL);
	assert_int_equal(value, 7);
}

static void test_hex(void **state)
{
	uint64_t value = 7;
	assert_int_equal(parse_hex("0x10DE20b0", UINT32_MAX, &value), 0);
	assert_int_equal(value, 0x10de20b0);
	assert_int_equal(parse_hex("ffffffffffffffff", UINT64_MAX, &value), 0);
	assert_true(value == UINT64_MAX);
	value = 7;
	assert_int_equal(parse_hex("10000000000000000", UINT64_MAX, &value), -ERANGE);
	assert_int_equal(parse_hex("100", 0xff, &value), -ERANGE);
	assert_int_equal(parse_hex("0x", 0xff, &value), -EINVAL);
	assert_int_equal(parse_hex("0x0x1", 0xff, &value), -EINVAL);
	assert_int_equal(parse_hex("g", 0xff, &value), -EINVAL);
	assert_int_equal(value, 7);
}

static void test_spans(void **state)
{
	uint64_t value = 7;
	const char text[] = {'1', '2', '3', ':', 'f', 'F'};
	assert_int_equal(parse_u64_span(text, 3, 0, 1000, &value), 0);
	assert_int_equal(value, 123);
	assert_int_equal(parse_hex_span(text + 4, 2, 0xff, &value), 0);
	assert_int_equal(value, 0xff);
	value = 7;
	assert_int_equal(parse_u64_span(text, 4, 0, 1000, &value), -EINVAL);
	assert_int_equal(parse_u64_span(text, 0, 0, 1000, &value), -EINVAL);
	assert_int_equal(parse_u64_span("1\0002", 3, 0, 1000, &value), -EINVAL);
	assert_int_equal(value, 7);
}

static void test_size(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} right[] = {
	    {"512", 512},
	    {"0", 0},
	    {"4k", 4000},
	    {"4kB", 4000},
	    {"512B", 512},
	    {"4Ki", 4096},
	    {"16Gi", UINT64_C(16) << 30},
	    {"16GiB", UINT64_C(16) << 30},
	    {"1.5G", UINT64_C(1500000000)},
	    {"0.5Ki", 512},
	    {"1.25Ti", UINT64_C(1374389534720)},
	    {"1.999999999Ti", UINT64_C(2199023254452)},
	    {"80T", UINT64_C(80000000000000)},
	};
	for (size_t i = 0; i < array_length(right); i++) {
		uint64_t bytes = 7;
		assert_int_equal(parse_size(right[i].text, 0, UINT64_MAX, &bytes), 0);
		assert_int_equal(bytes, right[i].bytes);
	}

	uint64_t bytes = 7;
	static const char *const wrong[] = {"",	   "k",	  "4 k", "4K",	"4kk", "4Gib", "1.5",
					    "1.G", ".5G", "-1k", "1e3", "4KB", "1.5B", "4iB"};
	for (size_t i = 0; i < array_length(wrong); i++)
		assert_int_equal(parse_size(wrong[i], 0, UINT64_MAX, &bytes), -EINVAL);
	assert_int_equal(parse_size("16777216Ti", 0, UINT64_MAX, &bytes), -ERANGE);
	assert_int_equal(parse_size("99999999999999999999999k", 0, UINT64_MAX, &bytes), -ERANGE);
	assert_int_equal(parse_size("5k", 0, 4999, &bytes), -ERANGE);
	assert_int_equal(parse_size("5k", 5001, 9999, &bytes), -ERANGE);
	assert_int_equal(bytes, 7);
}

static void test_duration(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} right[] = {
	    {"90s", UINT64_C(90000000000)},
	    {"1h30m", UINT64_C(5400000000000)},
	    {"250ms", UINT64_C(250000000)},
	    {"10", UINT64_C(10000000000)},
	    {"0", 0},
	    {"0.25", UINT64_C(250000000)},
	    {"1.5h", UINT64_C(5400000000000)},
	    {"2d", UINT64_C(172800000000000)},
	    {"1m0.5s", UINT64_C(60500000000)},
	    {"7us5ns", 7005},
	};
	for (size_t i = 0; i < array_length(right); i++) {
		uint64_t ns = 7;
		assert_int_equal(parse_duration(right[i].text, 0, UINT64_MAX, &ns), 0);
		assert_int_equal(ns, right[i].ns);
	}

	uint64_t ns = 7;
	static const char *const wrong[] = {"",	    "s",      "1x",  "1h 30m", "30m1h", "1h1h",
					    "1h30", "1.5h3m", "-1s", "1S",     "1msec", "1s.5"};
	for (size_t i = 0; i < array_length(wrong); i++)
		assert_int_equal(parse_duration(wrong[i], 0, UINT64_MAX, &ns), -EINVAL);
	assert_int_equal(parse_duration("999999d", 0, UINT64_MAX, &ns), -ERANGE);
	assert_int_equal(parse_duration("200000d200000h", 0, UINT64_MAX, &ns), 0);
	ns = 7;
	assert_int_equal(parse_duration("213503d23h60m", 0, UINT64_MAX, &ns), -ERANGE);
	assert_int_equal(parse_duration("2s", 0, 1999999999, &ns), -ERANGE);
	assert_int_equal(ns, 7);
}

static void test_fraction(void **state)
{
	double value = 7;
	assert_int_equal(parse_fraction("0.75", 0, 1, &value), 0);
	assert_true(value == 0.75);
	assert_int_equal(parse_fraction("0.1", 0, 1, &value), 0);
	assert_true(value == 0.1);
	assert_int_equal(parse_fraction("12", 0, 100, &value), 0);
	assert_true(value == 12);
	assert_int_equal(parse_fraction("-1.5", -2, 0, &value), 0);
	assert_true(value == -1.5);
	value = 7;
	static const char *const wrong[] = {"",	   ".5",  "1.",	   "1e3", "inf", "nan",
					    "0x1", "1,5", "1.5.2", " 1",  "+1"};
	for (size_t i = 0; i < array_length(wrong); i++)
		assert_int_equal(parse_fraction(wrong[i], -1e9, 1e9, &value), -EINVAL);
	assert_int_equal(parse_fraction("1.000001", 0, 1, &value), -ERANGE);
	assert_int_equal(parse_fraction("99999999999999999999999", 0, 1e30, &value), -ERANGE);
	assert_true(value == 7);
}

static void test_bool(void **state)
{
	static const char *const yes[] = {"true", "yes", "on", "1"};
	static const char *const no[] = {"false", "no", "off", "0"};
	for (size_t i = 0; i < array_length(yes); i++) {
		bool value = false;
		assert_int_equal(parse_bool(yes[i], &value), 0);
		assert_true(value);
		assert_int_equal(parse_bool(no[i], &value), 0);
		assert_false(value);
	}
	bool value = true;
	assert_int_equal(parse_bool("True", &value), -EINVAL);
	assert_int_equal(parse_bool("", &value), -EINVAL);
	assert_int_equal(parse_bool("2", &value), -EINVAL);
	assert_true(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_u64),	     cmocka_unit_test(test_i64),
	    cmocka_unit_test(test_hex),	     cmocka_unit_test(test_spans),
	    cmocka_unit_test(test_size),     cmocka_unit_test(test_duration),
	    cmocka_unit_test(test_fraction), cmocka_unit_test(test_bool),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
