/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum arena_limits {
	ARENA_FIRST_BLOCK = 1 << 10,
	ARENA_LARGEST_BLOCK = 64 << 10,
	ARENA_ALIGNMENT = _Alignof(max_align_t),
};

struct arena_block {
	struct arena_block *next; /* owned */
	size_t size, used;	  /* bytes of `data` */
	_Alignas(max_align_t) char data[];
};

static void *arena_protobuf_alloc(void *context, size_t size)
{
	return arena_alloc(context, size);
}

static void arena_protobuf_free(void *context, void *pointer)
{
	(void)context;
	(void)pointer; /* given back with the arena */
}

void arena_init(struct arena *arena, size_t max)
{
	*arena = (struct arena){.max = max};
	arena->allocator = (ProtobufCAllocator){
	    .alloc = arena_protobuf_alloc,
	    .free = arena_protobuf_free,
	    .allocator_data = arena,
	};
}

void arena_done(struct arena *arena)
{
	struct arena_block *block = arena->blocks;
	while (block) {
		struct arena_block *next = block->next;
		free(block);
		block = next;
	}
	arena_init(arena, arena->max);
}

void arena_reset(struct arena *arena)
{
	struct arena_block *kept = arena->blocks;
	if (!kept || kept->size > ARENA_LARGEST_BLOCK) {
		arena_done(arena);
		return;
	}

	arena->blocks = kept->next;
	arena_done(arena);
	memset(kept->data, 0, kept->used);
	kept->next = NULL;
	kept->used = 0;
	arena->blocks = kept;
	arena->held = kept->size;
}

/* What the next block of the usual kind should have: as much again as there is, within limits. */
static size_t arena_block_size(const struct arena *arena)
{
	size_t size = arena->held;
	if (size < ARENA_FIRST_BLOCK)
		size = ARENA_FIRST_BLOCK;
	if (size > ARENA_LARGEST_BLOCK)
		size = ARENA_LARGEST_BLOCK;
	size_t left = arena->max - arena->held;
	return size < left ? size : left;
}

static struct arena_block *arena_grow(struct arena *arena, size_t size)
{
	if (size > arena->max - arena->held)
		return NULL;

	size_t usual = arena_block_size(arena);
	/* Something large gets a block of its own, so that the rest of the present one is kept. */
	bool own = size > usual / 4;
	size_t capacity = own ? size : usual;
	size_t bytes;

	if (!size_add(capacity, sizeof(struct arena_block), &bytes))
		return NULL;

	struct arena_block *block = calloc(1, bytes);
	if (!block)
		return NULL;

	block->size = capacity;
	arena->held += capacity;
	if (own && arena->blocks) {
		block->next = arena->blocks->next;
		arena->blocks->next = block;
	} else {
		block->next = arena->blocks;
		arena->blocks = block;
	}

	return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	size_t padded;

	if (size == 0)
		size = 1; /* each answer is a place of its own */
	if (!size_add(size, ARENA_ALIGNMENT - 1, &padded)) {
		arena->exhausted = true;
		return NULL;
	}

	padded &= ~(size_t)(ARENA_ALIGNMENT - 1);

	struct arena_block *block = arena->blocks;
	if (!block || padded > block->size - block->used)
		block = arena_grow(arena, padded);
	if (!block) {
		arena->exhausted = true;
		return NULL;
	}

	void *data = block->data + block->used;

	block->used += padded;
	arena->used += padded;
	return data;
}

void *arena_copy(struct arena *arena, const void *data, size_t size)
{
	void *copy = arena_alloc(arena, size);
	if (copy && size > 0)
		memcpy(copy, data, size);
	return copy;
}

char *arena_copy_text(struct arena *arena, const char *text)
{
	return arena_copy(arena, text, strlen(text) + 1);
}

char *arena_copy_valid(struct arena *arena, const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	size_t length = strlen(text), valid_length = 0, size;
	if (text_plain(text, length) == length) /* as nearly all are */
		return arena_copy(arena, text, length + 1);

	for (size_t at = 0; at < length; at += size) {
		bool bad = text_decode(text + at, length - at, &size) == TEXT_INVALID;
		valid_length += bad ? sizeof(replacement) - 1 : size;
	}

	char *copy = arena_alloc(arena, valid_length + 1);
	if (!copy)
		return NULL;

	char *out = copy;

	for (size_t at = 0; at < length; at += size) {
		if (text_decode(text + at, length - at, &size) == TEXT_INVALID) {
			memcpy(out, replacement, sizeof(replacement) - 1);
			out += sizeof(replacement) - 1;
		} else {
			memcpy(out, text + at, size);
			out += size;
		}
	}

	return copy;
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);

	int length = vsnprintf(NULL, 0, format, arguments);

	va_end(arguments);
	char *text = length < 0 ? NULL : arena_alloc(arena, (size_t)length + 1);
	if (!text)
		return NULL;

	va_start(arguments, format);
	(void)vsnprintf(text, (size_t)length + 1, format, arguments);
	va_end(arguments);

	return text;
}

ProtobufCAllocator *arena_allocator(struct arena *arena)
{
	return &arena->allocator;
}
