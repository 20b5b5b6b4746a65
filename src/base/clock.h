/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time that can be injected: whoever waits or measures asks a clock, so that a test can be the one
 * who moves it. Nanoseconds of CLOCK_MONOTONIC; wall time is for people, and
 * nothing waits by it.
 */
#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H

#include <stdint.h>

#define CLOCK_NS_PER_US UINT64_C(1000)
#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S	UINT64_C(1000000000)

enum clock_limits { CLOCK_UTC_TEXT = 32 };

/* A clock is the real one, or stands still at fake_ns until somebody moves it. */
struct clock {
	const uint64_t *fake_ns; /* borrowed for the clock's life; NULL: CLOCK_MONOTONIC */
};

uint64_t clock_now_ns(const struct clock *clock);

/* The real clock, for those whose tests have no use for another: CLOCK_MONOTONIC. */
uint64_t clock_real_ns(void);
/* Since the machine was started, its sleep counted: CLOCK_BOOTTIME. */
uint64_t clock_boot_ns(void);
/* The processor's time of this thread, and of this process. */
uint64_t clock_thread_ns(void);
uint64_t clock_process_ns(void);

/* CLOCK_REALTIME, since 1970: for people and for files. Jumps when somebody sets it. */
int64_t clock_unix_ns(void);
int64_t clock_unix_s(void);
/* Now, in UTC: "2026-11-28T04:05:06Z". */
void clock_utc_text(char out[CLOCK_UTC_TEXT]);

/* now + delay, UINT64_MAX (never) where that does not fit. */
uint64_t clock_after_ns(uint64_t now_ns, uint64_t delay_ns);

#endif
