/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that want the same, found by a hash of what they want. */
#include "doors/queue/schedule/schedule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "doors/queue/schedule/schedule_internal.h"

static uint64_t class_hash(const struct job *job)
{
	/* FNV-1a: the table is made anew at each pass, and a user who finds collisions waits for
	 * nobody but his own jobs. */
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	const struct wants *wants = &job->wants;
	const uint64_t numbers[] = {job->gpus,
				    job->share_numerator,
				    job->share_denominator,
				    job->ignore_outsiders,
				    job->shut,
				    wants->outsiders,
				    wants->cpu_milli,
				    wants->mem_bytes,
				    wants->gpu_memory_bytes,
				    wants->oversubscribe,
				    wants->oversubscribe ? wants->worker_gpus : 0};

	const char *const texts[] = {job->ids, job->resources, wants->gpu_type};

	for (size_t i = 0; i < array_length(numbers); i++)
		hash = (hash ^ numbers[i]) * UINT64_C(0x100000001b3);

	for (size_t i = 0; i < array_length(texts); i++)
		for (const char *at = texts[i]; at && *at; at++)
			hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);

	return hash ^ hash >> 32;
}

static bool class_text_is(const char *a, const char *b)
{
	return !a == !b && (!a || strcmp(a, b) == 0);
}

static bool class_is(const struct schedule_class *class_, const struct job *job)
{
	const struct job *first = class_->first;
	return first->gpus == job->gpus && first->share_numerator == job->share_numerator &&
	       first->share_denominator == job->share_denominator &&
	       first->ignore_outsiders == job->ignore_outsiders && first->shut == job->shut &&
	       first->wants.outsiders == job->wants.outsiders &&
	       first->wants.cpu_milli == job->wants.cpu_milli &&
	       first->wants.mem_bytes == job->wants.mem_bytes &&
	       first->wants.gpu_memory_bytes == job->wants.gpu_memory_bytes &&
	       first->wants.oversubscribe == job->wants.oversubscribe &&
	       (!first->wants.oversubscribe ||
		first->wants.worker_gpus == job->wants.worker_gpus) &&
	       class_text_is(first->wants.gpu_type, job->wants.gpu_type) &&
	       class_text_is(first->ids, job->ids) &&
	       class_text_is(first->resources, job->resources);
}

static int class_table_grow(struct schedule_state *state)
{
	size_t size = state->table_size ? state->table_size * 2 : 64;
	uint32_t *table = calloc(size, sizeof(*table));
	struct schedule_class *classes =
	    table ? reallocarray(state->classes, size / 2, sizeof(*classes)) : NULL;
	if (!classes) {
		free(table);
		return -ENOMEM;
	}

	state->classes = classes;
	for (size_t i = 0; i < state->class_count; i++) {
		size_t at = class_hash(classes[i].first) & (size - 1);
		while (table[at] != 0)
			at = (at + 1) & (size - 1);
		table[at] = (uint32_t)i + 1;
	}

	free(state->table);
	state->table = table;
	state->table_size = size;
	state->class_capacity = size / 2;

	return 0;
}

int schedule_class_of(struct schedule_state *state, const struct job *job,
		      struct schedule_class **out)
{
	if (state->class_count == state->class_capacity) {
		int rc = class_table_grow(state);
		if (rc < 0)
			return rc;
	}

	size_t at = class_hash(job) & (state->table_size - 1);
	for (; state->table[at] != 0; at = (at + 1) & (state->table_size - 1)) {
		if (class_is(&state->classes[state->table[at] - 1], job)) {
			*out = &state->classes[state->table[at] - 1];
			return 0;
		}
	}

	*out = &state->classes[state->class_count++];
	**out = (struct schedule_class){.first = job};
	state->table[at] = (uint32_t)state->class_count;

	return 0;
}

void schedule_class_done(struct schedule_state *state)
{
	for (size_t i = 0; i < state->class_count; i++)
		free(state->classes[i].text);
	free(state->classes);
	free(state->table);
}
