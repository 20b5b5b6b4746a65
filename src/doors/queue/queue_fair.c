/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What users have had of the GPUs, fading with time, and the scores of waiting jobs that follow. In
 * memory; when the queue opens it is made anew from the attempts that the store remembers.
 *
 * A whole GPU counts as one, a share as its slots of all, a MIG device as its compute slices of
 * seven (a seventh where nobody knows them any more). Jobs without GPUs cost nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "doors/queue/queue_internal.h"
#include "doors/queue/store/store_past.h"
#include "hardware/gpu.h"

enum fair_limits {
	FAIR_USERS_MAX = 4096,
	FAIR_PAST_MAX = 20000, /* attempts that are looked at when the queue opens */
	FAIR_MIG_SLICES = 7,
};

#define FAIR_NOTHING_HOURS 0.01 /* who has had less is forgotten where there are too many */
#define FAIR_BEFORE_NS	   (INT64_C(10) * 365 * 86400 * (int64_t)CLOCK_NS_PER_S)

/* An attempt that was over when the queue opened. */
struct fair_past {
	uid_t uid;
	float gpus;
	bool has_succeeded;
	char name[SPEC_NAME_MAX];
	int64_t started_unix_ns, ended_unix_ns;
};

struct queue_fair {
	struct schedule_tally users; /* by uid: its place is that in `hours` and `running` */
	double *hours;	 /* owned; of attempts that are over, as they count at `at_ns` */
	double *running; /* owned; of those that run, at the last pass */
	size_t capacity;
	uint64_t at_ns; /* loop time */

	struct fair_past *past; /* owned; until the rules are known; the latest first */
	size_t past_count, past_room;
};

static uint64_t fair_half_life_ns(const struct queue *queue)
{
	uint64_t half_life_ns = queue->rules.half_life_ns;
	return half_life_ns ? half_life_ns : RULES_HALF_LIFE_NS;
}

/* --- users ----------------------------------------------------------------------------------- */

static void fair_forget_nothings(struct queue_fair *fair)
{
	struct schedule_tally users = {.count = 0};
	size_t kept = 0;

	for (size_t i = 0; i < fair->users.count; i++) {
		uint32_t place;
		if (fair->hours[i] + fair->running[i] < FAIR_NOTHING_HOURS ||
		    schedule_tally_find(&users, fair->users.keys[i], &place) < 0)
			continue;

		fair->hours[kept] = fair->hours[i];
		fair->running[kept++] = fair->running[i];
	}

	schedule_tally_done(&fair->users);
	fair->users = users;
}

/* Room for one more user. */
static int fair_reserve(struct queue_fair *fair)
{
	if (fair->users.count < fair->capacity)
		return 0;

	size_t more = fair->capacity ? 2 * fair->capacity : 16;
	double *hours = reallocarray(fair->hours, more, sizeof(*hours));
	fair->hours = hours ? hours : fair->hours;

	double *running = reallocarray(fair->running, more, sizeof(*running));
	fair->running = running ? running : fair->running;
	if (!hours || !running)
		return -ENOMEM;

	fair->capacity = more;
	return 0;
}

/* Where the user's numbers are; -ENOMEM: they are not counted. */
static int fair_user(struct queue_fair *fair, uid_t uid, uint32_t *out)
{
	if (fair->users.count == FAIR_USERS_MAX)
		fair_forget_nothings(fair);
	if (fair->users.count == FAIR_USERS_MAX || fair_reserve(fair) < 0)
		return -ENOMEM;

	size_t before = fair->users.count;
	if (schedule_tally_find(&fair->users, uid, out) < 0)
		return -ENOMEM;
	if (fair->users.count > before)
		fair->hours[*out] = fair->running[*out] = 0;

	return 0;
}

static void fair_fade(struct queue *queue, uint64_t now_ns)
{
	struct queue_fair *fair = queue->fair;
	double left = schedule_fade(now_ns > fair->at_ns ? now_ns - fair->at_ns : 0,
				    fair_half_life_ns(queue));

	for (size_t i = 0; i < fair->users.count; i++)
		fair->hours[i] *= left;
	fair->at_ns = now_ns;
}

/* --- what an attempt has had ----------------------------------------------------------------- */

