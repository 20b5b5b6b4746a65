/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/nccl/nccl.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "bench/collectives/bootstrap.h"
#include "bench/collectives/nccl/nccl_private.h"
#include "bench/collectives/nccl/nccl_transport.h"

enum {
	PAGE = 4096,
	MEMORY_MAX = 256,
	STREAM_NON_BLOCKING = 1,
	POLLS_BEFORE_LOOK = 64,
	SIMULATED_PAUSE_NS = 50000
};

/* Until the stream has done all that it was given. NCCL's errors are seen here: a kernel that waits
 * for a peer which is gone would keep the stream waiting for ever. */
static int nccl_sync(struct backend *backend, struct err *err)
{
	struct nccl_backend *nccl = nccl_of(backend);
	const struct clock clock = {0};
	uint64_t deadline_ns = 0;

	for (uint64_t poll = 0;; poll++) {
		int rc = nccl->driver.call.cuStreamQuery(nccl->stream);
		if (rc == CUDA_OK)
			return 0;

		if (rc != CUDA_NOT_READY) {
			nccl->has_failed = true;
			return driver_fail(&nccl->driver, rc, err, "rank %u: its stream",
					   backend->rank);
		}

		if (!nccl->driver.is_simulated && poll % POLLS_BEFORE_LOOK != POLLS_BEFORE_LOOK - 1)
			continue;

		int state = NCCL_OK;

		(void)pthread_mutex_lock(&nccl->lock);
		if (nccl->comm)
			(void)nccl->call.ncclCommGetAsyncError(nccl->comm, &state);
		(void)pthread_mutex_unlock(&nccl->lock);

		if (state != NCCL_OK && state != NCCL_IN_PROGRESS)
			return nccl_fail(nccl, state, err, "waiting for the stream");
		if (atomic_load(&nccl->is_aborted))
			return err_set(err, -EPIPE, "rank %u: the communicator was aborted",
				       backend->rank);

		uint64_t now_ns = clock_now_ns(&clock);

		if (deadline_ns == 0)
			deadline_ns = clock_after_ns(now_ns, backend->timeout_ns);

		if (now_ns > deadline_ns) {
			nccl->has_failed = true;
			return err_set(err, -ETIMEDOUT,
				       "rank %u: its operations are not done after %llu s: another "
				       "rank does not take part, or the link to it is down",
				       backend->rank,
				       (unsigned long long)(backend->timeout_ns / CLOCK_NS_PER_S));
		}

		/* The simulated driver and library work on the processors that we would keep busy;
		 * what is timed there is no GPU's. */
		if (nccl->driver.is_simulated)
			(void)nanosleep(&(struct timespec){.tv_nsec = SIMULATED_PAUSE_NS}, NULL);
		else
			(void)sched_yield();
	}
}

/* Room for one more in the list. */
static int memory_add(struct nccl_backend *nccl, struct err *err)
{
	if (nccl->memory_count >= MEMORY_MAX)
		return err_set(err, -ENOMEM, "rank %u: more than %d pieces of memory",
			       nccl->backend.rank, MEMORY_MAX);

	struct nccl_memory *more = realloc(nccl->memory, (nccl->memory_count + 1) * sizeof(*more));
	if (!more)
		return err_set(err, -ENOMEM, "rank %u: no memory", nccl->backend.rank);

	nccl->memory = more;
	return 0;
}

static int registered_alloc(struct nccl_backend *nccl, size_t bytes, struct nccl_memory *out,
			    struct err *err)
{
	char version[32];
	struct nccl_memory memory = {0};

	if (!nccl->call.ncclMemAlloc || !nccl->call.ncclMemFree || !nccl->call.ncclCommRegister ||
	    !nccl->call.ncclCommDeregister || nccl->version < NCCL_VERSION_REGISTER)
		return err_set(err, -EOPNOTSUPP, "%s cannot register memory (2.19 can)",
			       nccl_version_to_string(nccl->version, version));

