/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random machines and configurations: every device ends up in exactly one resource with its number
 * of replicas, no unit exists twice, and a GPU more changes nothing for those that were there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "policy/policy.h"
#include "tests/unit/units/brute.h"

enum property_limits {
	ROUNDS = 2000,
	GPUS_MAX = 8,
	MIGS_MAX = 28,
	TEXT_SIZE = 4096,
};

static char text[TEXT_SIZE];

static void fail(const char *what)
{
	(void)fprintf(stderr, "%s with\n%s", what, text);
	exit(1);
}

static void machine_make(struct inventory *inventory, struct gpu *gpus, struct mig_device *migs)
{
	static const char *const names[] = {"NVIDIA A100-SXM4-40GB", "Tesla T4", "NVIDIA H100"};
	static const char *const profiles[] = {"1g.5gb", "2g.10gb", "3g.20gb", "1g.5gb+me"};
	memset(inventory, 0, sizeof(*inventory));
	memset(gpus, 0, GPUS_MAX * sizeof(*gpus));
	memset(migs, 0, MIGS_MAX * sizeof(*migs));
	inventory->gpus = gpus;
	inventory->migs = migs;
	inventory->gpu_count = 1 + random_below(GPUS_MAX - 1);
	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		gpus[i].index = i;
		(void)snprintf(gpus[i].uuid, GPU_UUID_MAX, "GPU-%u", i);
		(void)snprintf(gpus[i].name, GPU_NAME_MAX, "%s", names[random_below(3)]);
		gpus[i].numa_node = (int32_t)random_below(2);
		uint32_t count = random_below(2) ? random_below(4) : 0;
		gpus[i].mig_current = count > 0 ? GPU_MIG_ENABLED : GPU_MIG_DISABLED;
		for (uint32_t k = 0; k < count; k++) {
			struct mig_device *mig = &migs[inventory->mig_count++];
			mig->parent = i;
			mig->index = k;
			(void)snprintf(mig->uuid, GPU_UUID_MAX, "MIG-%u-%u", i, k);
			(void)snprintf(mig->profile, GPU_PROFILE_MAX, "%s",
				       profiles[random_below(4)]);
		}
	}
}

/* Returns where to go on in the text. */
static size_t config_entry(size_t length)
{
	static const char *const resources[] = {"gpu", "t4", "mig-1g.5gb", "mig-2g.10gb"};
	length +=
	    (size_t)snprintf(text + length, TEXT_SIZE - length, "    - {name: %s, replicas: %u",
			     resources[random_below(4)], 2 + random_below(6));
	if (random_below(3) == 0)
		length += (size_t)snprintf(text + length, TEXT_SIZE - length, ", rename: small");
	switch (random_below(4)) {
	case 0:
		length +=
		    (size_t)snprintf(text + length, TEXT_SIZE - length, ", devices: [%u, GPU-%u]",
				     random_below(GPUS_MAX), random_below(GPUS_MAX));
		break;
	case 1:
		length +=
		    (size_t)snprintf(text + length, TEXT_SIZE - length, ", devices: [\"%u:%u\"]",
				     random_below(GPUS_MAX), random_below(4));
		break;
	default:
		break;
	}
	return length + (size_t)snprintf(text + length, TEXT_SIZE - length, "}\n");
}

static void config_make(void)
{
	static const char *const strategies[] = {"none", "mixed", "mixed", "single"};
	size_t length = (size_t)snprintf(
	    text, TEXT_SIZE, "flags: {migStrategy: %s}\n%s", strategies[random_below(4)],
	    random_below(2) ? "resources: {gpus: [{pattern: \"*T4*\", name: t4}]}\n" : "");
	if (random_below(3) == 0)
		length += (size_t)snprintf(text + length, TEXT_SIZE - length,
					   "sluice: {devices: {exclude: [%u, \"numa:1\"]}}\n",
					   random_below(GPUS_MAX));
	if (random_below(4) > 0) {
		length += (size_t)snprintf(
		    text + length, TEXT_SIZE - length,
		    "sharing:\n  timeSlicing:\n    renameByDefault: %s\n    resources:\n",
		    random_below(2) ? "true" : "false");
		for (uint32_t entries = 1 + random_below(3); entries > 0; entries--)
			length = config_entry(length);
	}
}

