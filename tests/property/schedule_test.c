/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler on random machines and queues, against its rule once more, naively: every job
 * looks at every device and at every job before it. And as a queue over time: each job starts in
 * the end, however many come behind it.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doors/queue/schedule/schedule.h"
#include "hardware/snapshot.h"
#include "policy/policy.h"
#include "tests/unit/units/brute.h"

enum property_limits {
	ROUNDS = 4000,
	GPUS = 6,
	PARTS = 3, /* MIG devices of one GPU */
	SLOTS = 4,
	DEVICES = GPUS * PARTS,
	JOBS = 14,
	IDS = 4,
	LIVES = 400, /* jobs of one queue over time */
};

/* Everything that one pass sees, and what is expected of it. */
struct world {
	struct inventory inventory;
	struct gpu gpus[GPUS];
	struct mig_device migs[DEVICES];
	struct snapshot *snapshot; /* owned */
	struct policy policy;
	struct policy_resource resources[2];
	struct policy_unit units[DEVICES * SLOTS * 2];
	struct schedule_machine machine;

	struct job jobs[JOBS];
	char ids[JOBS][64];
	size_t named[JOBS][IDS]; /* devices of `ids`: place in the machine */
	size_t named_count[JOBS];
	bool impossible[JOBS]; /* its ids cannot be meant */
	size_t job_count;

	size_t decided;
	bool waits[JOBS], keeps[JOBS];
	enum job_reason reason[JOBS];
	char text[JOBS][JOB_REASON_MAX];
	uint64_t hash; /* of all decisions */
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
	for (size_t i = 0; i < world->machine.device_count; i++) {
		const struct schedule_device *device = &world->machine.devices[i];
		(void)fprintf(
		    stderr, "  %s: slots %u, used %#" PRIx64 "%s%s%s%s\n", device->unit.label,
		    device->slot_count, device->used[0], device->used_whole ? " whole" : "",
		    device->unit.healthy ? "" : " sick", device->unit.outsider ? " outsider" : "",
		    device->holder[0] ? " held" : "");
	}
	for (size_t i = 0; i < world->job_count; i++) {
		const struct job *one = &world->jobs[i];
		(void)fprintf(stderr, "  job %zu: gpus %u share %u/%u ids %s%s: %s(%s)\n", i + 1,
			      one->gpus, one->share_numerator, one->share_denominator,
			      one->ids ? one->ids : "-",
			      one->ignore_outsiders ? " ignores outsiders" : "",
			      job_reason_to_string(world->reason[i]), world->text[i]);
	}
	exit(1);
}

/* --- the rule, naively ----------------------------------------------------------------------- */

static bool rule_is_candidate(const struct world *world, size_t job, size_t device)
{
	const struct schedule_device *devices = world->machine.devices;
	bool shared = world->jobs[job].share_numerator > 0;
	if (world->jobs[job].ids) {
		for (size_t i = 0; i < world->named_count[job]; i++)
			if (world->named[job][i] == device)
				return true;
		return false;
	}
	bool any_whole = false;
	for (size_t i = 0; i < world->machine.device_count; i++)
		any_whole |=
		    devices[i].unit.mig == PLACE_WHOLE && (!shared || devices[i].slot_count > 1);
	return (!shared || devices[device].slot_count > 1) &&
	       (devices[device].unit.mig == PLACE_WHOLE) == any_whole;
}

static uint32_t rule_slots(const struct world *world, size_t job, size_t device)
{
	const struct job *one = &world->jobs[job];
	uint32_t all = world->machine.devices[device].slot_count;
	if (one->share_numerator == 0)
		return all;
	if (one->share_denominator == 0)
		return 1;
	uint32_t slots = 0;
	while ((uint64_t)slots * one->share_denominator < (uint64_t)one->share_numerator * all)
		slots++;
	return slots;
}

