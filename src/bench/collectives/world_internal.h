/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two halves of the world share: the board on which ranks write how far they are, and what
 * a rank does. For world.c (the parent) and world_rank.c (a rank) alone.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_WORLD_INTERNAL_H
#define SLUICE_BENCH_COLLECTIVES_WORLD_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/collectives/measure.h"
#include "bench/collectives/world.h"

enum world_stage {
	WORLD_STARTING,
	WORLD_WORKING, /* all ranks are there */
	WORLD_ENDING,
};

/* One rank's place. Written by it alone; what the parent reads while it runs is atomic, the error's
 * text only once the rank is gone. */
struct world_place {
	_Alignas(128) struct measure_progress progress;
	_Atomic uint32_t stage;
	_Atomic uint64_t row_since_ns; /* when its row began, or its end */
	_Atomic uint64_t rows_done;
	_Atomic uint64_t done_size; /* of the last row that is done */
	_Atomic uint32_t done_op;
	_Atomic uint32_t error_order; /* 0: it had no error; else the how manieth of all */
	int32_t error_code;
	char error_text[ERR_TEXT_MAX];
	struct world_member member;
};

struct world_board {
	_Atomic uint32_t stop;	 /* not 0: everybody ends; a futex */
	_Atomic uint32_t errors; /* so far */
	_Atomic uint32_t meetings_open, meetings_left;
	uint8_t meeting[WORLD_MEET_MAX];
	char description[WORLD_DESCRIPTION_MAX];
	struct world_place places[]; /* one of each rank */
};

/* Where start() meets the others. */
struct world_seat {
	const struct world_job *job;
	struct world_board *board; /* NULL: an mpirun started us */
	uint32_t rank, ranks;
	uint32_t meetings;
	uint64_t deadline_ns; /* UINT64_MAX: none */
};

/* What goes through the pipe from rank 0 to the parent, before the samples of both columns. */
enum world_message_kind { WORLD_MESSAGE_READY = 1, WORLD_MESSAGE_ROW };
struct world_message {
	uint32_t kind;
	uint32_t has_row;
	uint64_t index;
	struct measure_row row; /* its pointers mean nothing on the other side */
};

/* When this rank must have gone on. */
uint64_t world_place_deadline_ns(const struct world_job *job, const struct world_place *place,
				 uint64_t started_ns);
/* How far it is, in words. */
void world_place_print(const struct world_place *place, char out[WORLD_PLACE_MAX]);
void world_place_init(struct world_place *place, uint32_t rank);
void world_stop(struct world_board *board);

/* In a rank that was forked: everything until its end; its exit code. `pipe` is -1 but on rank 0.
 */
int world_rank_forked(const struct world_job *job, struct world_board *board, uint32_t rank,
		      int32_t cpu, int pipe);

#endif
