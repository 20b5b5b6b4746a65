/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which version a program of this machine is: asked with --version, within a time and with a bound
 * on what it may say. The parser is pure. Called by `sluice runtime configure`.
 */
#ifndef SLUICE_CDI_VERSION_H
#define SLUICE_CDI_VERSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

struct err;

enum version_limits {
	VERSION_TEXT_MAX = 64,
	VERSION_OUTPUT_MAX = 16384, /* bytes that a program may say */
};

struct version {
	uint32_t major, minor;
	uint32_t patch;		     /* UINT32_MAX when it is not said: then it is new enough */
	char text[VERSION_TEXT_MAX]; /* as the program wrote it: "1.6.20~ds1" */
};

/*
 * The first word of the form 1.2, 1.2.3, v1.2.3-rc.1 or 1.6.20~ds1 in what a program printed:
 * "Docker version 28.2.1, build 879ac3f". -EINVAL: there is none.
 */
int version_parse(const char *text, size_t length, struct version *out);
bool version_is_at_least(const struct version *version, uint32_t major, uint32_t minor,
			 uint32_t patch);

/* The full path of a program in $PATH (absolute directories only) or in the directories of system
 * programs, which the path of an ordinary user lacks. -ENOENT. */
int version_find_program(const char *name, char out[FILE_PATH_MAX], struct err *err);

/*
 * Runs `program --version`, with nothing to read and its errors thrown away, and waits `timeout_ms`
 * for its end; then it is killed. -ETIMEDOUT; -EINVAL: it printed no version; -EIO: it failed; what
 * starting it gave.
 */
int version_ask(const char *program, uint32_t timeout_ms, struct version *out, struct err *err);

#endif
