/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for another rank, and noticing that it will never come. */
#include "bench/collectives/shm_internal.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"

uint64_t shm_process_started(pid_t pid)
{
	char path[64], text[1024];
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);

	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file)
		return 0;

	size_t length = fread(text, 1, sizeof(text) - 1, file);
	text[length] = '\0';

	/* The name may hold anything: what follows begins behind its last parenthesis. The state is
	 * field 3, the start is field 22 (proc(5)). */
	char *at = strrchr(text, ')');
	if (!at || strlen(at) < 3 || at[2] == 'Z' || at[2] == 'X')
		return 0;

	for (int field = 3; at && field <= 22; field++)
		at = strchr(at + 1, ' ');

	uint64_t started = 0;
	size_t digits = at ? strspn(at + 1, "0123456789") : 0;
	if (!at || parse_u64_span(at + 1, digits, 1, UINT64_MAX, &started) < 0)
		return 0;

	return started;
}

int shm_wait_open(struct shm_backend *self, struct err *err)
{
	uint32_t ranks = self->backend.ranks;
	self->pid_fds = calloc(ranks, sizeof(*self->pid_fds));
	if (!self->pid_fds)
		return err_set(err, -ENOMEM, "no memory to watch %u ranks", ranks);

	for (uint32_t rank = 0; rank < ranks; rank++) {
		pid_t pid = atomic_load(&self->world->seats[rank].pid);
		self->pid_fds[rank] = -1;
		/* Where the kernel has none (before 5.3), or a filter forbids it, /proc is read. */
		if (pid != getpid())
			self->pid_fds[rank] = (int)syscall(SYS_pidfd_open, pid, 0);
	}

	return 0;
}

void shm_wait_close(struct shm_backend *self)
{
	for (uint32_t rank = 0; self->pid_fds && rank < self->backend.ranks; rank++)
		if (self->pid_fds[rank] >= 0)
			(void)close(self->pid_fds[rank]);
	free(self->pid_fds);
	self->pid_fds = NULL;
}

static bool shm_is_alive(const struct shm_backend *self, uint32_t rank)
{
	const struct shm_seat *seat = &self->world->seats[rank];
	if (atomic_load(&seat->state) != SHM_HERE)
		return true; /* who has not come yet is nobody */
	if (self->pid_fds && self->pid_fds[rank] >= 0) {
		struct pollfd ended = {.fd = self->pid_fds[rank], .events = POLLIN};
		return poll(&ended, 1, 0) != 1;
	}

	pid_t pid = atomic_load(&seat->pid);
	if (pid == getpid())
		return true; /* a thread of ours; it ends with us */

	uint64_t started = shm_process_started(pid);
	/* Without /proc all that can be known is whether there is somebody of that number. */
	if (started == 0 && (seat->started == 0 || access("/proc/self/stat", R_OK) < 0))
		return kill(pid, 0) == 0 || errno != ESRCH;

	return started != 0 && started == seat->started;
}

/* Whether somebody's end makes waiting for `peer` useless. All ranks name the same one. */
static int shm_look(struct shm_backend *self, uint32_t peer, struct err *err)
{
	struct shm_world *world = self->world;
	uint32_t dead = atomic_load(&world->head->dead);

	for (uint32_t rank = 0; dead == 0 && rank < self->backend.ranks; rank++) {
		if (rank == self->backend.rank || shm_is_alive(self, rank))
			continue;

		/* Who has left in order has done all that others who do not wait for it need. */
		if (atomic_load(&world->seats[rank].state) == SHM_LEFT)
			continue;
		if (atomic_compare_exchange_strong(&world->head->dead, &dead, rank + 1))
			dead = rank + 1;
	}

	if (dead > 0)
		return err_set(err, -EPIPE, "rank %u (process %d) has ended", dead - 1,
			       (int)atomic_load(&world->seats[dead - 1].pid));

	uint32_t given_up = atomic_load(&world->head->given_up);
	if (given_up > 0)
		return err_set(err, -EPIPE, "rank %u has given up", given_up - 1);
	if (atomic_load(&world->seats[peer].state) == SHM_LEFT)
		return err_set(err, -EPIPE, "rank %u has left before the operation was done", peer);

	return 0;
}

static void shm_sleep(uint64_t ns)
{
	struct timespec time = {.tv_nsec = (long)ns};
	(void)nanosleep(&time, NULL); /* woken early: looks early */
}

/* Pauses, then leaves the processor to others, then sleeps a sixteenth of what it has waited: a
 * rank that waits long costs nothing, and none is late by more than that. */
int shm_wait_slowly(struct shm_backend *self, const _Atomic uint64_t *number, uint64_t wanted,
		    uint32_t peer, struct err *err)
{
	const struct clock clock = {NULL};
	uint64_t began = clock_now_ns(&clock), looked = began;

	for (;;) {
		uint64_t now = clock_now_ns(&clock), waited = now - began;
		if (!self->yields && waited < SHM_PAUSE_NS)
			for (int i = 0; i < 16 && !shm_has_come(number, wanted); i++)
				shm_pause();
		else if (waited < SHM_YIELD_NS)
			(void)sched_yield();
		else
			shm_sleep(waited / 16 < SHM_SLEEP_MAX_NS ? waited / 16 : SHM_SLEEP_MAX_NS);

		if (shm_has_come(number, wanted))
			return 0;
		if (now - looked < SHM_LOOK_NS)
			continue;

		looked = now;
		int rc = shm_look(self, peer, err);
		/* It may have written what we want as the last thing that it did. */
		if (rc < 0 && shm_has_come(number, wanted))
			return 0;

		if (rc == 0 && self->backend.timeout_ns > 0 && waited >= self->backend.timeout_ns)
			rc = err_set(err, -ETIMEDOUT,
				     "rank %u (process %d) does not answer for %.1f s", peer,
				     (int)atomic_load(&self->world->seats[peer].pid),
				     (double)waited / 1e9);

		if (rc < 0) {
			self->broken = rc;
			return rc;
		}
	}
}
