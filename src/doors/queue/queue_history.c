/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose jobs that have ended are forgotten when there are more than are kept: those of whoever has
 * most of them, the oldest first, so that nobody loses the memory of their jobs to another's
 * thousands.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "doors/queue/queue_internal.h"
#include "doors/queue/store/store_share.h"

/* What a person has, by whatever user ids. */
struct history_sums {
	uid_t *owner; /* owned, all three */
	uint64_t *jobs, *bytes;
	size_t count;
};

static void history_sums_done(struct history_sums *sums)
{
	free(sums->owner);
	free(sums->jobs);
	free(sums->bytes);
}

static int history_sums_make(const struct queue *queue, struct queue_history *history,
			     struct history_sums *out)
{
	out->owner = calloc(history->count + 1, sizeof(*out->owner));
	out->jobs = calloc(history->count + 1, sizeof(*out->jobs));
	out->bytes = calloc(history->count + 1, sizeof(*out->bytes));
	if (!out->owner || !out->jobs || !out->bytes)
		return -ENOMEM;

	for (size_t i = 0; i < history->count; i++) {
		struct store_share *share = &history->shares[i];
		uid_t owner = account_owner(queue->account, share->uid);
		size_t at = 0;

		while (at < out->count && out->owner[at] != owner)
			at++;

		out->count += at == out->count;
		out->owner[at] = owner;
		out->jobs[at] += share->jobs;
		out->bytes[at] +=
		    account_is_privileged(queue->account, share->uid) ? 0 : share->bytes;
		share->cut = at;
	}

	return 0;
}

bool queue_history_judge(struct queue *queue, struct queue_history *history, size_t keep_jobs)
{
	const struct account_limit *limit = account_limit(queue->account, ACCOUNT_HISTORY_BYTES);
	__attribute__((cleanup(history_sums_done))) struct history_sums sums = {.count = 0};

	account_clear(queue->account, ACCOUNT_HISTORY_BYTES);

	for (size_t i = 0; i < history->count; i++)
		(void)account_force(queue->account, ACCOUNT_HISTORY_BYTES, history->shares[i].uid,
				    history->shares[i].bytes, NULL);

	free(take_ptr(history->cuts));
	history->cuts = calloc(history->count + 1, sizeof(*history->cuts));
	if (!history->cuts || history_sums_make(queue, history, &sums) < 0)
		return false; /* the next look tries again */

	uint64_t jobs = account_level(sums.jobs, sums.count, keep_jobs);
	uint64_t bytes = account_level(sums.bytes, sums.count, (limit->total - limit->reserve) / 2);
	uint64_t own = queue_account_history_max(queue);

	bytes = own < bytes ? own : bytes;
	bool any = false;

	for (size_t i = 0; i < sums.count; i++) {
		history->cuts[i] = (struct store_cut){
		    .jobs = sums.jobs[i] > jobs ? sums.jobs[i] - jobs : 0,
		    .bytes = sums.bytes[i] > bytes ? sums.bytes[i] - bytes : 0,
		};
		any |= history->cuts[i].jobs > 0 || history->cuts[i].bytes > 0;
	}

	return any;
}

/* On the storage thread: makes the cuts, as far as one step goes, and reads how things are. */
int queue_history_work(struct queue *queue, struct queue_history *history, struct err *err)
{
	_cleanup_free_ uint64_t *ids = NULL;
	size_t count = 0;
	int rc = 0;

	if (history->is_to_cut)
		rc = store_forget_shares(queue->store, history->shares, history->count,
					 history->cuts, &ids, &count, err);

	for (size_t i = 0; i < count && rc == 0; i++)
		(void)jobdir_remove(queue->state_fd, ids[i], NULL); /* else at the next start */

	history->forgotten = count;
	free(take_ptr(history->shares));
	history->count = 0;

	return rc == 0 ? store_shares(queue->store, &history->shares, &history->count, err) : rc;
}

void queue_history_done(struct queue_history *history)
{
	free(take_ptr(history->shares));
	free(take_ptr(history->cuts));
	history->count = 0;
}
