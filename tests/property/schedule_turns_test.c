/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler with several users on random machines: whose turn it is, what is kept for whom,
 * what may go past, and that what is said of a waiting job is so. Each rule once more, naively, on
 * what came of a pass. And over time: a wide job starts, whatever others submit.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doors/queue/schedule/schedule.h"
#include "tests/unit/units/brute.h"

enum property_limits {
	ROUNDS = 20000,
	GPUS = 6,
	JOBS = 14,
	USERS = 3,
	RUNNING = 10,
	TIME_MAX = 12,
	STEPS = 200,
};

struct outcome {
	bool decided, starts, has_turn;
	size_t order; /* the how-manieth it was */
	enum job_reason reason;
	char text[JOB_REASON_MAX];
	uint64_t opens_ns; /* when it can start, as it was decided; for the first that keeps */
	bool is_first_keeper;
	size_t gpu[GPUS], gpu_count; /* that it got */
};

struct world {
	struct inventory inventory;
	struct gpu gpus[GPUS];
	struct schedule_machine machine;
	struct schedule_device devices[GPUS];
	struct queue_rules rules;
	struct schedule_running running[RUNNING];
	struct launch_grant grants[RUNNING];
	size_t running_count;
	struct job jobs[JOBS];
	struct outcome outcomes[JOBS];
	size_t job_count, decided;
	bool any_keeps;

	/* What is in use as the pass goes on. */
	uint64_t left_ns[GPUS]; /* of a GPU; 0 with is_used unset */
	bool is_used[GPUS];
	uint64_t user_gpus[USERS];
	uint64_t amount_used[2];
	uint64_t end_ns[RUNNING + JOBS], end_amount[RUNNING + JOBS][2];
	size_t end_count;
};

static unsigned long now_round;

static void fail(const struct world *world, size_t job, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

static void fail(const struct world *world, size_t job, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)fprintf(stderr, "round %lu, job %zu: ", now_round, job + 1);
	(void)vfprintf(stderr, format, arguments);
	va_end(arguments);
	(void)fputc('\n', stderr);
	for (size_t i = 0; i < world->inventory.gpu_count; i++)
		(void)fprintf(stderr, "  GPU %zu: %s %" PRIu64 "\n", i,
			      world->is_used[i] ? "used, left" : "free", world->left_ns[i]);
	(void)fprintf(stderr, "  cpu %" PRIu64 " of %u, limit %u\n", world->amount_used[0],
		      world->rules.cpu_milli, world->rules.limit.gpus);
	for (size_t i = 0; i < world->job_count; i++) {
		const struct job *one = &world->jobs[i];
		const struct outcome *outcome = &world->outcomes[i];
		(void)fprintf(stderr,
			      "  job %zu: user %u priority %d%s gpus %u time %" PRIu64
			      " cpu %u mem %" PRIu64 ": %zu. %s %s(%s)\n",
			      i + 1, one->uid, one->wants.priority, one->has_turn ? " turn" : "",
			      one->gpus, one->wants.time_ns, one->wants.cpu_milli,
			      one->wants.mem_bytes, outcome->order,
			      outcome->starts ? "starts" : "waits",
			      job_reason_to_string(outcome->reason), outcome->text);
	}
	exit(1);
}

static bool chance(uint32_t percent)
{
	return random_below(100) < percent;
}

static uint64_t amount_of(const struct job *job, int kind)
{
	return kind == 0 ? job->wants.cpu_milli : job->wants.mem_bytes;
}

static uint64_t amount_there_is(const struct world *world, int kind)
{
	return kind == 0 ? world->rules.cpu_milli : world->rules.mem_bytes;
}

static uint64_t time_of(const struct job *job)
{
	return job->wants.time_ns ? job->wants.time_ns : SCHEDULE_NEVER;
}

/* In how long so many GPUs are free, if nothing is started. */
static uint64_t rule_gpus_open(const struct world *world, size_t needed)
{
	for (uint64_t at_ns = 0; at_ns <= TIME_MAX; at_ns++) {
		size_t count = 0;
		for (size_t i = 0; i < world->inventory.gpu_count; i++)
			count += !world->is_used[i] || (at_ns > 0 && world->left_ns[i] <= at_ns);
		if (count >= needed)
			return at_ns;
	}
	return SCHEDULE_NEVER;
}

