/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a device as this process sees it: addresses of a range that no host program can
 * read, blocks of 2 MiB given out first fit with small pieces put together into one, and bytes of
 * the host behind them that are only committed once they are written. Knows nothing of what other
 * processes hold. The caller serialises.
 */
#ifndef SLUICE_SIM_CUDA_MEMORY_H
#define SLUICE_SIM_CUDA_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

enum memory_limits {
	MEMORY_BLOCK_BYTES = 2 << 20,
	MEMORY_ALIGN = 512,	    /* of small pieces */
	MEMORY_SMALL_MAX = 1 << 20, /* larger ones have blocks of their own */
	MEMORY_PIECE_MAX = 1 << 20, /* allocations at a time */
};

struct memory_piece;

struct memory {
	unsigned char *view;	    /* owned mapping: addresses; cannot be read */
	unsigned char *backing;	    /* owned mapping: what lies at them */
	uint64_t bytes;		    /* of each */
	struct memory_piece *piece; /* owned; sorted by offset */
	uint32_t piece_count, piece_room;
	uint64_t held_bytes; /* whole blocks that are in use */
};

/* 0 or -1 (errno): the address range cannot be had. `bytes`: what the device has. */
int memory_init(struct memory *memory, uint64_t bytes);
void memory_done(struct memory *memory); /* zeroed: nothing */

/* What held_bytes would be after an allocation of that size; UINT64_MAX: it does not fit. */
uint64_t memory_would_hold(const struct memory *memory, uint64_t bytes);
/* The address; 0: it does not fit. `bytes` above 0. */
uint64_t memory_take(struct memory *memory, uint64_t bytes);
/* False: nothing was given out at that address. */
bool memory_give(struct memory *memory, uint64_t address);
bool memory_has(const struct memory *memory, uint64_t address);
/* Where the bytes lie; NULL unless all of them are within one allocation. */
void *memory_at(const struct memory *memory, uint64_t address, uint64_t bytes);
/* Beginning and size of the allocation around an address. */
bool memory_around(const struct memory *memory, uint64_t address, uint64_t *out_begin,
		   uint64_t *out_bytes);

#endif
