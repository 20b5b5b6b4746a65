/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/mpi/mpi.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "bench/collectives/backend.h"
#include "bench/collectives/mpi/mpi_launch.h"
#include "bench/collectives/mpi/mpi_shim.h"
#include "bench/collectives/reduce.h"

enum mpi_limits {
	MPI_PIECE_MAX = 1 << 30, /* elements of one call where it can be split */
	MPI_DESCRIPTION_MAX = 512,
	MPI_ABORT_CODE = 2, /* what mpirun then ends with, as far as it can */
};

struct mpi_backend {
	struct backend backend;
	struct mpi_shim *shim; /* owned */
	bool has_failed;       /* nobody may be waiting for MPI_Finalize any more */
	char description[MPI_DESCRIPTION_MAX];
	int *parts;	     /* owned; alltoallv's: four times `ranks` */
	void *scratch;	     /* owned; for results that MPI does not put where they belong */
	size_t scratch_size; /* bytes */
};

typedef int (*mpi_version_fn)(char *text, int *length);

static struct mpi_backend *mpi_of(struct backend *backend)
{
	return (struct mpi_backend *)(void *)backend;
}

/* MPI's code of `call` as ours. MPI does not say which rank is gone. */
static int mpi_check(struct mpi_backend *mpi, int code, const char *call, struct err *err)
{
	if (code == 0)
		return 0;

	mpi->has_failed = true;
	_cleanup_free_ char *text = malloc(MPI_SHIM_TEXT_MAX);
	if (!text)
		return err_set(err, -EPIPE, "rank %u: %s failed with code %d", mpi->backend.rank,
			       call, code);

	mpi->shim->ops->explain(mpi->shim, code, text);
	text[strcspn(text, "\n")] = '\0';
	return err_set(err, -EPIPE, "rank %u: %s: %s", mpi->backend.rank, call, text);
}

static int mpi_alloc(struct backend *backend, enum backend_memory memory, size_t bytes, void **out,
		     struct err *err)
{
	if (memory == BACKEND_REGISTERED)
		return err_set(err, -EOPNOTSUPP,
			       "MPI has no memory that is known to all ranks for collectives: "
			       "leave out the registration");

	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *pages;
	size_t rounded = bytes < page ? page : (bytes + page - 1) / page * page;
	if (rounded < bytes || posix_memalign(&pages, page, rounded) != 0)
		return err_set(err, -ENOMEM, "rank %u: no memory for %zu bytes", backend->rank,
			       bytes);

	memset(pages, 0, rounded);
	*out = pages;
	return 0;
}

static void mpi_free(struct backend *backend, void *memory)
{
	(void)backend;
	free(memory);
}

static int mpi_copy(struct backend *backend, void *to, const void *from, size_t bytes,
		    struct err *err)
{
	(void)backend;
	(void)err;
	memcpy(to, from, bytes);
	return 0;
}

/* MPI counts in ints. */
static int mpi_count(const struct backend_call *call, uint64_t count, int *out, struct err *err)
{
	if (count > INT_MAX)
		return err_set(err, -EOPNOTSUPP,
			       "%s of %llu elements: MPI counts up to %d; take a smaller size, or "
			       "a larger type",
			       collective_op_to_string(call->op), (unsigned long long)count,
			       INT_MAX);

	*out = (int)count;
	return 0;
}

/* Ring, and what is the same for every element, so that it can be split. */
static int mpi_run_piece(struct mpi_backend *mpi, enum collective_op op,
			 const struct mpi_shim_call *piece, struct err *err)
{
	uint32_t rank = mpi->backend.rank, ranks = mpi->backend.ranks;
	const struct mpi_shim_ops *ops = mpi->shim->ops;

	switch (op) {
	case COLLECTIVE_ALL_REDUCE:
		return mpi_check(mpi, ops->all_reduce(mpi->shim, piece), "MPI_Allreduce", err);
	case COLLECTIVE_REDUCE:
		return mpi_check(mpi, ops->reduce(mpi->shim, piece), "MPI_Reduce", err);
	case COLLECTIVE_BROADCAST:
		return mpi_check(mpi, ops->broadcast(mpi->shim, piece), "MPI_Bcast", err);
	default:
		return mpi_check(mpi,
				 ops->exchange(mpi->shim, piece, (int)((rank + 1) % ranks),
					       (int)((rank + ranks - 1) % ranks)),
				 "MPI_Sendrecv", err);
	}
}