static uint32_t rule_free(const struct schedule_device *device)
{
	uint32_t count = 0;
	for (uint32_t slot = 0; slot < device->slot_count; slot++)
		count += !(device->used[0] >> slot & 1);
	return count;
}

/* Free, or only other jobs are in the way. */
static bool rule_is_open(const struct world *world, size_t job, size_t device)
{
	const struct place_unit *unit = &world->machine.devices[device].unit;
	return unit->healthy && (unit->outsider == 0 || world->jobs[job].ignore_outsiders);
}

static bool rule_is_free(const struct world *world, size_t job, size_t device)
{
	const struct schedule_device *one = &world->machine.devices[device];
	if (!rule_is_open(world, job, device) || one->holder[0] != '\0')
		return false;
	if (world->jobs[job].share_numerator == 0)
		return rule_free(one) == one->slot_count;
	return !one->used_whole && rule_free(one) >= rule_slots(world, job, device);
}

/* Whether one of the first `jobs` jobs waits for this device. */
static bool rule_is_kept(const struct world *world, size_t jobs, size_t device)
{
	for (size_t i = 0; i < jobs; i++)
		if (world->keeps[i] && rule_is_candidate(world, i, device))
			return true;
	return false;
}

struct rule {
	size_t candidates, needed, open, to_be_had, outsiders;
};

static struct rule rule_look(const struct world *world, size_t job)
{
	struct rule rule = {.needed = world->jobs[job].gpus};
	if (world->jobs[job].ids)
		rule.needed = world->named_count[job];
	for (size_t i = 0; i < world->machine.device_count; i++) {
		if (!rule_is_candidate(world, job, i))
			continue;
		rule.candidates++;
		rule.open += rule_is_open(world, job, i);
		rule.outsiders +=
		    world->machine.devices[i].unit.healthy && !rule_is_open(world, job, i);
		rule.to_be_had += rule_is_free(world, job, i) && !rule_is_kept(world, job, i);
	}
	return rule;
}

/* Open devices that none of the first `jobs` jobs keeps. */
static size_t rule_left(const struct world *world, size_t job, size_t jobs)
{
	size_t left = 0;
	for (size_t i = 0; i < world->machine.device_count; i++)
		left += rule_is_candidate(world, job, i) && rule_is_open(world, job, i) &&
			!rule_is_kept(world, jobs, i);
	return left;
}

static void check_waiting(struct world *world, size_t job, const struct rule *rule,
			  const struct schedule_decision *decision)
{
	char text[64];
	enum job_reason wanted;
	if (world->impossible[job] || rule->candidates < rule->needed ||
	    world->machine.device_count == 0) {
		wanted = JOB_REASON_NO_MACHINE;
	} else if (rule->open < rule->needed) {
		wanted = rule->open + rule->outsiders < rule->needed ? JOB_REASON_GPU_UNHEALTHY
								     : JOB_REASON_GPU_IN_USE;
	} else if (rule_left(world, job, job) < rule->needed) {
		wanted = JOB_REASON_QUEUE_ORDER;
		size_t behind = 0;
		while (rule_left(world, job, behind + 1) >= rule->needed)
			behind++;
		(void)snprintf(text, sizeof(text), "behind %zu", behind + 1);
		if (strcmp(text, decision->text) != 0)
			fail(world, job, "says '%s' and is %s", decision->text, text);
		world->keeps[job] = true;
	} else {
		wanted = JOB_REASON_WAITING_FOR_GPU;
		world->keeps[job] = true;
	}
	if (decision->reason != wanted)
		fail(world, job, "waits for %s(%s), and should for %s",
		     job_reason_to_string(decision->reason), decision->text,
		     job_reason_to_string(wanted));
	if (decision->text[0] == '\0')
		fail(world, job, "waits and does not say what for");
}

