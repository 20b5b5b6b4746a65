/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors with context. An error is made once, where it happens, by err_set(), and given one layer
 * of context by each caller that has any, by err_wrap(). It knows nothing of logging or exiting:
 * the command or the door prints it, once.
 */
#ifndef SLUICE_BASE_ERR_H
#define SLUICE_BASE_ERR_H

enum err_limits {
	ERR_TEXT_MAX = 512, /* bytes with the final NUL; longer texts are cut and end in "..." */
};

/* Fixed size and inside the caller, so that reporting an error can never fail itself. */
struct err {
	int code; /* -errno */
	char text[ERR_TEXT_MAX];
};

/*
 * Records an error. `code` is -errno (negative). `err` may be NULL: then only the code is returned.
 * The text names the object: path, GPU uuid, unit, pod or job. Returns `code`.
 */
int err_set(struct err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Puts "text: " before what `err` already says, so that it reads from the outside in:
 * "starting plugin: binding '/x.sock': permission denied". Returns err->code, or -EIO if `err` is
 * NULL or holds no error.
 */
int err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The plain description of `code` (-errno), as strerror gives it; thread safe, never NULL. */
const char *err_describe(int code);

#endif
