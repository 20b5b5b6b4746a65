/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a file, or many, as training does, and measures it: several readers at once, each with its
 * own descriptor. What is read is looked at: a block says where it belongs. Blocks until all have
 * ended. Knows nothing of comparisons.
 */
#ifndef SLUICE_BENCH_READER_H
#define SLUICE_BENCH_READER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum bench_reader_limits {
	READER_BLOCK_MIN = 4096, /* and every block is a multiple of it */
	READER_BLOCK_MAX = 16 << 20,
	READER_READERS_MAX = 256,
	READER_FILES_MAX = 1 << 20,
	READER_DIRECTORY_FILES = 256, /* of one directory of many files */
	READER_PATH_MAX = 4096,
};

enum reader_pattern {
	READER_SEQUENTIAL, /* each reader from a place of its own on, and round */
	READER_RANDOM,
	READER_FILES, /* an epoch: every file once, whole, in a random order */
};
#define READER_PATTERN_COUNT 3

enum reader_cache {
	READER_DIRECT, /* past the page cache */
	READER_COLD,   /* through it, after what is in it of the file was dropped */
	READER_CACHED, /* from it */
};
#define READER_CACHE_COUNT 3

/* "sequential", "random", "files"; "direct", "cold", "cached". */
const char *reader_pattern_to_string(enum reader_pattern pattern);
const char *reader_cache_to_string(enum reader_cache cache);

struct reader_case {
	enum reader_pattern pattern;
	enum reader_cache cache;
	size_t block; /* bytes of one read(2); READER_FILES: at most so many at once */
	unsigned readers;
};

/* What there is to be read, in a directory of its own. */
struct reader_set {
	char directory[READER_PATH_MAX]; /* "": it was not made */
	uint64_t bytes;			 /* of the large file */
	uint64_t seed;			 /* of what is in it */
	size_t files;
	size_t file_bytes;
};

/*
 * Makes a directory below `path` with a file of `bytes` (a multiple of READER_BLOCK_MAX) and
 * `files` small ones (none: 0), and has all of it on the disk. `progress` (may be NULL) is called
 * now and then with the bytes written; false from it ends the making. -EINTR, -ENOSPC with what
 * there is and what is wanted, ... On failure nothing is left.
 */
int reader_set_make(const char *path, uint64_t bytes, size_t files, size_t file_bytes,
		    bool (*progress)(uint64_t done, uint64_t all, void *context), void *context,
		    struct reader_set *out, struct err *err);
/* Removes all of it. */
void reader_set_remove(struct reader_set *set);

struct reader_outcome {
	uint64_t bytes, reads; /* read; reads: read(2), or files */
	uint64_t took_ns;
	uint64_t p50_ns, p99_ns; /* of one read, or one file */
	uint64_t wrong;		 /* blocks that hold what belongs elsewhere */
};

/*
 * Runs a case for `time_ns`; READER_FILES until all files were read. -EOPNOTSUPP: this file system
 * cannot (O_DIRECT); -EINTR: `stop` (borrowed; NULL) has become true; -EINVAL, -ENOMEM, -EIO, ...
 */
int reader_run(const struct reader_set *set, const struct reader_case *what, uint64_t time_ns,
	       uint64_t seed, const atomic_bool *stop, struct reader_outcome *out, struct err *err);

#endif
