/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another limit for jobs that wait or run. What it is lies in the store before anybody is told; the
 * supervisor of one that runs keeps the time, and hears of it at once, or when it next listens.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "doors/queue/claim/queue_claim.h"
#include "doors/queue/queue_change.h"

enum {
	LIMIT_TEXT_MAX = 32,
	/* Starts that are reckoned out for one set, at some 25 us of the loop each. For one job
	 * they are two for each priority at most. */
	LIMIT_STARTS_MAX = 1024,
};

/* "1h30m", "45s". */
static const char *limit_text(uint64_t ns, char out[LIMIT_TEXT_MAX])
{
	uint64_t s = ns / CLOCK_NS_PER_S, h = s / 3600, m = s % 3600 / 60;
	if (h > 0)
		(void)snprintf(out, LIMIT_TEXT_MAX, "%" PRIu64 "h%02" PRIu64 "m", h, m);
	else if (m > 0)
		(void)snprintf(out, LIMIT_TEXT_MAX, "%" PRIu64 "m%02" PRIu64 "s", m, s % 60);
	else
		(void)snprintf(out, LIMIT_TEXT_MAX, "%" PRIu64 "s", s);
	return out;
}

/* What it becomes. */
static int limit_of(const struct queue_limit *limit, const struct job *job, uint64_t *out_ns,
		    struct err *err)
{
	uint64_t now_ns = job->wants.time_ns;
	char was[LIMIT_TEXT_MAX], by[LIMIT_TEXT_MAX];

	if (limit->how == QUEUE_LIMIT_SET) {
		*out_ns = limit->ns;
		return 0;
	}

	if (now_ns == 0)
		return err_set(err, -EINVAL,
			       "job %" PRIu64
			       " may run as long as it likes: there is nothing to add to or to "
			       "take from; give its limit without a sign",
			       job->id);

	if (limit->how == QUEUE_LIMIT_LESS && limit->ns >= now_ns)
		return err_set(err, -EINVAL,
			       "job %" PRIu64 " may run %s: %s less leaves it nothing; 'sluice "
			       "cancel %" PRIu64 "' ends it",
			       job->id, limit_text(now_ns, was), limit_text(limit->ns, by),
			       job->id);

	*out_ns = limit->how == QUEUE_LIMIT_LESS	     ? now_ns - limit->ns
		  : limit->ns > (uint64_t)INT64_MAX - now_ns ? (uint64_t)INT64_MAX
							     : now_ns + limit->ns;
	return 0;
}

/* Whether a job that runs can be told. */
static int limit_check_run(const struct queue_job *job, uint64_t time_ns, struct err *err)
{
	const struct queue_run *run = job->run;
	int64_t now_unix_ns = clock_unix_ns(), started_unix_ns = job->job.started_unix_ns;
	char ran[LIMIT_TEXT_MAX], wanted[LIMIT_TEXT_MAX];

	if (!run || job->phase != QUEUE_LAUNCHED || run->task != QUEUE_TASK_NONE ||
	    run->supervisor_pid == 0 || job->job.state != JOB_RUNNING || run->cancel_wanted)
		return err_set(err, -EBUSY,
			       "job %" PRIu64 " is %s just now: its limit can be changed while it "
			       "waits or runs; ask again",
			       job->job.id, job_state_to_string(job->job.state));

	if (!run->can_limit)
		return err_set(err, -EINVAL,
			       "job %" PRIu64
			       " was started by an earlier release of sluice, whose supervisor "
			       "(pid %d) cannot move a limit: it ends as it was told when it "
			       "started",
			       job->job.id, (int)run->supervisor_pid);

	if (started_unix_ns > 0 && now_unix_ns > started_unix_ns &&
	    time_ns <= (uint64_t)(now_unix_ns - started_unix_ns))
		return err_set(err, -EINVAL,
			       "job %" PRIu64 " has run %s already, and cannot be limited to %s: "
			       "'sluice cancel %" PRIu64 "' ends it",
			       job->job.id,
			       limit_text((uint64_t)(now_unix_ns - started_unix_ns), ran),
			       limit_text(time_ns, wanted), job->job.id);

	return 0;
}

/* What is reckoned with while one change is begun, however many jobs it is about. */
struct limit_pass {
	const struct queue_limit *limit;
	struct schedule_running *running; /* owned; with the limits that were allowed so far */
	size_t count;
	struct schedule_promises promises;
	bool is_known;
};

