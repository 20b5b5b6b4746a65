/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system under SQLite, for tests of the store. It passes everything on to the real one; it
 * writes down what was written and synced, so that a power loss can be played at any moment; and it
 * lets calls fail.
 */
#ifndef TESTS_UNIT_DOORS_QUEUE_STORE_SHIM_H
#define TESTS_UNIT_DOORS_QUEUE_STORE_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum shim_kind {
	SHIM_WRITE,
	SHIM_TRUNCATE,
	SHIM_SYNC,
	SHIM_DELETE,
	SHIM_MARK, /* the test's own: what was acknowledged by then */
};

enum shim_name { SHIM_DB, SHIM_WAL, SHIM_NAMES };

struct shim_op {
	enum shim_kind kind;
	enum shim_name name;
	int64_t offset; /* of a write; the size that is cut to; the value of a mark */
	size_t length;
	unsigned char *data; /* owned */
};

/* Becomes SQLite's default. Watches files that end in "queue.db" and "queue.db-wal". */
void shim_install(void);

/* Calls from now on are written down, until shim_recorded(); what was before is forgotten. */
void shim_record(void);
void shim_mark(int64_t value);
/* Borrowed: until the next shim_record(). */
const struct shim_op *shim_recorded(size_t *out_count);

/* The `at`th call (from 1) of that kind from now on fails with this result code of SQLite; a write
 * has then written half of its bytes. `forever`: so do all behind it. 0: none. */
void shim_fail(enum shim_kind kind, unsigned at, int code, bool forever);
/* Whether one has failed since shim_fail(). */
bool shim_has_failed(void);

#endif
