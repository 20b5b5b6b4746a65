/* SPDX-License-Identifier: Apache-2.0 */
/* When the scheduler is asked, and what becomes of its answers. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "doors/queue/claim/queue_claim.h"
#include "doors/queue/queue_internal.h"
#include "hardware/gpu.h"

enum { QUEUE_WHO_MAX = 256 };

/* What a pass needs beside the queue. */
struct queue_pass {
	struct queue *queue;
	char who[QUEUE_WHO_MAX];
};

static const char *queue_stranger(uint32_t pid, void *context)
{
	return queue_whose(context, (pid_t)pid);
}

/* Marks what our jobs have, and what others have. */
static void queue_machine_take(struct queue *queue, struct schedule_machine *machine)
{
	for (size_t i = 0; i < queue->count; i++) {
		struct queue_run *run = queue->jobs[i]->run;
		if (run)
			queue_lease_enter(run);
		for (size_t g = 0; run && g < run->grant_count; g++)
			schedule_machine_take(machine, &run->grants[g]);
	}

	for (size_t i = 0; i < queue->count; i++)
		if (queue->jobs[i]->run)
			schedule_pools_take(&machine->pools, queue->jobs[i]->job.resources);

	for (const struct queue_hold *hold = queue->holds; hold; hold = hold->next)
		schedule_machine_hold(machine, hold->uuid, hold->slot, hold->holder);
}

/* Whether a job could be decided otherwise on `b` than on `a`. */
static bool queue_machine_differs(const struct schedule_machine *a,
				  const struct schedule_machine *b)
{
	if (!a->inventory != !b->inventory || strcmp(a->problem, b->problem) != 0 ||
	    a->device_count != b->device_count || schedule_pools_differ(&a->pools, &b->pools))
		return true;

	for (size_t i = 0; i < a->device_count; i++) {
		const struct schedule_device *x = &a->devices[i], *y = &b->devices[i];
		if (strcmp(x->unit.uuid, y->unit.uuid) != 0 || x->unit.healthy != y->unit.healthy ||
		    x->unit.outsider != y->unit.outsider || strcmp(x->holder, y->holder) != 0 ||
		    x->claims != y->claims || strcmp(x->unit.reason, y->unit.reason) != 0 ||
		    x->slot_count != y->slot_count)
			return true;
	}

	return false;
}

bool queue_machine_make(struct queue *queue)
{
	struct schedule_machine machine;
	struct err err;

	if (schedule_machine_make(queue->inventory, queue->snapshot, queue->policy, queue_stranger,
				  queue, &machine, &err) < 0) {
		log_write(queue->options.log, LOG_LEVEL_WARNING, NULL, "%s", err.text);
		queue->is_stale = true;
		return false; /* the old one stays; the next look tries again */
	}

	if (schedule_pools_copy(&queue->pools, &machine.pools) < 0) {
		schedule_machine_done(&machine);
		queue->is_stale = true;
		return false;
	}

	queue->is_stale = false;
	machine.rules = &queue->rules;
	schedule_machine_sicken(&machine, &queue->health);
	queue_lease_mark(queue, &machine);
	queue_claim_mark(queue, &machine);

	if (!machine.inventory && queue->why[0])
		(void)snprintf(machine.problem, sizeof(machine.problem), "%s", queue->why);
	schedule_machine_inherit(&machine, &queue->machine);

	bool differs = queue_machine_differs(&queue->machine, &machine);

	queue_machine_take(queue, &machine);
	schedule_machine_done(&queue->machine);
	queue->machine = machine;

	return differs;
}

void queue_set_health(struct queue *queue, const struct schedule_health *health)
{
	queue->health = *health;
}

int queue_set_pools(struct queue *queue, const struct schedule_pools *pools)
{
	struct schedule_pools copy;

	/* Adapters are looked at every few seconds; a pass over all jobs is for what is new. */
	if (!schedule_pools_differ(pools, &queue->pools))
		return 0;
	if (schedule_pools_copy(pools, &copy) < 0)
		return -ENOMEM;

	schedule_pools_done(&queue->pools);
	queue->pools = copy;

	/* Not now: what the machine borrows may be gone until it is told anew. */
	queue->is_stale = true;
	if (queue->has_machine) {
		queue_kick(queue);
		queue_changed(queue);
	}

	return 0;
}

