/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pledge over time: any stream of jobs of several users, widths, priorities and limits, that
 * end when they are to or earlier, or have no limit; the service restarts now and then and
 * remembers neither turns nor pledges. What must hold after each pass, whatever came:
 *   - what started after the pledge and does not end before the promise never takes so many GPUs
 * that too few are left for the wide job when the others end, unless it is of a higher priority;
 *   - what has no limit and is estimated to end before the promise goes past like that as well,
 * until the first of these takes longer: from then on none does;
 *   - where all that ran had limits, the wide job starts by the promise, unless an estimate misled
 * it;
 *   - no GPU is idle while every job that waits would fit on the idle ones;
 *   - a job whose user has had far too much starts when its age outweighs that, though others never
 * stop coming;
 *   - a job of any width starts after as many pledges as there are older jobs, and one more, though
 * its age never outweighs anything: each pledge takes until those that ran when it was made have
 * ended, and those that went past it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doors/queue/schedule/schedule.h"
#include "doors/queue/schedule/schedule_score.h"
#include "tests/unit/units/brute.h"

enum property_limits {
	ROUNDS = 1500,
	STEPS = 120,
	GPUS = 6,
	USERS = 4,
	JOBS = 1200,
	WAITING = 12,
	LONGEST = 12,
	LIMIT_SLACK = 4,
	DUE = 6, /* steps */
	BEGIN = 1000,
};

struct life_job {
	struct job job;			   /* first */
	uint64_t came, runs, limit, began; /* limit 0: none */
	uint64_t estimate; /* of one without a limit; 0: none. As often wrong as right */
	uint64_t misled;   /* when the first that went past its pledge took too long; 0: none has */
	uint64_t since, pledged, promise;
	bool waits, runs_now, knew_all, yielded;
	size_t gpu_count, gpus[GPUS];
};

struct life {
	struct inventory inventory;
	struct gpu gpus[GPUS];
	struct schedule_machine machine;
	struct schedule_device devices[GPUS];
	struct queue_rules rules;
	struct life_job jobs[JOBS];
	size_t count;
	uint64_t now;
	uint64_t served[USERS]; /* when each user's last pledge did; 0: none has */
	uint32_t gpu_count;
};

static unsigned long now_round;

static void fail(const struct life *life, const struct life_job *job, const char *what)
{
	(void)fprintf(stderr, "round %lu, step %" PRIu64 ", job %" PRIu64 " of %u GPUs: %s\n",
		      now_round, life->now - BEGIN, job->job.id, job->job.gpus, what);
	for (size_t i = 0; i < life->count; i++) {
		const struct life_job *one = &life->jobs[i];
		if (one->waits || one->runs_now)
			(void)fprintf(stderr,
				      "  job %" PRIu64 " priority %d gpus %u came %" PRIu64
				      " limit %" PRIu64 " estimate %" PRIu64 " began %" PRIu64
				      " pledged %" PRIu64 " promise %" PRIu64 " misled %" PRIu64
				      "%s\n",
				      one->job.id, one->job.wants.priority, one->job.gpus,
				      one->came - BEGIN, one->limit, one->estimate,
				      one->runs_now ? one->began - BEGIN : 0, one->job.pledged_ns,
				      one->job.promise_ns, one->misled, one->waits ? "" : " runs");
	}
	exit(1);
}

static bool chance(uint32_t percent)
{
	return random_below(100) < percent;
}

static void life_machine(struct life *life)
{
	memset(life, 0, sizeof(*life));
	life->gpu_count = 2 + random_below(GPUS - 1);
	life->inventory.gpu_count = life->gpu_count;
	life->inventory.gpus = life->gpus;
	life->rules.weights = (struct rules_weights)RULES_WEIGHTS_DEFAULT;
	life->rules.reserve_after_ns =
	    chance(70) ? DUE : 0; /* or each that waits keeps something */
	life->machine = (struct schedule_machine){.inventory = &life->inventory,
						  .rules = &life->rules,
						  .devices = life->devices,
						  .device_count = life->gpu_count};
	for (uint32_t i = 0; i < life->gpu_count; i++) {
		life->gpus[i].index = i;
		(void)snprintf(life->gpus[i].uuid, sizeof(life->gpus[i].uuid), "GPU-%u", i);
		place_describe(&life->inventory, NULL, i, PLACE_WHOLE, NULL, NULL,
			       &life->devices[i].unit);
		life->devices[i].slot_count = 1;
	}
}

