/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What getopt_long(3) leaves open: it takes any beginning that one option alone has, so that an
 * option which comes later changes what a script means. Here a name counts when it is whole.
 */
#ifndef SLUICE_BASE_LONGOPT_H
#define SLUICE_BASE_LONGOPT_H

#include <stdbool.h>
#include <stddef.h>

/* The name of the option that getopt_long() has just read from `argv`, as it was written:
 * `*out_length` bytes without the dashes and a value behind '='. Borrowed from `argv`. */
const char *longopt_word(char *const *argv, size_t *out_length);
/* Whether that is `name`, whole. */
bool longopt_is_whole(char *const *argv, const char *name);

#endif
