/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim/cuda/world_private.h"

uint64_t world_monotonic_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* A decimal number from the environment; true and unchanged when it is not set. */
static bool number_read(const char *name, uint64_t max, uint64_t *out)
{
	const char *text = getenv(name);
	uint64_t value = 0;

	if (!text || !*text)
		return true;

	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = value * 10 + (uint64_t)(*text - '0');
		if (value > max)
			return false;
	}

	*out = value;
	return true;
}

bool world_options_read(struct world_options *out, const char **out_which)
{
	const char *clock = getenv("SLUICE_SIM_CUDA_CLOCK");
	uint64_t slice_us = 2000, switch_us = 100, patience_ms = 1000;

	*out_which = "SLUICE_SIM_CUDA_CLOCK";
	if (clock && *clock && strcmp(clock, "real") != 0 && strcmp(clock, "virtual") != 0)
		return false;

	out->is_real = clock && strcmp(clock, "real") == 0;
	*out_which = "SLUICE_SIM_CUDA_SLICE_US";
	if (!number_read(*out_which, 10000000, &slice_us) || slice_us == 0)
		return false;

	*out_which = "SLUICE_SIM_CUDA_SWITCH_US";
	if (!number_read(*out_which, 10000000, &switch_us))
		return false;

	*out_which = "SLUICE_SIM_CUDA_PATIENCE_MS";
	if (!number_read(*out_which, 3600000, &patience_ms) || patience_ms == 0)
		return false;

	out->slice_ns = slice_us * 1000;
	out->switch_ns = switch_us * 1000;
	out->patience_ms = patience_ms;

	return true;
}

/* --- the file --------------------------------------------------------------------------------- */

/* These locks are the process's, not inherited by fork, and gone however it ends; they hold across
 * PID namespaces too. */
static int byte_lock(int fd, int command, short type, off_t byte)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int rc;

	do
		rc = fcntl(fd, command, &lock);

	while (rc < 0 && errno == EINTR);

	if (rc == 0 && command == F_GETLK)
		return lock.l_type == F_UNLCK ? 0 : 1;

	return rc;
}

/* Whether another process has that place. */
static bool process_lives(int fd, uint32_t process)
{
	return byte_lock(fd, F_GETLK, F_WRLCK, WORLD_BYTE_PROCESS + (off_t)process) != 0;
}

static int lock_make(struct world_shared *shared)
{
	pthread_mutexattr_t attributes;
	int rc = pthread_mutexattr_init(&attributes);

	if (rc != 0)
		return rc;

	(void)pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	(void)pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	rc = pthread_mutex_init(&shared->lock, &attributes);
	(void)pthread_mutexattr_destroy(&attributes);

	return rc;
}

static int shared_make(struct world_shared *shared, const struct world_options *options)
{
	int rc;

	memset(shared, 0, sizeof(*shared));
	shared->format = WORLD_FORMAT;
	shared->bytes = sizeof(*shared);
	shared->is_real = options->is_real;
	shared->patience_ms = options->patience_ms;
	shared->start_ns = world_monotonic_ns() - 1000000000; /* times begin at 1 s */
	sched_init(&shared->sched, options->slice_ns, options->switch_ns);
	shared->sched.now_ns = 1000000000;
	rc = lock_make(shared);
	shared->magic = WORLD_MAGIC;

	return rc;
}

/* Enters this process; with the making byte locked. A world in which nobody lives begins anew. */
static int file_enter(struct world *world, const struct world_options *options)
{
	struct world_shared *shared = world->shared;
	bool is_inhabited = false;
	uint32_t free_place = WORLD_PROCESS_MAX;

	for (uint32_t p = WORLD_PROCESS_MAX; p-- > 0;) {
		if (process_lives(world->fd, p))
			is_inhabited = true;
		else
			free_place = p;
	}

	if (is_inhabited && (shared->magic != WORLD_MAGIC || shared->format != WORLD_FORMAT ||
			     shared->bytes != sizeof(*shared)))
		return EPROTO;

	if (!is_inhabited) {
		int rc = shared_make(shared, options);

		if (rc != 0)
			return rc;
	}

	if (free_place == WORLD_PROCESS_MAX)
		return EUSERS;
	if (byte_lock(world->fd, F_SETLK, F_WRLCK, WORLD_BYTE_PROCESS + (off_t)free_place) != 0)
		return errno;

	world->process = free_place;
	world_lock(world);
	world_drop(world, free_place); /* what one left who died here */
	shared->process[free_place] = (uint32_t)getpid();
	world_unlock(world);

	return 0;
}

static int file_open(struct world *world, const char *path, const struct world_options *options)
{
	struct stat status;
	int rc;

	/* Not O_CREAT at once: of another user's file in /tmp the kernel would refuse it. */
	world->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (world->fd < 0 && errno == ENOENT)
		world->fd =
		    open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
	if (world->fd < 0)
		return errno;
	if (fstat(world->fd, &status) != 0 || !S_ISREG(status.st_mode))
		return EPERM;

	if (byte_lock(world->fd, F_SETLKW, F_WRLCK, WORLD_BYTE_MAKING) != 0)
		return errno;
	if ((uint64_t)status.st_size < sizeof(*world->shared) &&
	    ftruncate(world->fd, sizeof(*world->shared)) != 0)
		return errno;

	void *memory =
	    mmap(NULL, sizeof(*world->shared), PROT_READ | PROT_WRITE, MAP_SHARED, world->fd, 0);

	if (memory == MAP_FAILED)
		return errno;

	world->shared = memory;
	rc = file_enter(world, options);
	(void)byte_lock(world->fd, F_SETLK, F_UNLCK, WORLD_BYTE_MAKING);

	return rc;
}