static double fair_part(const struct queue *queue, const struct launch_grant *grant)
{
	uint32_t slots = 0;
	for (uint32_t slot = 0; slot < LAUNCH_SLOTS_MAX; slot++)
		slots += launch_grant_has(grant, slot);

	double part = grant->slot_count > slots ? (double)slots / grant->slot_count : 1;
	if (!text_starts_with(grant->label, "MIG "))
		return part;

	const struct mig_device *mig =
	    queue->inventory ? inventory_find_mig(queue->inventory, grant->uuid) : NULL;
	uint32_t slices = mig && mig->gi_slices != GPU_U32_UNKNOWN ? mig->gi_slices : 1;

	return slices < FAIR_MIG_SLICES ? part * slices / FAIR_MIG_SLICES : part;
}

static double fair_parts(const struct queue *queue, const struct launch_grant *grants, size_t count)
{
	double parts = 0;
	for (size_t i = 0; i < count; i++)
		parts += fair_part(queue, &grants[i]);
	return parts;
}

/* How long ago that was: the clock may have been set since. */
static uint64_t fair_ago_ns(int64_t now_unix_ns, int64_t unix_ns)
{
	int64_t ago_ns = now_unix_ns - unix_ns;
	if (unix_ns <= 0 || ago_ns <= 0)
		return 0;
	return (uint64_t)(ago_ns < FAIR_BEFORE_NS ? ago_ns : FAIR_BEFORE_NS);
}

static void fair_add(struct queue *queue, uid_t uid, double gpus, int64_t started_unix_ns,
		     int64_t ended_unix_ns)
{
	int64_t now_unix_ns = clock_unix_ns();
	uint32_t place;

	if (gpus <= 0 || started_unix_ns <= 0 ||
	    fair_user(queue->fair, account_owner(queue->account, uid), &place) < 0)
		return;

	queue->fair->hours[place] +=
	    schedule_used_hours(gpus, fair_ago_ns(now_unix_ns, started_unix_ns),
				fair_ago_ns(now_unix_ns, ended_unix_ns), fair_half_life_ns(queue));
}

void queue_fair_ended(struct queue *queue, const struct queue_run *run, const struct job *ended)
{
	const struct job *job = &run->owner->job;
	double gpus = fair_parts(queue, run->grants, run->grant_count);

	if (ended->started_unix_ns > 0 && ended->ended_unix_ns > ended->started_unix_ns)
		queue_estimate_note(queue, job->uid, job->name,
				    (uint64_t)(ended->ended_unix_ns - ended->started_unix_ns),
				    ended->state == JOB_SUCCEEDED);
	if (gpus <= 0 || !queue->fair)
		return;

	fair_fade(queue, loop_now_ns(queue->options.loop));
	fair_add(queue, job->uid, gpus, ended->started_unix_ns, ended->ended_unix_ns);
}

/* --- opening --------------------------------------------------------------------------------- */

struct fair_parts {
	const struct queue *queue;
	double gpus;
};

static void fair_add_part(const struct launch_grant *grant, void *context)
{
	struct fair_parts *parts = context;
	parts->gpus += fair_part(parts->queue, grant);
}

static int fair_note_past(const struct store_past *from, void *context)
{
	struct queue *queue = context;
	struct queue_fair *fair = queue->fair;
	struct fair_parts parts = {.queue = queue};

	/* Where it cannot be read, nobody can tell what it had beyond that. */
	(void)record_each_grant(from->grants, strlen(from->grants), fair_add_part, &parts);

	if (array_room(&fair->past, fair->past_count, &fair->past_room, 64) < 0)
		return -ENOMEM;

	struct fair_past *past = &fair->past[fair->past_count++];

	*past = (struct fair_past){.uid = from->uid,
				   .gpus = (float)parts.gpus,
				   .has_succeeded = from->has_succeeded,
				   .started_unix_ns = from->started_unix_ns,
				   .ended_unix_ns = from->ended_unix_ns};
	(void)snprintf(past->name, sizeof(past->name), "%s", from->name);
	return 0;
}

int queue_fair_load(struct queue *queue, struct err *err)
{
	queue->fair = calloc(1, sizeof(*queue->fair));
	if (!queue->fair)
		return err_set(err, -ENOMEM, "no memory for the queue");

	queue->fair->at_ns = loop_now_ns(queue->options.loop);

	int rc = store_past(queue->store, FAIR_PAST_MAX, fair_note_past, queue, err);
	if (rc == -ENOMEM)
		return err_set(err, rc, "no memory for what users have had");
	if (rc == 0 && !queue->options.awaits_rules)
		queue_fair_settle(queue);

	return rc;
}

