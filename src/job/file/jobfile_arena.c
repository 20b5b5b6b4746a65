/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/jobfile_arena.h"

#include <stdlib.h>
#include <string.h>

struct jobfile_arena_block {
	struct jobfile_arena_block *older;
	void *bytes[]; /* aligned for whatever is in here */
};

void *jobfile_arena_take(struct jobfile_arena *arena, size_t size)
{
	struct jobfile_arena_block *block = calloc(1, sizeof(*block) + size);
	if (!block)
		return NULL;
	block->older = arena->newest;
	arena->newest = block;
	return block->bytes;
}

char *jobfile_arena_copy(struct jobfile_arena *arena, const char *text, size_t length)
{
	char *copy = jobfile_arena_take(arena, length + 1);
	if (copy)
		memcpy(copy, text, length);
	return copy;
}

void jobfile_arena_done(struct jobfile_arena *arena)
{
	while (arena->newest) {
		struct jobfile_arena_block *block = arena->newest;
		arena->newest = block->older;
		free(block);
	}
}
