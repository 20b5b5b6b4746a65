/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as it is written, without a tree in memory: for what is rendered each second from plain
 * data. What is valid is seen to here as far as text goes (UTF-8, escapes); that objects are closed
 * and keys are not repeated is the caller's. Errors are kept: the first one is in `rc`, and
 * everything after it does nothing.
 */
#ifndef SLUICE_BASE_JSONW_H
#define SLUICE_BASE_JSONW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

struct jsonw {
	struct buf *out; /* borrowed */
	int rc;		 /* 0, -ENOSPC, -ENOMEM */
	bool follows;	 /* something stands before it in its object or array */
};

void jsonw_init(struct jsonw *json, struct buf *out);

/* `key`: plain ASCII, which is not escaped; NULL in an array and for the outermost value. */
void jsonw_object(struct jsonw *json, const char *key);
void jsonw_end_object(struct jsonw *json);
void jsonw_array(struct jsonw *json, const char *key);
void jsonw_end_array(struct jsonw *json);

void jsonw_u64(struct jsonw *json, const char *key, uint64_t number);
void jsonw_i64(struct jsonw *json, const char *key, int64_t number);
/* `number` / 10^`places` (0..9) without zeros at its end: 1500 with 3 places is 1.5. */
void jsonw_decimal(struct jsonw *json, const char *key, int64_t number, unsigned places);
void jsonw_bool(struct jsonw *json, const char *key, bool value);
void jsonw_null(struct jsonw *json, const char *key);
/* Any bytes up to the NUL: what is not UTF-8 becomes U+FFFD, and '<', U+2028 and U+2029 are escaped
 * so that it may stand in a script of a page. */
void jsonw_text(struct jsonw *json, const char *key, const char *text);
/* The same unless it is empty: "" stands for not known. */
void jsonw_word(struct jsonw *json, const char *key, const char *text);
/* Something that is JSON already. */
void jsonw_raw(struct jsonw *json, const char *key, const char *text, size_t length);

#endif