static uint64_t rule_amounts_open(const struct world *world, const struct job *job)
{
	for (uint64_t at_ns = 0; at_ns <= TIME_MAX; at_ns++) {
		bool enough = true;
		for (int kind = 0; kind < 2; kind++) {
			uint64_t used = world->amount_used[kind];
			for (size_t i = 0; i < world->end_count; i++)
				if (at_ns > 0 && world->end_ns[i] <= at_ns)
					used -= world->end_amount[i][kind];
			enough &= amount_there_is(world, kind) == 0 || amount_of(job, kind) == 0 ||
				  used + amount_of(job, kind) <= amount_there_is(world, kind);
		}
		if (enough)
			return at_ns;
	}
	return SCHEDULE_NEVER;
}

static uint64_t rule_opens(const struct world *world, size_t job)
{
	if (world->outcomes[job].reason == JOB_REASON_WAITING_FOR_GPU)
		return rule_gpus_open(world, world->jobs[job].gpus);
	return rule_amounts_open(world, &world->jobs[job]);
}

/* --- as it is decided ------------------------------------------------------------------------ */

static int64_t rule_score(const struct world *world, const struct job *job)
{
	uint32_t gpus = world->inventory.gpu_count;
	int64_t each = (int64_t)world->rules.weights.usage * 1000 / (gpus ? gpus : 1);
	return job->own_score - job->usage_score - (int64_t)world->user_gpus[job->uid] * each;
}

/* Nobody who is not decided yet comes before it. */
static void check_order(const struct world *world, size_t place)
{
	const struct job *job = &world->jobs[place];
	for (size_t i = 0; i < world->job_count; i++) {
		const struct job *other = &world->jobs[i];
		if (i == place || world->outcomes[i].decided)
			continue;
		bool is_before = other->wants.priority > job->wants.priority;
		if (other->wants.priority == job->wants.priority) {
			int64_t theirs = rule_score(world, other), own = rule_score(world, job);
			if (other->has_turn != job->has_turn)
				is_before = other->has_turn;
			else if (job->has_turn || theirs == own)
				is_before = i < place;
			else
				is_before = theirs > own;
		}
		if (is_before)
			fail(world, place, "is decided before job %zu", i + 1);
	}
}

static void world_start(struct world *world, size_t place, const struct schedule_decision *decision)
{
	const struct job *job = &world->jobs[place];
	struct outcome *outcome = &world->outcomes[place];
	if (decision->grant_count != job->gpus)
		fail(world, place, "got %zu GPUs", decision->grant_count);
	for (size_t i = 0; i < decision->grant_count; i++) {
		size_t gpu = decision->grants[i].index;
		if (world->is_used[gpu])
			fail(world, place, "got GPU %zu, which is in use", gpu);
		world->is_used[gpu] = true;
		world->left_ns[gpu] = time_of(job);
		outcome->gpu[outcome->gpu_count++] = gpu;
	}
	world->user_gpus[job->uid] += job->gpus;
	uint32_t limit = world->rules.limit.gpus;
	if (job->gpus > 0 && limit && world->user_gpus[job->uid] > limit)
		fail(world, place, "its user has %" PRIu64 " GPUs", world->user_gpus[job->uid]);
	world->end_ns[world->end_count] = time_of(job);
	for (int kind = 0; kind < 2; kind++) {
		uint64_t there_is = amount_there_is(world, kind);
		world->amount_used[kind] += amount_of(job, kind);
		world->end_amount[world->end_count][kind] = amount_of(job, kind);
		if (there_is && amount_of(job, kind) && world->amount_used[kind] > there_is)
			fail(world, place, "more is given than there is");
	}
	world->end_count++;
}

static bool rule_fits(const struct world *world, const struct job *job)
{
	uint32_t limit = world->rules.limit.gpus;
	return rule_gpus_open(world, job->gpus) == 0 && rule_amounts_open(world, job) == 0 &&
	       (job->gpus == 0 || !limit || world->user_gpus[job->uid] + job->gpus <= limit);
}

