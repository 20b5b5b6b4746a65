/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On what something was measured: kernel, processors, limits, and the variables that change how
 * such programs run. What is secret is not in it. Knows nothing of what was measured.
 */
#ifndef SLUICE_BENCH_FINGERPRINT_H
#define SLUICE_BENCH_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct inventory;
struct jsonw;

enum fingerprint_limits {
	FINGERPRINT_VALUE_MAX = 256, /* bytes of a variable that is shown as it is */
};

/* The member `fingerprint` of the object that is being written. `root` stands before /proc and
 * /sys (for tests; "" otherwise); `environment` ends in NULL. What cannot be read is left out. */
void fingerprint_write(struct jsonw *json, const char *root, char *const *environment);
/* The same with what is known of the GPUs; `gpus` NULL: nothing. */
void fingerprint_write_with(struct jsonw *json, const char *root, char *const *environment,
			    const struct inventory *gpus);
/*
 * Appends a line for each thing in which two fingerprints (JSON objects, as text) differ: its name,
 * A's and B's value, "-" where there is none. What differs from minute to minute is passed over.
 * `out_count` (may be NULL) is how many there are. -EINVAL: no JSON objects; -ENOMEM, ...
 */
int fingerprint_differences(const char *a, const char *b, struct buf *out, size_t *out_count,
			    struct err *err);
/* Whether a fingerprint (a JSON object, as text) says that its GPUs are simulated. NULL: no. */
bool fingerprint_is_simulated(const char *text);
/* Whether a variable ("NAME=VALUE") may be shown: its name is on the list of beginnings, and has
 * no word in it that secrets have. Pure. */
bool fingerprint_shows(const char *variable);

#endif
