/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On what something was measured: kernel, processors, limits, and the variables that change how
 * such programs run. What is secret is not in it. Knows nothing of what was measured.
 */
#ifndef SLUICE_BENCH_FINGERPRINT_H
#define SLUICE_BENCH_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>

struct jsonw;

enum fingerprint_limits {
	FINGERPRINT_VALUE_MAX = 256, /* bytes of a variable that is shown as it is */
};

/* The member `fingerprint` of the object that is being written. `root` stands before /proc and
 * /sys (for tests; "" otherwise); `environment` ends in NULL. What cannot be read is left out. */
void fingerprint_write(struct jsonw *json, const char *root, char *const *environment);
/* Whether a variable ("NAME=VALUE") may be shown: its name is on the list of beginnings, and has
 * no word in it that secrets have. Pure. */
bool fingerprint_shows(const char *variable);

#endif
