/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is given back all at once: what is read from a job file lies in one, so that nothing
 * of it has to be freed piece by piece. Knows nothing of what is in it.
 */
#ifndef SLUICE_JOB_FILE_JOBFILE_ARENA_H
#define SLUICE_JOB_FILE_JOBFILE_ARENA_H

#include <stddef.h>

struct jobfile_arena_block;

struct jobfile_arena {
	struct jobfile_arena_block *newest; /* owned, with all before it */
};

/* `size` zeroed bytes, valid until jobfile_arena_done(); NULL. */
void *jobfile_arena_take(struct jobfile_arena *arena, size_t size);
/* A copy of `length` bytes with a NUL behind it; NULL. */
char *jobfile_arena_copy(struct jobfile_arena *arena, const char *text, size_t length);
void jobfile_arena_done(struct jobfile_arena *arena);

#endif