void queue_set_machine(struct queue *queue, const struct inventory *inventory,
		       const struct snapshot *snapshot, const struct policy *policy,
		       const char *why)
{
	queue->inventory = inventory;
	queue->snapshot = snapshot;
	queue->policy = policy;
	(void)snprintf(queue->why, sizeof(queue->why), "%s", why ? why : ""); /* cut if need be */

	bool is_first = !queue->has_machine;

	queue->has_machine = true;
	queue_observe(queue);
	queue_idle(queue);

	if (queue_machine_make(queue) || is_first) {
		queue_kick(queue);
		queue_changed(queue);
	}
	queue_claim_move(queue);

	if (is_first) {
		queue_submit_next(queue);
		queue_trial_next(queue);
	}
}

/* "job 12 of alice", all of them. */
static const char *queue_who(const char *uuid, void *context)
{
	struct queue_pass *pass = context;
	size_t length = 0;

	pass->who[0] = '\0';
	for (size_t i = 0; i < pass->queue->count; i++) {
		const struct queue_job *job = pass->queue->jobs[i];
		bool has = false;
		for (size_t g = 0; job->run && g < job->run->grant_count; g++)
			has |= strcmp(job->run->grants[g].uuid, uuid) == 0;

		if (!has)
			continue;

		int added = snprintf(pass->who + length, sizeof(pass->who) - length,
				     "%sjob %" PRIu64 " of %s", length > 0 ? ", " : "", job->job.id,
				     queue_user(pass->queue, job->job.uid));
		if (added < 0 || length + (size_t)added >= sizeof(pass->who)) {
			pass->who[length] = '\0';
			break; /* enough of them are named */
		}

		length += (size_t)added;
	}

	return pass->who[0] ? pass->who : NULL;
}

/* Whether the agent, or the job's user, has as many running as can be watched. */
static bool queue_is_full(const struct queue *queue, const struct job *job,
			  char out_text[JOB_REASON_MAX])
{
	struct err err = {.code = 0};
	if (job->gpus > 0 || account_check(queue->account, ACCOUNT_RUNS, job->uid, 1, &err) == 0)
		return false;

	uint64_t mine = account_held(queue->account, ACCOUNT_RUNS, job->uid);

	if (err.code == -EDQUOT)
		(void)snprintf(out_text, JOB_REASON_MAX,
			       "%" PRIu64 " jobs of this user run without a GPU, as many as may",
			       mine);
	else
		(void)snprintf(out_text, JOB_REASON_MAX,
			       "%" PRIu64
			       " jobs run already, as many as the agent watches at a time",
			       account_used(queue->account, ACCOUNT_RUNS));

	return true;
}

/* Each start takes the storage thread some milliseconds, and what is asked of it meanwhile waits
 * behind them: a cancel waits for no more than these. */
static bool queue_is_put_off(struct queue *queue, const struct job *job)
{
	if (job->gpus > 0 || queue->preparing < QUEUE_PREPARING_MAX)
		return false;
	queue->has_put_off = true;
	return true;
}

/* When it starts, as far as that can be told. */
static void queue_note_pledge(const struct queue *queue, struct job *job,
			      const struct schedule_decision *decision)
{
	int64_t now_unix_ns = clock_unix_ns();
	bool is_known =
	    !decision->start && decision->opens_ns < (uint64_t)(INT64_MAX - now_unix_ns);

	if (decision->pledged_ns > 0 && job->pledged_ns == 0)
		log_write(queue->options.log, LOG_LEVEL_DEBUG, NULL,
			  "what becomes free is reserved for job %" PRIu64, job->id);

	job->pledged_ns = decision->pledged_ns;
	job->promise_ns = decision->promise_ns;
	job->takes_no_estimates = decision->takes_no_estimates;
	job->start_estimate_unix_ns = is_known ? now_unix_ns + (int64_t)decision->opens_ns : 0;
	job->start_is_estimate = decision->opens_is_estimate;
}

