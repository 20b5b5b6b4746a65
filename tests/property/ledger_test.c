/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random takes, transfers, ends, changes of the machine and restarts against a list of leases and
 * the rules of ledger.h, word by word: no unit has two holders, amounts never exceed what a device
 * has, a GPU and its MIG devices and two doors exclude each other, and a ledger that its doors
 * enter anew is the one before.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tests/unit/units/brute.h"
#include "units/ledger.h"

enum {
	ROUNDS = 300,
	STEPS = 200,
	GPUS = 3,
	MIGS = 2, /* of each GPU */
	DEVICES = GPUS * (1 + MIGS),
	SLOTS = 3,
	HOLDERS = 5,
	LEASES_MAX = DEVICES * (SLOTS + HOLDERS),
	NO_SLOT = -1,
};

/* Which doors and holders belong together does not matter. */
struct fact {
	int device, slot, holder;
	enum policy_door door;
	uint64_t amount[LEDGER_AMOUNTS];
};

struct world {
	struct ledger *ledger;
	struct fact facts[LEASES_MAX];
	size_t count;
	bool is_there[DEVICES];
	uint64_t capacity[DEVICES][LEDGER_AMOUNTS];
};

static uint64_t seed;
static unsigned long round_now;

static void fail(const char *what)
{
	fprintf(stderr, "round %lu (SLUICE_TEST_SEED=%" PRIu64 "): %s\n", round_now, seed, what);
	abort();
}

static void expect(bool is_so, const char *what)
{
	if (!is_so)
		fail(what);
}

/* --- names ------------------------------------------------------------------------------------ */

/* Of MIG devices the GPU, else itself. */
static int gpu_of(int device)
{
	return device < GPUS ? device : (device - GPUS) / MIGS;
}

static const char *device_name(int device)
{
	static char names[DEVICES][16];
	(void)snprintf(names[device], sizeof(names[device]), "%s-%d", device < GPUS ? "GPU" : "MIG",
		       device);
	return names[device];
}

struct names {
	char unit[32], holder[32];
};

static struct ledger_lease lease_of(const struct fact *fact, struct names *names)
{
	(void)snprintf(names->unit, sizeof(names->unit), "%s", device_name(fact->device));
	if (fact->slot != NO_SLOT)
		(void)snprintf(names->unit, sizeof(names->unit), "%s::%d",
			       device_name(fact->device), fact->slot);
	(void)snprintf(names->holder, sizeof(names->holder), "holder %d", fact->holder);

	struct ledger_lease lease = {.unit = names->unit,
				     .resource = "nvidia.com/gpu",
				     .holder = names->holder,
				     .door = fact->door,
				     .since_unix_ns = fact->device};
	memcpy(lease.amount, fact->amount, sizeof(lease.amount));
	return lease;
}

/* --- the rules -------------------------------------------------------------------------------- */

static bool is_part(const struct fact *fact)
{
	return fact->slot == NO_SLOT && (fact->amount[0] > 0 || fact->amount[1] > 0);
}

static bool is_excluded(const struct fact *a, const struct fact *b)
{
	if (a->device != b->device)
		return gpu_of(a->device) == gpu_of(b->device) &&
		       (a->device < GPUS || b->device < GPUS);
	if (a->door != b->door)
		return true;
	if (a->slot != NO_SLOT && b->slot != NO_SLOT)
		return a->slot == b->slot;
	return !is_part(a) || !is_part(b) || a->holder == b->holder;
}

/* `except`: number of the fact that ends; else `count`. */
static int rule_take(const struct world *world, const struct fact *fact, size_t except)
{
	for (size_t i = 0; i < world->count; i++)
		if (i != except && is_excluded(&world->facts[i], fact))
			return -EBUSY;

	for (int a = 0; a < LEDGER_AMOUNTS; a++) {
		uint64_t left = world->capacity[fact->device][a];
		if (fact->amount[a] > left)
			return -ERANGE;

		for (size_t i = 0; i < world->count && fact->amount[a] > 0; i++) {
			const struct fact *other = &world->facts[i];
			if (i == except || other->device != fact->device)
				continue;
			if (other->amount[a] > left)
				return -EBUSY;
			left -= other->amount[a];
		}

		if (fact->amount[a] > left)
			return -EBUSY;
	}

	return 0;
}

