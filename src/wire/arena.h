/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one call: handed out by moving a pointer, given back all at once, with a cap. A message
 * of a few bytes can ask protobuf-c for many times its own size; here it gets as much as the cap
 * and then an error. Knows nothing of HTTP.
 */
#ifndef SLUICE_WIRE_ARENA_H
#define SLUICE_WIRE_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *blocks; /* owned */
	size_t used;		    /* bytes handed out, padding included */
	size_t held, max;	    /* bytes taken from the heap, and the most of them */
	bool exhausted;		    /* something was asked for that could not be given */
	ProtobufCAllocator allocator;
};

/* Allocates nothing yet. `max`: bytes in all, but for a few words for each block that it takes from
 * the heap. The arena must not move while it is in use. */
void arena_init(struct arena *arena, size_t max);
/* Gives everything back; the arena may be used again. */
void arena_done(struct arena *arena);
/* Takes everything back, and keeps a block of the usual size for what comes next. */
void arena_reset(struct arena *arena);
#define _cleanup_arena_ __attribute__((cleanup(arena_done)))

/* Zeroed, aligned for anything. NULL: the cap is reached, or there is no memory. */
void *arena_alloc(struct arena *arena, size_t size);
char *arena_copy_text(struct arena *arena, const char *text);
/* The same with U+FFFD for each byte that is no UTF-8: for names of processes, which may be any
 * bytes, on their way into a message. */
char *arena_copy_valid(struct arena *arena, const char *text);
void *arena_copy(struct arena *arena, const void *data, size_t size);
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* For protobuf-c; what it frees is only given back with the arena. Borrowed. */
ProtobufCAllocator *arena_allocator(struct arena *arena);

#endif