static void queue_decide(const struct job *shown, struct schedule_decision *decision, void *context)
{
	struct queue_pass *pass = context;
	struct queue_job *job = queue_job_find(pass->queue, shown->id);
	if (!job)
		return;

	job->job.has_turn = decision->has_turn;
	queue_note_pledge(pass->queue, &job->job, decision);
	if (decision->place > 0)
		job->job.place = decision->place;
	if (!decision->start) {
		queue_job_set_state(job, JOB_PENDING, decision->reason, decision->text);
		return;
	}

	char full[JOB_REASON_MAX];
	if (queue_is_full(pass->queue, shown, full)) { /* the next end looks again */
		queue_job_set_state(job, JOB_PENDING, JOB_REASON_BACKOFF, full);
		return;
	}

	if (queue_is_put_off(pass->queue, shown)) {
		queue_job_set_state(job, JOB_PENDING, JOB_REASON_BACKOFF,
				    "others are being started");
		return;
	}

	struct queue_run *run = queue_run_new(job, NULL);
	if (!run) {
		queue_put_back(job, JOB_REASON_BACKOFF, "out of memory", NULL, true);
		return;
	}

	run->grants = take_ptr(decision->grants);
	run->grant_count = decision->grant_count;

	struct err err = {0};
	if (queue_lease_take(run, &err) < 0) {
		queue_put_back(job, JOB_REASON_BACKOFF, err.text, NULL, true);
		return;
	}

	if (decision->was_pledged)
		queue_member_serve(pass->queue, shown->uid, loop_now_ns(pass->queue->options.loop));
	queue_start(job);
}

/* When the next pass is due of which nothing else tells. */
struct queue_next {
	int64_t now_unix_ns;
	uint64_t ns;	 /* loop time; UINT64_MAX: never */
	int64_t unix_ns; /* of the wall clock; INT64_MAX: never */
};

/* Whether the job waits for something that the scheduler knows nothing of; says so. */
static bool queue_pass_waits(const struct queue *queue, struct queue_job *job, uint64_t now_ns,
			     struct queue_next *next)
{
	char text[JOB_REASON_MAX];

	if (job->job.state == JOB_HELD || job->doom != JOB_REASON_NONE)
		return true;

	if (job->job.wants.after && queue_depends_still(job, text)) {
		if (text[0])
			queue_job_set_state(job, JOB_PENDING, JOB_REASON_DEPENDENCY, text);
		return true;
	}

	if (queue->claims.count > 0 && queue_claim_waits(queue, &job->job, text)) {
		queue_job_set_state(job, JOB_PENDING, JOB_REASON_DRAINING, text);
		return true;
	}

	if (job->job.wants.begin_unix_ns > 0 &&
	    queue_begin_waits(&job->job, next->now_unix_ns, &next->unix_ns)) {
		if (job->job.reason != JOB_REASON_BEGIN_TIME) { /* else it says so already */
			queue_begin_text(&job->job, text);
			queue_job_set_state(job, JOB_PENDING, JOB_REASON_BEGIN_TIME, text);
		}
		return true;
	}

	if (job->not_before_ns > now_ns && job->not_before_ns < next->ns)
		next->ns = job->not_before_ns;

	return job->not_before_ns > now_ns;
}

/* From when on what it waits for is reserved for the job; 0: never. */
static uint64_t queue_due_ns(const struct queue *queue, const struct queue_job *job)
{
	switch (job->job.reason) {
	case JOB_REASON_NONE: /* it was just loaded */
	case JOB_REASON_WAITING_FOR_GPU:
	case JOB_REASON_WAITING_FOR_CPU:
	case JOB_REASON_WAITING_FOR_MEMORY:
	case JOB_REASON_WAITING_FOR_RESOURCE:
	case JOB_REASON_QUEUE_ORDER:
		return schedule_due_ns(queue->rules.reserve_after_ns, job->job.gpus,
				       schedule_machine_gpus(&queue->machine), job->waits_since_ns,
				       queue_member_served_ns(queue, job->job.uid));
	default: /* others than jobs keep it waiting */
		return 0;
	}
}

/* The jobs that a pass is about. Those that wait for something else are left out: they keep nobody
 * waiting. */