static struct policy *make(const struct inventory *inventory, const struct config *config)
{
	static const struct policy_surroundings surroundings = {.has_kubelet = true};
	struct policy *policy = NULL;
	struct err err = {0};
	if (policy_make(inventory, config, &surroundings, &policy, &err) < 0)
		fail(err.text);
	return policy;
}

static void check_units(const struct policy *policy)
{
	for (uint32_t i = 0; i < policy->unit_count; i++) {
		const struct policy_unit *unit = &policy->units[i];
		uint32_t siblings = 0;
		for (uint32_t k = 0; k < policy->unit_count; k++) {
			const struct policy_unit *other = &policy->units[k];
			if (k != i && strcmp(unit->id, other->id) == 0)
				fail("the same unit twice");
			if (unit->gpu != other->gpu || unit->mig != other->mig)
				continue;
			siblings++;
			if (unit->replicas != other->replicas)
				fail("a device with two numbers of replicas");
		}
		if (siblings != unit->replicas || unit->replica >= unit->replicas)
			fail("not all replicas, or too many");
	}
	uint32_t next = 0;
	for (uint32_t r = 0; r < policy->resource_count; r++) {
		const struct policy_resource *resource = &policy->resources[r];
		if (resource->first != next || resource->count == 0)
			fail("resources that do not follow each other");
		next += resource->count;
		for (uint32_t k = 0; k < r; k++) {
			if (strcmp(policy->resources[k].name, resource->name) == 0)
				fail("a resource twice");
		}
	}
	if (next != policy->unit_count)
		fail("units without a resource");
}

/* Every unit of `before` is in `after`, in a resource of the same name. */
static void check_kept(const struct policy *before, const struct policy *after)
{
	for (uint32_t r = 0; r < before->resource_count; r++) {
		const struct policy_resource *old = &before->resources[r];
		const struct policy_resource *now = policy_find(after, old->name, old->door);
		for (uint32_t i = 0; i < old->count; i++) {
			const char *id = before->units[old->first + i].id;
			bool found = false;
			for (uint32_t k = 0; now && k < now->count && !found; k++)
				found = strcmp(after->units[now->first + k].id, id) == 0;
			if (!found)
				fail("a unit that a new GPU drove away");
		}
	}
}

static void round_one(void)
{
	static struct gpu gpus[GPUS_MAX];
	static struct mig_device migs[MIGS_MAX];
	static struct inventory inventory;
	struct config *config = NULL;
	struct err err = {0};
	machine_make(&inventory, gpus, migs);
	config_make();
	if (config_parse(text, strlen(text), "c.yaml", NULL, true, &config, &err) < 0)
		fail(err.text);
	struct policy *policy = make(&inventory, config);
	struct policy *again = make(&inventory, config);
	check_units(policy);
	if (memcmp(policy->units, again->units, policy->unit_count * sizeof(*policy->units)) != 0)
		fail("another answer to the same question");

	uint32_t last = inventory.gpu_count++;
	gpus[last] = gpus[0];
	gpus[last].index = last;
	(void)snprintf(gpus[last].uuid, GPU_UUID_MAX, "GPU-%u", last);
	gpus[last].mig_current = GPU_MIG_DISABLED;
	struct policy *larger = make(&inventory, config);
	check_units(larger);
	/* `single` refuses a GPU without MIG beside those with it: then nothing is offered. */
	if (larger->problem[0] == '\0')
		check_kept(policy, larger);
	(void)policy_free(policy);
	(void)policy_free(again);
	(void)policy_free(larger);
	(void)config_free(config);
}

int main(void)
{
	const char *seed_text = getenv("SLUICE_TEST_SEED"),
		   *rounds_text = getenv("SLUICE_TEST_ROUNDS");
	uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 20261120;
	unsigned long rounds = rounds_text ? strtoul(rounds_text, NULL, 10) : ROUNDS;
	random_seed(seed);
	printf("seed %" PRIu64 ", %lu rounds\n", seed, rounds);
	for (unsigned long i = 0; i < rounds; i++)
		round_one();
	printf("%lu random machines and configurations: every device once\n", rounds);
	return 0;
}