static int mpi_want_scratch(struct mpi_backend *mpi, size_t bytes, struct err *err)
{
	if (bytes <= mpi->scratch_size && mpi->scratch)
		return 0;

	void *more = realloc(mpi->scratch, bytes + 1);
	if (!more)
		return err_set(err, -ENOMEM, "rank %u: no memory for %zu bytes", mpi->backend.rank,
			       bytes);

	mpi->scratch = more;
	mpi->scratch_size = bytes;
	return 0;
}

static int mpi_run_pieces(struct mpi_backend *mpi, const struct backend_call *call, struct err *err)
{
	size_t size = collective_type_size(call->type);
	uint64_t count = call->shape->param_count, done = 0;
	bool is_root = call->root == mpi->backend.rank;
	bool is_in_place =
	    call->send == call->receive &&
	    (call->op == COLLECTIVE_ALL_REDUCE || (call->op == COLLECTIVE_REDUCE && is_root));
	char *receive = call->receive;
	int rc = 0;

	if (is_in_place && call->op == COLLECTIVE_REDUCE && call->root != 0 &&
	    !mpi->shim->ops->reduces_in_place_on_all) {
		is_in_place = false;
		rc = mpi_want_scratch(mpi, count * size, err);
		receive = mpi->scratch;
	}

	/* MPI broadcasts from the place to which it broadcasts. */
	if (call->op == COLLECTIVE_BROADCAST && is_root && call->send != call->receive)
		memcpy(receive, call->send, count * size);

	while (rc == 0) {
		uint64_t left = count - done;
		const struct mpi_shim_call piece = {
		    .send = is_in_place ? mpi->shim->ops->in_place
					: (const char *)call->send + done * size,
		    .receive = receive + done * size,
		    .count = (int)(left < MPI_PIECE_MAX ? left : MPI_PIECE_MAX),
		    .type = call->type,
		    .redop = call->redop,
		    .root = (int)call->root,
		};

		rc = mpi_run_piece(mpi, call->op, &piece, err);
		done += (uint64_t)piece.count;
		if (done == count)
			break;
	}

	if (rc == 0 && receive != call->receive)
		memcpy(call->receive, receive, count * size);

	return rc;
}

/* In place our part would come at the beginning of the buffer, not where it is expected. */
static int mpi_reduce_scatter(struct mpi_backend *mpi, const struct backend_call *call,
			      struct mpi_shim_call *todo, struct err *err)
{
	size_t bytes = call->shape->param_count * collective_type_size(call->type);
	bool is_in_place =
	    call->receive == (const char *)call->send + (size_t)mpi->backend.rank * bytes;
	int rc = is_in_place ? mpi_want_scratch(mpi, bytes, err) : 0;
	if (rc == 0 && is_in_place)
		todo->receive = mpi->scratch;

	if (rc == 0)
		rc = mpi_check(mpi, mpi->shim->ops->reduce_scatter(mpi->shim, todo),
			       "MPI_Reduce_scatter_block", err);
	if (rc == 0 && is_in_place)
		memcpy(call->receive, mpi->scratch, bytes);

	return rc;
}

static int mpi_alltoallv(struct mpi_backend *mpi, const struct backend_call *call,
			 const struct mpi_shim_call *todo, struct err *err)
{
	uint32_t rank = mpi->backend.rank, ranks = mpi->backend.ranks;
	int *send_counts = mpi->parts, *send_starts = send_counts + ranks;
	int *counts = send_starts + ranks, *starts = counts + ranks;
	int unused, rc = mpi_count(call, call->shape->send_count, &unused, err);
	if (rc == 0)
		rc = mpi_count(call, call->shape->receive_count, &unused, err);

	if (rc < 0)
		return rc;

	for (uint32_t i = 0, sent = 0, received = 0; i < ranks; i++) {
		send_counts[i] = (int)collective_v_count(call->shape, ranks, rank, i);
		counts[i] = (int)collective_v_count(call->shape, ranks, i, rank);
		send_starts[i] = (int)sent;
		starts[i] = (int)received;
		sent += (uint32_t)send_counts[i];
		received += (uint32_t)counts[i];
	}

	const struct mpi_shim_parts parts = {send_counts, send_starts, counts, starts};
	return mpi_check(mpi, mpi->shim->ops->alltoallv(mpi->shim, todo, &parts), "MPI_Alltoallv",
			 err);
}