/* What was free a moment ago, as the numbers that the choice knows; see schedule.h. */
static void check_best_whole(const struct world *world, size_t job, const bool *was_free,
			     const uint64_t *last_used, const bool *granted)
{
	const struct schedule_device *devices = world->machine.devices;
	static struct allocator_topology shape, ranked;
	uint32_t rank[GPUS], available = 0, wanted = 0, got = 0;
	uint64_t used[GPUS] = {0};
	size_t plain = 0, needed = world->jobs[job].gpus;
	allocator_topology_weigh(&world->inventory, &shape);
	memset(&ranked, 0, sizeof(ranked));
	ranked.gpu_count = shape.gpu_count;
	for (size_t i = 0; i < world->machine.device_count; i++) {
		plain += was_free[i] && devices[i].slot_count == 1;
		used[devices[i].unit.gpu] = last_used[i];
	}
	for (uint32_t a = 0; a < shape.gpu_count; a++) {
		rank[a] = 0;
		for (uint32_t b = 0; b < shape.gpu_count; b++)
			rank[a] += used[b] < used[a] || (used[b] == used[a] && b < a);
	}
	for (uint32_t a = 0; a < shape.gpu_count; a++) {
		ranked.numa[rank[a]] = shape.numa[a];
		for (uint32_t b = 0; b < shape.gpu_count; b++)
			ranked.weight[rank[a]][rank[b]] = shape.weight[a][b];
	}
	for (size_t i = 0; i < world->machine.device_count; i++) {
		uint32_t bit = UINT32_C(1) << rank[devices[i].unit.gpu];
		if (was_free[i] && (plain < needed || devices[i].slot_count == 1))
			available |= bit;
		if (granted[i])
			got |= bit;
	}
	wanted = (size_t)__builtin_popcount(available) == needed
		     ? available
		     : brute_choose(&ranked, available, 0, (uint32_t)needed);
	if (got != wanted)
		fail(world, job, "got GPUs %#x of %#x, the best are %#x", got, available, wanted);
}

/* No share could have gone into a smaller hole, or to where nobody computes without a queue. */
static void check_best_share(const struct world *world, size_t job, const bool *was_free,
			     const uint64_t *last_used, const bool *granted)
{
	for (size_t a = 0; a < world->machine.device_count; a++) {
		for (size_t b = 0; b < world->machine.device_count; b++) {
			if (!granted[a] || granted[b] || !was_free[b])
				continue;
			const struct schedule_device *left = &world->machine.devices[a];
			const struct schedule_device *right = &world->machine.devices[b];
			uint32_t rest_a = rule_free(left) * right->slot_count;
			uint32_t rest_b =
			    (rule_free(right) - rule_slots(world, job, b)) * left->slot_count;
			bool new_a =
			    rule_free(left) + rule_slots(world, job, a) == left->slot_count;
			bool new_b = rule_free(right) == right->slot_count;
			bool outsider_a = left->unit.outsider != 0;
			bool outsider_b = right->unit.outsider != 0;
			bool is_worse =
			    rest_a > rest_b ||
			    (rest_a == rest_b &&
			     (new_a > new_b || (new_a == new_b && last_used[a] > last_used[b])));
			if (outsider_a > outsider_b || (outsider_a == outsider_b && is_worse))
				fail(world, job, "a share on %s is worse than on %s",
				     left->unit.label, right->unit.label);
		}
	}
}

static struct schedule_device before[DEVICES]; /* as the job found them */