	int rc = nccl->call.ncclMemAlloc(&memory.address, bytes);
	if (rc != NCCL_OK)
		return nccl_fail(nccl, rc, err, "ncclMemAlloc");

	rc = nccl->call.ncclCommRegister(nccl->comm, memory.address, bytes, &memory.handle);
	if (rc != NCCL_OK || !memory.handle) {
		(void)nccl->call.ncclMemFree(memory.address);
		return nccl_fail(nccl, rc, err, "ncclCommRegister");
	}

	*out = memory;
	return 0;
}

static void memory_free(struct nccl_backend *nccl, const struct nccl_memory *memory)
{
	if (!memory->handle) {
		(void)nccl->driver.call.cuMemFree((uint64_t)(uintptr_t)memory->address);
		return;
	}
	if (nccl->comm)
		(void)nccl->call.ncclCommDeregister(nccl->comm, memory->handle);
	(void)nccl->call.ncclMemFree(memory->address);
}

static int nccl_alloc(struct backend *backend, enum backend_memory kind, size_t bytes, void **out,
		      struct err *err)
{
	struct nccl_backend *nccl = nccl_of(backend);
	struct nccl_memory memory = {0};
	size_t room = 0;

	if (!size_add(bytes ? bytes : 1, PAGE - 1, &room))
		return err_set(err, -ENOMEM, "rank %u: %zu bytes", backend->rank, bytes);

	room -= room % PAGE;
	int rc = memory_add(nccl, err);
	if (rc < 0)
		return rc;

	if (kind == BACKEND_REGISTERED) {
		rc = registered_alloc(nccl, room, &memory, err);
	} else {
		uint64_t address = 0;
		int said = nccl->driver.call.cuMemAlloc(&address, room);
		if (said != CUDA_OK)
			rc = driver_fail(&nccl->driver, said, err,
					 "rank %u: %zu bytes of the GPU's memory", backend->rank,
					 room);

		memory.address = (void *)(uintptr_t)address;
	}

	if (rc < 0)
		return rc;

	int said = nccl->driver.call.cuMemsetD32((uint64_t)(uintptr_t)memory.address, 0, room / 4);
	if (said == CUDA_OK)
		said = nccl->driver.call.cuCtxSynchronize();

	if (said != CUDA_OK) {
		memory_free(nccl, &memory);
		return driver_fail(&nccl->driver, said, err, "rank %u: clearing %zu bytes",
				   backend->rank, room);
	}

	nccl->memory[nccl->memory_count++] = memory;
	*out = memory.address;
	return 0;
}

static void nccl_free(struct backend *backend, void *address)
{
	struct nccl_backend *nccl = nccl_of(backend);
	/* the driver waits for all that uses the memory, and a kernel may wait for a peer for ever
	 */
	if (nccl->has_failed)
		nccl_abort(nccl);

	for (size_t i = 0; address && i < nccl->memory_count; i++) {
		if (nccl->memory[i].address != address)
			continue;
		memory_free(nccl, &nccl->memory[i]);
		nccl->memory[i] = nccl->memory[--nccl->memory_count];
		return;
	}
}

/* Both copies go through our stream, so that they are in order with the operations on it: it does
 * not wait for the default stream. */
static int nccl_put(struct backend *backend, void *to, const void *from, size_t bytes,
		    struct err *err)
{
	struct nccl_backend *nccl = nccl_of(backend);
	int rc = bytes == 0 ? CUDA_OK
			    : nccl->driver.call.cuMemcpyHtoDAsync((uint64_t)(uintptr_t)to, from,
								  bytes, nccl->stream);
	if (rc != CUDA_OK)
		return driver_fail(&nccl->driver, rc, err, "rank %u: %zu bytes to the GPU",
				   backend->rank, bytes);

	return nccl_sync(backend, err);
}

