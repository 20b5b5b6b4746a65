/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

uint64_t clock_now_ns(const struct clock *clock)
{
	if (clock->fake_ns)
		return *clock->fake_ns;
	struct timespec now = {0};
	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail on Linux */
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

int64_t clock_unix_ns(void)
{
	struct timespec now = {0};
	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail on Linux */
	return (int64_t)now.tv_sec * (int64_t)CLOCK_NS_PER_S + now.tv_nsec;
}

uint64_t clock_after_ns(uint64_t now_ns, uint64_t delay_ns)
{
	uint64_t sum;
	return __builtin_add_overflow(now_ns, delay_ns, &sum) ? UINT64_MAX : sum;
}
