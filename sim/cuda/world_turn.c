/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is, and when time goes on. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/cuda/world_private.h"

static void futex_wait(const uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec timeout = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	(void)syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static void futex_wake(const uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* To a few milliseconds, which is enough for the patience and asked at every call. */
static uint64_t real_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The calling thread's place, entered when it has none. WORLD_NO_THREAD: there is no room. */
static uint32_t thread_enter(struct world *world)
{
	struct world_shared *shared = world->shared;
	struct world_place *mine = pthread_getspecific(world->key);
	uint32_t t = 0;

	if (mine && mine->thread < WORLD_THREAD_MAX &&
	    shared->thread[mine->thread].state != WORLD_FREE &&
	    shared->thread[mine->thread].process == world->process)
		return mine->thread;

	if (!mine) {
		mine = malloc(sizeof(*mine));
		if (!mine || pthread_setspecific(world->key, mine) != 0) {
			free(mine);
			return WORLD_NO_THREAD;
		}
	}

	while (t < WORLD_THREAD_MAX && shared->thread[t].state != WORLD_FREE)
		t++;

	*mine = (struct world_place){world, t};
	if (t == WORLD_THREAD_MAX)
		return WORLD_NO_THREAD;

	uint32_t wake = shared->thread[t].wake;

	shared->thread[t] = (struct world_thread){.state = WORLD_READY,
						  .process = world->process,
						  .wake = wake,
						  .local_ns = shared->sched.now_ns};
	if (shared->thread_top <= t)
		shared->thread_top = t + 1;

	return t;
}

/* The calling thread's; NULL: it has none. */
static struct world_thread *own_thread(const struct world *world)
{
	const struct world_place *mine = pthread_getspecific(world->key);

	return mine && mine->thread < WORLD_THREAD_MAX ? &world->shared->thread[mine->thread]
						       : NULL;
}

static bool is_met(const struct sched *sched, const struct world_wait *wait)
{
	const struct sched_context *context = &sched->context[wait->context % SCHED_CONTEXT_MAX];

	switch (wait->kind) {
	case WORLD_WAIT_TIME:
		return sched->now_ns >= wait->ns;
	case WORLD_WAIT_OP:
		return sched_is_done(sched, wait->context, wait->number);
	case WORLD_WAIT_ALL:
		return sched_all_done(sched, wait->context, wait->number);
	case WORLD_WAIT_ROOM:
		return !context->used || context->undone >= wait->number;
	default:
		return true;
	}
}

/* `is_own`: to the calling thread, which does not sleep. */
static void give(struct world_thread *thread, bool is_own)
{
	thread->state = WORLD_HERE;
	thread->since_ms = real_ms();
	if (is_own)
		return;
	(void)__atomic_add_fetch(&thread->wake, 1, __ATOMIC_RELEASE);
	futex_wake(&thread->wake);
}

void world_pass(struct world *world)
{
	struct world_shared *shared = world->shared;

	while (!shared->is_real) {
		struct world_thread *first = NULL;
		uint64_t next;

		/* what was queued or taken away since begins or gives way now */
		sched_advance(&shared->sched, shared->sched.now_ns);
		next = sched_next_event(&shared->sched);

		for (uint32_t t = 0; t < shared->thread_top && t < WORLD_THREAD_MAX; t++) {
			struct world_thread *thread = &shared->thread[t];

			if (thread->state == WORLD_HERE)
				return;
			if (thread->state == WORLD_WAITS && is_met(&shared->sched, &thread->wait)) {
				thread->state = WORLD_READY;
				thread->local_ns = shared->sched.now_ns;
			}

			if (thread->state == WORLD_WAITS && thread->wait.kind == WORLD_WAIT_TIME &&
			    thread->wait.ns < next)
				next = thread->wait.ns;
			if (thread->state == WORLD_READY &&
			    (!first || thread->local_ns < first->local_ns))
				first = thread;
		}

		if (first && first->local_ns <= next) {
			sched_advance(&shared->sched, first->local_ns);
			give(first, first == own_thread(world));
			return;
		}

		if (next == SCHED_NEVER)
			return; /* all wait for what never comes, or there is nobody */

		sched_advance(&shared->sched, next);
	}
}

/* Who had the turn for longer than the patience, or died with it, loses it. */
static void look_after(struct world *world)
{
	struct world_shared *shared = world->shared;
	bool is_held = false;
	uint64_t now;

	if (world_bury(world))
		world_pass(world);
	now = real_ms(); /* after that: somebody may have got the turn just now */
	for (uint32_t t = 0; t < shared->thread_top && t < WORLD_THREAD_MAX; t++) {
		struct world_thread *thread = &shared->thread[t];

		if (thread->state != WORLD_HERE)
			continue;

		is_held = true;
		if (now < thread->since_ms + shared->patience_ms)
			continue;

		thread->state = WORLD_AWAY;
		shared->left_behind++;
		is_held = false;
	}

	if (!is_held)
		world_pass(world);
}

/* Until the thread has the turn; with the lock, which is given back meanwhile. */
static void await_turn(struct world *world, uint32_t t)
{
	struct world_thread *thread = &world->shared->thread[t];

	world_pass(world);

	while (thread->state != WORLD_HERE || thread->process != world->process) {
		uint32_t wake = __atomic_load_n(&thread->wake, __ATOMIC_ACQUIRE);

		world_unlock(world);
		futex_wait(&thread->wake, wake, (uint64_t)WORLD_LOOK_MS * 1000000);

		bool is_woken = __atomic_load_n(&thread->wake, __ATOMIC_ACQUIRE) != wake;

		world_lock(world);
		if (!is_woken)
			look_after(world);
	}
}

static void real_advance(struct world_shared *shared)
{
	sched_advance(&shared->sched, world_monotonic_ns() - shared->start_ns);
}

bool world_begin(struct world *world)
{
	struct world_shared *shared = world->shared;

	world_lock(world);
	uint32_t t = thread_enter(world);

	if (t == WORLD_NO_THREAD) {
		world_unlock(world);
		return false;
	}

	struct world_thread *thread = &shared->thread[t];

	if (shared->is_real) {
		real_advance(shared);
		thread->local_ns = shared->sched.now_ns;
		return true;
	}

	if (thread->state == WORLD_AWAY || thread->local_ns < shared->sched.now_ns) {
		thread->local_ns = shared->sched.now_ns > thread->local_ns ? shared->sched.now_ns
									   : thread->local_ns;
		if (thread->state == WORLD_AWAY)
			thread->state = WORLD_READY;
	}

	/* others whose time is less run first */
	if (thread->state == WORLD_HERE)
		thread->state = WORLD_READY;
	await_turn(world, t);
	thread->since_ms = real_ms();

	return true;
}

void world_end(struct world *world)
{
	struct world_shared *shared = world->shared;

	if (shared->is_real) {
		real_advance(shared);
		(void)__atomic_add_fetch(&shared->change, 1, __ATOMIC_RELEASE);
		futex_wake(&shared->change);
	}

	world_unlock(world);
}

struct sched *world_sched(struct world *world)
{
	return &world->shared->sched;
}

uint32_t world_process(const struct world *world)
{
	return world->process;
}

uint64_t world_now(const struct world *world)
{
	const struct world_thread *thread = own_thread(world);

	return thread ? thread->local_ns : world->shared->sched.now_ns;
}

void world_spend(struct world *world, uint64_t ns)
{
	struct world_thread *thread = own_thread(world);

	if (!world->shared->is_real && thread)
		thread->local_ns += ns;
}

static void real_wait(struct world *world, const struct world_wait *wait)
{
	struct world_shared *shared = world->shared;
	const uint64_t look_ns = (uint64_t)WORLD_LOOK_MS * 1000000;

	for (;;) {
		uint32_t change = __atomic_load_n(&shared->change, __ATOMIC_ACQUIRE);
		uint64_t next;

		world_lock(world);
		real_advance(shared);
		if (is_met(&shared->sched, wait))
			break;

		next = sched_next_event(&shared->sched);
		if (wait->kind == WORLD_WAIT_TIME && wait->ns < next)
			next = wait->ns;
		if (next > shared->sched.now_ns + look_ns) {
			next = shared->sched.now_ns + look_ns;
			(void)world_bury(world);
		}

		next -= shared->sched.now_ns;
		world_unlock(world);
		futex_wait(&shared->change, change, next);
	}

	world_unlock(world);
}

void world_wait(struct world *world, const struct world_wait *wait)
{
	if (world->shared->is_real) {
		real_wait(world, wait);
		return;
	}

	if (!world_begin(world))
		return;

	struct world_thread *thread = own_thread(world);

	thread->wait = *wait;
	thread->state = WORLD_WAITS;
	await_turn(world, (uint32_t)(thread - world->shared->thread));
	world_unlock(world);
}