static size_t queue_pass_list(struct queue *queue, const struct job **list, struct queue_next *next)
{
	uint64_t now_ns = loop_now_ns(queue->options.loop);
	double hours = 0;
	size_t count = 0;

	queue_fair_now(queue);
	*next = (struct queue_next){
	    .now_unix_ns = clock_unix_ns(), .ns = UINT64_MAX, .unix_ns = INT64_MAX};
	next->unix_ns = claims_next(&queue->claims, next->now_unix_ns);

	for (size_t i = 0; i < queue->count; i++) {
		struct queue_job *job = queue->jobs[i];
		bool is_waiting = job->phase == QUEUE_WAITING && !job->run;
		if (is_waiting && job->is_changing)
			continue;
		if (!is_waiting || queue_pass_waits(queue, job, now_ns, next)) {
			job->waits_since_ns = 0;
			job->job.pledged_ns = job->job.promise_ns = 0;
			continue;
		}

		if (job->waits_since_ns == 0)
			job->waits_since_ns = (int64_t)now_ns;
		job->job.due_ns = queue_due_ns(queue, job);
		if (job->job.due_ns > now_ns && job->job.due_ns < next->ns)
			next->ns = job->job.due_ns;

		/* Jobs of one user often come one after the other. */
		const struct job *before = count > 0 ? list[count - 1] : NULL;
		bool is_same = before && before->uid == job->job.uid;
		job->job.gpu_limit =
		    is_same ? before->gpu_limit : queue_member_limit(queue, job->job.uid);
		hours = is_same ? hours : queue_fair_hours(queue, job->job.uid);
		queue_fair_judge(queue, &job->job, queue_waited_ns(job, now_ns), hours);
		job->job.estimate_ns = is_same && strcmp(before->name, job->job.name) == 0
					   ? before->estimate_ns
					   : queue_estimate_ns(queue, &job->job);
		job->job.shut = queue_claim_shut(queue, &job->job, next->now_unix_ns);
		list[count++] = &job->job;
	}

	return count;
}

/* How long it may still run. The clock of the wall may have jumped meanwhile: it is an estimate. */
uint64_t queue_left_ns(const struct job *job, int64_t now_unix_ns)
{
	uint64_t time_ns = job->wants.time_ns;
	if (time_ns == 0)
		return SCHEDULE_NEVER;
	if (job->state == JOB_STARTING || now_unix_ns <= job->started_unix_ns)
		return time_ns;
	uint64_t ran_ns = (uint64_t)(now_unix_ns - job->started_unix_ns);
	return ran_ns < time_ns ? time_ns - ran_ns : 0;
}

/* Whether one without a limit runs longer than was estimated when it started. */
static bool queue_is_overdue(const struct job *job, int64_t now_unix_ns)
{
	int64_t ran_ns = job->started_unix_ns > 0 ? now_unix_ns - job->started_unix_ns : 0;
	return job->state != JOB_STARTING && job->wants.time_ns == 0 && job->estimate_ns > 0 &&
	       ran_ns > 0 && (uint64_t)ran_ns > job->estimate_ns;
}

/* The same of one without a limit, by what such jobs have taken. One that has taken longer already
 * is not known any more, nor are those that are to come. */
static uint64_t queue_left_estimate_ns(struct queue *queue, const struct job *job,
				       int64_t now_unix_ns)
{
	uint64_t estimate_ns = queue_estimate_ns(queue, job);
	if (estimate_ns == 0)
		return SCHEDULE_NEVER;
	if (job->state == JOB_STARTING || now_unix_ns <= job->started_unix_ns)
		return estimate_ns;

	uint64_t ran_ns = (uint64_t)(now_unix_ns - job->started_unix_ns);
	if (ran_ns < estimate_ns)
		return estimate_ns - ran_ns;

	queue_estimate_note(queue, job->uid, job->name, ran_ns, false);
	return SCHEDULE_NEVER;
}

size_t queue_pass_running(struct queue *queue, struct schedule_running *out)
{
	int64_t now_unix_ns = clock_unix_ns();
	size_t count = 0;

	for (size_t i = 0; i < queue->count; i++) {
		const struct job *job = &queue->jobs[i]->job;
		const struct queue_run *run = queue->jobs[i]->run;

		if (!run || queue->jobs[i]->phase == QUEUE_WAITING)
			continue; /* nothing of it was started */

		out[count++] =
		    (struct schedule_running){.uid = job->uid,
					      .array_id = job->array_id,
					      .cpu_milli = job->wants.cpu_milli,
					      .mem_bytes = job->wants.mem_bytes,
					      .left_ns = queue_left_ns(job, now_unix_ns),
					      .is_overdue = queue_is_overdue(job, now_unix_ns),
					      .priority = job->wants.priority,
					      .since_ns = run->since_ns,
					      .grants = run->grants,
					      .grant_count = run->grant_count};
		if (out[count - 1].left_ns != SCHEDULE_NEVER)
			continue;

		out[count - 1].left_ns = queue_left_estimate_ns(queue, job, now_unix_ns);
		out[count - 1].is_estimate = out[count - 1].left_ns != SCHEDULE_NEVER;
	}

	return count;
}