static void check_start(const struct world *world, size_t job, const struct rule *rule,
			const struct schedule_decision *decision)
{
	bool was_free[DEVICES] = {false}, granted[DEVICES] = {false};
	uint64_t last_used[DEVICES];
	if (rule->needed > rule->to_be_had || world->impossible[job])
		fail(world, job, "starts on %zu of %zu", rule->to_be_had, rule->needed);
	if (decision->grant_count != rule->needed)
		fail(world, job, "wanted %zu and got %zu", rule->needed, decision->grant_count);
	for (size_t i = 0; i < decision->grant_count; i++) {
		const struct launch_grant *grant = &decision->grants[i];
		const struct schedule_device *device =
		    schedule_machine_find(&world->machine, grant->uuid);
		size_t place = device ? (size_t)(device - world->machine.devices) : DEVICES;
		if (!device || granted[place] || !rule_is_candidate(world, job, place))
			fail(world, job, "got %s, which it cannot use", grant->uuid);
		granted[place] = true;
		if (grant->slots[0] & before[place].used[0])
			fail(world, job, "got a slot of %s that somebody has", grant->label);
		if ((uint32_t)__builtin_popcountll(grant->slots[0]) !=
			rule_slots(world, job, place) ||
		    grant->slots[0] >> device->slot_count)
			fail(world, job, "got slots %#" PRIx64 " of %s", grant->slots[0],
			     grant->label);
		if (device->used[0] != (before[place].used[0] | grant->slots[0]))
			fail(world, job, "the slots of %s are not marked", grant->label);
		if (world->jobs[job].ids && world->named[job][i] != place)
			fail(world, job, "got %s in another order", grant->label);
	}
	/* With the devices as they were. */
	struct world *past = (struct world *)world;
	struct schedule_device after[DEVICES];
	size_t bytes = world->machine.device_count * sizeof(*after);
	if (bytes > 0) {
		memcpy(after, world->machine.devices, bytes);
		memcpy(past->machine.devices, before, bytes);
	}
	for (size_t i = 0; i < world->machine.device_count; i++) {
		last_used[i] = before[i].last_used;
		was_free[i] = rule_is_candidate(world, job, i) && rule_is_free(world, job, i) &&
			      !rule_is_kept(world, job, i);
		if (granted[i] && !was_free[i])
			fail(world, job, "got %s, which was not free", before[i].unit.label);
	}
	if (bytes > 0)
		memcpy(past->machine.devices, after, bytes);
	bool mig = decision->grant_count > 0 && strncmp(decision->grants[0].uuid, "MIG", 3) == 0;
	if (world->jobs[job].ids)
		return;
	if (world->jobs[job].share_numerator > 0)
		check_best_share(world, job, was_free, last_used, granted);
	else if (!mig)
		check_best_whole(world, job, was_free, last_used, granted);
}

static void world_hash(struct world *world, const void *data, size_t length)
{
	const uint8_t *bytes = data;
	for (size_t i = 0; i < length; i++)
		world->hash = (world->hash ^ bytes[i]) * UINT64_C(0x100000001b3);
}

static void decide(const struct job *job, struct schedule_decision *decision, void *context)
{
	struct world *world = context;
	size_t place = (size_t)(job - world->jobs);
	if (place != world->decided++)
		fail(world, place, "is decided out of order");
	world->reason[place] = decision->reason;
	(void)snprintf(world->text[place], JOB_REASON_MAX, "%s", decision->text);
	world_hash(world, &decision->reason, sizeof(decision->reason));
	world_hash(world, decision->text, strlen(decision->text));
	for (size_t i = 0; i < decision->grant_count; i++) {
		world_hash(world, decision->grants[i].uuid, GPU_UUID_MAX);
		world_hash(world, decision->grants[i].slots, sizeof(decision->grants[i].slots));
	}

	size_t bytes = world->machine.device_count * sizeof(before[0]);
	if (job->gpus == 0) {
		if (!decision->start || decision->grant_count > 0)
			fail(world, place, "wants no GPU and does not start with none");
	} else if (decision->start) {
		/* The rule looks at the devices as they were. */
		struct schedule_device after[DEVICES];
		memcpy(after, world->machine.devices, bytes);
		memcpy(world->machine.devices, before, bytes);
		struct rule rule = rule_look(world, place);
		memcpy(world->machine.devices, after, bytes);
		check_start(world, place, &rule, decision);
	} else {
		struct rule rule = rule_look(world, place);
		bool could = !world->impossible[place] && rule.candidates >= rule.needed &&
			     rule.to_be_had >= rule.needed;
		if (could)
			fail(world, place, "waits with %zu of %zu free", rule.to_be_had,
			     rule.needed);
		world->waits[place] = true;
		check_waiting(world, place, &rule, decision);
	}
	if (bytes > 0)
		memcpy(before, world->machine.devices, bytes);
}

