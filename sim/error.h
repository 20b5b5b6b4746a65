/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the simulator reports what went wrong. The simulator shares no code with src/ so that a
 * mistake cannot hide by being made on both sides; this is its own few lines for errors.
 */
#ifndef SLUICE_SIM_ERROR_H
#define SLUICE_SIM_ERROR_H

#include <stddef.h>

/* What `sluice sim` exits with. */
enum sim_exit {
	SIM_EXIT_OK = 0,
	SIM_EXIT_FAILED = 1,
	SIM_EXIT_INPUT =
	    2, /* unknown fault, function, profile; profile with an error; no such GPU */
	SIM_EXIT_REAL = 3,    /* a real driver is here and --alongside was not given */
	SIM_EXIT_FOREIGN = 4, /* state owned by somebody else, or a symlink */
	SIM_EXIT_LIVE = 5,    /* a machine is running there already */
};

struct sim_error {
	int exit_code; /* enum sim_exit */
	char text[512];
};

/* Records what happened and returns -1. `error` may be NULL. */
int sim_fail(struct sim_error *error, int exit_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Which of `count` names is closest to what was typed (edit distance, at most a third of it wrong).
 * NULL when none is: then no suggestion should be made. `name` need not be NUL-terminated. */
const char *sim_nearest(const char *name, size_t length, const char *const *names, size_t count);

#endif
