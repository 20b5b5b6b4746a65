/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nccl/comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/nccl/world.h"

enum { REACH_WAIT_NS = 20000, STREAM_NON_BLOCKING = 1 };

int comm_fail(struct comm *comm, int result, const char *format, ...)
{
	va_list arguments;

	(void)pthread_mutex_lock(&comm->lock);
	va_start(arguments, format);
	(void)vsnprintf(comm->text, sizeof(comm->text), format, arguments);
	va_end(arguments);
	(void)pthread_mutex_unlock(&comm->lock);
	report_line(comm->device, "WARN", "%s", comm->text);

	return result;
}

int comm_get(const struct comm *comm, void *to, uint64_t from, size_t bytes)
{
	int rc = bytes > 0 ? comm->cuda.cuMemcpyDtoHAsync_v2(to, from, bytes, comm->copies) : 0;
	return rc ? rc : comm->cuda.cuStreamSynchronize(comm->copies);
}

int comm_put(const struct comm *comm, uint64_t to, const void *from, size_t bytes)
{
	int rc = bytes > 0 ? comm->cuda.cuMemcpyHtoDAsync_v2(to, from, bytes, comm->copies) : 0;
	return rc ? rc : comm->cuda.cuStreamSynchronize(comm->copies);
}

static void state_set(struct comm *comm, int state)
{
	(void)pthread_mutex_lock(&comm->lock);
	atomic_store(&comm->state, state);
	(void)pthread_cond_broadcast(&comm->changed);
	(void)pthread_mutex_unlock(&comm->lock);
}

static int join(struct comm *comm)
{
	char problem[WORLD_PROBLEM_MAX] = "", bus_id[WORLD_BUS_MAX] = "";
	(void)comm->cuda.cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), comm->device);

	if (comm->fault.is_shm)
		return comm_fail(
		    comm, NCCL_SYSTEM_ERROR,
		    "Error while creating shared memory segment /dev/shm/nccl-simulated "
		    "(size 9637888): No space left on device");

	while (comm->fault.is_init && !atomic_load(&comm->stop))
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);

	int rc = world_join(&comm->id, comm->ranks, comm->rank, bus_id, &comm->stop, &comm->world,
			    problem);
	if (rc != NCCL_SUCCESS)
		return comm_fail(comm, rc, "%s", problem[0] ? problem : "stopped");

	report_init(comm->world, comm->rank, comm->ranks, comm->device, comm->fault.is_socket,
		    &comm->report);
	return NCCL_SUCCESS;
}

/* The oldest job, or NULL: the thread may end. */
static struct job *next_job(struct comm *comm)
{
	struct job *job = NULL;

	(void)pthread_mutex_lock(&comm->lock);

	while (!comm->first && !comm->is_ended)
		(void)pthread_cond_wait(&comm->changed, &comm->lock);

	job = comm->first;
	if (job) {
		comm->first = job->next;
		if (!comm->first)
			comm->last = &comm->first;
	}

	(void)pthread_mutex_unlock(&comm->lock);
	return job;
}

/* What is before it on its stream must be done first. */
static bool reach(struct comm *comm, const struct job *job)
{
	while (!atomic_load(&comm->stop)) {
		if (comm->cuda.simCudaStreamReached(job->stream, job->ticket) == 0)
			return true;
		(void)nanosleep(&(struct timespec){.tv_nsec = REACH_WAIT_NS}, NULL);
	}
	return false;
}

static void finish(struct comm *comm)
{
	(void)pthread_mutex_lock(&comm->lock);
	(void)atomic_fetch_sub(&comm->under_way, 1);
	(void)pthread_cond_broadcast(&comm->changed);
	(void)pthread_mutex_unlock(&comm->lock);
}

static void *comm_thread(void *context)
{
	struct comm *comm = context;
	(void)comm->cuda.cuCtxSetCurrent(comm->context);

	int rc = join(comm);
	state_set(comm, rc);

	for (struct job *job; (job = next_job(comm)); free(job)) {
		uint64_t ns = 0;

		if (rc == NCCL_SUCCESS && reach(comm, job)) {
			rc = comm_run(comm, job, &ns);
			if (rc != NCCL_SUCCESS && rc != NCCL_IN_PROGRESS)
				state_set(comm, rc);
		}

		/* after a failure the stream stands until the communicator is aborted, as it does
		 * behind a kernel that waits for a peer */
		while (rc != NCCL_SUCCESS && !atomic_load(&comm->stop))
			(void)nanosleep(&(struct timespec){.tv_nsec = REACH_WAIT_NS}, NULL);

		(void)comm->cuda.simCudaStreamRelease(job->stream, job->ticket, ns);
		finish(comm);
	}

	return NULL;
}