/* What was said of a waiting job is still so when all are decided. */
static void check_truth(const struct world *world)
{
	for (size_t i = 0; i < world->job_count; i++) {
		if (!world->waits[i])
			continue;
		struct rule rule = rule_look(world, i);
		char text[64];
		(void)snprintf(text, sizeof(text), "have %zu, need %zu; ", rule.to_be_had,
			       rule.needed);
		if (world->reason[i] == JOB_REASON_WAITING_FOR_GPU &&
		    strncmp(text, world->text[i], strlen(text)) != 0)
			fail(world, i, "the truth is '%s'", text);
		for (size_t d = 0; d < world->machine.device_count; d++) {
			const struct place_unit *unit = &world->machine.devices[d].unit;
			bool named = world->reason[i] == JOB_REASON_GPU_UNHEALTHY
					 ? !unit->healthy
					 : world->reason[i] == JOB_REASON_GPU_IN_USE &&
					       unit->healthy && unit->outsider != 0;
			if (named && rule_is_candidate(world, i, d) &&
			    !strstr(world->text[i], unit->label))
				fail(world, i, "does not name %s", unit->label);
		}
	}
}

/* --- random machines and jobs ---------------------------------------------------------------- */

static bool chance(uint32_t percent)
{
	return random_below(100) < percent;
}

static void world_gpu(struct world *world, uint32_t i, bool splits)
{
	struct gpu *gpu = &world->gpus[i];
	struct snapshot_gpu *now = &world->snapshot->gpu[i];
	*gpu = (struct gpu){
	    .index = i + 3, .mig_current = GPU_MIG_DISABLED, .numa_node = (int32_t)(i / 2)};
	memset(now, 0, sizeof(*now));
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
	(void)snprintf(now->uuid, sizeof(now->uuid), "GPU-%u", i);
	gpu->state = chance(8) ? GPU_STATE_LOST : GPU_STATE_OK;
	now->state = chance(5) ? GPU_STATE_HUNG : GPU_STATE_OK;
	if (chance(15)) {
		now->process_count = 1;
		now->process[0] =
		    (struct snapshot_process){.pid = 1000 + i,
					      .type = SNAPSHOT_PROCESS_COMPUTE,
					      .gi = chance(50) ? 1 : SNAPSHOT_WHOLE_GPU,
					      .ci = 0};
	}
	uint32_t parts = splits && chance(40) ? 1 + random_below(PARTS) : 0;
	for (uint32_t part = 0; part < parts; part++) {
		struct mig_device *mig = &world->migs[world->inventory.mig_count];
		*mig = (struct mig_device){.parent = i, .index = part, .gi = part};
		(void)snprintf(mig->uuid, sizeof(mig->uuid), "MIG-%u",
			       world->inventory.mig_count++);
		gpu->mig_current = GPU_MIG_ENABLED;
	}
	for (uint32_t j = 0; j < i; j++)
		world->inventory.level[i][j] = world->inventory.level[j][i] =
		    (uint8_t)(10 * (1 + random_below(5)));
}

static void world_units(struct world *world, uint32_t gpu, uint32_t mig)
{
	uint32_t replicas = chance(50) ? 1 : 1 + random_below(SLOTS);
	for (uint32_t replica = 0; replica < replicas; replica++)
		world->units[world->policy.unit_count++] = (struct policy_unit){
		    .gpu = gpu, .mig = mig, .replica = replica, .replicas = replicas};
}