static int private_open(struct world *world, const struct world_options *options)
{
	void *memory = mmap(NULL, sizeof(*world->shared), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return errno;
	world->shared = memory;
	return shared_make(world->shared, options);
}

/* A thread ends: nobody waits for it any more. Not called once the view is closed. */
static void thread_leaves(void *value)
{
	struct world_place *mine = value;
	struct world *world = mine->world;

	world_lock(world);
	struct world_thread *thread = &world->shared->thread[mine->thread % WORLD_THREAD_MAX];

	if (mine->thread < WORLD_THREAD_MAX && thread->process == world->process) {
		thread->state = WORLD_FREE;
		world_pass(world);
	}

	world_unlock(world);
	free(mine);
}

struct world *world_open(const char *path, const struct world_options *options)
{
	struct world *world = calloc(1, sizeof(*world));
	int rc;

	if (!world)
		return NULL;

	world->fd = -1;
	(void)pthread_mutex_init(&world->local, NULL); /* cannot fail in glibc and musl */
	rc = pthread_key_create(&world->key, thread_leaves);
	if (rc != 0) {
		free(world);
		errno = rc;
		return NULL;
	}

	rc = path ? file_open(world, path, options) : private_open(world, options);
	if (rc == 0)
		return world;

	world_forget(world);
	errno = rc;
	return NULL;
}

void world_forget(struct world *world)
{
	if (!world)
		return;

	free(pthread_getspecific(world->key)); /* other threads free their own */
	(void)pthread_key_delete(world->key);
	if (world->shared)
		(void)munmap(world->shared, sizeof(*world->shared));
	if (world->fd >= 0)
		(void)close(world->fd);
	free(world);
}

void world_leave(struct world *world)
{
	if (!world)
		return;
	world_lock(world);
	world_drop(world, world->process);
	world_pass(world);
	world_unlock(world);
}

void world_close(struct world *world)
{
	world_leave(world);
	world_forget(world);
}

bool world_is_real(const struct world *world)
{
	return world->shared->is_real;
}

uint64_t world_left_behind(const struct world *world)
{
	return __atomic_load_n(&world->shared->left_behind, __ATOMIC_RELAXED);
}

/* --- the lock, and who lives ------------------------------------------------------------------ */

/* Goes on with a copy, of this process alone, at the same addresses: whoever was stopped with the
 * lock finds the file as it was. With the local lock, so that no other thread is in there. */
static void world_part(struct world *world)
{
	const size_t bytes = sizeof(*world->shared);
	struct world_shared *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (copy == MAP_FAILED)
		return; /* the next look tries again */

	memcpy(copy, world->shared, bytes);
	if (lock_make(copy) != 0 || mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
					   world->shared) == MAP_FAILED) {
		(void)munmap(copy, bytes);
		return;
	}

	(void)close(world->fd); /* and with it the place among the living */
	world->fd = -1;
	for (uint32_t p = 0; p < WORLD_PROCESS_MAX; p++) {
		if (p != world->process)
			world_drop(world, p);
	}

	(void)fprintf(stderr,
		      "libcuda (simulated): a process that shares the GPUs was stopped in "
		      "the middle of a call; this one shares no time with others any more\n");
}

/* By 50 ms. EBUSY: somebody else has it all the time. */
static int lock_try(struct world_shared *shared)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WORLD_LOOK_MS * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}

	return pthread_mutex_timedlock(&shared->lock, &until);
}

void world_lock(struct world *world)
{
	struct world_shared *shared = world->shared;
	uint64_t seen = 0, looks = 0;
	int rc;

	(void)pthread_mutex_lock(&world->local);
	rc = pthread_mutex_trylock(&shared->lock);
	while (rc == EBUSY || rc == ETIMEDOUT) {
		uint64_t locks = __atomic_load_n(&shared->locks, __ATOMIC_RELAXED);

		/* Counted in looks: were it we who were stopped, no time has passed for us. */
		looks = locks == seen ? looks + 1 : 0;
		seen = locks;

		if (world->fd >= 0 &&
		    looks * WORLD_LOOK_MS > WORLD_STOPPED_PATIENCES * shared->patience_ms)
			world_part(world);

		rc = lock_try(shared);
	}

	/* One who died in the middle leaves the scheduler between two events: its contexts go, and
	 * nothing else points to them. */
	if (rc == EOWNERDEAD)
		(void)pthread_mutex_consistent(&shared->lock);
	(void)__atomic_add_fetch(&shared->locks, 1, __ATOMIC_RELAXED);
}

void world_unlock(struct world *world)
{
	(void)pthread_mutex_unlock(&world->shared->lock);
	(void)pthread_mutex_unlock(&world->local);
}

void world_drop(struct world *world, uint32_t process)
{
	struct world_shared *shared = world->shared;

	for (uint32_t t = 0; t < WORLD_THREAD_MAX; t++) {
		if (shared->thread[t].state != WORLD_FREE && shared->thread[t].process == process)
			shared->thread[t].state = WORLD_FREE;
	}

	for (uint32_t c = 0; c < SCHED_CONTEXT_MAX; c++) {
		if (shared->sched.context[c].used && shared->sched.context[c].owner == process)
			sched_close(&shared->sched, c);
	}

	shared->process[process] = 0;
}

bool world_bury(struct world *world)
{
	struct world_shared *shared = world->shared;
	bool found = false;

	for (uint32_t p = 0; world->fd >= 0 && p < WORLD_PROCESS_MAX; p++) {
		if (p == world->process || shared->process[p] == 0 || process_lives(world->fd, p))
			continue;
		world_drop(world, p);
		found = true;
	}

	return found;
}