/* An all-gather by exchanges with the neighbour in every dimension, each twice as large. */
static int mpi_hypercube(struct mpi_backend *mpi, const struct backend_call *call, struct err *err)
{
	uint32_t rank = mpi->backend.rank, ranks = mpi->backend.ranks;
	size_t part = call->shape->param_count * collective_type_size(call->type);
	char *receive = call->receive;
	int largest, rc = mpi_count(call, call->shape->param_count * ranks / 2, &largest, err);
	if (rc == 0 && (ranks & (ranks - 1)) != 0)
		rc = err_set(err, -EOPNOTSUPP,
			     "hypercube: %u ranks are not a power of two; take all_gather", ranks);

	if (rc == 0 && receive + rank * part != call->send)
		memcpy(receive + rank * part, call->send, part);

	for (uint32_t side = 1; rc == 0 && side < ranks; side *= 2) {
		uint32_t ours = rank & ~(side - 1);
		const struct mpi_shim_call exchange = {
		    .send = receive + ours * part,
		    .receive = receive + (ours ^ side) * part,
		    .count = (int)(call->shape->param_count * side),
		    .type = call->type,
		};
		int peer = (int)(rank ^ side);

		rc = mpi_check(mpi, mpi->shim->ops->exchange(mpi->shim, &exchange, peer, peer),
			       "MPI_Sendrecv", err);
	}

	return rc;
}

/* Those in which each rank has a part of the whole. */
static int mpi_run_parts(struct mpi_backend *mpi, const struct backend_call *call, struct err *err)
{
	struct mpi_shim_call todo = {.send = call->send,
				     .receive = call->receive,
				     .type = call->type,
				     .redop = call->redop,
				     .root = (int)call->root};
	int rc = mpi_count(call, call->shape->param_count, &todo.count, err);
	if (rc < 0)
		return rc;

	uint32_t rank = mpi->backend.rank;
	size_t before = (size_t)rank * call->shape->param_count * collective_type_size(call->type);
	const struct mpi_shim_ops *ops = mpi->shim->ops;
	bool is_gathered_here = (const char *)call->receive + before == call->send;

	switch (call->op) {
	case COLLECTIVE_REDUCE_SCATTER:
		return mpi_reduce_scatter(mpi, call, &todo, err);
	case COLLECTIVE_ALL_GATHER:
		if (is_gathered_here)
			todo.send = ops->in_place;
		return mpi_check(mpi, ops->all_gather(mpi->shim, &todo), "MPI_Allgather", err);
	case COLLECTIVE_GATHER:
		if (is_gathered_here && rank == call->root)
			todo.send = ops->in_place;
		return mpi_check(mpi, ops->gather(mpi->shim, &todo), "MPI_Gather", err);
	case COLLECTIVE_SCATTER:
		if (rank == call->root && (const char *)call->send + before == call->receive)
			todo.receive = ops->in_place;
		return mpi_check(mpi, ops->scatter(mpi->shim, &todo), "MPI_Scatter", err);
	case COLLECTIVE_ALLTOALL:
		return mpi_check(mpi, ops->alltoall(mpi->shim, &todo), "MPI_Alltoall", err);
	case COLLECTIVE_ALLTOALLV:
		return mpi_alltoallv(mpi, call, &todo, err);
	default:
		return mpi_hypercube(mpi, call, err);
	}
}

static bool mpi_can_split(enum collective_op op)
{
	return op == COLLECTIVE_ALL_REDUCE || op == COLLECTIVE_REDUCE ||
	       op == COLLECTIVE_BROADCAST || op == COLLECTIVE_SENDRECV;
}

static int mpi_run(struct backend *backend, const struct backend_call *call, struct err *err)
{
	struct mpi_backend *mpi = mpi_of(backend);
	int rc = mpi_can_split(call->op) ? mpi_run_pieces(mpi, call, err)
					 : mpi_run_parts(mpi, call, err);
	bool has_result = call->op != COLLECTIVE_REDUCE || call->root == backend->rank;

	if (rc == 0 && call->redop == COLLECTIVE_AVG && collective_op_reduces(call->op) &&
	    has_result)
		reduce_divide(reduce_best(), call->type, call->receive, call->shape->receive_count,
			      backend->ranks);

	return rc;
}

