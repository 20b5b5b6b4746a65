/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "sim/error.h"
#include "sim/physics.h"
#include "sim/state_private.h"

/*
 * The two copies. Publication number p names copy p & 1. A writer fills the other one and then
 * counts p up, so what a reader copies is whole if p has not moved meanwhile: the copy it reads is
 * written again only after the next publication.
 */

void sim_state_load(void *to, const void *from, size_t bytes)
{
	const uint64_t *source = from;
	uint64_t *target = to;

	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		target[i] = __atomic_load_n(&source[i], __ATOMIC_RELAXED);
}

void sim_state_store(void *to, const void *from, size_t bytes)
{
	const uint64_t *source = from;
	uint64_t *target = to;

	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		__atomic_store_n(&target[i], source[i], __ATOMIC_RELAXED);
}

enum {
	HEAD_BYTES = offsetof(struct sim_machine, gpu),
	TAIL_AT = offsetof(struct sim_machine, rule),
	TAIL_BYTES = sizeof(struct sim_machine) - TAIL_AT,
	COPY_TRIES = 100000,
};

_Static_assert(HEAD_BYTES % 8 == 0 && TAIL_AT % 8 == 0 && sizeof(struct sim_gpu) % 8 == 0,
	       "machines are copied in words of 8 bytes");

/* Everything but the GPUs that are not there: most machines have fewer than the most. */
static bool copy_machine(struct sim_machine *to, const struct sim_machine *from)
{
	sim_state_load(to, from, HEAD_BYTES);
	if (to->gpu_count > SIM_GPU_MAX)
		return false;
	sim_state_load(to->gpu, from->gpu, to->gpu_count * sizeof(struct sim_gpu));
	sim_state_load(to->rule, from->rule, TAIL_BYTES);
	return true;
}

bool sim_state_copy_published(const struct sim_state *state, struct sim_machine *out,
			      uint64_t *out_published)
{
	const struct sim_file *file = state->file;

	for (uint32_t i = 0; i < COPY_TRIES; i++) {
		uint64_t published = __atomic_load_n(&file->header.published, __ATOMIC_ACQUIRE);
		bool is_copied = copy_machine(out, &file->copy[published & 1]);

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&file->header.published, __ATOMIC_RELAXED) != published)
			continue;

		*out_published = published;
		return is_copied && sim_machine_check(out);
	}

	return false;
}

/* A machine without anything, for when the file has become garbage under us. */
static void make_empty(struct sim_machine *machine)
{
	memset(machine, 0, sizeof(*machine));
	machine->driver_state = SIM_DRIVER_MISMATCH;
	machine->clock = SIM_CLOCK_VIRTUAL;
}

/*
 * A writer counts up to a moment, and what it publishes a little later goes on from there. A reader
 * that in between counted further with the machine as it was would show counters that then go back.
 * So the writer first says that time is frozen and then looks at the clock; a reader first looks at
 * the clock and then whether time is frozen. Who has not seen the mark has therefore an earlier
 * time than the writer takes. The mark is taken away after the publication, and looked at before
 * it.
 *
 * A writer that dies leaves its mark. Any other writer removes it, and a reader that may write
 * becomes one when it has been held up for a tick. Those who may not go on after a while.
 */
static void freeze(struct sim_state *state)
{
	uint64_t tick = sim_state_real_tick(state);

	if (state->draft.clock != SIM_CLOCK_VIRTUAL)
		(void)__atomic_exchange_n(&state->file->header.frozen, tick + 1, __ATOMIC_SEQ_CST);
}

static void thaw(struct sim_state *state)
{
	__atomic_store_n(&state->file->header.frozen, 0, __ATOMIC_RELEASE);
}

/* The tick up to which a reader counts that has seen `now` on its clock. */
static uint64_t cap_tick(const struct sim_state *state, uint64_t now)
{
	uint64_t frozen;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	frozen = __atomic_load_n(&state->file->header.frozen, __ATOMIC_ACQUIRE);
	if (frozen == 0 || frozen > now || now - frozen >= SIM_FROZEN_MAX_TICKS)
		return now;
	return frozen - 1;
}