static int limit_pass_look(struct queue *queue, struct limit_pass *pass, struct err *err)
{
	if (pass->is_known)
		return 0;

	pass->running = calloc(queue->count + 1, sizeof(*pass->running));
	if (!pass->running)
		return err_set(err, -ENOMEM, "no memory to change the limits of jobs");

	pass->count = queue_pass_running(queue, pass->running);
	for (size_t i = 0; i < queue->count; i++)
		schedule_promises_add(&pass->promises, &queue->jobs[i]->job);

	pass->is_known = true;
	return 0;
}

/* Of a job that runs, to which a limit is given that is longer than the one that it has: whether
 * one for which GPUs are reserved would start later. */
static int limit_check_promises(struct queue *queue, struct limit_pass *pass,
				const struct queue_job *job, uint64_t time_ns, struct err *err)
{
	char start[LIMIT_TEXT_MAX], by[LIMIT_TEXT_MAX];
	struct schedule_promises *promises = &pass->promises;
	struct schedule_delay delay;
	size_t mine = 0;
	int rc = limit_pass_look(queue, pass, err);

	while (rc == 0 && mine < pass->count && pass->running[mine].grants != job->run->grants)
		mine++;
	if (rc < 0 || mine == pass->count || job->run->grant_count == 0)
		return rc;

	if (promises->reckoned > 0 && promises->reckoned + 2 * promises->count > LIMIT_STARTS_MAX)
		return err_set(err, -EAGAIN,
			       "job %" PRIu64
			       ": too many jobs at once, while so many others wait for "
			       "their GPUs: ask for it again by itself",
			       job->job.id);

	/* By the same clock: what it gets more is what others lose. */
	uint64_t after_ns = pass->running[mine].left_ns + (time_ns - job->job.wants.time_ns);

	promises->now_ns = loop_now_ns(queue->options.loop);
	if (!schedule_promises_delayed(promises, &queue->machine, pass->running, pass->count, mine,
				       after_ns, &delay)) {
		pass->running[mine].left_ns = after_ns;
		return 0;
	}

	uint64_t delay_ns = delay.then_ns - delay.at_ns;

	return err_set(err, -EPERM,
		       "job %" PRIu64 " of %s has waited for %" PRIu32
		       " GPU%s and is to start in %s; with this limit of job %" PRIu64
		       " it would start %s later: root and the members of "
		       "sluice.jobs.adminGroup may set it",
		       delay.job->id, queue_user(queue, delay.job->uid), delay.job->gpus,
		       delay.job->gpus == 1 ? "" : "s", limit_text(delay.at_ns, start), job->job.id,
		       delay_ns < CLOCK_NS_PER_S ? "less than a second" : limit_text(delay_ns, by));
}

/* Of a job that runs: whether it would have a GPU in a window in which that is another's. */
static int limit_check_claims(struct queue *queue, const struct queue_job *job, uint64_t time_ns,
			      struct err *err)
{
	int64_t now_unix_ns = clock_unix_ns();
	struct job later = job->job; /* its texts are lent */

	later.wants.time_ns = time_ns;
	uint64_t left_ns = queue_left_ns(&later, now_unix_ns);
	later.wants.time_ns = left_ns > 0 ? left_ns : 1; /* 0 is for ever */
	uint64_t shut = queue_claim_shut(queue, &later, now_unix_ns);

	for (size_t g = 0; shut && g < job->run->grant_count; g++) {
		const struct schedule_device *device =
		    schedule_machine_find(&queue->machine, job->run->grants[g].uuid);

		for (size_t i = 0; device && i < queue->claims.count; i++) {
			const struct claim *claim = &queue->claims.items[i];
			char text[CLAIM_TEXT_MAX];

			if (claim->kind != CLAIM_RESERVATION || !((device->claims & shut) >> i & 1))
				continue;

			return err_set(err, -EPERM,
				       "job %" PRIu64 " runs on %s, which is reserved: %s; root "
				       "and the members of sluice.jobs.adminGroup may set it",
				       job->job.id, device->unit.label, claim_text(claim, text));
		}
	}

	return 0;
}

