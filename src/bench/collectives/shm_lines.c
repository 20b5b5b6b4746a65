/* SPDX-License-Identifier: Apache-2.0 */
/* The shortest messages: their bytes travel in one cache line with their number, which saves the
 * second journey that a number beside them takes. */
#include "bench/collectives/shm_internal.h"

#include <errno.h>
#include <string.h>

/* Shows my line, then calls nobody: the peers' lines of this number can be waited for. */
static uint64_t shm_lines_show(struct shm_backend *self, uint64_t kind, const void *mine,
			       size_t bytes)
{
	uint64_t number = ++self->line;
	struct shm_line *line = &self->world->seats[self->backend.rank].lines[number & 1];
	line->kind = kind;
	if (bytes > 0)
		memcpy(line->bytes, mine, bytes);
	atomic_store_explicit(&line->number, number, memory_order_release);
	return number;
}

static int shm_lines_see(struct shm_backend *self, uint32_t peer, uint64_t number, uint64_t kind,
			 const uint8_t **out, struct err *err)
{
	const struct shm_line *line = &self->world->seats[peer].lines[number & 1];
	int rc = shm_wait(self, &line->number, number, peer, err);
	if (rc < 0)
		return rc;

	if (line->kind != kind) {
		self->broken = -EINVAL;
		return err_set(err, -EINVAL, "rank %u has called another operation than rank %u",
			       peer, self->backend.rank);
	}

	*out = line->bytes;
	return 0;
}

int shm_lines(struct shm_backend *self, uint64_t kind, const void *mine, void *all, size_t bytes,
	      struct err *err)
{
	uint32_t ranks = self->backend.ranks, rank = self->backend.rank;
	uint64_t number = shm_lines_show(self, kind, mine, bytes);

	if (bytes > 0)
		memcpy((uint8_t *)all + rank * bytes, mine, bytes);

	for (uint32_t step = 1; step < ranks; step++) {
		uint32_t peer = (rank + step) % ranks;
		const uint8_t *theirs = NULL;
		int rc = shm_lines_see(self, peer, number, kind, &theirs, err);
		if (rc < 0)
			return rc;

		if (bytes > 0)
			memcpy((uint8_t *)all + peer * bytes, theirs, bytes);
	}

	return 0;
}

int shm_lines_reduce(struct shm_backend *self, const struct shm_plan *plan, struct err *err)
{
	const struct backend_call *call = plan->call;
	uint32_t ranks = self->backend.ranks, rank = self->backend.rank;
	uint64_t kind = SHM_KIND_OPERATION + call->op +
			16 * (call->type + 16 * (call->redop + 16ULL * call->root));
	uint64_t number = shm_lines_show(self, kind, plan->source, plan->source_bytes);
	const void *sources[COLLECTIVE_SHM_RANKS_MAX];

	for (uint32_t step = 1; step < ranks; step++) {
		uint32_t peer = (rank + step) % ranks;
		const uint8_t *theirs = NULL;
		int rc = shm_lines_see(self, peer, number, kind, &theirs, err);
		if (rc < 0)
			return rc;

		sources[peer] = theirs + plan->sum.from;
	}

	sources[rank] = plan->source + plan->sum.from;
	if (plan->sum.bytes > 0)
		reduce_tree(self->reduce, call->type, call->redop, sources, ranks, plan->sum.to,
			    plan->sum.bytes / plan->element);

	return 0;
}

static void shm_rows_show(struct shm_backend *self, uint64_t number, const uint8_t *from,
			  size_t bytes)
{
	struct shm_cell *cell = self->world->seats[self->backend.rank].rows[number & 1];

	for (; bytes > 0; cell++) {
		if (bytes >= SHM_CELL_BYTES) {
			memcpy(cell->bytes, from,
			       SHM_CELL_BYTES); /* of fixed length: a few moves */
			from += SHM_CELL_BYTES;
			bytes -= SHM_CELL_BYTES;
		} else {
			memcpy(cell->bytes, from, bytes);
			bytes = 0;
		}

		atomic_store_explicit(&cell->number, number, memory_order_release);
	}
}

static int shm_rows_stage(struct shm_backend *self, uint64_t number, uint32_t peer, size_t bytes,
			  struct err *err)
{
	const struct shm_cell *cell = self->world->seats[peer].rows[number & 1];
	uint8_t *to = self->staged + (size_t)peer * SHM_ROW_BYTES;

	for (size_t done = 0; done < bytes; done += SHM_CELL_BYTES, cell++) {
		if (!shm_has_come(&cell->number, number)) {
			int rc = shm_wait(self, &cell->number, number, peer, err);
			if (rc < 0)
				return rc;
		}

		memcpy(to + done, cell->bytes, SHM_CELL_BYTES);
	}

	return 0;
}

int shm_rows_reduce(struct shm_backend *self, const struct shm_plan *plan, struct err *err)
{
	uint32_t ranks = self->backend.ranks, rank = self->backend.rank;
	uint64_t number = ++self->row;

	shm_rows_show(self, number, plan->source, plan->source_bytes);
	const void *sources[COLLECTIVE_SHM_RANKS_MAX];

	for (uint32_t step = 1; step < ranks; step++) {
		uint32_t peer = (rank + step) % ranks;
		int rc = shm_rows_stage(self, number, peer, plan->source_bytes, err);
		if (rc < 0)
			return rc;
		sources[peer] = self->staged + (size_t)peer * SHM_ROW_BYTES + plan->sum.from;
	}

	sources[rank] = plan->source + plan->sum.from;
	if (plan->sum.bytes > 0)
		reduce_tree(self->reduce, plan->call->type, plan->call->redop, sources, ranks,
			    plan->sum.to, plan->sum.bytes / plan->element);

	return 0;
}
