/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_order.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "job/job.h"

#define NONE UINT32_MAX

enum order_limits {
	/* Each priority, with and without a turn. */
	ORDER_BUCKETS = 2 * SCHEDULE_PRIORITIES,
};

/* --- numbers by key -------------------------------------------------------------------------- */

static size_t tally_hash(uint64_t key)
{
	key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(key ^ key >> 29);
}

static int tally_grow(struct schedule_tally *tally)
{
	size_t size = tally->table_size ? tally->table_size * 2 : 64;
	uint32_t *table = calloc(size, sizeof(*table));
	if (!table)
		return -ENOMEM;

	uint64_t *keys = reallocarray(tally->keys, size / 2, sizeof(*keys));
	tally->keys = keys ? keys : tally->keys;

	uint64_t *counts = keys ? reallocarray(tally->counts, size / 2, sizeof(*counts)) : NULL;
	tally->counts = counts ? counts : tally->counts;

	if (!counts) {
		free(table);
		return -ENOMEM;
	}

	for (size_t i = 0; i < tally->count; i++) {
		size_t at = tally_hash(keys[i]) & (size - 1);
		while (table[at] != 0)
			at = (at + 1) & (size - 1);
		table[at] = (uint32_t)i + 1;
	}

	free(tally->table);
	tally->table = table;
	tally->table_size = size;
	tally->capacity = size / 2;

	return 0;
}

int schedule_tally_find(struct schedule_tally *tally, uint64_t key, uint32_t *out)
{
	if (tally->count == tally->capacity && tally_grow(tally) < 0)
		return -ENOMEM;

	size_t mask = tally->table_size - 1, at = tally_hash(key) & mask;

	for (; tally->table[at] != 0; at = (at + 1) & mask) {
		uint32_t place = tally->table[at] - 1;
		if (tally->keys[place] == key) {
			*out = place;
			return 0;
		}
	}

	*out = (uint32_t)tally->count++;
	tally->table[at] = *out + 1;
	tally->keys[*out] = key;
	tally->counts[*out] = 0;

	return 0;
}

void schedule_tally_done(struct schedule_tally *tally)
{
	free(tally->keys);
	free(tally->counts);
	free(tally->table);
	*tally = (struct schedule_tally){.count = 0};
}

/* --- all that does not depend on users ------------------------------------------------------- */

/* The highest priority is 0. */
static size_t order_rank(const struct job *job)
{
	int32_t priority = job->wants.priority;
	if (priority > WANTS_PRIORITY_MAX)
		priority = WANTS_PRIORITY_MAX;
	if (priority < -WANTS_PRIORITY_MAX)
		priority = -WANTS_PRIORITY_MAX;
	return (size_t)(WANTS_PRIORITY_MAX - priority);
}

bool schedule_order_reserves(const struct schedule_order *order, const struct job *job)
{
	uint32_t reserved = order->reserved[order_rank(job)];
	return reserved > 0 && order->jobs[reserved - 1] == job;
}

static void order_reserve(struct schedule_order *order, uint64_t now_ns)
{
	for (size_t i = 0; i < order->count; i++) {
		const struct job *job = order->jobs[i];
		uint32_t *reserved = &order->reserved[order_rank(job)];
		if (job->gpus < 2 || job->due_ns == 0 || job->due_ns > now_ns)
			continue;
		if (*reserved == 0 || job->due_ns < order->jobs[*reserved - 1]->due_ns)
			*reserved = (uint32_t)i + 1;
	}
}

static bool order_has_turn(const struct schedule_order *order, const struct job *job)
{
	return job->has_turn || schedule_order_reserves(order, job);
}

static size_t order_bucket(const struct schedule_order *order, const struct job *job)
{
	return 2 * order_rank(job) + !order_has_turn(order, job);
}

/* With the rule RULES_ORDER_SHORTEST what is not known comes last; else all are equal. */
static uint64_t order_time(const struct schedule_order *order, const struct job *job)
{
	if (order->rule != RULES_ORDER_SHORTEST || order_has_turn(order, job))
		return 0;
	return job->wants.time_ns ? job->wants.time_ns : UINT64_MAX;
}

static int order_compare(const void *left, const void *right, void *context)
{
	const struct schedule_order *order = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint64_t time_a = order_time(order, order->jobs[a]);
	uint64_t time_b = order_time(order, order->jobs[b]);
	if (time_a != time_b)
		return time_a < time_b ? -1 : 1;
	return a < b ? -1 : 1;
}

