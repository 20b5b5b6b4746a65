/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signal that tells a job that its time is nearly over, as people write it (`--signal`): which,
 * how long before the end, and to whom. Pure.
 */
#ifndef SLUICE_JOB_WARNING_H
#define SLUICE_JOB_WARNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum warning_limits {
	WARNING_TEXT_MAX = 48, /* bytes, with a NUL */
	WARNING_SIGNAL_LAST = 64,
	WARNING_BEFORE_S = 60, /* if it does not say how long */
};

/* For messages and help. */
#define WARNING_FORMS "USR1, USR1@120 or B:TERM@5m"

struct warning {
	uint32_t signal; /* 0: none */
	uint64_t before_ns;
	bool command_alone; /* "B:": the command, and no other process of the job */
};

/*
 * "[B:]SIGNAL[@TIME]": a signal's name, with or without SIG, in any case, or its number; a time as
 * parse_duration() reads it, from 1 s. KILL and STOP are refused: nothing can be done about them.
 * -EINVAL with a text.
 */
int warning_parse(const char *text, size_t length, struct warning *out, struct err *err);

/* "USR1@120s", as warning_parse() reads it; "" for none. Returns `out`. */
const char *warning_format(const struct warning *warning, char out[WARNING_TEXT_MAX]);

/* Whether a job that may run `limit_ns` (0: as long as it likes) can be warned so. -EINVAL with
 * what would do. */
int warning_check(const struct warning *warning, uint64_t limit_ns, struct err *err);

#endif
