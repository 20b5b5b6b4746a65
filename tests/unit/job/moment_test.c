/* SPDX-License-Identifier: Apache-2.0 */
#include "job/moment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

/* Tuesday, 2026-12-01 14:30:00 in Berlin, an hour before that in UTC. */
#define NOW_S	  INT64_C(1796131800)
#define SECOND_NS INT64_C(1000000000)
#define HOUR_S	  INT64_C(3600)
#define DAY_S	  (24 * HOUR_S)

static int64_t read_at(const char *text, int64_t now_s)
{
	struct err err = {0};
	int64_t at = 0;
	assert_int_equal(moment_parse(text, strlen(text), now_s * SECOND_NS, &at, &err), 0);
	assert_int_equal(at % SECOND_NS, 0);
	return at / SECOND_NS;
}

static int64_t after(const char *text)
{
	return read_at(text, NOW_S) - NOW_S;
}

static int zone(const char *name)
{
	int rc = setenv("TZ", name, 1);
	tzset();
	return rc;
}

static int in_berlin(void **state)
{
	return zone("CET-1CEST,M3.5.0,M10.5.0/3");
}

static void spans_count_from_now(void **state)
{
	assert_int_equal(after("now"), 0);
	assert_int_equal(after("now+2h"), 2 * HOUR_S);
	assert_int_equal(after("NOW+1h30m"), HOUR_S + 1800);
	assert_int_equal(after("+90"), 90);
	assert_int_equal(after("now+1d12h"), DAY_S + 12 * HOUR_S);
	assert_int_equal(after("now+2days"), 2 * DAY_S);
	assert_int_equal(after("now+1hour"), HOUR_S);
	assert_int_equal(after("now+3minutes"), 180);
	assert_int_equal(after("now+1w"), 7 * DAY_S);
}

static void a_time_of_day_is_the_next_one(void **state)
{
	assert_int_equal(after("16:00"), HOUR_S + 1800);
	assert_int_equal(after("4pm"), HOUR_S + 1800);
	assert_int_equal(after("4:30 PM"), 2 * HOUR_S);
	assert_int_equal(after("teatime"), HOUR_S + 1800);
	assert_int_equal(after("14:30:01"), 1);
	assert_int_equal(after("14:30"), DAY_S); /* it is just that */
	assert_int_equal(after("9:15"), 18 * HOUR_S + 2700);
	assert_int_equal(after("midnight"), 9 * HOUR_S + 1800);
	assert_int_equal(after("12am"), 9 * HOUR_S + 1800);
	assert_int_equal(after("noon"), 21 * HOUR_S + 1800);
	assert_int_equal(after("12pm"), 21 * HOUR_S + 1800);
}

static void a_day_can_be_named(void **state)
{
	assert_int_equal(after("tomorrow"), 9 * HOUR_S + 1800);
	assert_int_equal(after("tomorrow 08:30"), 18 * HOUR_S);
	assert_int_equal(after("today 18:00"), 3 * HOUR_S + 1800);
	assert_int_equal(after("2026-12-01T18:00"), 3 * HOUR_S + 1800);
	assert_int_equal(after("2026-12-01 18:00:05"), 3 * HOUR_S + 1805);
	assert_int_equal(after("2026-12-02"), 9 * HOUR_S + 1800);
	assert_int_equal(after("2026-12-01T18:00Z"), 4 * HOUR_S + 1800);
	assert_int_equal(after("2026-12-01T18:00:00+02:00"), 2 * HOUR_S + 1800);
	assert_int_equal(after("2026-12-01T09:30-0500"), HOUR_S);
	assert_int_equal(after("2028-02-29"), read_at("2028-02-28", NOW_S) + DAY_S - NOW_S);
}

/* 2027-03-28: 02:00 is 03:00; 2027-10-31: 03:00 is 02:00 once more. */
static void a_day_has_as_many_hours_as_the_zone_says(void **state)
{
	int64_t short_day = read_at("2027-03-28", NOW_S), long_day = read_at("2027-10-31", NOW_S);
	assert_int_equal(read_at("2027-03-29", NOW_S) - short_day, 23 * HOUR_S);
	assert_int_equal(read_at("2027-11-01", NOW_S) - long_day, 25 * HOUR_S);
	assert_int_equal(read_at("tomorrow", short_day) - short_day, 23 * HOUR_S);
	assert_int_equal(read_at("2027-03-28T02:30", NOW_S) - short_day, 2 * HOUR_S + 1800);
	assert_int_equal(read_at("2027-03-28T03:30", NOW_S) - short_day, 2 * HOUR_S + 1800);
}

