/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/nccl/nccl_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/collectives/backend.h"
#include "bench/collectives/nccl/nccl.h"

#define SHM_PATH "/dev/shm"

int nccl_ranks_prepare(uint32_t ranks, const struct bootstrap_plan *plan, struct nccl_ranks *out,
		       struct err *err)
{
	struct nccl_ranks made = {.is_launched = plan != NULL};
	struct nccl_shm shm;
	void *note = mmap(NULL, sizeof(*made.note), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (note == MAP_FAILED)
		return err_set(err, -ENOMEM, "no memory for what the ranks of NCCL share");

	made.note = note;
	if (plan)
		made.plan = *plan;

	int rc = plan ? 0 : bootstrap_board_new(ranks, &made.board, err);
	if (rc < 0) {
		nccl_ranks_done(&made);
		return rc;
	}

	/* how many of launched ranks are on this machine is not known */
	if (!plan && nccl_shm_check(SHM_PATH, ranks, &shm, NULL) == 0 && shm.is_low)
		(void)nccl_shm_describe(SHM_PATH, ranks, &shm, made.note->room);
	*out = made;
	return 0;
}

/* Collective: all ranks call it. What cannot be read is told, and no reason to end the run. */
static int tell_transport(struct nccl_ranks *ranks, struct backend *backend, const char *root,
			  struct err *err)
{
	struct nccl_note *note = ranks->note;
	struct nccl_transport transport;
	struct err why = {0};
	struct buf text _cleanup_buf_;

	buf_init(&text, NCCL_NOTE_MAX - 1);
	int rc = nccl_backend_transport(backend, &transport, &why);
	if (rc == -ENODATA) {
		if (backend->rank == 0)
			(void)snprintf(note->lines, sizeof(note->lines),
				       "NCCL: connections not shown: %s\n", why.text);
		return 0;
	}

	if (rc < 0)
		return err_set(err, rc, "%s", why.text);

	if (backend->rank == 0) {
		(void)nccl_transport_print(&transport, "NCCL: ", &text); /* cut */
		(void)snprintf(note->lines, sizeof(note->lines), "%s", buf_text(&text));
		note->has_transport = true;
		note->has_check = nccl_transport_check(root, &transport, &note->check, &why) == 0;
	}

	nccl_transport_done(&transport);
	return 0;
}

int nccl_ranks_start(struct nccl_ranks *ranks, uint32_t rank, const char *library, const char *root,
		     uint64_t timeout_ns, uint64_t start_timeout_ns, struct backend **out,
		     struct err *err)
{
	int rc = ranks->is_launched
		     ? bootstrap_connect(&ranks->plan, start_timeout_ns, &ranks->bootstrap, err)
		     : bootstrap_enter(ranks->board, rank, &ranks->bootstrap, err);
	if (rc < 0)
		return rc;

	const struct nccl_options options = {
	    .library = library,
	    .device = ranks->is_launched ? ranks->plan.local_rank : rank,
	    .bootstrap = ranks->bootstrap,
	    .timeout_ns = timeout_ns,
	    .start_timeout_ns = start_timeout_ns,
	    .reads_transport = true,
	};
	struct backend *backend = NULL;

	rc = nccl_backend_new(&options, &backend, err);
	if (rc < 0)
		return rc;

	rc = tell_transport(ranks, backend, root, err);
	if (rc < 0) {
		backend->ops->abort(backend);
		(void)backend->ops->free_backend(backend);
		return rc;
	}

	*out = backend;
	return 0;
}

void nccl_ranks_done(struct nccl_ranks *ranks)
{
	ranks->bootstrap = bootstrap_free(ranks->bootstrap);
	ranks->board = bootstrap_board_free(ranks->board);
	if (ranks->note)
		(void)munmap(ranks->note, sizeof(*ranks->note));
	ranks->note = NULL;
}