static void decide(const struct job *job, struct schedule_decision *decision, void *context)
{
	struct world *world = context;
	size_t place = (size_t)(job - world->jobs);
	struct outcome *outcome = &world->outcomes[place];
	if (outcome->decided &&
	    (outcome->starts || decision->start || outcome->reason != decision->reason))
		fail(world, place, "is decided again otherwise");
	(void)snprintf(outcome->text, sizeof(outcome->text), "%s", decision->text);
	if (outcome->decided)
		return;
	check_order(world, place);
	outcome->decided = true;
	outcome->order = world->decided++;
	outcome->starts = decision->start;
	outcome->has_turn = decision->has_turn;
	outcome->reason = decision->reason;
	if (decision->start) {
		world_start(world, place, decision);
		return;
	}
	if (decision->text[0] == '\0')
		fail(world, place, "does not say what it waits for");
	if (!world->any_keeps && rule_fits(world, job))
		fail(world, place, "waits, and could start");
	bool is_too_much = false;
	for (int kind = 0; kind < 2; kind++)
		is_too_much |= amount_there_is(world, kind) &&
			       amount_of(job, kind) > amount_there_is(world, kind);
	bool keeps = decision->reason != JOB_REASON_USER_LIMIT &&
		     decision->reason != JOB_REASON_NO_MACHINE && !is_too_much;
	outcome->is_first_keeper = keeps && !world->any_keeps;
	world->any_keeps |= keeps;
	if (outcome->is_first_keeper)
		outcome->opens_ns = rule_opens(world, place);
}

/* --- when all is decided --------------------------------------------------------------------- */

static void check_number(const struct world *world, size_t place, int kind)
{
	static const char *const sizes[] = {"",	   "1Gi", "2Gi", "3Gi", "4Gi",
					    "5Gi", "6Gi", "7Gi", "8Gi"};
	double have, need, all;
	const char *text = world->outcomes[place].text;
	uint64_t there_is = amount_there_is(world, kind);
	uint64_t left =
	    there_is > world->amount_used[kind] ? there_is - world->amount_used[kind] : 0;
	char wanted[128];
	have = (double)left / 1000;
	need = (double)amount_of(&world->jobs[place], kind) / 1000;
	all = (double)there_is / 1000;
	if (kind == 0)
		(void)snprintf(wanted, sizeof(wanted), "have %g, need %g of %g", have, need, all);
	else
		(void)snprintf(wanted, sizeof(wanted), "have %s, need ",
			       left == 0 ? "0 bytes" : sizes[left >> 30]);
	if (strncmp(wanted, text, strlen(wanted)) != 0)
		fail(world, place, "the truth is '%s'", wanted);
	if (left >= amount_of(&world->jobs[place], kind))
		fail(world, place, "waits for what is there");
}

static void check_behind(const struct world *world, size_t place)
{
	const struct outcome *outcome = &world->outcomes[place];
	uint64_t behind = 0;
	for (const char *at = outcome->text + strlen("behind "); *at >= '0' && *at <= '9'; at++)
		behind = behind * 10 + (uint64_t)(*at - '0');
	if (behind == 0 || behind > world->job_count)
		fail(world, place, "is behind nobody");
	const struct outcome *other = &world->outcomes[behind - 1];
	if (other->starts || other->order >= outcome->order)
		fail(world, place, "is behind a job that does not wait before it");
	bool is_for_gpus = other->reason == JOB_REASON_WAITING_FOR_GPU;
	if (world->jobs[place].gpus == 0 && is_for_gpus)
		fail(world, place, "has no GPU and waits for one that does");
	if (world->jobs[place].gpus == 0 && world->jobs[place].wants.cpu_milli == 0 &&
	    world->jobs[place].wants.mem_bytes == 0)
		fail(world, place, "wants nothing and waits");
}