/* --- what must always hold -------------------------------------------------------------------- */

static void check_lease(const struct world *world, const struct fact *fact)
{
	struct names names;
	const struct ledger_lease wanted = lease_of(fact, &names);

	for (size_t i = 0; i < ledger_count(world->ledger); i++) {
		const struct ledger_lease *lease = ledger_at(world->ledger, i);
		if (strcmp(lease->unit, wanted.unit) == 0 &&
		    strcmp(lease->holder, wanted.holder) == 0 && lease->door == wanted.door &&
		    lease->since_unix_ns == wanted.since_unix_ns &&
		    memcmp(lease->amount, wanted.amount, sizeof(wanted.amount)) == 0)
			return;
	}

	fail("a lease is not there");
}

static bool is_obstacle(const struct fact *fact, int device, enum policy_door door,
			enum ledger_form form)
{
	bool is_whole = fact->slot == NO_SLOT && !is_part(fact);

	if (fact->device != device)
		return gpu_of(fact->device) == gpu_of(device) &&
		       (fact->device < GPUS || device < GPUS);
	return fact->door != door || (form == LEDGER_WHOLE && !is_whole) ||
	       (form == LEDGER_SHARE && is_whole);
}

static void check_obstacles(const struct world *world, int device)
{
	for (int door = 0; door < POLICY_DOOR_NONE; door++) {
		for (int form = LEDGER_ANY; form <= LEDGER_SHARE; form++) {
			bool any = false;
			for (size_t i = 0; i < world->count; i++)
				any |= is_obstacle(&world->facts[i], device, (enum policy_door)door,
						   (enum ledger_form)form);

			expect(any == (ledger_obstacle(world->ledger, device_name(device),
						       (enum policy_door)door,
						       (enum ledger_form)form) != NULL),
			       "an obstacle is not told, or there is none");
		}
	}
}

static void check(const struct world *world)
{
	expect(ledger_count(world->ledger) == world->count, "other leases than were taken");

	for (size_t i = 0; i < world->count; i++) {
		check_lease(world, &world->facts[i]);
		for (size_t k = 0; k < i; k++)
			expect(!is_excluded(&world->facts[i], &world->facts[k]),
			       "two hold what excludes each other");
	}

	for (int device = 0; device < DEVICES; device++) {
		for (int a = 0; a < LEDGER_AMOUNTS; a++) {
			uint64_t held = 0;
			for (size_t i = 0; i < world->count; i++)
				if (world->facts[i].device == device)
					expect(!__builtin_add_overflow(
						   held, world->facts[i].amount[a], &held),
					       "a sum overflows");

			expect(held == ledger_held(world->ledger, device_name(device),
						   (enum ledger_amount)a),
			       "another sum is held");
			expect(held <= world->capacity[device][a], "more is held than there is");
		}

		/* Of which GPU a device is that is gone nobody knows. */
		if (world->is_there[device])
			check_obstacles(world, device);
	}
}

/* --- what happens ----------------------------------------------------------------------------- */

/* Some devices go and come; what one has does not change while somebody has amounts of it. */
static void describe(struct world *world)
{
	struct ledger_device devices[DEVICES];
	size_t count = 0;

	for (int i = 0; i < DEVICES; i++) {
		if (!world->is_there[i])
			continue;

		devices[count] = (struct ledger_device){
		    .uuid = device_name(i), .gpu = i < GPUS ? NULL : device_name(gpu_of(i))};
		memcpy(devices[count++].capacity, world->capacity[i], sizeof(world->capacity[i]));
	}

	expect(ledger_describe(world->ledger, devices, count, NULL) == 0, "it is not described");
}

