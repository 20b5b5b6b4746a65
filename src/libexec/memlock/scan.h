/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON read from front to back without memory of its own, for a program that has no library at all.
 * Strings stay as they are written, with their escapes: who compares a name with one that holds an
 * escape finds that they differ.
 *
 * Grammar: https://www.rfc-editor.org/rfc/rfc8259
 */
#ifndef SLUICE_LIBEXEC_MEMLOCK_SCAN_H
#define SLUICE_LIBEXEC_MEMLOCK_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum memlock_scan_limits { SCAN_DEPTH_MAX = 64 };

enum scan_kind {
	SCAN_END, /* of the document; nothing but blanks follows */
	SCAN_OBJECT,
	SCAN_ARRAY,
	SCAN_CLOSE, /* of the last that was opened */
	SCAN_STRING,
	SCAN_NUMBER,
	SCAN_WORD, /* true, false, null */
	SCAN_BAD,  /* no JSON, or deeper than SCAN_DEPTH_MAX; nothing comes after it */
};

struct scan_token {
	enum scan_kind kind;
	uint32_t depth;	 /* how many objects and arrays are around it: 0 is the document itself */
	const char *key; /* borrowed of the document; NULL in an array */
	size_t key_length;
	const char *text; /* of a string (without the quotes) or number; borrowed */
	size_t length;
};

struct memlock_scan {
	const char *bytes;
	size_t length, at;
	uint32_t depth;
	uint64_t arrays; /* bit n: what lies at depth n + 1 is in an array */
	bool has_value;	 /* at this depth: a ',' or the end must come */
	bool has_failed;
};

void scan_start(struct memlock_scan *scan, const char *bytes, size_t length);
struct scan_token scan_next(struct memlock_scan *scan);

/* Whether a token is a value of this name. */
bool scan_is_key(const struct scan_token *token, const char *name);
/* Whether it is a string with these characters. */
bool scan_is_text(const struct scan_token *token, const char *text);
/* A number without sign, fraction and exponent. False: it is none, or does not fit. */
bool scan_number(const struct scan_token *token, uint64_t *out);

#endif
