/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator on random machines of 10 to 12 GPUs, against every partition tried. Of 13 to 16
 * GPUs, where that takes too long: what must hold of any answer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/units/brute.h"
#include "units/allocator.h"

enum property_limits {
	ROUNDS = 300,
	LARGE_MIN = 10,
};

static void fail(const char *what, uint32_t available, uint32_t must, uint32_t size, uint32_t got,
		 uint32_t wanted)
{
	(void)fprintf(stderr, "%s: available %#x must %#x size %u: got %#x, wanted %#x\n", what,
		      available, must, size, got, wanted);
	exit(1);
}

static uint32_t ask(struct allocator *allocator, uint32_t available, uint32_t must, uint32_t size)
{
	struct allocator_unit units[32], must_units[32], out[32];
	struct allocator_question question = {.available = units, .must = must_units, .size = size};
	for (uint32_t gpu = 0; gpu < 32; gpu++) {
		if (available >> gpu & 1)
			units[question.available_count++] = (struct allocator_unit){.gpu = gpu};
		if (must >> gpu & 1)
			must_units[question.must_count++] = (struct allocator_unit){.gpu = gpu};
	}
	int count = allocator_prefer(allocator, &question, out, NULL);
	uint32_t set = 0;
	for (int i = 0; i < count; i++)
		set |= 1u << out[i].gpu;
	return set;
}

/* A few of the bits of `from`. */
static uint32_t random_subset(uint32_t from, uint32_t most)
{
	uint32_t subset = 0;
	for (uint32_t tries = random_below(most + 1); tries > 0; tries--)
		subset |= from & (1u << random_below(16));
	return subset;
}

static void round_exact(void)
{
	struct allocator_topology shape;
	uint32_t gpus = LARGE_MIN + random_below(BRUTE_MAX - LARGE_MIN + 1);
	shape_make(&shape, gpus, (enum shape_kind)random_below(SHAPE_KINDS));
	uint32_t available = (1u << gpus) - 1;
	available &= ~random_subset(available, 2);
	uint32_t must = random_subset(available, 3);
	uint32_t count = (uint32_t)__builtin_popcount(available);
	uint32_t least = (uint32_t)__builtin_popcount(must) + 1;
	if (least >= count)
		return;
	uint32_t size = least + random_below(count - least);
	struct allocator *allocator = NULL;
	if (allocator_new(&shape, &allocator, NULL) < 0)
		exit(1);
	uint32_t got = ask(allocator, available, must, size);
	uint32_t wanted = brute_choose(&shape, available, must, size);
	if (got != wanted)
		fail("not the optimum", available, must, size, got, wanted);
	(void)allocator_free(allocator);
}

/* Renaming the GPUs must not change how good the answer is. */
static void round_renamed(void)
{
	struct allocator_topology shape, renamed;
	uint32_t name[16];
	shape_make(&shape, 16, (enum shape_kind)random_below(SHAPE_KINDS));
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t other = random_below(i + 1);
		name[i] = name[other];
		name[other] = i;
	}
	shape_make(&renamed, 16, SHAPE_UNIFORM);
	uint32_t must = 0, must_renamed = 0;
	uint32_t wish = random_subset(0xffff, 2);
	for (uint32_t a = 0; a < 16; a++) {
		renamed.numa[name[a]] = shape.numa[a];
		must |= wish & (1u << a);
		must_renamed |= (wish >> a & 1) << name[a];
		for (uint32_t b = 0; b < a; b++)
			shape_set(&renamed, name[a], name[b], shape.weight[a][b]);
	}
	uint32_t size = 1 + (uint32_t)__builtin_popcount(must) + random_below(12);
	struct allocator *one = NULL, *two = NULL;
	if (allocator_new(&shape, &one, NULL) < 0 || allocator_new(&renamed, &two, NULL) < 0)
		exit(1);
	uint32_t first = ask(one, 0xffff, must, size);
	uint32_t second = ask(two, 0xffff, must_renamed, size);
	int32_t weight[2] = {0, 0};
	for (uint32_t a = 0; a < 16; a++) {
		for (uint32_t b = 0; b < a; b++) {
			if ((first >> a & 1) && (first >> b & 1))
				weight[0] += shape.weight[a][b];
			if ((second >> a & 1) && (second >> b & 1))
				weight[1] += renamed.weight[a][b];
		}
	}
	if ((uint32_t)__builtin_popcount(first) != size || (first & must) != must ||
	    weight[0] != weight[1])
		fail("the names matter", 0xffff, must, size, second, first);
	(void)allocator_free(one);
	(void)allocator_free(two);
}

int main(void)
{
	const char *seed_text = getenv("SLUICE_TEST_SEED"), *text = getenv("SLUICE_TEST_ROUNDS");
	uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 20261120;
	unsigned long rounds = text ? strtoul(text, NULL, 10) : ROUNDS;
	random_seed(seed);
	printf("seed %" PRIu64 ", %lu rounds\n", seed, rounds);
	for (unsigned long i = 0; i < rounds; i++) {
		round_exact();
		if (i % 8 == 0)
			round_renamed();
	}
	printf("%lu random machines: always the optimum\n", rounds);
	return 0;
}
