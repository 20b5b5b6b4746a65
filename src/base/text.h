/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that goes to a terminal or a log. Names of GPUs, processes and jobs come from outside: what
 * could move the cursor, change colours or reverse the direction of writing is shown as an escape
 * instead of being obeyed. Knows UTF-8 and nothing of locales, so it prints the same everywhere.
 */
#ifndef SLUICE_BASE_TEXT_H
#define SLUICE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf;

enum text_limits {
	TEXT_INVALID = 0x110000, /* beyond Unicode: text_decode() found no valid character */
	TEXT_U64_MAX = 21,	 /* of a number with its NUL */
};

/* Whether `text` begins with `prefix`, both ended by NUL. Also for bytes without NUL that are at
 * least as long as `prefix`. */
static inline bool text_starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/*
 * A copy, with a NUL behind it, of `length` bytes that no NUL needs to follow and that may be NULL
 * if there are none: what messages and stores hold. Not strndup(), which is for strings. To be
 * freed; NULL without memory.
 */
char *text_copy(const void *bytes, size_t length);

/*
 * The character at the front of `length` (at least 1) bytes of UTF-8, and in `*out_size` how many
 * bytes it takes. TEXT_INVALID with size 1 for bytes that are no UTF-8 (overlong forms, surrogates
 * and cut characters included).
 */
uint32_t text_decode(const char *text, size_t length, size_t *out_size);
/* Whether these (at least 1) are the first bytes of a character whose last ones are not there. */
bool text_is_cut(const char *text, size_t length);

/* How many bytes from the front of `text` are visible ASCII or blanks: one column each, shown as
 * they are. Nearly all texts are so to their end. */
size_t text_plain(const char *text, size_t length);

/* Writes a number in digits, and a NUL; their count. Lists have tens of thousands of them. */
size_t text_u64(char out[TEXT_U64_MAX], uint64_t number);

/*
 * Appends `text` so that a terminal shows it and does nothing else: control characters and bytes
 * that are not UTF-8 become "\x1b", directional and line-breaking characters "\u202e", and a
 * backslash stays one. 0, -ENOSPC or -ENOMEM as buf_add() (content may then be half added).
 */
int text_escape(struct buf *out, const char *text, size_t length);

/* Whether a terminal would obey this character instead of showing it: control characters (C0, DEL,
 * C1), marks of direction and ends of lines. */
bool text_is_unsafe(uint32_t character);

/* Appends `text`, which is JSON, so that a terminal shows it and does nothing else. What jansson
 * leaves as it is inside of strings becomes its escape: "\u009b", "\u202e". The values stay the
 * same. As buf_add(). */
int text_escape_json(struct buf *out, const char *text, size_t length);

/* Appends `text` as valid UTF-8: each byte that is not part of a character becomes U+FFFD. For
 * JSON, which has its own escapes for control characters. As buf_add(). */
int text_make_valid(struct buf *out, const char *text, size_t length);

/* Columns that `length` bytes of escaped text take on a terminal: wide East Asian characters and
 * emoji take two, combining ones none. */
size_t text_width(const char *text, size_t length);
/* How many bytes from the front of `text` fit into `columns`; never cuts a character. */
size_t text_fit(const char *text, size_t length, size_t columns);

#endif
