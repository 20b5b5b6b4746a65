/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* At offset, in whole units of MEMORY_ALIGN; `asked` is what the caller wanted. */
struct memory_piece {
	uint64_t offset, bytes, asked;
};

int memory_init(struct memory *memory, uint64_t bytes)
{
	uint64_t size = bytes / MEMORY_BLOCK_BYTES * MEMORY_BLOCK_BYTES;
	/* one range for both, so that neither is somewhere without the other */
	void *range =
	    mmap(NULL, size * 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (range == MAP_FAILED)
		return -1;

	*memory = (struct memory){
	    .view = range,
	    .backing = (unsigned char *)range + size,
	    .bytes = size,
	};
	return 0;
}

void memory_done(struct memory *memory)
{
	if (memory->view)
		(void)munmap(memory->view, memory->bytes * 2);
	free(memory->piece);
	*memory = (struct memory){0};
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* The blocks that [offset, offset + bytes) touches and no piece other than `except` does: first and
 * one past the last, as offsets. Equal: none. */
static void own_blocks(const struct memory *memory, uint32_t at, uint64_t *out_from,
		       uint64_t *out_to)
{
	const struct memory_piece *piece = &memory->piece[at];
	uint64_t from = piece->offset / MEMORY_BLOCK_BYTES * MEMORY_BLOCK_BYTES;
	uint64_t to = round_up(piece->offset + piece->bytes, MEMORY_BLOCK_BYTES);

	if (at > 0 && piece[-1].offset + piece[-1].bytes > from)
		from += MEMORY_BLOCK_BYTES;
	if (at + 1 < memory->piece_count && piece[1].offset < to && to > from)
		to -= MEMORY_BLOCK_BYTES;
	*out_from = from;
	*out_to = to > from ? to : from;
}

/* First fit: where a piece goes, as an index into the list and an offset. False: nowhere. */
static bool find_place(const struct memory *memory, uint64_t asked, uint32_t *out_index,
		       uint64_t *out_offset, uint64_t *out_bytes)
{
	bool is_small = asked <= MEMORY_SMALL_MAX;
	uint64_t bytes, at = 0;

	if (asked == 0 || asked > memory->bytes)
		return false;

	bytes = round_up(asked, is_small ? MEMORY_ALIGN : MEMORY_BLOCK_BYTES);
	for (uint32_t i = 0; i <= memory->piece_count; i++) {
		uint64_t end = i < memory->piece_count ? memory->piece[i].offset : memory->bytes;
		uint64_t begin = at;

		if (!is_small)
			begin = round_up(begin, MEMORY_BLOCK_BYTES);
		else if (begin / MEMORY_BLOCK_BYTES != (begin + bytes - 1) / MEMORY_BLOCK_BYTES)
			begin = round_up(begin, MEMORY_BLOCK_BYTES);

		/* small pieces do not go behind large ones in their last block: those fill it */
		if (begin <= end && end - begin >= bytes) {
			*out_index = i;
			*out_offset = begin;
			*out_bytes = bytes;
			return true;
		}

		if (i < memory->piece_count)
			at = memory->piece[i].offset + memory->piece[i].bytes;
	}

	return false;
}

/* Whether a piece lies in the block before place `index` ends or after it begins. */
static uint64_t new_blocks(const struct memory *memory, uint32_t index, uint64_t offset,
			   uint64_t bytes)
{
	uint64_t from = offset / MEMORY_BLOCK_BYTES * MEMORY_BLOCK_BYTES;
	uint64_t to = round_up(offset + bytes, MEMORY_BLOCK_BYTES);

	if (index > 0 && memory->piece[index - 1].offset + memory->piece[index - 1].bytes > from)
		from += MEMORY_BLOCK_BYTES;
	if (index < memory->piece_count && memory->piece[index].offset < to && to > from)
		to -= MEMORY_BLOCK_BYTES;

	return to > from ? to - from : 0;
}

uint64_t memory_would_hold(const struct memory *memory, uint64_t asked)
{
	uint64_t offset, bytes;
	uint32_t index;

	if (!find_place(memory, asked, &index, &offset, &bytes))
		return UINT64_MAX;
	return memory->held_bytes + new_blocks(memory, index, offset, bytes);
}

uint64_t memory_take(struct memory *memory, uint64_t asked)
{
	uint64_t offset, bytes, from, to, fresh;
	uint32_t index;

	if (!find_place(memory, asked, &index, &offset, &bytes))
		return 0;

	if (memory->piece_count == memory->piece_room) {
		uint32_t room = memory->piece_room ? memory->piece_room * 2 : 64;
		struct memory_piece *grown;

		if (room > MEMORY_PIECE_MAX)
			return 0;

		grown = realloc(memory->piece, room * sizeof(*grown));
		if (!grown)
			return 0;

		memory->piece = grown;
		memory->piece_room = room;
	}

	fresh = new_blocks(memory, index, offset, bytes);
	from = offset / MEMORY_BLOCK_BYTES * MEMORY_BLOCK_BYTES;
	to = round_up(offset + bytes, MEMORY_BLOCK_BYTES);
	if (fresh && mprotect(memory->backing + from, to - from, PROT_READ | PROT_WRITE) != 0)
		return 0;

	memmove(&memory->piece[index + 1], &memory->piece[index],
		(memory->piece_count - index) * sizeof(*memory->piece));
	memory->piece[index] = (struct memory_piece){offset, bytes, asked};
	memory->piece_count++;
	memory->held_bytes += fresh;

	return (uint64_t)(uintptr_t)memory->view + offset;
}

/* Index of the piece around an offset; piece_count: none. */
static uint32_t find_piece(const struct memory *memory, uint64_t offset)
{
	uint32_t low = 0, high = memory->piece_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (memory->piece[middle].offset + memory->piece[middle].bytes <= offset)
			low = middle + 1;
		else
			high = middle;
	}

	if (low < memory->piece_count && memory->piece[low].offset <= offset)
		return low;

	return memory->piece_count;
}

bool memory_has(const struct memory *memory, uint64_t address)
{
	return memory->view && address >= (uint64_t)(uintptr_t)memory->view &&
	       address - (uint64_t)(uintptr_t)memory->view < memory->bytes;
}

bool memory_give(struct memory *memory, uint64_t address)
{
	uint64_t offset, from, to;
	uint32_t index;

	if (!memory_has(memory, address))
		return false;

	offset = address - (uint64_t)(uintptr_t)memory->view;
	index = find_piece(memory, offset);
	if (index == memory->piece_count || memory->piece[index].offset != offset)
		return false;

	own_blocks(memory, index, &from, &to);
	if (to > from) {
		/* a new mapping: the pages are gone and nothing can be read there */
		(void)mmap(memory->backing + from, to - from, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		memory->held_bytes -= to - from;
	}

	memory->piece_count--;
	memmove(&memory->piece[index], &memory->piece[index + 1],
		(memory->piece_count - index) * sizeof(*memory->piece));
	return true;
}

void *memory_at(const struct memory *memory, uint64_t address, uint64_t bytes)
{
	uint64_t offset;
	uint32_t index;

	if (!memory_has(memory, address))
		return NULL;

	offset = address - (uint64_t)(uintptr_t)memory->view;
	index = find_piece(memory, offset);
	if (index == memory->piece_count)
		return NULL;

	const struct memory_piece *piece = &memory->piece[index];

	if (offset - piece->offset > piece->asked ||
	    bytes > piece->asked - (offset - piece->offset))
		return NULL;

	return memory->backing + offset;
}

bool memory_around(const struct memory *memory, uint64_t address, uint64_t *out_begin,
		   uint64_t *out_bytes)
{
	uint32_t index;

	if (!memory_has(memory, address))
		return false;

	index = find_piece(memory, address - (uint64_t)(uintptr_t)memory->view);
	if (index == memory->piece_count)
		return false;

	*out_begin = (uint64_t)(uintptr_t)memory->view + memory->piece[index].offset;
	*out_bytes = memory->piece[index].asked;
	return true;
}