/* Brings the view up to date: the newest publication, and then to now. */
static void refresh(struct sim_state *state)
{
	struct sim_local *local = &state->local;
	uint64_t now = sim_state_real_tick(state), cap = cap_tick(state, now);
	uint64_t published = __atomic_load_n(&state->file->header.published, __ATOMIC_ACQUIRE);
	bool is_new = false;

	if (!local->valid || local->seen != published) {
		if (!sim_state_copy_published(state, &state->view, &published))
			make_empty(&state->view);
		local->seen = published;
		local->seen_tick = state->view.tick;
		local->valid = true;
		is_new = true;
	}

	if (state->view.clock == SIM_CLOCK_VIRTUAL)
		now = cap = state->view.tick;
	sim_physics_advance(&state->view, cap);
	local->now_tick = now > state->view.tick ? now : state->view.tick;

	/* after that: who has died worked until now, as everybody else counts it */
	if (is_new)
		(void)sim_state_bury(state, &state->view, false);
}

/* Whether this reader should write: what physics caused, who has died, that time is frozen by a
 * writer who may have died, or that a long time has passed which everybody else would have to
 * compute again. */
static bool wants_to_publish(struct sim_state *state)
{
	struct sim_local *local = &state->local;
	const struct sim_machine *view = &state->view;
	bool found_dead = false;

	if (local->looked_tick + SIM_LOOK_FOR_DEAD_TICKS <= view->tick) {
		local->looked_tick = view->tick;
		found_dead = sim_state_bury(state, &state->view, true) > 0;
	}

	if (!state->writable || local->tried_tick == local->now_tick)
		return false;

	return found_dead || view->pending_count > 0 || local->now_tick > view->tick ||
	       view->tick >= local->seen_tick + SIM_CHECKPOINT_TICKS;
}

static void at_step(const struct sim_state *state, enum sim_state_step step)
{
	if (state->at_step)
		state->at_step(step, state->step_context);
}

static struct sim_machine *begin_write(struct sim_state *state, bool wait)
{
	pthread_mutex_t *lock = &state->file->header.writers;
	struct timespec deadline;
	uint64_t published;
	int rc;

	if (!state->writable)
		return NULL;

	if (wait) {
		(void)clock_gettime(CLOCK_REALTIME, &deadline);
		deadline.tv_sec += SIM_WRITER_WAIT_S;
		rc = pthread_mutex_timedlock(lock, &deadline);
	} else {
		rc = pthread_mutex_trylock(lock);
	}

	if (rc == EOWNERDEAD) /* what is published is whole, whatever the dead one was doing */
		rc = pthread_mutex_consistent(lock);
	if (rc != 0)
		return NULL;

	at_step(state, SIM_STEP_LOCKED);
	thaw(state); /* of one who died; only who has the lock freezes */

	if (!sim_state_copy_published(state, &state->draft, &published)) {
		(void)pthread_mutex_unlock(lock);
		return NULL;
	}

	/* who has died worked until now: readers have counted that work already, and counters that
	 * they have shown must not go back */
	sim_physics_advance(&state->draft, sim_state_now_tick(state, &state->draft));
	(void)sim_state_bury(state, &state->draft, true);
	return &state->draft;
}

const struct sim_machine *sim_state_read(struct sim_state *state)
{
	bool publish;

	(void)pthread_mutex_lock(&state->local.lock);
	refresh(state);
	publish = wants_to_publish(state);
	if (!publish)
		return &state->view;

	state->local.tried_tick = state->local.now_tick;
	(void)pthread_mutex_unlock(&state->local.lock);
	if (begin_write(state, false))
		sim_state_commit(state);
	(void)pthread_mutex_lock(&state->local.lock);
	refresh(state);

	return &state->view;
}

void sim_state_read_done(struct sim_state *state)
{
	(void)pthread_mutex_unlock(&state->local.lock);
}

struct sim_machine *sim_state_write(struct sim_state *state)
{
	return begin_write(state, true);
}

static void keep_at_least(uint64_t *counter, uint64_t seen)
{
	if (*counter < seen)
		*counter = seen;
}

/*
 * A change that took longer than a tick counts from its beginning, but readers went on with the
 * machine as it was and have shown its counters since. Those must not go back.
 */