/* Who waits for something else than its turn has none. */
static void queue_forget_places(struct queue *queue)
{
	for (size_t i = 0; i < queue->count; i++) {
		queue->jobs[i]->job.place = 0;
		queue->jobs[i]->job.start_estimate_unix_ns = 0;
	}
}

/* Nothing is started now. */
static void queue_pass_paused(struct queue *queue, const struct job *const *list, size_t count,
			      enum job_reason reason, const char *text)
{
	for (size_t i = 0; i < count; i++) {
		struct queue_job *job = queue_job_find(queue, list[i]->id);
		if (job)
			queue_job_set_state(job, JOB_PENDING, reason, text);
	}
}

static void queue_pass_now(struct queue *queue)
{
	if (!queue->closing)
		queue_depend_settle(queue);
	if (!queue->has_machine || queue->count == 0 || queue->closing)
		return;

	_cleanup_free_ const struct job **list = calloc(queue->count, sizeof(*list));
	if (!list) {
		loop_timer_start(queue->backoff_timer, QUEUE_RETRY_MAX_NS);
		return;
	}

	struct queue_next next;

	queue_change_doomed(queue); /* those for which there was no room on the disk */
	queue_forget_places(queue);
	size_t count = queue_pass_list(queue, list, &next);

	queue_begin_arm(queue, next.unix_ns);
	if (next.ns != UINT64_MAX)
		loop_timer_start(queue->backoff_timer, next.ns - loop_now_ns(queue->options.loop));
	if (count == 0)
		return;
	if (queue->storage_paused) {
		queue_pass_paused(queue, list, count, JOB_REASON_STORAGE, queue->storage_error);
		return;
	}

	if (queue_is_draining(queue)) {
		queue_pass_paused(queue, list, count, JOB_REASON_DRAINING, NULL);
		return;
	}

	(void)queue_machine_make(queue);
	_cleanup_free_ struct schedule_running *running = calloc(queue->count, sizeof(*running));
	struct queue_pass pass = {.queue = queue};
	const struct schedule_input input = {.jobs = list,
					     .count = count,
					     .now_ns = loop_now_ns(queue->options.loop),
					     .running = running,
					     .running_count =
						 running ? queue_pass_running(queue, running) : 0,
					     .who = queue_who,
					     .decide = queue_decide,
					     .context = &pass};
	struct err err = {.code = 0};
	int rc = running ? schedule_pass(&queue->machine, &input, &err)
			 : err_set(&err, -ENOMEM, "no memory for what runs");
	if (rc < 0) {
		log_write(queue->options.log, LOG_LEVEL_WARNING, NULL, "choosing jobs: %s",
			  err.text);
		loop_timer_start(queue->backoff_timer, QUEUE_RETRY_MAX_NS);
	}
}

void queue_pass(void *context)
{
	struct queue *queue = context;
	struct loop *loop = queue->options.loop;
	uint64_t began_ns = loop_now_ns(loop), busy_ns = clock_thread_ns();

	queue_pass_now(queue);
	queue->pass_end_ns = loop_now_ns(loop);
	busy_ns = clock_thread_ns() - busy_ns;

	uint64_t cost_ns = queue->pass_end_ns - began_ns;
	uint64_t dear_ns = busy_ns > QUEUE_PASS_DEAR_NS ? busy_ns : QUEUE_PASS_DEAR_NS;

	queue->pass_cost_ns = cost_ns < dear_ns ? cost_ns : dear_ns;
}

void queue_pass_again(void *context)
{
	queue_kick(context);
}

/* One more job, behind all others, on a copy of the machine. */
struct queue_trial {
	struct queue_pass pass; /* first: queue_who() takes it */
	const struct job *job;
	bool starts;
	char text[JOB_REASON_MAX + 32];
};

