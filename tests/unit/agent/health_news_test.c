/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/health_news.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/cluster/cluster.h"
#include "agent/web/door_web_events.h"
#include "base/log.h"
#include "unit/unit.h"

/* --- instead of those who are told: --wrap ------------------------------------------------------
 */

static struct {
	unsigned lines, events, entries;
	enum log_level level;
	char line[256];
} told;

void __wrap_log_write(struct log *log, enum log_level level, const struct log_field *fields,
		      const char *format, ...);
void __wrap_cluster_verdict(struct cluster *cluster, const char *uuid, uint32_t index,
			    enum health_state before, enum health_state after, const char *why);
void __wrap_web_events_verdict(struct web_events *events, const char *uuid, uint32_t index,
			       enum health_state before, enum health_state after, const char *why,
			       const struct vitals *vitals);

void __wrap_log_write(struct log *log, enum log_level level, const struct log_field *fields,
		      const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(told.line, sizeof(told.line), format, arguments);
	va_end(arguments);
	told.level = level;
	told.lines++;
}

void __wrap_cluster_verdict(struct cluster *cluster, const char *uuid, uint32_t index,
			    enum health_state before, enum health_state after, const char *why)
{
	told.events++;
}

void __wrap_web_events_verdict(struct web_events *events, const char *uuid, uint32_t index,
			       enum health_state before, enum health_state after, const char *why,
			       const struct vitals *vitals)
{
	told.entries++;
}

/* --- the tests ---------------------------------------------------------------------------------
 */

static struct health_news_told sent;

static void tell(uint32_t index, enum health_state before, enum health_state after)
{
	const struct health_news news = {"GPU-b", index, before, after, "why"};
	health_news_tell(&sent, &news, NULL, NULL, NULL, NULL);
}

static int setup(void **state)
{
	memset(&told, 0, sizeof(told));
	memset(&sent, 0, sizeof(sent));
	return 0;
}

static void test_everybody_is_told(void **state)
{
	tell(2, HEALTH_HEALTHY, HEALTH_UNHEALTHY);
	assert_string_equal(told.line, "GPU 2 is unhealthy (was healthy): why");
	assert_int_equal(told.level, LOG_LEVEL_ERROR);
	assert_int_equal(told.events, 1);
	assert_int_equal(told.entries, 1);
	tell(2, HEALTH_UNHEALTHY, HEALTH_DEGRADED);
	assert_int_equal(told.level, LOG_LEVEL_NOTICE);
	tell(2, HEALTH_HEALTHY, HEALTH_DEGRADED);
	assert_int_equal(told.level, LOG_LEVEL_WARNING);
}

/* Whatever makes a verdict come again and again, the log stays readable; those who have limits of
 * their own are told all. */
static void test_the_log_is_not_flooded(void **state)
{
	for (unsigned i = 0; i < 10000; i++)
		tell(2, HEALTH_UNKNOWN, HEALTH_UNHEALTHY);
	assert_in_range(told.lines, REPEATS_BURST, REPEATS_BURST + 10); /* it may be slow here */
	assert_int_equal(told.events, 10000);
	unsigned lines = told.lines;
	tell(3, HEALTH_UNKNOWN, HEALTH_UNHEALTHY);
	assert_int_equal(told.lines, lines + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_everybody_is_told, setup),
	    cmocka_unit_test_setup(test_the_log_is_not_flooded, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