/* Few values, so that they fit now and then; and such as overflow. */
static uint64_t random_amount(void)
{
	static const uint64_t values[] = {0, 0, 1, 2, 5, UINT64_MAX - 1, UINT64_MAX};
	return values[random_below(array_length(values))];
}

static bool is_anybodys(const struct world *world, int device)
{
	for (size_t i = 0; i < world->count; i++)
		if (world->facts[i].device == device)
			return true;
	return false;
}

static void step_machine(struct world *world)
{
	for (int i = 0; i < DEVICES; i++) {
		bool was_there = world->is_there[i];

		world->is_there[i] = random_below(4) > 0;
		for (int a = 0; a < LEDGER_AMOUNTS; a++) {
			uint64_t capacity = random_below(3) == 0 ? UINT64_MAX : random_below(8);
			if (!is_anybodys(world, i) && (world->is_there[i] || was_there))
				world->capacity[i][a] = world->is_there[i] ? capacity : 0;
		}
	}

	describe(world);
}

static struct fact random_fact(const struct world *world)
{
	struct fact fact = {.holder = (int)random_below(HOLDERS),
			    .slot = random_below(2) ? NO_SLOT : (int)random_below(SLOTS),
			    .door = (enum policy_door)random_below(POLICY_DOOR_NONE)};

	do
		fact.device = (int)random_below(DEVICES);
	while (!world->is_there[fact.device] && random_below(100) > 0);

	if (random_below(2))
		for (int a = 0; a < LEDGER_AMOUNTS; a++)
			fact.amount[a] = random_amount();

	return fact;
}

static void step_take(struct world *world)
{
	struct fact fact = random_fact(world);
	struct names names;
	const struct ledger_lease lease = lease_of(&fact, &names);

	if (!world->is_there[fact.device] && !is_anybodys(world, fact.device))
		return; /* nobody says of which GPU it is */

	int expected = rule_take(world, &fact, world->count);
	int rc = ledger_take(world->ledger, &lease, NULL);

	expect(rc == expected || (rc < 0 && expected < 0), "it is taken, and must not be; or not");
	if (rc == 0)
		world->facts[world->count++] = fact;
}

static void step_take_all(struct world *world)
{
	struct fact facts[3];
	struct names names[array_length(facts)];
	struct ledger_lease leases[array_length(facts)];
	size_t before = world->count, i = 0;

	for (; i < array_length(facts); i++) {
		facts[i] = random_fact(world);
		if (!world->is_there[facts[i].device])
			return;
		leases[i] = lease_of(&facts[i], &names[i]);
	}

	for (i = 0; i < array_length(facts); i++) {
		if (rule_take(world, &facts[i], world->count) < 0)
			break;
		world->facts[world->count++] = facts[i];
	}

	bool is_taken = ledger_take_all(world->ledger, leases, array_length(facts), NULL) == 0;

	expect(is_taken == (i == array_length(facts)), "all are taken, and must not be; or not");
	if (!is_taken)
		world->count = before;
}

static void step_transfer(struct world *world)
{
	if (world->count == 0)
		return;

	size_t at = random_below((uint32_t)world->count);
	struct fact fact = world->facts[at];
	struct names names, before;
	const struct ledger_lease held = lease_of(&world->facts[at], &before);

	fact.holder = (int)random_below(HOLDERS);
	if (random_below(4) == 0)
		fact.door = POLICY_DOOR_QUEUE;
	for (int a = 0; a < LEDGER_AMOUNTS && random_below(3) == 0; a++)
		fact.amount[a] = random_amount();

	const struct ledger_lease lease = lease_of(&fact, &names);
	int expected = rule_take(world, &fact, at);
	int rc = ledger_transfer(world->ledger, held.holder, &lease, NULL);

	expect(rc == expected || (rc < 0 && expected < 0), "it passes on, and must not; or not");
	if (rc == 0)
		world->facts[at] = fact;
}

