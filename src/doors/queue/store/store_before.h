/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stores up to version 4 held as text: specifications, and what jobs want. Read once, when
 * such a store is brought up to date; nobody writes it any more. Pure.
 *
 * A specification: the line "sluice-spec 1", then NUL-terminated "name=value" entries, which repeat
 * where the struct has a list. What a job wants: a line "name=value" for each field that is not
 * zero. The names are those of the structs, but for those of store_before.c's table.
 */
#ifndef SLUICE_DOORS_QUEUE_STORE_STORE_BEFORE_H
#define SLUICE_DOORS_QUEUE_STORE_STORE_BEFORE_H

#include <stddef.h>

struct err;
struct spec;
struct wants;

/* `out` is initialised here, and empty after an error. -EINVAL with the entry's number, -ENOMEM.
 * Takes anything. */
int store_before_spec(const char *bytes, size_t length, struct spec *out, struct err *err);
int store_before_wants(const char *text, size_t length, struct wants *out, struct err *err);

#endif
