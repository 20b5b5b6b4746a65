/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each user has of the queue (base/account.h): jobs that wait, their bytes in the database,
 * jobs that run without a GPU, and the bytes of those that have ended. A job is on its user's
 * account from when it is in memory, whatever the account says then: it was asked at the
 * acceptance.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

#include "doors/queue/queue_internal.h"

/* On the account or not, as `is_there` says; without memory it is left out. */
static void account_keep(struct queue_job *job, enum account_resource resource, uint64_t amount,
			 bool is_there, bool *is_counted)
{
	struct account *account = job->queue->account;
	uid_t uid = job->job.uid;

	if (is_there == *is_counted)
		return;

	if (is_there)
		*is_counted = account_force(account, resource, uid, amount, NULL) == 0;
	else {
		account_give(account, resource, uid, amount);
		*is_counted = false;
	}
}

void queue_account_job(struct queue_job *job, bool is_there)
{
	enum job_state state = job->job.state;
	bool waits = state == JOB_PENDING || state == JOB_HELD;
	bool runs = state == JOB_STARTING || state == JOB_RUNNING || state == JOB_STOPPING;
	account_keep(job, ACCOUNT_PENDING, 1, is_there && waits, &job->counts_waiting);
	account_keep(job, ACCOUNT_RUNS, 1, is_there && runs && job->job.gpus == 0,
		     &job->counts_running);
	account_keep(job, ACCOUNT_PENDING_BYTES, job->spec_bytes, is_there, &job->counts_bytes);
}

void queue_account_bytes(struct queue_job *job, uint64_t bytes)
{
	account_keep(job, ACCOUNT_PENDING_BYTES, job->spec_bytes, false, &job->counts_bytes);
	job->spec_bytes = bytes;
	account_keep(job, ACCOUNT_PENDING_BYTES, job->spec_bytes, true, &job->counts_bytes);
}

void queue_account_ended(struct queue_job *job)
{
	struct queue *queue = job->queue;
	uid_t uid = job->job.uid;

	queue_account_job(job, false);
	if (account_force(queue->account, ACCOUNT_HISTORY_BYTES, uid, job->spec_bytes, NULL) == 0 &&
	    account_held(queue->account, ACCOUNT_HISTORY_BYTES, uid) >
		queue_account_history_max(queue) &&
	    !account_is_privileged(queue->account, uid))
		queue_keep_soon(queue);
}

uint64_t queue_account_history_max(const struct queue *queue)
{
	return account_limit(queue->account, ACCOUNT_HISTORY_BYTES)->user / 2;
}

int queue_account_refusal(struct err *err)
{
	if (err->code != -ENOMEM)
		err->code = -EDQUOT;
	return err->code;
}

int queue_account_submit(struct queue *queue, uid_t uid, uint64_t jobs, uint64_t bytes,
			 struct err *err)
{
	int rc = account_check(queue->account, ACCOUNT_HISTORY_BYTES, uid, 0, err);
	if (rc == 0)
		rc = account_take(queue->account, ACCOUNT_PENDING_BYTES, uid, bytes, err);
	if (rc < 0)
		return queue_account_refusal(err);

	rc = account_take(queue->account, ACCOUNT_PENDING, uid, jobs, err);
	if (rc < 0) {
		account_give(queue->account, ACCOUNT_PENDING_BYTES, uid, bytes);
		return queue_account_refusal(err);
	}

	return 0;
}

void queue_account_submitted(struct queue *queue, uid_t uid, uint64_t jobs, uint64_t bytes)
{
	account_give(queue->account, ACCOUNT_PENDING_BYTES, uid, bytes);
	account_give(queue->account, ACCOUNT_PENDING, uid, jobs);
}

void queue_account_rules(struct queue *queue)
{
	const struct queue_rules *rules = &queue->rules;
	uint64_t most = rules->limit.pending ? rules->limit.pending : QUEUE_PENDING_MAX;
	for (size_t i = 0; i < rules->group_count; i++)
		if (rules->groups[i].limit.pending > most)
			most = rules->groups[i].limit.pending;

	if (most < QUEUE_PENDING_MAX)
		most = QUEUE_PENDING_MAX;
	account_set_limit(queue->account, ACCOUNT_PENDING, most, QUEUE_PENDING_USERS * most, most);
}

/* Jobs without GPUs wait for nobody, so they alone could take all of the agent's descriptors, and
 * nobody could talk to it any more until some end. */
static void account_set_runs(struct queue *queue)
{
	struct rlimit limit;
	uint64_t max = QUEUE_RUNS_MAX;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
		rlim_t others = limit.rlim_cur / 2;
		if (others > QUEUE_OTHER_FDS)
			others = QUEUE_OTHER_FDS;
		rlim_t fits = (limit.rlim_cur - others) / QUEUE_RUN_FDS;
		max = fits < max ? (uint64_t)fits : max;
	}

	account_set_limit(queue->account, ACCOUNT_RUNS, max / 2, max, max / 10);
}

int queue_account_open(struct queue *queue, struct err *err)
{
	queue->account = queue->options.account;
	if (!queue->account)
		queue->account = queue->own_account = account_new(geteuid(), err);
	if (!queue->account)
		return -ENOMEM;
	account_set_runs(queue);
	return 0;
}