static int nccl_get(struct backend *backend, void *to, const void *from, size_t bytes,
		    struct err *err)
{
	struct nccl_backend *nccl = nccl_of(backend);
	int rc = bytes == 0 ? CUDA_OK
			    : nccl->driver.call.cuMemcpyDtoHAsync(to, (uint64_t)(uintptr_t)from,
								  bytes, nccl->stream);
	if (rc != CUDA_OK)
		return driver_fail(&nccl->driver, rc, err, "rank %u: %zu bytes from the GPU",
				   backend->rank, bytes);

	return nccl_sync(backend, err);
}

static int nccl_share(struct backend *backend, const void *mine, void *all, size_t bytes,
		      struct err *err)
{
	struct nccl_backend *nccl = nccl_of(backend);
	int rc = bootstrap_share(nccl->bootstrap, mine, all, bytes, backend->timeout_ns, err);
	nccl->has_failed = nccl->has_failed || rc < 0;
	return rc;
}

static int nccl_barrier(struct backend *backend, struct err *err)
{
	return nccl_share(backend, NULL, NULL, 0, err);
}

static void nccl_abort_all(struct backend *backend)
{
	struct nccl_backend *nccl = nccl_of(backend);
	bootstrap_abort(nccl->bootstrap);
	nccl_abort(nccl);
}

/* In order where all is well, else without waiting for the others. */
static void comm_end(struct nccl_backend *nccl)
{
	int rc = NCCL_OK;

	if (nccl->has_failed || atomic_load(&nccl->is_aborted) || !nccl->comm) {
		nccl_abort(nccl);
		return;
	}

	if (nccl->call.ncclCommFinalize)
		rc = nccl->call.ncclCommFinalize(nccl->comm);
	if (nccl_settle(nccl, rc, nccl->backend.timeout_ns, NULL, "ncclCommFinalize") < 0) {
		nccl_abort(nccl);
		return;
	}

	if (nccl->call.ncclCommDestroy(nccl->comm) != NCCL_OK)
		nccl_abort(nccl);
	nccl->comm = NULL;
}

static struct backend *nccl_backend_free(struct backend *backend)
{
	if (!backend)
		return NULL;

	struct nccl_backend *nccl = nccl_of(backend);
	/* memory is registered with the communicator: it goes first, unless that is to be aborted
	 */
	if (nccl->has_failed)
		nccl_abort(nccl);

	while (nccl->memory_count > 0)
		memory_free(nccl, &nccl->memory[--nccl->memory_count]);

	if (nccl->comm)
		comm_end(nccl);
	if (nccl->stream)
		(void)nccl->driver.call.cuStreamDestroy(nccl->stream);
	if (nccl->has_context)
		(void)nccl->driver.call.cuDevicePrimaryCtxRelease(nccl->device.device);
	if (nccl->log >= 0)
		(void)close(nccl->log);

	/* libnccl and libcuda stay: their threads may still be at work */
	(void)pthread_mutex_destroy(&nccl->lock);
	free(nccl->memory);
	free(nccl);

	return NULL;
}

static const struct backend_ops nccl_ops = {
    .name = "nccl",
    .is_host_memory = false,
    .alloc = nccl_alloc,
    .free = nccl_free,
    .put = nccl_put,
    .get = nccl_get,
    .run = nccl_run,
    .sync = nccl_sync,
    .barrier = nccl_barrier,
    .share = nccl_share,
    .abort = nccl_abort_all,
    .free_backend = nccl_backend_free,
};

/* Has NCCL write what it does into memory of ours: no file stays when we are killed. Must be set
 * before its first call. What the user has set is his. */
static void log_begin(struct nccl_backend *nccl)
{
	char path[64];

	if (getenv("NCCL_DEBUG") || getenv("NCCL_DEBUG_FILE"))
		return;

	_cleanup_close_ int fd = memfd_create("sluice-nccl-log", MFD_CLOEXEC);
	if (fd < 0)
		return;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (setenv("NCCL_DEBUG", "INFO", 1) != 0 ||
	    setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,GRAPH", 1) != 0 ||
	    setenv("NCCL_DEBUG_FILE", path, 1) != 0)
		return;

	nccl->log = take_fd(&fd);
}

