/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other programs of the user's, called and waited for. Knows nothing of what they do.
 */
#ifndef SLUICE_LIBEXEC_CONTAINER_CALL_H
#define SLUICE_LIBEXEC_CONTAINER_CALL_H

#include <stdbool.h>

struct buf;
struct err;

enum call_exit {
	CALL_EXIT_EXEC = 126, /* it could not be executed */
	CALL_EXIT_NOT_FOUND = 127,
};

/* Whether a program of this name is in PATH and may be executed. */
bool call_is_there(const char *name);

/* What becomes of what a program says of its errors. */
enum call_errors {
	CALL_ERRORS_DROPPED,
	CALL_ERRORS_SHOWN, /* where ours go */
	CALL_ERRORS_READ,  /* they are read instead of what it prints */
};

/*
 * Runs `argv` (ends in NULL) and returns its exit status, also of enum call_exit; 128 and the
 * number of a signal that killed it. What it prints comes into `out`, up to its limit; NULL: it is
 * dropped. -errno: it could not be started.
 */
int call_run(char *const *argv, enum call_errors errors, struct buf *out, struct err *err);

#endif