static void what_is_no_moment_is_refused(void **state)
{
	static const char *const bad[] = {
	    "",
	    " ",
	    "soon",
	    "now+",
	    "now-1h",
	    "now+1h30",
	    "now+1fortnight",
	    "now+1hh",
	    "now+h",
	    "now+99999999999999999999",
	    "now+51years",
	    "nowish",
	    "16",
	    "16:0",
	    "24:00",
	    "16:60",
	    "16:00:60",
	    "16:00x",
	    "13pm",
	    "0am",
	    "today",
	    "today 08:00",
	    "tomorrow ",
	    "tomorrow08:00",
	    "tomorrow 25:00",
	    "2026-12",
	    "2026-12-1",
	    "2026-13-01",
	    "2027-02-29",
	    "2026-02-31T10:00",
	    "2026-12-02T",
	    "2026-12-02T10",
	    "2026-12-02T10:00+",
	    "2026-12-02T10:00+15:00",
	    "2026-12-02T10:00Zulu",
	    "2026-11-30",
	    "2026-12-01T14:29:59",
	    "2199-01-01",
	    "12/01/26",
	    "\xff\xfe",
	};

	for (size_t i = 0; i < array_length(bad); i++) {
		struct err err = {0};
		int64_t at = 7;
		int rc = moment_parse(bad[i], strlen(bad[i]), NOW_S * SECOND_NS, &at, &err);
		if (rc != -EINVAL)
			fail_msg("'%s' was read", bad[i]);
		assert_int_equal(at, 7);
		assert_string_not_equal(err.text, "");
	}

	char text[MOMENT_TEXT_MAX + 2];
	struct err err = {0};
	int64_t at;
	memset(text, '1', sizeof(text));
	assert_int_equal(moment_parse(text, sizeof(text), 0, &at, &err), -EINVAL);
}

static void a_refusal_says_what_would_do(void **state)
{
	struct err err = {0};
	int64_t at;
	assert_int_equal(moment_parse("soon", 4, NOW_S * SECOND_NS, &at, &err), -EINVAL);
	assert_string_equal(err.text, "'soon' is no time: expected " MOMENT_FORMS);
	assert_int_equal(moment_parse("2020-01-01", 10, NOW_S * SECOND_NS, &at, &err), -EINVAL);
	assert_string_equal(err.text, "'2020-01-01' is over: it is 2026-12-01T14:30:00+01:00 now");
	assert_int_equal(moment_parse("2099-01-01", 10, NOW_S * SECOND_NS, &at, &err), -EINVAL);
	assert_string_equal(err.text, "'2099-01-01' is more than 50 years away");
}

static void what_is_written_is_read_again(void **state)
{
	static const char *const zones[] = {"UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "NST3:30",
					    "IST-5:30"};
	char text[MOMENT_SHOWN_MAX];

	for (size_t i = 0; i < array_length(zones); i++) {
		assert_int_equal(zone(zones[i]), 0);
		for (int64_t at = NOW_S; at < NOW_S + 400 * DAY_S; at += 100003)
			assert_int_equal(read_at(moment_format(at * SECOND_NS, text), NOW_S), at);
	}

	assert_int_equal(zone("NST3:30"), 0);
	assert_string_equal(moment_format(NOW_S * SECOND_NS, text), "2026-12-01T10:00:00-03:30");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(spans_count_from_now, in_berlin),
	    cmocka_unit_test_setup(a_time_of_day_is_the_next_one, in_berlin),
	    cmocka_unit_test_setup(a_day_can_be_named, in_berlin),
	    cmocka_unit_test_setup(a_day_has_as_many_hours_as_the_zone_says, in_berlin),
	    cmocka_unit_test_setup(what_is_no_moment_is_refused, in_berlin),
	    cmocka_unit_test_setup(a_refusal_says_what_would_do, in_berlin),
	    cmocka_unit_test_setup(what_is_written_is_read_again, in_berlin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
