/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files in /run/nvidia/validations are ours: `validations.json` in the agent's state
 * directory. A file with another inode or another time than is said there was written by somebody
 * else. JSON; pure.
 */
#ifndef SLUICE_DOORS_VALIDATIONS_READY_RECORD_H
#define SLUICE_DOORS_VALIDATIONS_READY_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct stat;

#define READY_RECORD_NAME "validations.json"

enum ready_record_limits {
	READY_RECORD_SIZE_MAX = 1 << 14, /* bytes of the file */
	READY_RECORD_MAX = 32,		 /* files; a name may be there twice */
	READY_RECORD_NAME_MAX = 64,
};

struct ready_record {
	uint32_t count;
	struct ready_record_file {
		char name[READY_RECORD_NAME_MAX]; /* "driver-ready" */
		uint64_t inode;
		int64_t mtime_ns; /* since 1970 */
	} files[READY_RECORD_MAX];
};

/* -E2BIG: there are too many. */
int ready_record_add(struct ready_record *record, const char *name, const struct stat *status,
		     struct err *err);
/* Whether the file of this name, as it is now, is one of these. */
bool ready_record_has(const struct ready_record *record, const char *name,
		      const struct stat *status);

/* Appends the file's text. -ENOMEM. */
int ready_record_format(const struct ready_record *record, struct buf *out, struct err *err);
/* -EINVAL: it is no such file; -E2BIG: a limit; -ENOMEM. `out` is untouched on failure. Keys that
 * are not known are skipped. */
int ready_record_parse(const char *text, size_t length, struct ready_record *out, struct err *err);

#endif