static void world_policy(struct world *world)
{
	struct policy *policy = &world->policy;
	bool queue[GPUS];
	policy->units = world->units;
	policy->resources = world->resources;
	policy->resource_count = 2;
	for (uint32_t i = 0; i < world->inventory.gpu_count; i++)
		queue[i] = chance(90);
	for (uint32_t door = 0; door < 2; door++) {
		struct policy_resource *resource = &world->resources[door];
		*resource = (struct policy_resource){.door = door == 0 ? POLICY_DOOR_KUBELET
								       : POLICY_DOOR_QUEUE,
						     .first = policy->unit_count};
		for (uint32_t i = 0; i < world->inventory.gpu_count; i++) {
			bool parts = world->gpus[i].mig_current == GPU_MIG_ENABLED && i % 2 == 0;
			if (queue[i] != (door == 1))
				continue;
			for (uint32_t m = 0; parts && m < world->inventory.mig_count; m++)
				if (world->migs[m].parent == i)
					world_units(world, i, m);
			if (!parts)
				world_units(world, i, POLICY_WHOLE_GPU);
		}
		resource->count = policy->unit_count - resource->first;
	}
}

static void world_running(struct world *world)
{
	world->machine.clock = 4; /* later than any use so far */
	for (size_t i = 0; i < world->machine.device_count; i++) {
		struct schedule_device *device = &world->machine.devices[i];
		struct launch_grant grant = {.slot_count = device->slot_count};
		memcpy(grant.uuid, device->unit.uuid, sizeof(grant.uuid));
		device->last_used = random_below(4);
		if (chance(30))
			grant.slots[0] = (UINT64_C(1) << device->slot_count) - 1;
		else if (chance(30))
			grant.slots[0] = random_below(UINT32_C(1) << device->slot_count);
		if (grant.slots[0])
			schedule_machine_take(&world->machine, &grant);
		if (chance(5))
			(void)snprintf(device->holder, sizeof(device->holder), "job x of eve");
		if (chance(5))
			schedule_machine_hold(&world->machine, device->unit.uuid,
					      random_below(SLOTS), "job y of eve");
	}
}

static void world_ids(struct world *world, size_t place)
{
	struct job *job = &world->jobs[place];
	size_t length = 0, count = 1 + random_below(3);
	job->ids = world->ids[place];
	job->gpus = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		size_t device = random_below((uint32_t)world->machine.device_count + 1);
		bool is_there = device < world->machine.device_count;
		const struct schedule_device *one = &world->machine.devices[is_there ? device : 0];
		length +=
		    (size_t)snprintf(job->ids + length, sizeof(world->ids[place]) - length, "%s%s",
				     i ? "," : "", is_there ? one->unit.uuid : "GPU-nothing");
		for (size_t k = 0; k < i; k++)
			world->impossible[place] |= world->named[place][k] == device;
		world->impossible[place] |= !is_there;
		if (job->share_numerator > 0 && is_there)
			world->impossible[place] |= one->slot_count < 2;
		world->named[place][i] = device;
	}
	world->named_count[place] = count;
}

static void world_job(struct world *world, size_t place)
{
	struct job *job = &world->jobs[place];
	if (place > 0 && chance(30)) { /* like one before it */
		size_t like = random_below((uint32_t)place);
		*job = world->jobs[like];
		job->id = place + 1;
		if (job->ids) {
			memcpy(world->ids[place], world->ids[like], sizeof(world->ids[like]));
			job->ids = world->ids[place];
		}
		memcpy(world->named[place], world->named[like], sizeof(world->named[like]));
		world->named_count[place] = world->named_count[like];
		world->impossible[place] = world->impossible[like];
		return;
	}
	*job = (struct job){.id = place + 1,
			    .gpus = chance(8) ? 0 : 1 + random_below(chance(50) ? 2 : GPUS + 1),
			    .ignore_outsiders = chance(15)};
	if (chance(45)) {
		job->share_denominator = random_below(SLOTS + 2);
		job->share_numerator =
		    1 + random_below(job->share_denominator ? job->share_denominator : 1);
	}
	if (job->gpus > 0 && world->machine.device_count > 0 && chance(25))
		world_ids(world, place);
}