static void check_reason(const struct world *world, size_t place)
{
	const struct job *job = &world->jobs[place];
	const struct outcome *outcome = &world->outcomes[place];
	size_t unused = 0;
	char wanted[64];
	for (size_t i = 0; i < world->inventory.gpu_count; i++)
		unused += !world->is_used[i];
	switch (outcome->reason) {
	case JOB_REASON_QUEUE_ORDER:
		check_behind(world, place);
		break;
	case JOB_REASON_WAITING_FOR_GPU:
		if (job->gpus == 0)
			fail(world, place, "waits for a GPU and wants none");
		(void)snprintf(wanted, sizeof(wanted), "have %zu, need %u;", unused, job->gpus);
		if (outcome->is_first_keeper && strncmp(wanted, outcome->text, strlen(wanted)) != 0)
			fail(world, place, "the truth is '%s'", wanted);
		break;
	case JOB_REASON_WAITING_FOR_CPU:
		if (job->wants.cpu_milli <= world->rules.cpu_milli)
			check_number(world, place, 0);
		break;
	case JOB_REASON_WAITING_FOR_MEMORY:
		if (job->wants.mem_bytes <= world->rules.mem_bytes)
			check_number(world, place, 1);
		break;
	case JOB_REASON_USER_LIMIT:
		if (world->rules.limit.gpus == 0 ||
		    world->user_gpus[job->uid] + job->gpus <= world->rules.limit.gpus)
			fail(world, place, "is not at its limit");
		break;
	case JOB_REASON_NO_MACHINE:
		if (job->gpus <= world->inventory.gpu_count)
			fail(world, place, "has a machine");
		break;
	default:
		fail(world, place, "waits for something else");
	}
}

/* The first that keeps something can start as early as when it was decided. */
static void check_first(const struct world *world, size_t place)
{
	const struct outcome *outcome = &world->outcomes[place];
	uint64_t opens_ns = rule_opens(world, place);
	if (opens_ns > outcome->opens_ns)
		fail(world, place, "could start in %" PRIu64 ", and now in %" PRIu64,
		     outcome->opens_ns, opens_ns);
	for (size_t i = 0; i < world->job_count; i++) {
		const struct outcome *later = &world->outcomes[i];
		const struct job *job = &world->jobs[i];
		if (!later->starts || later->order < outcome->order)
			continue;
		bool takes = outcome->reason == JOB_REASON_WAITING_FOR_GPU ? job->gpus > 0
			     : outcome->reason == JOB_REASON_WAITING_FOR_CPU
				 ? job->wants.cpu_milli > 0
				 : job->wants.mem_bytes > 0;
		if (takes && outcome->opens_ns == SCHEDULE_NEVER)
			fail(world, i, "goes past job %zu, of which nobody knows when it can start",
			     place + 1);
	}
}

/* --- random machines and jobs ---------------------------------------------------------------- */

static void world_machine(struct world *world)
{
	world->inventory.gpu_count = random_below(GPUS + 1);
	world->inventory.gpus = world->gpus;
	world->machine = (struct schedule_machine){.inventory = &world->inventory,
						   .rules = &world->rules,
						   .devices = world->devices,
						   .device_count = world->inventory.gpu_count};
	(void)snprintf(world->machine.problem, sizeof(world->machine.problem), "none");
	for (uint32_t i = 0; i < world->inventory.gpu_count; i++) {
		struct gpu *gpu = &world->gpus[i];
		gpu->index = i;
		gpu->numa_node = (int32_t)(i / 2);
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
		place_describe(&world->inventory, NULL, i, PLACE_WHOLE, NULL, NULL,
			       &world->devices[i].unit);
		world->devices[i].slot_count = 1;
		for (uint32_t j = 0; j < i; j++)
			world->inventory.level[i][j] = world->inventory.level[j][i] =
			    (uint8_t)(10 * (1 + random_below(5)));
	}
	world->rules.weights = (struct rules_weights)RULES_WEIGHTS_DEFAULT;
	if (chance(70))
		world->rules.cpu_milli = 8000;
	if (chance(70))
		world->rules.mem_bytes = UINT64_C(8) << 30;
	if (chance(30))
		world->rules.limit.gpus = 1 + random_below(4);
}

