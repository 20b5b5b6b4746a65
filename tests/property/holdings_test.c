/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random holders, processes and devices over time: what the holders of a device were given is never
 * more than the device was busy, no counter decreases while its holder is here, and no more are
 * here than may be.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/usage/holdings.h"
#include "tests/unit/units/brute.h"

enum { ROUNDS = 300, STEPS = 200, OWNERS = 6, DEVICES = 3, USES = 12, LIMIT = 12 };

static uint64_t seed;

static void fail(const char *what, unsigned long round)
{
	fprintf(stderr, "round %lu (SLUICE_TEST_SEED=%" PRIu64 "): %s\n", round, seed, what);
	abort();
}

static uint64_t random_long(uint64_t limit)
{
	return ((uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX)) % limit;
}

struct world {
	struct holdings *holdings;
	struct view *view;
	uint64_t before_ns[OWNERS][DEVICES]; /* each holder's counter */
	bool was_here[OWNERS][DEVICES];
	struct holdings_purse purse[DEVICES];
	uint64_t busy_ns[DEVICES], energy_mj[DEVICES]; /* of each device since the beginning ... */
	uint64_t given_ns[DEVICES], given_mj[DEVICES]; /* ... and what was given of it */
};

static void step_device(struct world *world, uint32_t d, unsigned long round)
{
	struct holdings_use uses[USES];
	struct holding *here[OWNERS] = {NULL};
	char owner[16], device[16];
	size_t count = 0;
	uint64_t sum_ns = 0, before_ns = 0, sum_mj = 0, before_mj = 0;
	(void)snprintf(device, sizeof(device), "GPU-%u", d);
	for (unsigned o = 0; o < OWNERS; o++) {
		(void)snprintf(owner, sizeof(owner), "o%u", o);
		if (random_below(3) == 0)
			continue;
		struct holding *holding = here[o] = holdings_touch(world->holdings, owner, device);
		if (!holding)
			continue;
		holding->view.gpu = d;
		if (world->was_here[o][d] && holding->view.busy_ns < world->before_ns[o][d])
			fail("a counter went back", round);
		before_ns += holding->view.busy_ns;
		before_mj +=
		    holding->view.energy_mj == SNAPSHOT_U64_ABSENT ? 0 : holding->view.energy_mj;
	}
	for (unsigned wanted = random_below(USES + 1); count < wanted; count++)
		uses[count] = (struct holdings_use){here[random_below(OWNERS)],
						    random_below(4) == 0 ? SNAPSHOT_U32_ABSENT
									 : random_below(101)};
	struct holdings_device told = {.elapsed_ns = random_below(3) == 0 ? UINT64_C(60000000000)
									  : random_below(2000000)};
	told.busy_ns =
	    random_below(5) == 0 ? SNAPSHOT_U64_ABSENT : random_long(told.elapsed_ns + 1000);
	told.energy_mj = random_below(5) == 0 ? SNAPSHOT_U64_ABSENT : random_below(1000000);
	(void)holdings_charge(&world->purse[d], &told, uses, count);
	uint64_t limit_ns = told.busy_ns == SNAPSHOT_U64_ABSENT ? told.elapsed_ns : told.busy_ns;
	for (unsigned o = 0; o < OWNERS; o++) {
		world->was_here[o][d] = here[o] != NULL;
		if (!here[o])
			continue;
		world->before_ns[o][d] = here[o]->view.busy_ns;
		sum_ns += here[o]->view.busy_ns;
		sum_mj +=
		    here[o]->view.energy_mj == SNAPSHOT_U64_ABSENT ? 0 : here[o]->view.energy_mj;
	}
	if (sum_ns < before_ns || sum_mj < before_mj)
		fail("a counter went back", round);
	world->busy_ns[d] += limit_ns;
	world->given_ns[d] += sum_ns - before_ns;
	world->energy_mj[d] += told.energy_mj == SNAPSHOT_U64_ABSENT ? 0 : told.energy_mj;
	world->given_mj[d] += sum_mj - before_mj;
	if (world->given_ns[d] > world->busy_ns[d])
		fail("more was given than the device was busy", round);
	if (world->given_mj[d] > world->energy_mj[d])
		fail("more energy was given than the device took", round);
	if (sum_ns - before_ns > limit_ns + HOLDINGS_WINDOW_NS)
		fail("more was kept than may be", round);
}

static void live(struct world *world, unsigned long round)
{
	for (unsigned step = 0; step < STEPS; step++) {
		uint32_t max = 1 + random_below(LIMIT);
		holdings_begin(world->holdings, max);
		for (uint32_t d = 0; d < DEVICES; d++)
			step_device(world, d, round);
		holdings_end(world->holdings, (step + 1) * HOLDINGS_DORMANT_NS / 20);
		holdings_emit(world->holdings, world->view);
		if (world->view->holder_count > max)
			fail("more holders than may be", round);
		if (holdings_count(world->holdings) > max + HOLDINGS_DORMANT_MAX)
			fail("more accounts than may be", round);
		for (uint32_t i = 1; i < world->view->holder_count; i++)
			if (world->view->holder[i - 1].gpu > world->view->holder[i].gpu)
				fail("holders are out of order", round);
	}
}

int main(void)
{
	const char *seed_text = getenv("SLUICE_TEST_SEED"),
		   *rounds_text = getenv("SLUICE_TEST_ROUNDS");
	unsigned long rounds = rounds_text ? strtoul(rounds_text, NULL, 10) : ROUNDS;
	seed = seed_text ? strtoull(seed_text, NULL, 10) : 20261122;
	random_seed(seed);
	printf("seed %" PRIu64 ", %lu rounds\n", seed, rounds);
	for (unsigned long round = 0; round < rounds; round++) {
		struct world world = {.view = calloc(1, sizeof(*world.view))};
		if (!world.view || holdings_new(&world.holdings, NULL) < 0)
			abort();
		live(&world, round);
		world.holdings = holdings_free(world.holdings);
		free(world.view);
	}
	return 0;
}