static int mpi_sync(struct backend *backend, struct err *err)
{
	(void)backend; /* what is called has been done when it returns */
	(void)err;
	return 0;
}

static int mpi_barrier(struct backend *backend, struct err *err)
{
	struct mpi_backend *mpi = mpi_of(backend);
	return mpi_check(mpi, mpi->shim->ops->barrier(mpi->shim), "MPI_Barrier", err);
}

static int mpi_share(struct backend *backend, const void *mine, void *all, size_t bytes,
		     struct err *err)
{
	struct mpi_backend *mpi = mpi_of(backend);
	if (bytes > BACKEND_SHARE_MAX)
		return err_set(err, -E2BIG, "%zu bytes cannot be shared at once", bytes);
	return mpi_check(mpi, mpi->shim->ops->share(mpi->shim, mine, all, (int)bytes),
			 "MPI_Allgather", err);
}

static void mpi_abort(struct backend *backend)
{
	struct mpi_backend *mpi = mpi_of(backend);
	mpi->has_failed = true;
	mpi->shim->ops->abort(mpi->shim, MPI_ABORT_CODE);
}

static struct backend *mpi_free_backend(struct backend *backend)
{
	struct mpi_backend *mpi = backend ? mpi_of(backend) : NULL;
	if (!mpi)
		return NULL;

	/* It waits for the others, of whom some are gone when a call has failed. */
	if (mpi->shim && !mpi->has_failed)
		(void)mpi->shim->ops->finish(mpi->shim); /* nothing to be done about it */
	free(mpi->shim);
	free(mpi->parts);
	free(mpi->scratch);
	free(mpi);

	return NULL;
}

static const struct backend_ops mpi_ops = {
    .name = "mpi",
    .is_host_memory = true,
    .alloc = mpi_alloc,
    .free = mpi_free,
    .put = mpi_copy,
    .get = mpi_copy,
    .run = mpi_run,
    .sync = mpi_sync,
    .barrier = mpi_barrier,
    .share = mpi_share,
    .abort = mpi_abort,
    .free_backend = mpi_free_backend,
};

/* The one that fits to who started us; both families' where that says nothing. The names of
 * MPICH's: as Debian has it, and as MPICH itself, Intel MPI and MVAPICH do. */