static void world_running(struct world *world)
{
	for (uint32_t i = 0; i < RUNNING; i++) {
		struct schedule_running *running = &world->running[world->running_count];
		struct launch_grant *grant = &world->grants[world->running_count];
		if (chance(40))
			continue;
		world->running_count++;
		*running = (struct schedule_running){
		    .uid = random_below(USERS),
		    .cpu_milli = chance(30) ? 1000 * random_below(4) : 0,
		    .mem_bytes = chance(30) ? (uint64_t)random_below(4) << 30 : 0,
		    .left_ns = chance(30) ? SCHEDULE_NEVER : random_below(TIME_MAX + 1)};
		world->amount_used[0] += running->cpu_milli;
		world->amount_used[1] += running->mem_bytes;
		world->end_ns[world->end_count] = running->left_ns;
		world->end_amount[world->end_count][0] = running->cpu_milli;
		world->end_amount[world->end_count++][1] = running->mem_bytes;
		if (i >= world->inventory.gpu_count)
			continue;
		*grant = (struct launch_grant){.slot_count = 1, .slots = {1}};
		memcpy(grant->uuid, world->gpus[i].uuid, sizeof(grant->uuid));
		running->grants = grant;
		running->grant_count = 1;
		schedule_machine_take(&world->machine, grant);
		world->is_used[i] = true;
		world->left_ns[i] = running->left_ns;
		world->user_gpus[running->uid]++;
	}
}

static void world_job(struct world *world, size_t place)
{
	struct job *job = &world->jobs[place];
	*job = (struct job){.id = place + 1,
			    .uid = random_below(USERS),
			    .gpus = chance(25)	 ? 0
				    : chance(60) ? 1
						 : 1 + random_below(GPUS),
			    .has_turn = chance(5)};
	job->wants.priority = chance(70) ? 0 : (int32_t)random_below(3) - 1;
	job->own_score = (int64_t)job->wants.priority * 100000000 + random_below(4) * 10000;
	job->usage_score = (int64_t)job->uid * 5000;
	job->wants.time_ns = chance(40) ? 0 : 1 + random_below(TIME_MAX);
	if (chance(30))
		job->wants.cpu_milli = 1000 * random_below(10);
	if (chance(30))
		job->wants.mem_bytes = (uint64_t)random_below(10) << 30;
}

static void round_pass(struct world *world)
{
	const struct job *jobs[JOBS];
	memset(world, 0, sizeof(*world));
	world_machine(world);
	world_running(world);
	world->job_count = random_below(JOBS + 1);
	for (size_t i = 0; i < world->job_count; i++) {
		world_job(world, i);
		jobs[i] = &world->jobs[i];
	}
	const struct schedule_input input = {.jobs = jobs,
					     .count = world->job_count,
					     .running = world->running,
					     .running_count = world->running_count,
					     .decide = decide,
					     .context = world};
	if (schedule_pass(&world->machine, &input, NULL) < 0)
		exit(1);
	if (world->decided != world->job_count)
		fail(world, 0, "and the others: %zu were decided", world->decided);
	for (size_t i = 0; i < world->job_count; i++) {
		if (world->outcomes[i].starts)
			continue;
		check_reason(world, i);
		if (world->outcomes[i].is_first_keeper &&
		    world->outcomes[i].reason != JOB_REASON_QUEUE_ORDER)
			check_first(world, i);
	}
	world->machine.devices = NULL; /* they are the world's */
	schedule_machine_done(&world->machine);
}

/* --- over time ------------------------------------------------------------------------------- */

struct life {
	size_t wide_waits; /* passes */
	bool wide_starts, is_running[GPUS];
	uint64_t ends[GPUS]; /* the step in which what is on a GPU ends */
	uid_t user[GPUS];
	bool had_turn;
	uint64_t step;
	uint64_t due;	/* the step from which on what becomes free is reserved; UINT64_MAX: none */
	uint64_t until; /* when all that ran in that step has ended */
	struct launch_grant grants[GPUS];
};