void queue_fair_settle(struct queue *queue)
{
	struct queue_fair *fair = queue->fair;

	/* As it was, the first first. */
	for (size_t i = fair ? fair->past_count : 0; i > 0; i--) {
		const struct fair_past *past = &fair->past[i - 1];

		fair_add(queue, past->uid, past->gpus, past->started_unix_ns, past->ended_unix_ns);
		queue_estimate_note(queue, past->uid, past->name,
				    (uint64_t)(past->ended_unix_ns - past->started_unix_ns),
				    past->has_succeeded);
	}

	if (fair) {
		free(take_ptr(fair->past));
		fair->past_count = fair->past_room = 0;
	}
}

void queue_fair_done(struct queue *queue)
{
	struct queue_fair *fair = take_ptr(queue->fair);
	if (!fair)
		return;

	schedule_tally_done(&fair->users);
	free(fair->hours);
	free(fair->running);
	free(fair->past);
	free(fair);
}

/* --- scores ---------------------------------------------------------------------------------- */

void queue_fair_now(struct queue *queue)
{
	struct queue_fair *fair = queue->fair;
	int64_t now_unix_ns = clock_unix_ns();
	uint32_t place;

	fair_fade(queue, loop_now_ns(queue->options.loop));
	for (size_t i = 0; i < fair->users.count; i++)
		fair->running[i] = 0;

	for (size_t i = 0; i < queue->count; i++) {
		const struct queue_run *run = queue->jobs[i]->run;
		const struct job *job = &queue->jobs[i]->job;

		if (!run || run->grant_count == 0 || job->state == JOB_STARTING ||
		    job->started_unix_ns <= 0 ||
		    fair_user(fair, account_owner(queue->account, job->uid), &place) < 0)
			continue;

		fair->running[place] += schedule_used_hours(
		    fair_parts(queue, run->grants, run->grant_count),
		    fair_ago_ns(now_unix_ns, job->started_unix_ns), 0, fair_half_life_ns(queue));
	}
}

double queue_fair_hours(const struct queue *queue, uid_t uid)
{
	struct queue_fair *fair = queue->fair;
	uid_t owner = account_owner(queue->account, uid);

	uint32_t place;

	return schedule_tally_look(&fair->users, owner, &place)
		   ? fair->hours[place] + fair->running[place]
		   : 0;
}

static void fair_score(const struct queue *queue, const struct job *job, uint64_t waited_ns,
		       double hours, struct schedule_score *out)
{
	const struct schedule_facts facts = {
	    .waited_ns = waited_ns,
	    .gpus = job->gpus,
	    .priority = job->wants.priority,
	    .usage_hours = hours,
	    .machine_gpus = schedule_machine_gpus(&queue->machine),
	};

	schedule_score_make(&queue->rules.weights, &facts, out);
}

uint64_t queue_waited_ns(const struct queue_job *job, uint64_t now_ns)
{
	int64_t waited_ns = job->waits_since_ns ? (int64_t)now_ns - job->waits_since_ns : 0;
	return waited_ns > 0 ? (uint64_t)waited_ns : 0;
}

void queue_fair_judge(const struct queue *queue, struct job *job, uint64_t waited_ns, double hours)
{
	struct schedule_score score;
	fair_score(queue, job, waited_ns, hours, &score);
	job->own_score = schedule_score_total(&score) + score.usage;
	job->usage_score = score.usage;
}

bool queue_standing(struct queue *queue, uint64_t id, struct queue_standing *out)
{
	const struct queue_job *job = queue_job_find(queue, id);
	if (!job || job->job.state != JOB_PENDING || job->waits_since_ns == 0)
		return false;

	queue_fair_now(queue);
	*out = (struct queue_standing){.usage_hours = queue_fair_hours(queue, job->job.uid),
				       .half_life_ns = fair_half_life_ns(queue)};
	out->pledged = job->job.pledged_ns > 0;
	out->starts_unix_ns = job->job.start_estimate_unix_ns;
	out->start_is_estimate = job->job.start_is_estimate;
	out->estimate_ns = job->job.estimate_ns;
	fair_score(queue, &job->job, queue_waited_ns(job, loop_now_ns(queue->options.loop)),
		   out->usage_hours, &out->score);

	/* What they have now is what the last pass went by as well. */
	for (size_t i = 0; i < queue->count; i++) {
		const struct queue_run *run = queue->jobs[i]->run;
		if (run && queue->jobs[i]->phase != QUEUE_WAITING &&
		    queue->jobs[i]->job.uid == job->job.uid)
			out->gpus_now += (uint32_t)run->grant_count;
	}

	out->score.usage +=
	    out->gpus_now *
	    schedule_score_gpu(&queue->rules.weights, schedule_machine_gpus(&queue->machine));
	return true;
}

double queue_recent_hours(struct queue *queue, uid_t uid)
{
	queue_fair_now(queue);
	return queue_fair_hours(queue, uid);
}
