/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form in which a spec and a launch are written: a first line that names what it is and its
 * version, then NUL-terminated "name=value" entries. Values hold any byte but NUL. Pure. Knows
 * nothing of what the entries mean.
 */
#ifndef SLUICE_JOB_ENTRIES_H
#define SLUICE_JOB_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

struct entries {
	const char *at, *end; /* borrowed */
	const char *magic;    /* borrowed; for messages */
	size_t number;	      /* of the entry that was read last, from 1 */
};

struct entry {
	const char *name; /* borrowed from the bytes, not NUL-terminated */
	size_t name_length;
	const char *value; /* borrowed from the bytes, NUL-terminated */
	size_t value_length;
};

/* `magic`: the first line, without its newline. -EINVAL when the bytes begin otherwise. */
int entries_init(struct entries *entries, const char *bytes, size_t length, const char *magic,
		 struct err *err);
/* The next entry: 1, 0 at the end, or -EINVAL with the entry's number. */
int entries_next(struct entries *entries, struct entry *out, struct err *err);
/* An error about the entry that was read last; returns `code`. */
int entries_error(const struct entries *entries, int code, const char *problem, struct err *err);

bool entry_is(const struct entry *entry, const char *name);
/* The value as a number. -EINVAL, -ERANGE. */
int entry_u64(const struct entry *entry, uint64_t min, uint64_t max, uint64_t *out);
/* Copies the value with its NUL into `size` bytes. -ENAMETOOLONG. */
int entry_copy(const struct entry *entry, char *out, size_t size);

/* Adds the first line, and entries. As buf_add(). */
int entries_add_magic(struct buf *out, const char *magic);
int entries_add(struct buf *out, const char *name, const char *value);
int entries_add_u64(struct buf *out, const char *name, uint64_t value);

#endif
