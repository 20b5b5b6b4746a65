/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static int64_t clock_read_ns(clockid_t which)
{
	struct timespec now = {0};
	(void)clock_gettime(which, &now); /* cannot fail on Linux */
	return (int64_t)now.tv_sec * (int64_t)CLOCK_NS_PER_S + now.tv_nsec;
}

uint64_t clock_now_ns(const struct clock *clock)
{
	return clock->fake_ns ? *clock->fake_ns : clock_real_ns();
}

uint64_t clock_real_ns(void)
{
	return (uint64_t)clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_boot_ns(void)
{
	return (uint64_t)clock_read_ns(CLOCK_BOOTTIME);
}

uint64_t clock_thread_ns(void)
{
	return (uint64_t)clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t clock_process_ns(void)
{
	return (uint64_t)clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t clock_unix_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}

int64_t clock_unix_s(void)
{
	return clock_unix_ns() / (int64_t)CLOCK_NS_PER_S;
}

void clock_utc_text(char out[CLOCK_UTC_TEXT])
{
	time_t now = clock_unix_s();
	struct tm utc;
	(void)strftime(out, CLOCK_UTC_TEXT, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc)); /* fits */
}

uint64_t clock_after_ns(uint64_t now_ns, uint64_t delay_ns)
{
	uint64_t sum;
	return __builtin_add_overflow(now_ns, delay_ns, &sum) ? UINT64_MAX : sum;
}