static void life_arrive(struct life *life, bool has_limits)
{
	struct life_job *job = &life->jobs[life->count++];
	job->job = (struct job){.id = life->count,
				.uid = random_below(USERS),
				.gpus = chance(60) ? 1 : 1 + random_below(life->gpu_count)};
	job->came = life->now;
	job->waits = true;
	job->runs = 1 + random_below(LONGEST);
	job->limit = has_limits || chance(50) ? job->runs + random_below(LIMIT_SLACK) : 0;
	job->estimate = job->limit || chance(50) ? 0 : 1 + random_below(LONGEST);
	job->job.wants.time_ns = job->limit;
	job->job.estimate_ns = job->estimate;
	job->job.wants.priority = chance(85) ? 0 : (int32_t)random_below(3) - 1;
}

static void life_decide(const struct job *shown, struct schedule_decision *decision, void *context)
{
	struct life *life = context;
	struct life_job *job = &life->jobs[shown->id - 1];

	job->job.has_turn = decision->has_turn;
	if (decision->pledged_ns != job->job.pledged_ns && decision->pledged_ns != 0) {
		job->knew_all = true;
		for (size_t i = 0; i < life->count; i++)
			job->knew_all &= !life->jobs[i].runs_now || life->jobs[i].limit > 0;
	}
	if (decision->pledged_ns != job->job.pledged_ns)
		job->misled = 0;
	job->job.pledged_ns = decision->pledged_ns;
	job->job.promise_ns = decision->promise_ns;
	job->job.takes_no_estimates = decision->takes_no_estimates;
	if (decision->pledged_ns) {
		job->pledged = decision->pledged_ns;
		job->promise = decision->promise_ns;
	}
	if (!decision->start)
		return;

	if (decision->was_pledged)
		life->served[job->job.uid] = life->now;
	job->waits = false;
	job->runs_now = true;
	job->began = job->since = life->now;
	job->gpu_count = decision->grant_count;
	for (size_t i = 0; i < decision->grant_count; i++)
		job->gpus[i] = decision->grants[i].index;
}

/* How long it still runs, as far as anybody knows. */
static uint64_t life_left(const struct life *life, const struct life_job *job)
{
	uint64_t end = job->began + (job->limit ? job->limit : job->estimate);
	if (job->limit)
		return end - life->now;
	return job->estimate && end > life->now ? end - life->now : SCHEDULE_NEVER;
}

static bool life_is_overdue(const struct life *life, const struct life_job *job)
{
	return job->estimate > 0 && life->now > job->began + job->estimate;
}

/* Notes who of those that wait is misled by now. */
static void life_mislead(struct life *life)
{
	for (size_t i = 0; i < life->count; i++) {
		struct life_job *wide = &life->jobs[i];
		for (size_t k = 0; k < life->count && wide->waits && wide->job.pledged_ns; k++) {
			const struct life_job *job = &life->jobs[k];
			if (wide->misled == 0 && job->runs_now && life_is_overdue(life, job) &&
			    job->since >= wide->job.pledged_ns &&
			    job->job.wants.priority <= wide->job.wants.priority)
				wide->misled = life->now;
		}
	}
}

static void life_pass(struct life *life)
{
	const struct job *jobs[JOBS];
	struct schedule_running running[GPUS];
	static struct launch_grant grants[GPUS][GPUS];
	size_t count = 0, running_count = 0;

	for (uint32_t i = 0; i < life->gpu_count; i++) {
		life->devices[i].used[0] = life->devices[i].used_count = 0;
		life->devices[i].used_whole = false;
	}
	for (size_t i = 0; i < life->count; i++) {
		struct life_job *job = &life->jobs[i];
		if (job->waits) {
			job->job.own_score = (int64_t)(life->now - job->came) * 1000 +
					     (int64_t)job->job.wants.priority * 100000000;
			job->job.due_ns = schedule_due_ns(
			    life->rules.reserve_after_ns, job->job.gpus, life->gpu_count,
			    (int64_t)job->came, life->served[job->job.uid]);
			jobs[count++] = &job->job;
		}
		if (!job->runs_now)
			continue;
		struct launch_grant *own = grants[running_count];
		for (size_t g = 0; g < job->gpu_count; g++) {
			own[g] = (struct launch_grant){.slot_count = 1, .slots = {1}};
			memcpy(own[g].uuid, life->gpus[job->gpus[g]].uuid, sizeof(own[g].uuid));
			schedule_machine_take(&life->machine, &own[g]);
		}
		running[running_count++] = (struct schedule_running){
		    .uid = job->job.uid,
		    .priority = job->job.wants.priority,
		    .left_ns = life_left(life, job),
		    .is_estimate = job->limit == 0 && life_left(life, job) != SCHEDULE_NEVER,
		    .is_overdue = life_is_overdue(life, job),
		    .since_ns = job->since,
		    .grants = own,
		    .grant_count = job->gpu_count};
	}
	const struct schedule_input input = {.jobs = jobs,
					     .count = count,
					     .now_ns = life->now,
					     .running = running,
					     .running_count = running_count,
					     .decide = life_decide,
					     .context = life};
	if (schedule_pass(&life->machine, &input, NULL) < 0)
		exit(1);
}