static void *mpi_open(const char *library, const struct mpi_launch *launch, struct err *err)
{
	static const char *const open_first[] = {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"};
	static const char *const mpich_first[] = {"libmpich.so.12", "libmpi.so.12", "libmpi.so.40"};

	bool is_pmi = launch->launcher == MPI_LAUNCHER_PMI;
	const char *const *names = library ? &library : is_pmi ? mpich_first : open_first;

	/* A library of the other family would start every rank alone; Slurm serves both. */
	size_t count = library					   ? 1
		       : launch->launcher == MPI_LAUNCHER_OPEN_MPI ? 1
		       : is_pmi && !launch->is_by_slurm		   ? 2
								   : array_length(open_first);
	char why[ERR_TEXT_MAX] = "";

	for (size_t i = 0; i < count; i++) {
		/* Its plugins look for its symbols among the global ones. */
		void *opened = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
		if (opened)
			return opened;

		const char *reason = dlerror();
		size_t used = strlen(why);

		(void)snprintf(why + used, sizeof(why) - used, "%s%s", used ? "; " : "",
			       reason ? reason : names[i]); /* cut where it is too long */
	}

	(void)err_set(err, -ENOENT, "cannot load %s: %s. Is MPI installed where the rank runs?",
		      names[0], why);
	return NULL;
}

/* Its first line, without what differs between builds of the same release. */
static void mpi_version(void *library, char out[MPI_DESCRIPTION_MAX])
{
	mpi_version_fn version;
	void *symbol = dlsym(library, "MPI_Get_library_version");
	_cleanup_free_ char *text = calloc(1, MPI_SHIM_TEXT_MAX);
	int length = 0;

	out[0] = '\0';
	memcpy(&version, &symbol, sizeof(version));

	/* It may be called before MPI is started (MPI 3.1, 8.1.1). */
	if (!symbol || !text || version(text, &length) != 0)
		return;

	text[strcspn(text, "\n,")] = '\0';

	for (char *each = text; *each; each++) {
		if (*each == '\t')
			*each = ' ';
	}

	Dl_info info;
	const char *path = dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "?";

	(void)snprintf(out, MPI_DESCRIPTION_MAX, "%s, %s", text, path); /* cut if too long */
}

static int mpi_shim_for(void *library, const char *version, struct mpi_shim **out, struct err *err)
{
	static const char *const mpich_like[] = {"MPICH", "Intel(R) MPI", "MVAPICH"};
	if (dlsym(library, "ompi_mpi_comm_world"))
		return mpi_shim_new_open(library, out, err);

	for (size_t i = 0; i < array_length(mpich_like); i++) {
		if (strstr(version, mpich_like[i]))
			return mpi_shim_new_mpich(library, out, err);
	}

	return err_set(err, -ENOENT,
		       "'%s' has the binary interface neither of Open MPI nor of MPICH",
		       version[0] ? version : "a library without MPI_Get_library_version");
}

/* Ranks that do not find each other run one by one, and measure nothing. */
static int mpi_check_world(const struct mpi_backend *mpi, const struct mpi_launch *launch,
			   struct err *err)
{
	uint32_t ranks = mpi->backend.ranks;
	if (!launch->variable || launch->ranks == 0 || launch->ranks == ranks)
		return 0;

	return err_set(err, -ENOTCONN,
		       "%u ranks were started (%s), but for %s there %s %u: use the mpirun that "
		       "belongs to this library, or the library that belongs to this mpirun",
		       launch->ranks, launch->variable, mpi->description, ranks == 1 ? "is" : "are",
		       ranks);
}

static int mpi_start(struct mpi_backend *mpi, const struct mpi_launch *launch, struct err *err)
{
	int rank = 0, ranks = 0;
	int rc =
	    mpi_check(mpi, mpi->shim->ops->start(mpi->shim, &rank, &ranks), "MPI_Init_thread", err);
	if (rc < 0)
		return rc;
	if (ranks < 1 || ranks > COLLECTIVE_RANKS_MAX || rank < 0 || rank >= ranks)
		return err_set(err, -ERANGE, "rank %d of %d: 1 to %d ranks can be measured", rank,
			       ranks, COLLECTIVE_RANKS_MAX);

	mpi->backend.rank = (uint32_t)rank;
	mpi->backend.ranks = (uint32_t)ranks;
	mpi->parts = calloc((size_t)ranks * 4, sizeof(*mpi->parts));
	if (!mpi->parts)
		return err_set(err, -ENOMEM, "rank %d: no memory for %d ranks", rank, ranks);

	return mpi_check_world(mpi, launch, err);
}

static void cleanup_backend_fn(struct mpi_backend **mpi)
{
	if (*mpi)
		(void)mpi_free_backend(&(*mpi)->backend);
}

int mpi_backend_new(const char *library, struct backend **out, struct err *err)
{
	struct mpi_launch launch = mpi_launch_read(environ);
	void *opened = mpi_open(library, &launch, err);
	if (!opened)
		return err ? err->code : -ENOENT;

	_cleanup_(cleanup_backend_fn) struct mpi_backend *mpi = calloc(1, sizeof(*mpi));
	if (!mpi)
		return err_set(err, -ENOMEM, "no memory for MPI");

	mpi->backend.ops = &mpi_ops;
	mpi->backend.description = mpi->description;
	mpi_version(opened, mpi->description);
	mpi->has_failed = true; /* nothing to be finished yet */

	int rc = mpi_shim_for(opened, mpi->description, &mpi->shim, err);
	if (rc < 0)
		return err_wrap(err, "%s", library ? library : "MPI");

	mpi->has_failed = false;
	rc = mpi_start(mpi, &launch, err);
	if (rc == 0)
		*out = &take_ptr(mpi)->backend;

	return rc;
}

bool mpi_is_launched(char *const *environment, uint32_t *out_ranks)
{
	struct mpi_launch launch = mpi_launch_read(environment);
	bool is_launched =
	    launch.launcher != MPI_LAUNCHER_NONE && launch.launcher != MPI_LAUNCHER_OTHER;
	if (is_launched)
		*out_ranks = launch.ranks;
	return is_launched;
}