static void world_make(struct world *world)
{
	struct snapshot *snapshot = world->snapshot;
	memset(world, 0, sizeof(*world));
	world->snapshot = snapshot;
	world->inventory.gpu_count = random_below(GPUS + 1);
	world->inventory.gpus = world->gpus;
	world->inventory.migs = world->migs;
	snapshot->gpu_count = world->inventory.gpu_count;
	bool splits = chance(30);
	for (uint32_t i = 0; i < world->inventory.gpu_count; i++)
		world_gpu(world, i, splits);
	world_policy(world);
	if (schedule_machine_make(&world->inventory, snapshot, &world->policy, NULL, NULL,
				  &world->machine, NULL) < 0)
		exit(1);
	world_running(world);
	world->job_count = random_below(JOBS + 1);
	for (size_t i = 0; i < world->job_count; i++)
		world_job(world, i);
}

static void world_pass(struct world *world)
{
	const struct job *jobs[JOBS];
	for (size_t i = 0; i < world->job_count; i++)
		jobs[i] = &world->jobs[i];
	world->decided = 0;
	world->hash = 1;
	memset(world->waits, 0, sizeof(world->waits));
	memset(world->keeps, 0, sizeof(world->keeps));
	if (world->machine.device_count > 0)
		memcpy(before, world->machine.devices,
		       world->machine.device_count * sizeof(before[0]));
	const struct schedule_input input = {
	    .jobs = jobs, .count = world->job_count, .decide = decide, .context = world};
	if (schedule_pass(&world->machine, &input, NULL) < 0)
		exit(1);
	if (world->decided != world->job_count)
		fail(world, world->decided, "was not decided");
}

static void round_pass(struct world *world)
{
	world_make(world);
	struct schedule_device as_made[DEVICES];
	size_t bytes = world->machine.device_count * sizeof(as_made[0]);
	uint64_t clock = world->machine.clock;
	if (bytes > 0)
		memcpy(as_made, world->machine.devices, bytes);
	world_pass(world);
	check_truth(world);
	uint64_t hash = world->hash;
	world->machine.clock = clock;
	if (bytes > 0)
		memcpy(world->machine.devices, as_made, bytes);
	world_pass(world);
	if (world->hash != hash)
		fail(world, 0, "and the others: the same input, another answer");
	schedule_machine_done(&world->machine);
}

/* --- over time ------------------------------------------------------------------------------- */

/* Jobs that come, wait, run and end; those behind never stop coming. */
struct life {
	struct job job;
	char ids[GPU_UUID_MAX];
	bool is_running;
	size_t since; /* the step after the one in which it started; 0: not yet */
	struct launch_grant grants[DEVICES];
	size_t grant_count;
};

static struct life lives[LIVES];
static size_t live_count, live_first; /* all before live_first have started */

static void life_decide(const struct job *job, struct schedule_decision *decision, void *context)
{
	struct life *life = (struct life *)job; /* its first member */
	if (!decision->start)
		return;
	life->is_running = true;
	life->grant_count = decision->grant_count;
	for (size_t i = 0; i < decision->grant_count; i++)
		life->grants[i] = decision->grants[i];
}