static void step_release(struct world *world)
{
	if (world->count == 0)
		return;

	size_t at = random_below((uint32_t)world->count);
	struct names names;
	const struct ledger_lease lease = lease_of(&world->facts[at], &names);

	expect(ledger_release(world->ledger, lease.unit, "nobody", NULL) == -EPERM,
	       "somebody else ends a lease");
	expect(ledger_release(world->ledger, lease.unit, lease.holder, NULL) == 0,
	       "a lease does not end");
	world->facts[at] = world->facts[--world->count];
}

static void step_release_holder(struct world *world)
{
	int holder = (int)random_below(HOLDERS);
	char name[32];
	size_t kept = 0, before = world->count;

	(void)snprintf(name, sizeof(name), "holder %d", holder);
	for (size_t i = 0; i < before; i++)
		if (world->facts[i].holder != holder)
			world->facts[kept++] = world->facts[i];

	world->count = kept;
	expect(ledger_release_holder(world->ledger, name) == before - kept,
	       "not all leases of a holder end");
}

/* What the kubelet's containers have comes from the file, as far as it is no amount; all else is
 * entered by its door, in any order, before the machine is known. */
static void step_restart(struct world *world)
{
	struct ledger *again = NULL;
	char *text = NULL;
	size_t length = 0;

	expect(ledger_format(world->ledger, POLICY_DOOR_KUBELET, &text, &length, NULL) == 0 &&
		   ledger_parse(text, length, "file", &again, NULL) == 0,
	       "the file cannot be read");
	free(text);

	world->ledger = ledger_free(world->ledger);
	world->ledger = again;

	/* Of devices that are gone nobody knows the GPU and what it has. */
	for (int i = 0; i < DEVICES; i++)
		world->is_there[i] |= is_anybodys(world, i);

	if (random_below(2))
		describe(world);

	for (size_t i = 0; i < ledger_count(world->ledger); i++)
		expect(ledger_at(world->ledger, i)->door == POLICY_DOOR_KUBELET, "not its door's");

	size_t offset = world->count > 0 ? random_below((uint32_t)world->count) : 0;

	for (size_t i = 0; i < world->count; i++) {
		const struct fact *fact = &world->facts[(i + offset) % world->count];
		struct names names;
		const struct ledger_lease lease = lease_of(fact, &names);
		bool has_amount = fact->amount[0] > 0 || fact->amount[1] > 0;

		if (has_amount) /* how much there is must be known */
			describe(world);
		if (has_amount || fact->door != POLICY_DOOR_KUBELET)
			expect(ledger_take(world->ledger, &lease, NULL) == 0,
			       "what is held cannot be entered again");
	}

	describe(world);
}

static void run(void)
{
	static const struct {
		unsigned weight;
		void (*step)(struct world *world);
	} steps[] = {{12, step_take},	{3, step_take_all},	  {4, step_transfer},
		     {6, step_release}, {1, step_release_holder}, {2, step_machine},
		     {1, step_restart}};
	struct world world = {.ledger = ledger_new()};

	expect(world.ledger, "no memory");
	step_machine(&world);

	for (int i = 0; i < STEPS; i++) {
		uint32_t drawn = random_below(29);
		size_t s = 0;
		for (; drawn >= steps[s].weight; s++)
			drawn -= steps[s].weight;

		steps[s].step(&world);
		check(&world);
	}

	world.ledger = ledger_free(world.ledger);
}

int main(void)
{
	const char *seed_text = getenv("SLUICE_TEST_SEED"), *rounds = getenv("SLUICE_TEST_ROUNDS");
	unsigned long count = rounds ? strtoul(rounds, NULL, 10) : ROUNDS;

	seed = seed_text ? strtoull(seed_text, NULL, 10) : 42;
	printf("seed %" PRIu64 "\n", seed);
	random_seed(seed);

	for (round_now = 0; round_now < count; round_now++)
		run();
	return 0;
}