/* GPU, context and stream. */
static int device_open(struct nccl_backend *nccl, const struct nccl_options *options,
		       struct err *err)
{
	struct cuda_context *context = NULL;
	char name[16];

	/* The simulated driver's virtual clock lets one thread run at a time, and would wait for a
	 * rank that waits for another outside of it. No other driver knows the variable. */
	(void)setenv("SLUICE_SIM_CUDA_CLOCK", "real", 0);
	int rc = driver_open(options->cuda_library, DRIVER_BY_DLSYM, &nccl->driver, err);
	if (rc < 0)
		return rc;

	(void)snprintf(name, sizeof(name), "%u", options->device);
	rc = driver_find_device(&nccl->driver, name, &nccl->device, err);
	if (rc < 0)
		return rc;

	int said = nccl->driver.call.cuDevicePrimaryCtxRetain(&context, nccl->device.device);
	nccl->has_context = said == CUDA_OK;
	if (said == CUDA_OK)
		said = nccl->driver.call.cuCtxSetCurrent(context);
	if (said == CUDA_OK)
		said = nccl->driver.call.cuStreamCreate(&nccl->stream, STREAM_NON_BLOCKING);

	return said == CUDA_OK
		   ? 0
		   : driver_fail(&nccl->driver, said, err, "rank %u: GPU %u (%s)",
				 nccl->backend.rank, options->device, nccl->device.uuid);
}

static int comm_begin(struct nccl_backend *nccl, uint64_t timeout_ns, struct err *err)
{
	uint32_t rank = nccl->backend.rank, ranks = nccl->backend.ranks;
	struct nccl_config config = {
	    .size = sizeof(config),
	    .magic = NCCL_CONFIG_MAGIC,
	    .version = NCCL_CONFIG_VERSION,
	    .blocking = 0, /* or a rank that does not come could not be given up */
	    .cga_cluster_size = NCCL_CONFIG_UNSET,
	    .min_ctas = NCCL_CONFIG_UNSET,
	    .max_ctas = NCCL_CONFIG_UNSET,
	    .split_share = NCCL_CONFIG_UNSET,
	};
	struct nccl_id id = {{0}};
	_cleanup_free_ struct nccl_id *ids = calloc(ranks, sizeof(*ids));
	if (!ids)
		return err_set(err, -ENOMEM, "rank %u: no memory for %u ids", rank, ranks);

	int said = rank == 0 ? nccl->call.ncclGetUniqueId(&id) : NCCL_OK;
	if (said != NCCL_OK)
		return nccl_fail(nccl, said, err, "ncclGetUniqueId");

	int rc = bootstrap_share(nccl->bootstrap, &id, ids, sizeof(id), timeout_ns, err);
	if (rc < 0)
		return err_wrap(err, "rank %u: waiting for the unique id", rank);

	if (nccl->call.ncclCommInitRankConfig && nccl->call.ncclCommFinalize &&
	    nccl->version >= NCCL_CONFIG_VERSION)
		said = nccl->call.ncclCommInitRankConfig(&nccl->comm, (int)ranks, ids[0], (int)rank,
							 &config);
	else
		said = nccl->call.ncclCommInitRank(&nccl->comm, (int)ranks, ids[0], (int)rank);

	return nccl_settle(nccl, said, timeout_ns, err, "ncclCommInitRank");
}