static void life_decide(const struct job *job, struct schedule_decision *decision, void *context)
{
	struct life *life = context;
	if (job->id == 1) {
		life->had_turn = decision->has_turn;
		life->wide_starts = decision->start;
	}
	for (size_t i = 0; decision->start && i < decision->grant_count; i++) {
		size_t gpu = decision->grants[i].index;
		life->is_running[gpu] = true;
		life->user[gpu] = job->uid;
		life->ends[gpu] = life->step + 1 + random_below(4);
		life->grants[gpu] = decision->grants[i];
	}
}

/* One user has a GPU for ever and wants all others. Others, who have fewer, never stop submitting.
 */
static void round_life(struct world *world)
{
	struct life life = {.due = chance(50) ? 5 + random_below(20) : UINT64_MAX};
	do {
		memset(world, 0, sizeof(*world));
		world_machine(world);
	} while (world->inventory.gpu_count < 3);
	world->rules = (struct queue_rules){.weights = RULES_WEIGHTS_DEFAULT};
	uint32_t count = world->inventory.gpu_count;
	life.is_running[0] = true;
	life.ends[0] = UINT64_MAX;
	life.grants[0] = (struct launch_grant){.slot_count = 1, .slots = {1}};
	memcpy(life.grants[0].uuid, world->gpus[0].uuid, sizeof(life.grants[0].uuid));
	for (uint64_t id = 2; !life.wide_starts; life.step++) {
		struct job list[1 + GPUS];
		const struct job *jobs[1 + GPUS];
		struct schedule_running running[GPUS];
		size_t running_count = 0, job_count = 0;
		if (life.step > STEPS)
			fail(world, 0, "the wide job does not start");
		for (uint32_t i = 0; i < count; i++) {
			struct schedule_device *device = &world->devices[i];
			life.is_running[i] &= life.ends[i] > life.step;
			device->used[0] = device->used_count = 0;
			device->used_whole = false;
			if (!life.is_running[i])
				continue;
			schedule_machine_take(&world->machine, &life.grants[i]);
			running[running_count++] =
			    (struct schedule_running){.uid = life.user[i],
						      .left_ns = SCHEDULE_NEVER,
						      .grants = &life.grants[i],
						      .grant_count = 1};
		}
		/* It comes when the machine is busy. */
		if (life.step > 3)
			list[job_count++] = (struct job){.id = 1,
							 .gpus = count - 1,
							 .has_turn = life.had_turn,
							 .due_ns = life.due};
		for (uint32_t i = 0; life.step == life.due && i < count; i++)
			if (life.is_running[i] && life.ends[i] != UINT64_MAX &&
			    life.ends[i] > life.until)
				life.until = life.ends[i];
		for (uint32_t i = 0; i < 1 + random_below(count); i++)
			list[job_count++] =
			    (struct job){.id = id++, .uid = 1 + random_below(USERS), .gpus = 1};
		for (size_t i = 0; i < job_count; i++)
			jobs[i] = &list[i];
		const struct schedule_input input = {.jobs = jobs,
						     .count = job_count,
						     .now_ns = life.step,
						     .running = running,
						     .running_count = running_count,
						     .decide = life_decide,
						     .context = &life};
		if (schedule_pass(&world->machine, &input, NULL) < 0)
			exit(1);
		/* Those that ran when it was reserved are all that it waits for. */
		if (life.step >= life.due && life.step >= life.until && !life.wide_starts)
			fail(world, 0,
			     "is due since step %" PRIu64 ", and does not start in %" PRIu64,
			     life.due, life.step);
	}
	world->machine.devices = NULL; /* they are the world's */
	schedule_machine_done(&world->machine);
}

int main(void)
{
	const char *seed_text = getenv("SLUICE_TEST_SEED"), *text = getenv("SLUICE_TEST_ROUNDS");
	uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 20261122;
	unsigned long rounds = text ? strtoul(text, NULL, 10) : ROUNDS;
	static struct world world;
	random_seed(seed);
	printf("seed %" PRIu64 ", %lu rounds\n", seed, rounds);
	for (now_round = 0; now_round < rounds; now_round++) {
		round_pass(&world);
		if (now_round % 10 == 0)
			round_life(&world);
	}
	printf("%lu random queues of several users: always as the rules say\n", rounds);
	return 0;
}