static void queue_trial_decide(const struct job *job, struct schedule_decision *decision,
			       void *context)
{
	struct queue_trial *trial = context;
	if (job != trial->job)
		return;

	char full[JOB_REASON_MAX];

	trial->starts = decision->start;
	if (decision->start && queue_is_full(trial->pass.queue, job, full)) {
		trial->starts = false;
		(void)snprintf(trial->text, sizeof(trial->text), "%s (%s)",
			       job_reason_to_string(JOB_REASON_BACKOFF), full);
	} else if (!decision->start)

		(void)snprintf(trial->text, sizeof(trial->text), "%s%s%s%s",
			       job_reason_to_string(decision->reason),
			       decision->text[0] ? " (" : "", decision->text,
			       decision->text[0] ? ")" : "");
}

int queue_try(struct queue *queue, const struct job *job, bool *out_starts,
	      char out_text[QUEUE_REASON_MAX], struct err *err)
{
	(void)queue_machine_make(queue);
	struct schedule_machine copy = queue->machine;
	copy.shape = NULL;
	copy.devices = NULL;
	copy.pools = (struct schedule_pools){.items = NULL};

	_cleanup_schedule_machine_ struct schedule_machine machine = copy;
	_cleanup_free_ const struct job **list = calloc(queue->count + 1, sizeof(*list));

	if (copy.device_count > 0) {
		machine.devices = calloc(copy.device_count, sizeof(*machine.devices));
		if (machine.devices)
			memcpy(machine.devices, queue->machine.devices,
			       copy.device_count * sizeof(*machine.devices));
	}

	if (!list || (copy.device_count > 0 && !machine.devices) ||
	    schedule_pools_copy(&queue->machine.pools, &machine.pools) < 0)
		return err_set(err, -ENOMEM, "no memory to try a job");

	struct queue_next next;
	size_t count = queue_pass_list(queue, list, &next);
	struct job one = *job; /* its strings are lent */

	queue_fair_judge(queue, &one, 0, queue_fair_hours(queue, job->uid));
	one.estimate_ns = queue_estimate_ns(queue, job);
	one.shut = queue_claim_shut(queue, job, next.now_unix_ns);
	list[count++] = &one;
	_cleanup_free_ struct schedule_running *running =
	    calloc(queue->count + 1, sizeof(*running));
	if (!running)
		return err_set(err, -ENOMEM, "no memory to try a job");

	struct queue_trial trial = {.pass = {.queue = queue}, .job = &one};
	const struct schedule_input input = {.jobs = list,
					     .count = count,
					     .now_ns = loop_now_ns(queue->options.loop),
					     .running = running,
					     .running_count = queue_pass_running(queue, running),
					     .who = queue_who,
					     .decide = queue_trial_decide,
					     .context = &trial};
	int rc = schedule_pass(&machine, &input, err);
	if (rc < 0)
		return rc;

	char after[JOB_REASON_MAX];
	bool drains = queue_is_draining(queue);

	if (job->wants.hold != WANTS_HOLD_NONE) {
		trial.starts = false;
		(void)snprintf(trial.text, sizeof(trial.text), "it is to be held");
	} else if (queue_depends(queue, job, after)) {
		trial.starts = false;
		(void)snprintf(trial.text, sizeof(trial.text), "%s (%s)",
			       job_reason_to_string(JOB_REASON_DEPENDENCY), after);
	} else if (queue_claim_waits(queue, job, after)) {
		trial.starts = false;
		(void)snprintf(trial.text, sizeof(trial.text), "%s (%s)",
			       job_reason_to_string(JOB_REASON_DRAINING), after);
	} else if (queue_begin_waits(job, next.now_unix_ns, &next.unix_ns)) {
		trial.starts = false;
		queue_begin_text(job, after);
		(void)snprintf(trial.text, sizeof(trial.text), "%s (%s)",
			       job_reason_to_string(JOB_REASON_BEGIN_TIME), after);
	}

	*out_starts = trial.starts && !queue->storage_paused && !drains;
	(void)snprintf(out_text, QUEUE_REASON_MAX, "%s",
		       queue->storage_paused ? queue->storage_error
		       : drains		     ? job_reason_to_string(JOB_REASON_DRAINING)
					     : trial.text);
	return 0;
}
