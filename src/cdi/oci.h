/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of an OCI container (config.json) as bytes and as a JSON value, so that what is
 * not edited comes out as it went in: numbers keep their spelling, also those that no signed 64-bit
 * integer holds (an unlimited rlimit is 18446744073709551615). Pure. Knows nothing of what is in
 * it but the form of an environment.
 */
#ifndef SLUICE_CDI_OCI_H
#define SLUICE_CDI_OCI_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

struct buf;
struct err;

enum oci_limits {
	OCI_TEXT_MAX = 4 << 20,	  /* bytes */
	OCI_DEPTH_MAX = 64,	  /* lists and objects in each other */
	OCI_VALUES_MAX = 1 << 18, /* in all; a service of a large cluster has 35,000 variables */
};

/*
 * Numbers beyond 18 digits, with a fraction or an exponent are texts in `out` (owned), which only
 * oci_print() understands. -EINVAL: not JSON, no object, a key twice in one object; -E2BIG: a
 * limit; -ENOMEM. The message does not quote the text: it may be of a file that nobody should see.
 */
int oci_parse(const char *text, size_t length, json_t **out, struct err *err);
/* Appends the value as JSON, on one line or indented. -ENOSPC, -ENOMEM. */
int oci_print(const json_t *value, bool is_indented, struct buf *out);
/* The value in `env`, a list of NAME=VALUE, of the variable that `length` bytes of `name` call; the
 * last one counts, as in Go's programs. NULL: there is none. Borrowed. */
const char *oci_variable(const json_t *env, const char *name, size_t length);

#endif
