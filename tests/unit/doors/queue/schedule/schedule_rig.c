/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/doors/queue/schedule/schedule_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doors/queue/schedule/schedule_score.h"

struct fixture *fixture;

int setup(void **state)
{
	fixture = calloc(1, sizeof(*fixture));
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	if (!fixture || !snapshot) {
		free(fixture);
		free(snapshot);
		return -1;
	}
	fixture->snapshot = snapshot;
	fixture->rules.weights = (struct rules_weights)RULES_WEIGHTS_DEFAULT;
	return 0;
}

int teardown(void **state)
{
	schedule_machine_done(&fixture->machine);
	(void)policy_free(fixture->policy);
	free(fixture->snapshot);
	free(fixture);
	return 0;
}

/* GPUs 0 and 1 are near each other, so are 2 and 3, and so on. */
void gpus(uint32_t count)
{
	struct inventory *inventory = &fixture->inventory;
	inventory->gpu_count = count;
	inventory->gpus = fixture->gpus;
	inventory->migs = fixture->migs;
	fixture->snapshot->gpu_count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct gpu *gpu = &fixture->gpus[i];
		gpu->index = i;
		gpu->mig_current = GPU_MIG_DISABLED;
		gpu->numa_node = (int32_t)(i / 4);
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%08x", i);
		memcpy(fixture->snapshot->gpu[i].uuid, gpu->uuid, sizeof("GPU-00000000"));
		for (uint32_t j = 0; j < count; j++)
			inventory->level[i][j] = i == j		  ? GPU_LEVEL_INTERNAL
						 : i / 2 == j / 2 ? GPU_LEVEL_SINGLE
						 : i / 4 == j / 4 ? GPU_LEVEL_NODE
								  : GPU_LEVEL_SYSTEM;
	}
}

void split(uint32_t gpu, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct mig_device *mig = &fixture->migs[fixture->inventory.mig_count];
		*mig = (struct mig_device){.parent = gpu, .index = i, .gi = i + 1};
		(void)snprintf(mig->uuid, sizeof(mig->uuid), "MIG-%08x",
			       fixture->inventory.mig_count++);
		(void)snprintf(mig->profile, sizeof(mig->profile), "1g.5gb");
	}
	fixture->gpus[gpu].mig_current = GPU_MIG_ENABLED;
}

void computes(uint32_t gpu, uint32_t pid)
{
	struct snapshot_gpu *now = &fixture->snapshot->gpu[gpu];
	now->process[now->process_count++] =
	    (struct snapshot_process){.pid = pid,
				      .type = SNAPSHOT_PROCESS_COMPUTE,
				      .gi = SNAPSHOT_WHOLE_GPU,
				      .ci = SNAPSHOT_WHOLE_GPU};
}

/* Processes below 100 are those of our jobs. */
const char *stranger(uint32_t pid, void *context)
{
	assert_ptr_equal(context, fixture);
	return pid < 100 ? NULL : pid == 4711 ? "bob" : "";
}

void configure_for(const char *text, bool has_kubelet)
{
	struct config *config = NULL;
	const struct policy_surroundings surroundings = {.has_kubelet = has_kubelet};
	fixture->policy = policy_free(fixture->policy);
	struct err err = {0};
	int rc = config_parse(text, strlen(text), "c.yaml", NULL, false, &config, &err);
	if (rc == 0)
		rc =
		    policy_make(&fixture->inventory, config, &surroundings, &fixture->policy, &err);
	(void)config_free(config);
	if (rc < 0)
		fail_msg("%s", err.text);
}

/* Makes the machine anew, as the queue does when something has changed. */
void look(void)
{
	struct schedule_machine before = fixture->machine;
	assert_int_equal(schedule_machine_make(&fixture->inventory, fixture->snapshot,
					       fixture->policy, stranger, fixture,
					       &fixture->machine, NULL),
			 0);
	schedule_machine_inherit(&fixture->machine, &before);
	schedule_machine_done(&before);
}

void configure(const char *text)
{
	configure_for(text, false);
	look();
}