/* --- what must hold -------------------------------------------------------------------------- */

/* Whether it is there after the promise, as far as anybody could tell when it started. */
static bool is_late(const struct life_job *wide, const struct life_job *job)
{
	if (job->limit > 0)
		return job->began + job->limit > wide->job.promise_ns;
	if (job->estimate == 0 || (wide->misled > 0 && job->since >= wide->misled))
		return true;
	return job->began + job->estimate > wide->job.promise_ns;
}

/* GPUs of jobs that started after the pledge and are not gone by the promise. */
static void check_pledge(const struct life *life, const struct life_job *wide)
{
	uint32_t late = 0, higher = 0;

	for (size_t i = 0; i < life->count; i++) {
		const struct life_job *job = &life->jobs[i];
		if (!job->runs_now || job->since <= wide->job.pledged_ns)
			continue;
		if (job->job.wants.priority > wide->job.wants.priority)
			higher += job->job.gpus;
		else if (is_late(wide, job))
			late += job->job.gpus;
	}
	if (higher == 0 && life->gpu_count - late < wide->job.gpus)
		fail(life, wide, "others that came later, and stay, leave it too few GPUs");
}

static void check_step(struct life *life)
{
	uint32_t idle = life->gpu_count, widest = 0;
	const struct life_job *first = NULL;

	for (size_t i = 0; i < life->count; i++) {
		struct life_job *job = &life->jobs[i];
		idle -= job->runs_now ? job->job.gpus : 0;
		if (!job->waits)
			continue;
		first = first ? first : job;
		widest = job->job.gpus > widest ? job->job.gpus : widest;
		if (job->job.pledged_ns)
			check_pledge(life, job);
		for (size_t k = 0; k < life->count; k++) {
			const struct life_job *other = &life->jobs[k];
			job->yielded |=
			    other->job.wants.priority > job->job.wants.priority &&
			    (other->waits || (other->runs_now && other->since >= job->pledged));
		}
		if (job->job.pledged_ns && job->knew_all && !job->yielded && job->misled == 0 &&
		    life->now > job->job.promise_ns)
			fail(life, job, "waits longer than it was promised");
	}
	if (first && idle >= widest)
		fail(life, first, "waits, and every job that waits would fit");
}

static void life_restart(struct life *life)
{
	for (size_t i = 0; i < life->count; i++) {
		life->jobs[i].job.has_turn = false;
		life->jobs[i].job.pledged_ns = life->jobs[i].job.promise_ns = 0;
		life->jobs[i].since = life->now;
		life->jobs[i].pledged = life->jobs[i].misled = 0;
		life->jobs[i].job.takes_no_estimates = false;
		life->jobs[i].yielded = false;
	}
}

static size_t round_stream(struct life *life)
{
	bool has_limits = chance(50);
	size_t pledges = 0;

	life_machine(life);
	for (life->now = BEGIN; life->now < BEGIN + STEPS; life->now++) {
		for (size_t i = 0; i < life->count; i++) {
			struct life_job *job = &life->jobs[i];
			job->runs_now &= life->now < job->began + job->runs;
		}
		size_t waiting = 0;
		for (size_t i = 0; i < life->count; i++)
			waiting += life->jobs[i].waits;
		for (uint32_t i = random_below(4); i > 0 && waiting < WAITING; i--, waiting++)
			life_arrive(life, has_limits);
		if (chance(2))
			life_restart(life);
		life_mislead(life);
		life_pass(life);
		check_step(life);
	}
	for (size_t i = 0; i < life->count; i++)
		pledges += life->jobs[i].pledged > 0;
	life->machine.devices = NULL; /* they are the life's */
	schedule_machine_done(&life->machine);
	return pledges;
}