static void life_new(const struct schedule_machine *machine)
{
	struct life *life = &lives[live_count++];
	const struct place_unit *unit =
	    &machine->devices[random_below((uint32_t)machine->device_count)].unit;
	uint32_t gpus = (uint32_t)machine->device_count;
	*life = (struct life){.job = {.id = live_count}};
	/* Few wide ones among many narrow ones. */
	life->job.gpus = chance(20) ? 1 + random_below(gpus) : 1;
	if (chance(40)) {
		life->job.share_numerator = 1 + random_below(2);
		life->job.share_denominator = 2 + random_below(3);
	} else if (chance(20)) {
		(void)snprintf(life->ids, sizeof(life->ids), "%s", unit->uuid);
		life->job.ids = life->ids;
		life->job.gpus = 1;
	}
	if (schedule_check(machine, &life->job, NULL) < 0)
		live_count--;
}

static size_t life_step(struct schedule_machine *machine)
{
	const struct job *waiting[LIVES];
	size_t count = 0, running = 0;
	for (size_t i = 0; i < machine->device_count; i++) {
		memset(machine->devices[i].used, 0, sizeof(machine->devices[i].used));
		machine->devices[i].used_count = 0;
		machine->devices[i].used_whole = false;
	}
	for (size_t i = 0; i < live_count; i++) {
		if (lives[i].is_running)
			for (size_t g = 0; g < lives[i].grant_count; g++)
				schedule_machine_take(machine, &lives[i].grants[g]);
		else if (lives[i].job.attempt == 0)
			waiting[count++] = &lives[i].job;
	}
	const struct schedule_input input = {
	    .jobs = waiting, .count = count, .decide = life_decide};
	if (schedule_pass(machine, &input, NULL) < 0)
		exit(1);
	for (size_t i = 0; i < live_count; i++)
		running += lives[i].is_running;
	return running;
}

/* The running job that started first ends; so each ends within as many steps as jobs can run. */
static void life_end(size_t step)
{
	size_t end = live_count;
	for (size_t i = 0; i < live_count; i++) {
		if (lives[i].is_running && lives[i].since == 0)
			lives[i].since = step + 1;
		if (lives[i].is_running && (end == live_count || lives[i].since < lives[end].since))
			end = i;
	}
	lives[end].is_running = false;
	lives[end].job.attempt = 1;
}

/* Once a job is the first of those that wait, it starts when what runs has ended, at the latest,
 * however many wait behind it. */
static void round_life(struct world *world)
{
	do {
		schedule_machine_done(&world->machine);
		world_make(world);
		for (size_t i = 0; i < world->machine.device_count; i++) {
			world->machine.devices[i].unit.healthy = true;
			world->machine.devices[i].unit.outsider = 0;
			world->machine.devices[i].holder[0] = '\0';
		}
	} while (world->machine.device_count == 0);
	live_count = live_first = 0;
	for (size_t step = 0, waited = 0; live_first < LIVES; step++) {
		waited += live_count > live_first;
		if (waited > DEVICES * SLOTS)
			fail(world, live_first, "is the first that waits and does not start");
		for (uint32_t i = 0; live_count < LIVES && i < 3; i++)
			life_new(&world->machine);
		if (live_count > live_first && life_step(&world->machine) == 0)
			fail(world, live_first, "waits on an idle machine");
		if (live_count > live_first)
			life_end(step);
		while (live_first < live_count &&
		       (lives[live_first].is_running || lives[live_first].job.attempt > 0)) {
			live_first++;
			waited = 0;
		}
	}
	schedule_machine_done(&world->machine);
}

int main(void)
{
	const char *seed_text = getenv("SLUICE_TEST_SEED"), *text = getenv("SLUICE_TEST_ROUNDS");
	uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 20261121;
	unsigned long rounds = text ? strtoul(text, NULL, 10) : ROUNDS;
	static struct world world;
	static struct snapshot snapshot;
	world.snapshot = &snapshot;
	random_seed(seed);
	printf("seed %" PRIu64 ", %lu rounds\n", seed, rounds);
	for (now_round = 0; now_round < rounds; now_round++) {
		round_pass(&world);
		if (now_round % 100 == 0)
			round_life(&world);
	}
	printf("%lu random machines and queues: always as the rule says\n", rounds);
	return 0;
}