void runs(uid_t uid, int gpu, uint64_t left_ns, uint32_t cpu_milli, uint64_t mem_bytes)
{
	size_t place = fixture->running_count++;
	fixture->shows_turns = true;
	assert_true(place < TEST_RUNNING);
	struct launch_grant *grant = &fixture->running_grants[place];
	fixture->running[place] = (struct schedule_running){.uid = uid,
							    .cpu_milli = cpu_milli,
							    .mem_bytes = mem_bytes,
							    .left_ns = left_ns,
							    .grants = grant,
							    .grant_count = gpu < 0 ? 0 : 1};
	if (gpu < 0)
		return;
	const struct schedule_device *device =
	    schedule_machine_find(&fixture->machine, fixture->gpus[gpu].uuid);
	assert_non_null(device);
	grant->slot_count = device->slot_count;
	memcpy(grant->uuid, device->unit.uuid, sizeof(grant->uuid));
	for (uint32_t slot = 0; slot < grant->slot_count; slot++)
		launch_grant_add(grant, slot);
	schedule_machine_take(&fixture->machine, grant);
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fixture->out_length +=
	    (size_t)vsnprintf(fixture->out + fixture->out_length,
			      sizeof(fixture->out) - fixture->out_length, format, arguments);
	va_end(arguments);
	assert_true(fixture->out_length < sizeof(fixture->out));
}

/* "1: GPU 0, GPU 1 [0 2]" */
static void decide(const struct job *job, struct schedule_decision *decision, void *context)
{
	assert_ptr_equal(context, fixture);
	say("%" PRIu64 ":", job->id);
	for (size_t i = 0; i < decision->grant_count; i++) {
		const struct launch_grant *grant = &decision->grants[i];
		say("%s%s", i ? ", " : " ", grant->label);
		uint32_t granted = 0;
		for (uint32_t slot = 0; slot < LAUNCH_SLOTS_MAX; slot++)
			granted += grant->slots[slot / 64] >> (slot % 64) & 1;
		for (uint32_t slot = 0; granted < grant->slot_count && slot < 64; slot++)
			if (grant->slots[0] >> slot & 1)
				say(" [%u]", slot);
	}
	if (decision->start && decision->grant_count == 0)
		say(" starts");
	if (!decision->start) {
		assert_int_equal(decision->grant_count, 0);
		if (decision->has_turn && fixture->shows_turns)
			say(" [turn]");
		if (decision->pledged_ns > 0 && fixture->shows_pledges)
			say(" [pledged at %" PRIu64 "]", decision->pledged_ns);
		if (decision->place > 0 && fixture->shows_places)
			say(decision->opens_ns == SCHEDULE_NEVER ? " [#%" PRIu64 "]"
								 : " [#%" PRIu64 " in %" PRIu64 "]",
			    decision->place, decision->opens_ns);
		say(" %s(%s)", job_reason_to_string(decision->reason), decision->text);
	} else {
		assert_string_equal(decision->text, "");
	}
	say("\n");
}

static const char *who(const char *uuid, void *context)
{
	for (uint32_t i = 0; i < TEST_GPUS; i++)
		if (strcmp(fixture->gpus[i].uuid, uuid) == 0)
			return fixture->holder[i];
	return NULL;
}

int pass(const struct job *jobs, size_t count)
{
	struct job scored[64];
	const struct job *list[64];
	assert_true(count <= 64);
	/* As the queue does, but that all came at the same moment. */
	for (size_t i = 0; i < count; i++) {
		scored[i] = jobs[i];
		scored[i].own_score += (int64_t)jobs[i].wants.priority *
				       fixture->rules.weights.priority * SCHEDULE_SCORE_POINT;
		list[i] = &scored[i];
	}
	fixture->out_length = 0;
	fixture->out[0] = '\0';
	const struct schedule_input input = {.jobs = list,
					     .count = count,
					     .now_ns = fixture->now_ns,
					     .running = fixture->running,
					     .running_count = fixture->running_count,
					     .who = who,
					     .decide = decide,
					     .context = fixture};
	fixture->machine.rules = &fixture->rules;
	return schedule_pass(&fixture->machine, &input, &fixture->err);
}