/* One GPU; others come each step. */
static void round_starving(struct life *life)
{
	int64_t usage = random_below(50) * 1000;

	life_machine(life);
	life->machine.device_count = life->inventory.gpu_count = life->gpu_count = 1;
	for (life->now = BEGIN; life->count < 150; life->now++) {
		for (size_t i = 0; i < life->count; i++)
			life->jobs[i].runs_now &=
			    life->now < life->jobs[i].began + life->jobs[i].runs;
		life_arrive(life, true);
		struct life_job *job = &life->jobs[life->count - 1];
		job->job.gpus = 1;
		job->job.wants.priority = 0;
		job->runs = job->limit = job->job.wants.time_ns = 2;
		job->job.uid = life->count == 1 ? 1 : 0;
		life->jobs[0].job.usage_score = usage;
		life_pass(life);
		/* Each step of waiting counts 1000; what is in front of it is older than that. */
		if (life->jobs[0].waits && life->now > BEGIN + 2 * (uint64_t)usage / 1000 + 8)
			fail(life, &life->jobs[0], "starves");
	}
	life->machine.devices = NULL;
	schedule_machine_done(&life->machine);
}

/* Ends what is over; how many wait. */
static size_t storm_step(struct life *life)
{
	size_t waiting = 0;

	for (size_t i = 0; i < life->count; i++) {
		struct life_job *job = &life->jobs[i];
		job->runs_now &= life->now < job->began + job->runs;
		waiting += job->waits;
	}
	return waiting;
}

/* By when it has started: it is due, then older jobs have their pledges, its user's with a pause.
 */
static uint64_t storm_bound(const struct life *life, const struct life_job *victim)
{
	const uint64_t pledge = 2 * (LONGEST + LIMIT_SLACK);
	uint64_t bound = victim->came + DUE * SCHEDULE_NARROW_TIMES + 2 * pledge;

	for (size_t i = 0; i < life->count; i++) {
		const struct life_job *job = &life->jobs[i];
		if (job->job.id < victim->job.id && job->waits)
			bound += pledge + (job->job.uid == victim->job.uid ? DUE : 0);
	}
	return bound;
}

/* A job of any width, and whoever comes later has more points for ever: all as wide as the machine,
 * of users whose next one is always due, or of all widths, or as narrow as can be. */
static void round_storm(struct life *life)
{
	bool has_limits = chance(50), is_over = false;
	uint32_t kind = random_below(3), from = 5 + random_below(20);
	struct life_job *victim = NULL;
	uint64_t bound = 0;

	life_machine(life);
	life->rules.reserve_after_ns = DUE;
	for (life->now = BEGIN; !is_over && life->count + WAITING < JOBS; life->now++) {
		size_t waiting = storm_step(life);

		for (; waiting < WAITING; waiting++) {
			life_arrive(life, has_limits);
			struct life_job *job = &life->jobs[life->count - 1];
			bool is_victim = !victim && life->now >= BEGIN + from;

			if (!is_victim && kind != 1)
				job->job.gpus = kind == 0 ? life->gpu_count : 1;
			job->job.wants.priority = !is_victim && chance(10) ? -1 : 0;
			if (is_victim) {
				victim = job;
				job->job.uid = USERS - 1;
				bound = storm_bound(life, job);
			}
			job->job.usage_score =
			    job->job.uid == USERS - 1 ? INT64_C(1000000000000) : 0;
		}
		life_mislead(life);
		life_pass(life);
		if (victim && victim->waits && life->now > bound)
			fail(life, victim, "starves among those that come later");
		is_over = victim && !victim->waits;
	}
	life->machine.devices = NULL;
	schedule_machine_done(&life->machine);
}

int main(void)
{
	const char *seed_text = getenv("SLUICE_TEST_SEED"), *text = getenv("SLUICE_TEST_ROUNDS");
	uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 20261128;
	unsigned long rounds = text ? strtoul(text, NULL, 10) : ROUNDS;
	static struct life life;
	size_t pledges = 0;
	random_seed(seed);
	printf("seed %" PRIu64 ", %lu rounds\n", seed, rounds);
	for (now_round = 0; now_round < rounds; now_round++) {
		pledges += round_stream(&life);
		if (now_round % 20 == 0)
			round_starving(&life);
		if (now_round % 5 == 0)
			round_storm(&life);
	}
	printf("%lu streams of jobs, %zu pledges: always as the rules say\n", rounds, pledges);
	return pledges == 0;
}