static int limit_check(struct queue *queue, struct limit_pass *pass, const struct queue_job *job,
		       uint64_t time_ns, struct err *err)
{
	uint64_t old_ns = job->job.wants.time_ns, max_ns = queue->rules.max_time_ns;
	bool is_waiting = job->phase == QUEUE_WAITING && !job->run;
	bool is_longer = old_ns > 0 && time_ns > old_ns;
	char most[LIMIT_TEXT_MAX], wanted[LIMIT_TEXT_MAX];

	if (job->doom != JOB_REASON_NONE)
		return err_set(err, -EBUSY, "job %" PRIu64 " is being cancelled", job->job.id);

	int rc = is_waiting ? 0 : limit_check_run(job, time_ns, err);
	if (rc < 0 || pass->limit->is_manager || !is_longer)
		return rc;

	if (max_ns > 0 && time_ns > max_ns)
		return err_set(err, -EPERM,
			       "job %" PRIu64 " cannot be given %s: jobs may run %s at most here "
			       "(sluice.jobs.maxTime); root and the members of "
			       "sluice.jobs.adminGroup may give it more",
			       job->job.id, limit_text(time_ns, wanted), limit_text(max_ns, most));

	if (!is_waiting)
		rc = limit_check_claims(queue, job, time_ns, err);

	return is_waiting || rc < 0 ? rc : limit_check_promises(queue, pass, job, time_ns, err);
}

/* `*out_refused`: this one alone stays as it is. */
static int limit_one(struct queue_change *change, struct limit_pass *pass,
		     const struct queue_job *job, bool *out_refused, struct err *err)
{
	uint64_t time_ns = 0;
	int rc = limit_of(&change->limit, &job->job, &time_ns, err);
	if (rc == 0)
		rc = limit_check(change->op.queue, pass, job, time_ns, err);

	*out_refused = rc < 0 && rc != -ENOMEM;
	if (rc < 0)
		return rc;

	struct job *copy = queue_change_add(change, &job->job, err);
	if (!copy)
		return -ENOMEM;

	copy->wants.time_ns = time_ns;
	change->rows[change->count - 1].wants_alone = true;
	return 0;
}

/* Each is judged by itself, after those before it. */
static int limit_set_begin(struct queue_change *change, struct limit_pass *pass, struct err *err)
{
	int rc = queue_change_room(change, change->set.count, err);

	for (size_t i = 0; rc == 0 && i < change->set.count; i++) {
		struct queue_job *job = queue_set_job(change, i);
		struct err why = {.code = 0};
		bool refused = false;

		rc = job ? limit_one(change, pass, job, &refused, &why) : 0;
		if (refused) {
			queue_set_refuse(change, job->job.id, &why);
			rc = 0;
		} else if (rc < 0) {
			*err = why;
		}
	}

	return rc;
}

/* All of an array, or none. */
static int limit_span_begin(struct queue_change *change, struct limit_pass *pass, struct err *err)
{
	size_t first, end;

	queue_change_span(change, &first, &end);
	if (first == end)
		return err_set(err, -ESRCH, "job %" PRIu64 " is not there, or has ended",
			       change->id);

	int rc = queue_change_room(change, end - first, err);
	for (size_t i = first; rc == 0 && i < end; i++) {
		bool refused;
		rc = limit_one(change, pass, change->op.queue->jobs[i], &refused, err);
	}

	return rc;
}

int queue_limit_begin(struct queue_change *change, struct err *err)
{
	struct limit_pass pass = {.limit = &change->limit};
	int rc = change->set.ids ? limit_set_begin(change, &pass, err)
				 : limit_span_begin(change, &pass, err);

	free(pass.running);
	return rc;
}

void queue_limit_apply(struct queue_job *job, uint64_t time_ns)
{
	job->is_changing = false;
	job->job.wants.time_ns = time_ns;
	if (job->run) {
		job->run->tells_limit = true;
		queue_limit_tell(job->run);
	}

	queue_changed(job->queue);
	queue_step(job);
}

void queue_limit_tell(struct queue_run *run)
{
	uint64_t time_ns = run->owner->job.wants.time_ns;

	if (!run->tells_limit || !run->can_limit || time_ns == 0 || time_ns > INT64_MAX)
		return;

	/* Who hangs up is told when it is connected again. */
	run->tells_limit = queue_control_send(run, CONTROL_LIMIT, (int64_t)time_ns, 0, NULL) < 0;
}