static void order_sort(struct schedule_order *order)
{
	uint32_t first[ORDER_BUCKETS + 1] = {0};
	for (size_t i = 0; i < order->count; i++)
		first[order_bucket(order, order->jobs[i]) + 1]++;

	for (size_t b = 1; b <= ORDER_BUCKETS; b++)
		first[b] += first[b - 1];

	for (size_t i = 0; i < order->count; i++)
		order->sorted[first[order_bucket(order, order->jobs[i])]++] = (uint32_t)i;

	if (order->rule != RULES_ORDER_SHORTEST)
		return;

	/* first[b] is where bucket b ends by now. */
	for (size_t b = 0; b < ORDER_BUCKETS; b++) {
		uint32_t begin = b ? first[b - 1] : 0;
		if (first[b] - begin > 1)
			qsort_r(order->sorted + begin, first[b] - begin, sizeof(*order->sorted),
				order_compare, order);
	}
}

int schedule_order_make(const struct job *const *jobs, size_t count, enum rules_order rule,
			uint64_t now_ns, struct schedule_order *out, struct err *err)
{
	out->jobs = jobs;
	out->count = count;
	out->rule = rule;

	if (count == 0)
		return 0;

	out->memory = calloc(count, 4 * sizeof(*out->memory));
	if (!out->memory || count >= NONE)
		return err_set(err, -ENOMEM, "no memory to put %zu jobs in order", count);

	out->sorted = out->memory;
	out->user = out->memory + count;
	out->next = out->memory + 2 * count;
	out->heap = out->memory + 3 * count;

	uint32_t place = NONE;

	for (size_t i = 0; i < count; i++) {
		/* Jobs of one user often come one after the other. */
		bool is_same = i > 0 && jobs[i]->uid == jobs[i - 1]->uid;
		if (!is_same && schedule_tally_find(&out->users, jobs[i]->uid, &place) < 0)
			return err_set(err, -ENOMEM, "no memory to put %zu jobs in order", count);
		out->user[i] = place;
	}

	/* Users who only run something have a count as well. */
	out->head = calloc(out->users.count, sizeof(*out->head));
	if (!out->head)
		return err_set(err, -ENOMEM, "no memory to put %zu jobs in order", count);

	for (size_t i = 0; i < out->users.count; i++)
		out->head[i] = NONE;

	order_reserve(out, now_ns);
	order_sort(out);
	return 0;
}

void schedule_order_done(struct schedule_order *order)
{
	free(order->memory);
	free(order->head);
	schedule_tally_done(&order->users);
	*order = (struct schedule_order){.count = 0};
}

/* --- users ----------------------------------------------------------------------------------- */

static bool order_is_before(const struct schedule_order *order, uint32_t a, uint32_t b)
{
	uint64_t gpus_a = order->users.counts[a], gpus_b = order->users.counts[b];
	if (gpus_a != gpus_b)
		return gpus_a < gpus_b;
	return order->sorted[order->head[a]] < order->sorted[order->head[b]];
}

static void order_sink(struct schedule_order *order, size_t at)
{
	for (;;) {
		size_t least = at, child = 2 * at + 1;
		for (size_t i = child; i < child + 2 && i < order->heap_count; i++)
			if (order_is_before(order, order->heap[i], order->heap[least]))
				least = i;

		if (least == at)
			return;

		uint32_t user = order->heap[at];

		order->heap[at] = order->heap[least];
		order->heap[least] = user;
		at = least;
	}
}

/* The jobs from `at` on among which users are equal but for their GPUs. */
static void order_open_group(struct schedule_order *order)
{
	size_t begin = order->at, end = begin;
	const struct job *first = order->jobs[order->sorted[begin]];
	size_t bucket = order_bucket(order, first);
	uint64_t time = order_time(order, first);

	while (end < order->count) {
		const struct job *job = order->jobs[order->sorted[end]];
		if (order_bucket(order, job) != bucket || order_time(order, job) != time)
			break;

		end++;
		if (order_has_turn(order, first))
			break; /* one after the other, whoever it is */
	}

	for (size_t i = end; i > begin; i--) {
		uint32_t user = order->user[order->sorted[i - 1]];
		order->next[i - 1] = order->head[user];
		order->head[user] = (uint32_t)i - 1;
	}

	order->heap_count = 0;
	for (size_t i = begin; i < end; i++) {
		uint32_t user = order->user[order->sorted[i]];
		if (order->head[user] == i)
			order->heap[order->heap_count++] = user;
	}

	for (size_t i = order->heap_count / 2; i > 0; i--)
		order_sink(order, i - 1);

	order->at = end;
}

const struct job *schedule_order_next(struct schedule_order *order, uint64_t **out_gpus)
{
	if (order->has_given) {
		uint32_t user = order->heap[0];
		order->head[user] = order->next[order->head[user]];
		if (order->head[user] == NONE)
			order->heap[0] = order->heap[--order->heap_count];
		order_sink(order, 0);
		order->has_given = false;
	}

	if (order->heap_count == 0) {
		if (order->at == order->count)
			return NULL;
		order_open_group(order);
	}

	order->has_given = true;
	order->given_user = order->heap[0];
	*out_gpus = &order->users.counts[order->given_user];

	return order->jobs[order->sorted[order->head[order->given_user]]];
}
