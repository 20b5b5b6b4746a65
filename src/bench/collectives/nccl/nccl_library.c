/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl: its calls, its errors in words, and waiting for what it does behind them. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/collectives/nccl/nccl_private.h"
#include "bench/collectives/nccl/nccl_transport.h"

enum { SETTLE_PAUSE_NS = 20000 };

const char *nccl_version_to_string(int version, char out[32])
{
	if (version >= 10000)
		(void)snprintf(out, 32, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
			       version % 100);
	else
		(void)snprintf(out, 32, "NCCL %d.%d.%d", version / 1000, version / 100 % 10,
			       version % 100);
	return out;
}

int nccl_library_open(const char *name, struct nccl_backend *nccl, struct err *err)
{
	char version[32];

	if (!name)
		name = "libnccl.so.2";
	nccl->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!nccl->library) {
		const char *said = dlerror();
		return err_set(err, -ENOENT,
			       "cannot load %s: %s (is NCCL installed in this container? "
			       "LD_LIBRARY_PATH or --library says where it is)",
			       name, said ? said : "no reason given");
	}

	struct nccl_calls *call = &nccl->call;
	const struct {
		const char *name;
		bool is_needed;
		void *place;
	} wanted[] = {
#define NCCL_CALL(name, is_needed, parameters) {#name, is_needed, &call->name},
#include "bench/collectives/nccl/nccl_calls.def"
	    {"ncclGetErrorString", false, &call->ncclGetErrorString},
	    {"ncclGetLastError", false, &call->ncclGetLastError},
	    {"simNcclDescribe", false, &call->simNcclDescribe},
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		void *symbol = dlsym(nccl->library, wanted[i].name);
		if (!symbol && wanted[i].is_needed)
			return err_set(err, -ENOSYS, "%s has no %s: is it NCCL 2.4 or later?", name,
				       wanted[i].name);
		memcpy(wanted[i].place, &symbol, sizeof(symbol));
	}

	int rc = call->ncclGetVersion(&nccl->version);
	if (rc != NCCL_OK)
		return nccl_fail(nccl, rc, err, "ncclGetVersion");

	(void)snprintf(nccl->description, sizeof(nccl->description), "%s%s, %s",
		       nccl_version_to_string(nccl->version, version),
		       call->simNcclDescribe ? " (simulated)" : "", name);
	return 0;
}

int nccl_fail(struct nccl_backend *nccl, int result, struct err *err, const char *call)
{
	char shm_text[2 * NCCL_TEXT_MAX] = "";
	struct nccl_shm shm;
	const char *words =
	    nccl->call.ncclGetErrorString ? nccl->call.ncclGetErrorString(result) : "error";
	const char *last =
	    nccl->call.ncclGetLastError ? nccl->call.ncclGetLastError(nccl->comm) : NULL;

	nccl->has_failed = true;
	/* the commonest reason for this one in containers */
	if (result == NCCL_SYSTEM_ERROR &&
	    nccl_shm_check("/dev/shm", nccl->backend.ranks, &shm, NULL) == 0 &&
	    (shm.is_low || (last && strstr(last, "/dev/shm"))))
		(void)nccl_shm_describe("/dev/shm", nccl->backend.ranks, &shm, shm_text);

	return err_set(err, -EPIPE, "rank %u: %s: %s (%d)%s%.160s%s%s", nccl->backend.rank, call,
		       words, result, last && last[0] ? ": " : "", last ? last : "",
		       shm_text[0] ? "; " : "", shm_text);
}

/* What the communicator says of what it does behind our back. */
static int async_state(struct nccl_backend *nccl)
{
	int state = NCCL_REMOTE_ERROR;
	(void)pthread_mutex_lock(&nccl->lock);
	if (nccl->comm && nccl->call.ncclCommGetAsyncError(nccl->comm, &state) != NCCL_OK)
		state = NCCL_REMOTE_ERROR;
	(void)pthread_mutex_unlock(&nccl->lock);
	return state;
}

int nccl_settle(struct nccl_backend *nccl, int result, uint64_t timeout_ns, struct err *err,
		const char *call)
{
	const struct clock clock = {0};
	uint64_t deadline_ns = 0;

	while (result == NCCL_IN_PROGRESS) {
		result = async_state(nccl);
		if (result != NCCL_IN_PROGRESS)
			break;
		if (deadline_ns == 0)
			deadline_ns = clock_after_ns(clock_now_ns(&clock), timeout_ns);
		if (atomic_load(&nccl->is_aborted))
			return err_set(err, -EPIPE, "rank %u: %s: aborted", nccl->backend.rank,
				       call);

		if (clock_now_ns(&clock) > deadline_ns) {
			nccl->has_failed = true;
			return err_set(
			    err, -ETIMEDOUT,
			    "rank %u: %s is not done after %llu s: is another rank gone, "
			    "or does a firewall stand between them?",
			    nccl->backend.rank, call,
			    (unsigned long long)(timeout_ns / CLOCK_NS_PER_S));
		}

		(void)nanosleep(&(struct timespec){.tv_nsec = SETTLE_PAUSE_NS}, NULL);
	}

	return result == NCCL_OK ? 0 : nccl_fail(nccl, result, err, call);
}

void nccl_abort(struct nccl_backend *nccl)
{
	if (atomic_exchange(&nccl->is_aborted, true))
		return;

	(void)pthread_mutex_lock(&nccl->lock);
	void *comm = nccl->comm;
	nccl->comm = NULL;
	(void)pthread_mutex_unlock(&nccl->lock);

	if (comm)
		(void)nccl->call.ncclCommAbort(comm);
}
