/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A moment to come as people write it: when a job may start at the earliest, when a reservation
 * begins. Reads the zone of this process (TZ) and nothing else: the caller says what time it is.
 */
#ifndef SLUICE_JOB_MOMENT_H
#define SLUICE_JOB_MOMENT_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum moment_limits {
	MOMENT_TEXT_MAX = 64,  /* bytes of what can be read */
	MOMENT_SHOWN_MAX = 48, /* bytes of what is written, with its NUL */
	MOMENT_YEARS_MAX = 50, /* from now: later is a slip */
};

/* What it may be, for messages and help. */
#define MOMENT_FORMS "16:00, tomorrow, now+2h or 2026-12-01T08:30"

/*
 * In the order in which they are tried:
 *   now, now+90m, now+2h30m, now+1d, now+2days, +2h: so long after `now_unix_ns`; a number alone
 *     counts seconds, as sbatch has it;
 *   midnight, noon, teatime (16:00), 16:00, 16:00:30, 4pm, 4:30pm: the next one;
 *   today 18:00, tomorrow, tomorrow 08:30: that day, at midnight if no time is given;
 *   2026-12-01, 2026-12-01T08:30, with seconds, with a blank in place of the T, with Z or +01:00
 *     behind it (else the local zone).
 * A day on which the clock leaves that time out has it an hour later. -EINVAL with a text: not one
 * of these, before `now_unix_ns`, or more than MOMENT_YEARS_MAX years away.
 */
int moment_parse(const char *text, size_t length, int64_t now_unix_ns, int64_t *out_unix_ns,
		 struct err *err);

/* "2026-12-01T08:30:00+01:00", of the local zone, which moment_parse() reads. Returns `out`. */
const char *moment_format(int64_t unix_ns, char out[MOMENT_SHOWN_MAX]);

#endif