static void keep_counters(struct sim_state *state)
{
	struct sim_machine *draft = &state->draft, *seen = &state->view;
	uint64_t now = sim_state_now_tick(state, draft), published;

	if (now <= draft->tick)
		return;

	sim_physics_advance(draft, now);
	(void)pthread_mutex_lock(&state->local.lock);
	state->local.valid = false; /* the view is borrowed for what others see */
	if (sim_state_copy_published(state, seen, &published) &&
	    seen->driver_loads == draft->driver_loads) {
		sim_physics_advance(seen, now);

		for (uint32_t i = 0; i < draft->gpu_count && i < seen->gpu_count; i++) {
			struct sim_gpu *gpu = &draft->gpu[i];
			const struct sim_gpu *shown = &seen->gpu[i];

			if (shown->resets != gpu->resets)
				continue; /* a reset sets them back */

			keep_at_least(&gpu->energy_uj, shown->energy_uj);
			keep_at_least(&gpu->pcie_tx_bytes, shown->pcie_tx_bytes);
			keep_at_least(&gpu->pcie_rx_bytes, shown->pcie_rx_bytes);
			keep_at_least(&gpu->nvlink_tx_bytes, shown->nvlink_tx_bytes);
			keep_at_least(&gpu->nvlink_rx_bytes, shown->nvlink_rx_bytes);
			keep_at_least(&gpu->power_violation_ns, shown->power_violation_ns);
			keep_at_least(&gpu->thermal_violation_ns, shown->thermal_violation_ns);
		}
	}

	(void)pthread_mutex_unlock(&state->local.lock);
}

void sim_state_commit(struct sim_state *state)
{
	struct sim_file *file = state->file;
	struct sim_machine *draft = &state->draft, *other;
	uint64_t published = __atomic_load_n(&file->header.published, __ATOMIC_RELAXED);
	uint64_t event = draft->last_event;
	uint32_t half;

	freeze(state);
	at_step(state, SIM_STEP_FROZEN);
	keep_counters(state);

	other = &file->copy[(published + 1) & 1];
	draft->generation++;
	sim_state_enter_events(state, draft);
	at_step(state, SIM_STEP_EVENTS_ENTERED);

	/* readers that still copy what is overwritten now must see that the number moved */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	half = draft->gpu_count / 2;
	sim_state_store(other, draft, HEAD_BYTES);
	sim_state_store(other->gpu, draft->gpu, half * sizeof(struct sim_gpu));
	at_step(state, SIM_STEP_HALF_COPIED);
	sim_state_store(&other->gpu[half], &draft->gpu[half],
			(draft->gpu_count - half) * sizeof(struct sim_gpu));
	sim_state_store(other->rule, draft->rule, TAIL_BYTES);
	at_step(state, SIM_STEP_COPIED);
	__atomic_store_n(&file->header.published, published + 1, __ATOMIC_RELEASE);
	at_step(state, SIM_STEP_PUBLISHED);
	thaw(state);

	if (draft->last_event != event || draft->clock == SIM_CLOCK_VIRTUAL)
		sim_state_wake(state);
	at_step(state, SIM_STEP_WOKEN);
	(void)pthread_mutex_unlock(&file->header.writers);
}

void sim_state_abort(struct sim_state *state)
{
	(void)pthread_mutex_unlock(&state->file->header.writers);
}

int sim_state_advance(struct sim_state *state, uint64_t ticks, struct sim_error *error)
{
	struct sim_machine *machine = sim_state_write(state);

	if (!machine)
		return sim_fail(error, SIM_EXIT_FAILED,
				"the state file cannot be written, or another writer hangs");

	if (machine->clock != SIM_CLOCK_VIRTUAL) {
		sim_state_abort(state);
		return sim_fail(error, SIM_EXIT_INPUT,
				"the machine runs on the real clock; only one started with "
				"'--clock virtual' can be advanced");
	}

	if (ticks > UINT64_C(1) << 36 || machine->tick > UINT64_C(1) << 36) {
		sim_state_abort(state);
		return sim_fail(error, SIM_EXIT_INPUT, "two hundred years are enough");
	}

	sim_physics_advance(machine, machine->tick + ticks);
	sim_state_commit(state);
	return 0;
}
