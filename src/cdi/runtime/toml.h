/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TOML as the text that somebody wrote: finds where a key or a table stands, and switches one on
 * with every other byte kept. It understands enough of TOML never to take a comment, a string, an
 * array or another table for what is looked for, and refuses, with the line, what it does not
 * understand. Pure; knows nothing of what the keys mean. Called by `sluice runtime configure`.
 *
 * Facts: https://toml.io/en/v1.0.0
 */
#ifndef SLUICE_CDI_RUNTIME_TOML_H
#define SLUICE_CDI_RUNTIME_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum toml_limits {
	TOML_TEXT_MAX = 1 << 20,
	TOML_PARTS_MAX = 16, /* of a dotted name, with the table's before it */
	TOML_PART_MAX = 256, /* bytes of one of them with its NUL */
	TOML_DEPTH_MAX = 16, /* values within values */
};

/* A text to be looked at. Borrowed. */
struct toml {
	const char *name; /* what errors call it: "NAME:LINE: ..." */
	const char *text;
	size_t length;
};

/* {{"plugins", "io.containerd.grpc.v1.cri"}, 2}. Borrowed. */
struct toml_path {
	const char *part[TOML_PARTS_MAX];
	size_t count;
};

enum toml_kind {
	TOML_NONE,
	TOML_TRUE,
	TOML_FALSE,
	TOML_STRING,
	TOML_ARRAY,
	TOML_INLINE,
	TOML_OTHER
};

/* What there is of a name. Lines count from 1; 0: there is none. */
struct toml_look {
	uint32_t line; /* the first that defines it or something below it */
	/* A value of this name. */
	enum toml_kind kind; /* TOML_NONE: no value */
	uint32_t value_line;
	size_t start, end; /* the value in the text */
	/* A table of this name. */
	uint32_t header_line;	   /* of its [header] */
	size_t header_end;	   /* behind the end of that line */
	size_t indent, indent_end; /* blanks before its first key; equal: none, or no key */
	uint32_t closed_line; /* it is made by dotted keys or a value: no [header] may be added */
};

/* 0, also when there is nothing; -EINVAL: not TOML, or none that is understood; -E2BIG: too long.
 */
int toml_find(const struct toml *toml, const struct toml_path *path, struct toml_look *out,
	      struct err *err);

/*
 * Adds the text with `key` of `table` set to true to `out`: "false" is replaced where it stands,
 * else the key becomes the first of its table, else the table the last of the text. 1; 0 when it is
 * true already (`out` has nothing then); -EINVAL as toml_find(), or what stands there cannot be
 * edited so; -E2BIG, -ENOMEM.
 */
int toml_set_true(const struct toml *toml, const struct toml_path *table, const char *key,
		  struct buf *out, struct err *err);

/*
 * The next text of a value that toml_find() found, a string or an array: from `*at` (look.start
 * first) to `end` (look.end). False when there is no other, or something else than a text, or one
 * of `size` bytes or more.
 */
bool toml_next_string(const struct toml *toml, size_t *at, size_t end, char *out, size_t size);

#endif
