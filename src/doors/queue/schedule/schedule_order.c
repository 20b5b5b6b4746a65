/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_order.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "job/job.h"

#define NONE UINT32_MAX

enum order_limits {
	ORDER_DIGIT_BITS = 11,
	ORDER_DIGITS = 1 << ORDER_DIGIT_BITS,
	ORDER_KEY_BITS = 64,
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

/* Where the key is in the table, or would be. */
static size_t tally_at(const struct schedule_tally *tally, uint64_t key)
{
	size_t mask = tally->table_size - 1, at = tally_hash(key) & mask;
	while (tally->table[at] != 0 && tally->keys[tally->table[at] - 1] != key)
		at = (at + 1) & mask;
	return at;
}

bool schedule_tally_look(const struct schedule_tally *tally, uint64_t key, uint32_t *out)
{
	size_t at = tally->table_size ? tally_at(tally, key) : 0;
	if (tally->table_size == 0 || tally->table[at] == 0)
		return false;

	*out = tally->table[at] - 1;
	return true;
}

int schedule_tally_find(struct schedule_tally *tally, uint64_t key, uint32_t *out)
{
	if (tally->count == tally->capacity && tally_grow(tally) < 0)
		return -ENOMEM;

	size_t at = tally_at(tally, key);
	if (tally->table[at] != 0) {
		*out = tally->table[at] - 1;
		return 0;
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

bool schedule_order_pledges(const struct schedule_order *order, const struct job *job)
{
	uint32_t pledged = order->pledged[order_rank(job)];
	return pledged > 0 && order->jobs[pledged - 1] == job;
}

const struct job *schedule_order_pledged(const struct schedule_order *order, uint64_t id)
{
	for (size_t rank = 0; order->has_pledge && rank < SCHEDULE_PRIORITIES; rank++)
		if (order->pledged[rank] > 0 && order->jobs[order->pledged[rank] - 1]->id == id)
			return order->jobs[order->pledged[rank] - 1];
	return NULL;
}

/* Who has a pledge keeps it; else the oldest of those that are due gets it. */
static void order_pledge(struct schedule_order *order)
{
	for (size_t i = 0; i < order->count; i++) {
		const struct job *job = order->jobs[i];
		uint32_t *pledged = &order->pledged[order_rank(job)];
		bool is_due = job->due_ns > 0 && job->due_ns <= order->by.now_ns;

		if (!is_due && job->pledged_ns == 0)
			continue;
		if (*pledged == 0 ||
		    (job->pledged_ns > 0 && order->jobs[*pledged - 1]->pledged_ns == 0))
			*pledged = (uint32_t)i + 1;
		order->has_pledge = true;
	}
}

static bool order_is_lifted(const struct schedule_order *order, const struct job *job)
{
	return job->has_turn || schedule_order_pledges(order, job);
}

static void order_count_lifted(struct schedule_order *order)
{
	for (size_t i = 0; i < order->count; i++)
		order->lifted[order_rank(order->jobs[i])] += order_is_lifted(order, order->jobs[i]);

	for (size_t rank = 1; rank < SCHEDULE_PRIORITIES; rank++)
		order->lifted[rank] += order->lifted[rank - 1];
}

/*
 * The group of a job: one goes after the other. The lifted ones of a priority, in the order of
 * their ids, behind those of higher priorities. With the shortest first each priority is a group.
 */
static uint32_t order_bucket(const struct schedule_order *order, const struct job *job)
{
	size_t rank = order_rank(job);
	if (order->by.rule == RULES_ORDER_SHORTEST)
		return (uint32_t)(2 * rank + !order_is_lifted(order, job));

	/* Lifted ones of a higher priority that came before: between them the others of theirs. */
	uint32_t above = rank ? order->lifted[rank - 1] : 0;
	return order_is_lifted(order, job) ? 2 * above + 1 : 2 * order->lifted[rank];
}

/* With the rule RULES_ORDER_SHORTEST what is not known comes last; else all are equal. */
static uint64_t order_time(const struct schedule_order *order, const struct job *job)
{
	if (order->by.rule != RULES_ORDER_SHORTEST || order_is_lifted(order, job))
		return 0;
	return job->wants.time_ns ? job->wants.time_ns : UINT64_MAX;
}

/* A score as a key: the higher, the smaller. */
static uint64_t order_score_key(int64_t score)
{
	return ~((uint64_t)score ^ UINT64_C(1) << 63);
}

/* Stable, in time that grows with their number alone: by as many digits of the keys as differ. */
static void order_sort_by_key(struct schedule_order *order)
{
	uint64_t all = UINT64_MAX, any = 0;

	for (size_t i = 0; i < order->count; i++) {
		all &= order->sorted[i].key;
		any |= order->sorted[i].key;
	}

	for (unsigned shift = 0; shift < ORDER_KEY_BITS; shift += ORDER_DIGIT_BITS) {
		uint32_t first[ORDER_DIGITS + 1] = {0};
		if (((all ^ any) >> shift & (ORDER_DIGITS - 1)) == 0)
			continue;

		for (size_t i = 0; i < order->count; i++)
			first[(order->sorted[i].key >> shift & (ORDER_DIGITS - 1)) + 1]++;

		for (size_t digit = 1; digit < ORDER_DIGITS; digit++)
			first[digit] += first[digit - 1];

		for (size_t i = 0; i < order->count; i++) {
			uint64_t digit = order->sorted[i].key >> shift & (ORDER_DIGITS - 1);
			order->spare[first[digit]++] = order->sorted[i];
		}

		struct schedule_key *sorted = order->spare;

		order->spare = order->sorted;
		order->sorted = sorted;
	}
}

/* By the least of what counts first: each sort keeps what the one before has done. */
static void order_sort(struct schedule_order *order)
{
	for (size_t i = 0; i < order->count; i++) {
		const struct job *job = order->jobs[i];
		bool is_lifted = order_is_lifted(order, job);

		/* What has the pledge comes before what has a turn. */
		uint64_t lifted = !schedule_order_pledges(order, job);

		order->bucket[i] = order_bucket(order, job);
		order->sorted[i] = (struct schedule_key){
		    .key = is_lifted ? lifted : order_score_key(job->own_score),
		    .job = (uint32_t)i};
	}

	order_sort_by_key(order);

	if (order->by.rule == RULES_ORDER_SHORTEST) {
		for (size_t i = 0; i < order->count; i++)
			order->sorted[i].key = order_time(order, order->jobs[order->sorted[i].job]);
		order_sort_by_key(order);
	}

	for (size_t i = 0; i < order->count; i++)
		order->sorted[i].key = order->bucket[order->sorted[i].job];
	order_sort_by_key(order);
}

static int order_no_memory(size_t count, struct err *err)
{
	return err_set(err, -ENOMEM, "no memory to put %zu jobs in order", count);
}

static int order_make_users(struct schedule_order *order, struct err *err)
{
	uint32_t place = NONE;

	for (size_t i = 0; i < order->count; i++) {
		/* Jobs of one user often come one after the other. */
		bool is_same = i > 0 && order->jobs[i]->uid == order->jobs[i - 1]->uid;
		if (!is_same && schedule_tally_find(&order->users, order->jobs[i]->uid, &place) < 0)
			return order_no_memory(order->count, err);
		order->user[i] = place;
	}

	/* Users who only run something have a count as well. */
	order->head = calloc(order->users.count, 2 * sizeof(*order->head));
	order->used = calloc(order->users.count, 2 * sizeof(*order->used));
	if (!order->head || !order->used)
		return order_no_memory(order->count, err);

	order->heap = order->head + order->users.count;
	order->score = order->used + order->users.count;
	for (size_t i = 0; i < order->users.count; i++)
		order->head[i] = NONE;

	for (size_t i = 0; i < order->count; i++)
		order->used[order->user[i]] = order->jobs[i]->usage_score;

	return 0;
}

int schedule_order_make(const struct job *const *jobs, size_t count,
			const struct schedule_order_by *by, struct schedule_order *out,
			struct err *err)
{
	out->jobs = jobs;
	out->count = count;
	out->by = *by;

	if (count == 0)
		return 0;
	if (count >= NONE)
		return order_no_memory(count, err);

	out->memory = calloc(count, 2 * sizeof(struct schedule_key) + 3 * sizeof(uint32_t));
	if (!out->memory)
		return order_no_memory(count, err);

	out->sorted = out->memory;
	out->spare = out->sorted + count;
	out->bucket = (uint32_t *)(out->spare + count);
	out->user = out->bucket + count;
	out->next = out->user + count;

	int rc = order_make_users(out, err);
	if (rc < 0)
		return rc;

	order_pledge(out);
	order_count_lifted(out);
	order_sort(out);

	return 0;
}

void schedule_order_done(struct schedule_order *order)
{
	free(order->memory);
	free(order->head);
	free(order->used);
	schedule_tally_done(&order->users);
	*order = (struct schedule_order){.count = 0};
}

/* --- users ----------------------------------------------------------------------------------- */

/* What the first job of a user that is left has for itself now. */
static void order_judge(struct schedule_order *order, uint32_t user)
{
	const struct job *job = order->jobs[order->sorted[order->head[user]].job];
	order->score[user] = job->own_score - order->used[user] -
			     (int64_t)order->users.counts[user] * order->by.gpu_score;
}

static bool order_is_before(const struct schedule_order *order, uint32_t a, uint32_t b)
{
	if (order->score[a] != order->score[b])
		return order->score[a] > order->score[b];
	return order->sorted[order->head[a]].job < order->sorted[order->head[b]].job;
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

/* The jobs from `at` on among which the scores of users decide. */
static void order_open_group(struct schedule_order *order)
{
	size_t begin = order->at, end = begin;
	uint32_t place = order->sorted[begin].job;
	uint32_t bucket = order->bucket[place];
	uint64_t time = order_time(order, order->jobs[place]);
	bool is_lifted = order_is_lifted(order, order->jobs[place]);

	while (end < order->count) {
		uint32_t other = order->sorted[end].job;
		if (order->bucket[other] != bucket || order_time(order, order->jobs[other]) != time)
			break;

		end++;
		if (is_lifted)
			break; /* one after the other, whoever it is */
	}

	for (size_t i = end; i > begin; i--) {
		uint32_t user = order->user[order->sorted[i - 1].job];
		order->next[i - 1] = order->head[user];
		order->head[user] = (uint32_t)i - 1;
	}

	order->heap_count = 0;
	for (size_t i = begin; i < end; i++) {
		uint32_t user = order->user[order->sorted[i].job];
		if (order->head[user] != i)
			continue;
		order_judge(order, user);
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
		else
			order_judge(order, user); /* it may have got GPUs meanwhile */
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

	return order->jobs[order->sorted[order->head[order->given_user]].job];
}
