/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/state_private.h"

enum {
	SLICE_MS = 1000, /* a sleeper looks this often for what physics has caused meanwhile */
	MS_PER_TICK = 100,
};

_Static_assert(sizeof(struct sim_event) % 8 == 0, "events are copied in words of 8 bytes");

uint64_t sim_state_published_event(const struct sim_state *state, uint64_t *out_tick)
{
	const struct sim_file *file = state->file;
	uint64_t published, event, tick;

	do {
		const struct sim_machine *copy;

		published = __atomic_load_n(&file->header.published, __ATOMIC_ACQUIRE);
		copy = &file->copy[published & 1];
		event = __atomic_load_n(&copy->last_event, __ATOMIC_RELAXED);
		tick = __atomic_load_n(&copy->tick, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&file->header.published, __ATOMIC_RELAXED) != published);
	if (out_tick)

		*out_tick = tick;
	return event;
}

uint64_t sim_state_last_event(struct sim_state *state)
{
	return sim_state_published_event(state, NULL);
}

/* A slot's number is 0 while it is being written and the event's once it is whole. What lies in
 * the ring beyond the published last_event does not exist yet. */
void sim_state_enter_events(struct sim_state *state, struct sim_machine *machine)
{
	for (uint32_t i = 0; i < machine->pending_count; i++) {
		struct sim_event event = machine->pending[i];
		struct sim_event *slot;

		if (event.silent)
			continue;

		event.number = 0;
		slot = &state->file->ring[++machine->last_event % SIM_EVENT_MAX];
		__atomic_store_n(&slot->number, 0, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_RELEASE);
		sim_state_store(slot, &event, sizeof(event));
		__atomic_store_n(&slot->number, machine->last_event, __ATOMIC_RELEASE);
	}

	machine->pending_count = 0;
}

static bool load_event(const struct sim_state *state, uint64_t number, struct sim_event *out)
{
	const struct sim_event *slot = &state->file->ring[number % SIM_EVENT_MAX];
	uint64_t before = __atomic_load_n(&slot->number, __ATOMIC_ACQUIRE);

	if (before != number)
		return false;

	sim_state_load(out, slot, sizeof(*out));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	out->silent = false;

	return __atomic_load_n(&slot->number, __ATOMIC_RELAXED) == number;
}

/* Looks from *cursor on; 1 when a wanted one was found. The cursor is where it stopped. */
static int look(const struct sim_state *state, uint64_t *cursor,
		bool (*want)(const struct sim_event *event, void *context), void *context,
		struct sim_event *out, uint64_t *out_missed)
{
	uint64_t last = sim_state_published_event(state, NULL);

	if (last > *cursor && last - *cursor > SIM_EVENT_MAX) {
		*out_missed += last - SIM_EVENT_MAX - *cursor;
		*cursor = last - SIM_EVENT_MAX;
	}

	while (*cursor < last) {
		struct sim_event event;

		++*cursor;
		if (!load_event(state, *cursor, &event)) {
			++*out_missed; /* overwritten while we looked */
			continue;
		}

		if (want(&event, context)) {
			*out = event;
			return 1;
		}
	}

	return 0;
}

static uint64_t monotonic_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void sleep_on(const uint32_t *word, uint32_t value, uint64_t ms)
{
	struct timespec timeout = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	/* not FUTEX_PRIVATE: the waker is another process; a read-only mapping is enough */
	(void)syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

void sim_state_wake(struct sim_state *state)
{
	uint32_t *word = &state->file->header.wake;

	(void)__atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int sim_state_wait_event(struct sim_state *state, uint64_t after, uint32_t timeout_ms,
			 bool (*want)(const struct sim_event *event, void *context), void *context,
			 struct sim_event *out, uint64_t *out_missed)
{
	const uint32_t *word = &state->file->header.wake;
	uint64_t start_ms = monotonic_ms(), start_tick, missed = 0, cursor = after;
	int found;

	(void)sim_state_published_event(state, &start_tick);

	for (;;) {
		uint32_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		uint64_t passed_ms, tick, left_ms;
		bool is_virtual;

		/* a read publishes what physics has caused, such as a GPU that overheated */
		is_virtual = sim_state_read(state)->clock == SIM_CLOCK_VIRTUAL;
		sim_state_read_done(state);
		found = look(state, &cursor, want, context, out, &missed);
		if (found)
			break;

		(void)sim_state_published_event(state, &tick);
		passed_ms = monotonic_ms() - start_ms;
		if (is_virtual && (tick - start_tick) * MS_PER_TICK > passed_ms)
			passed_ms = (tick - start_tick) * MS_PER_TICK;
		if (passed_ms >= timeout_ms)
			break;

		left_ms = timeout_ms - passed_ms;
		sleep_on(word, value, left_ms < SLICE_MS ? left_ms : SLICE_MS);
	}

	if (!found)
		out->number = cursor;
	if (out_missed)
		*out_missed += missed;

	return found;
}