int nccl_backend_new(const struct nccl_options *options, struct backend **out, struct err *err)
{
	struct nccl_backend *nccl = calloc(1, sizeof(*nccl));
	uint64_t start_ns =
	    options->start_timeout_ns ? options->start_timeout_ns : options->timeout_ns;

	if (!nccl)
		return err_set(err, -ENOMEM, "no memory for a rank of NCCL");

	nccl->backend = (struct backend){.ops = &nccl_ops,
					 .description = nccl->description,
					 .rank = bootstrap_rank(options->bootstrap),
					 .ranks = bootstrap_ranks(options->bootstrap),
					 .timeout_ns = options->timeout_ns};
	nccl->bootstrap = options->bootstrap;
	nccl->log = -1;
	(void)pthread_mutex_init(&nccl->lock, NULL);

	if (options->reads_transport)
		log_begin(nccl);

	int rc = nccl_library_open(options->library, nccl, err);
	if (rc == 0)
		rc = device_open(nccl, options, err);
	if (rc == 0)
		rc = comm_begin(nccl, start_ns, err);

	if (rc < 0) {
		nccl->has_failed = true;
		bootstrap_abort(options->bootstrap); /* the others need not wait for us */
		(void)nccl_backend_free(&nccl->backend);
		return rc;
	}

	size_t length = strlen(nccl->description);
	(void)snprintf(nccl->description + length, sizeof(nccl->description) - length,
		       ", CUDA %d.%d%s, %s", nccl->driver.version / 1000,
		       nccl->driver.version % 1000 / 10,
		       nccl->driver.is_simulated ? " (simulated)" : "", nccl->device.name);
	*out = &nccl->backend;

	return 0;
}

/* Since 2.22 ranks are connected when an operation first needs it: a small one, before the log is
 * read. */
static int connect_ranks(struct backend *backend, struct err *err)
{
	void *memory = NULL;
	struct collective_shape shape;

	collective_shape(COLLECTIVE_ALL_REDUCE, COLLECTIVE_F32, 8, backend->ranks, &shape);
	int rc = nccl_alloc(backend, BACKEND_PRIVATE, 8, &memory, err);
	if (rc < 0)
		return rc;

	const struct backend_call call = {.op = COLLECTIVE_ALL_REDUCE,
					  .type = COLLECTIVE_F32,
					  .redop = COLLECTIVE_SUM,
					  .shape = &shape,
					  .send = memory,
					  .receive = memory};
	rc = nccl_run(backend, &call, err);
	if (rc == 0)
		rc = nccl_sync(backend, err);
	nccl_free(backend, memory);

	return rc;
}

uint64_t nccl_backend_free_bytes(const struct backend *backend)
{
	const struct nccl_backend *nccl = (const struct nccl_backend *)backend;
	size_t available = 0, total = 0;
	int said = nccl->driver.call.cuMemGetInfo(&available, &total);
	return said == CUDA_OK && total > 0 ? available : UINT64_MAX;
}

int nccl_backend_transport(struct backend *backend, struct nccl_transport *out, struct err *err)
{
	struct nccl_backend *nccl = nccl_of(backend);
	_cleanup_free_ struct nccl_links *all = calloc(backend->ranks, sizeof(*all));
	_cleanup_free_ struct nccl_links *mine = calloc(1, sizeof(*mine));
	_cleanup_buf_ struct buf text;

	buf_init(&text, NCCL_LOG_MAX);
	if (!all || !mine)
		return err_set(err, -ENOMEM, "rank %u: no memory", backend->rank);
	if (nccl->log < 0)
		return err_set(err, -ENODATA,
			       "NCCL_DEBUG or NCCL_DEBUG_FILE is set: the log is not ours to read");

	int rc = connect_ranks(backend, err);
	if (rc < 0)
		return rc;
	if (lseek(nccl->log, 0, SEEK_SET) < 0)
		return err_set(err, -errno, "rank %u: NCCL's log: %s", backend->rank,
			       err_describe(-errno));

	rc = file_read_open(nccl->log, "NCCL's log", &text, err);
	/* one that is too long has its connections at its beginning */
	if (rc < 0 && rc != -EFBIG)
		return rc;

	nccl_links_parse(buf_text(&text), text.length, backend->rank, backend->ranks, mine);
	rc = nccl_share(backend, mine, all, sizeof(*mine), err);
	return rc < 0 ? rc : nccl_transport_merge(all, backend->ranks, out, err);
}