int comm_new(const struct nccl_id *id, uint32_t ranks, uint32_t rank, bool is_blocking,
	     const struct cuda_calls *cuda, const struct nccl_fault *fault, struct comm **out)
{
	struct comm *comm = calloc(1, sizeof(*comm));
	if (!comm)
		return NCCL_SYSTEM_ERROR;

	comm->id = *id;
	comm->rank = rank;
	comm->ranks = ranks;
	comm->pid = getpid();
	comm->is_blocking = is_blocking;
	comm->fault = *fault;
	comm->cuda = *cuda;
	comm->last = &comm->first;
	atomic_init(&comm->state, NCCL_IN_PROGRESS);

	if (cuda->cuCtxGetCurrent(&comm->context) != 0 || !comm->context ||
	    cuda->cuCtxGetDevice(&comm->device) != 0 ||
	    cuda->cuStreamCreate(&comm->copies, STREAM_NON_BLOCKING) != 0) {
		free(comm);
		return NCCL_UNHANDLED_CUDA_ERROR;
	}

	(void)pthread_mutex_init(&comm->lock, NULL);
	(void)pthread_cond_init(&comm->changed, NULL);

	if (pthread_create(&comm->thread, NULL, comm_thread, comm) != 0) {
		(void)pthread_cond_destroy(&comm->changed);
		(void)pthread_mutex_destroy(&comm->lock);
		(void)cuda->cuStreamDestroy_v2(comm->copies);
		free(comm);
		return NCCL_SYSTEM_ERROR;
	}

	*out = comm;
	return NCCL_SUCCESS;
}

int comm_wait_ready(struct comm *comm)
{
	(void)pthread_mutex_lock(&comm->lock);
	while (atomic_load(&comm->state) == NCCL_IN_PROGRESS)
		(void)pthread_cond_wait(&comm->changed, &comm->lock);
	(void)pthread_mutex_unlock(&comm->lock);
	return atomic_load(&comm->state);
}

int comm_drain(struct comm *comm)
{
	(void)pthread_mutex_lock(&comm->lock);
	while (atomic_load(&comm->under_way) > 0 && atomic_load(&comm->state) == NCCL_SUCCESS)
		(void)pthread_cond_wait(&comm->changed, &comm->lock);
	(void)pthread_mutex_unlock(&comm->lock);
	return atomic_load(&comm->state);
}

void comm_free(struct comm *comm, bool is_abort)
{
	if (is_abort)
		atomic_store(&comm->stop, true);
	(void)pthread_mutex_lock(&comm->lock);
	comm->is_ended = true;
	(void)pthread_cond_broadcast(&comm->changed);
	(void)pthread_mutex_unlock(&comm->lock);
	(void)pthread_join(comm->thread, NULL);
	comm->world = comm_world_leave(comm->world, is_abort);
	(void)comm->cuda.cuStreamDestroy_v2(comm->copies);
	(void)pthread_cond_destroy(&comm->changed);
	(void)pthread_mutex_destroy(&comm->lock);
	free(comm);
}

/* Where the driver has no place to hold: in the call itself. */
static int run_now(struct comm *comm, struct job *job)
{
	uint64_t ns = 0;
	int rc = comm->cuda.cuStreamSynchronize(job->stream) == 0 ? NCCL_SUCCESS
								  : NCCL_UNHANDLED_CUDA_ERROR;
	if (rc == NCCL_SUCCESS)
		rc = comm_run(comm, job, &ns);
	if (rc != NCCL_SUCCESS)
		state_set(comm, rc);
	free(job);

	return rc;
}

int comm_submit(struct comm *comm, struct job *job)
{
	if (!comm->cuda.simCudaStreamHold)
		return run_now(comm, job);

	int rc = comm->cuda.simCudaStreamHold(job->stream, &job->ticket);
	if (rc != 0) {
		free(job);
		return comm_fail(comm, NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %d of the stream",
				 rc);
	}

	job->next = NULL;
	(void)pthread_mutex_lock(&comm->lock);
	(void)atomic_fetch_add(&comm->under_way, 1);
	*comm->last = job;
	comm->last = &job->next;
	(void)pthread_cond_broadcast(&comm->changed);
	(void)pthread_mutex_unlock(&comm->lock);

	return NCCL_SUCCESS;
}
