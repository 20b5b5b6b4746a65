/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every unit test includes: cmocka with the headers that it wants before itself, and a few
 * helpers. Knows nothing of what is tested.
 */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A new private directory below $TMPDIR or /tmp. Owned: unit_tmp_free(). Fails the test if it
 * cannot be made. */
char *unit_tmp_new(void);
/* Removes the directory and everything in it; does not follow links. Returns NULL. */
char *unit_tmp_free(char *directory);

/* For tests that work in one: `unit_top` is such a directory from setup to teardown. */
extern char *unit_top;
int unit_top_setup(void **state);
int unit_top_teardown(void **state);

/* "directory/name" in one of a few static buffers: good until the eighth next call. */
const char *unit_path(const char *directory, const char *name);

/* Writes `text` to a file. Fails the test if it cannot. */
void unit_write(const char *path, const char *text);

/* CLOCK_MONOTONIC nanoseconds, for deadlines: wait for a condition, never for a time. */
uint64_t unit_now_ns(void);

#endif
