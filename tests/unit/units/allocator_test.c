/* SPDX-License-Identifier: Apache-2.0 */
#include "units/allocator.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"
#include "tests/unit/units/brute.h"

enum test_limits {
	SMALL_MAX = 9, /* GPUs of the random questions */
	RANDOM_CASES = 3000,
};

/* Asks for whole GPUs by mask, in shuffled order, and returns the answer as a mask. */
static uint32_t ask(struct allocator *allocator, uint32_t available, uint32_t must, size_t size)
{
	struct allocator_unit free_units[GPU_MAX], must_units[GPU_MAX], out[GPU_MAX];
	size_t free_count = 0, must_count = 0;
	for (uint32_t gpu = 0; gpu < 32; gpu++) {
		if (must >> gpu & 1)
			must_units[must_count++] = (struct allocator_unit){.gpu = gpu};
		if (!(available >> gpu & 1))
			continue;
		size_t place = random_below((uint32_t)free_count + 1);
		memmove(&free_units[place + 1], &free_units[place],
			(free_count - place) * sizeof(free_units[0]));
		free_units[place] = (struct allocator_unit){.gpu = gpu};
		free_count++;
	}
	const struct allocator_question question = {
	    .available = free_units,
	    .available_count = free_count,
	    .must = must_units,
	    .must_count = must_count,
	    .size = size,
	};
	struct err err = {0};
	int count = allocator_prefer(allocator, &question, out, &err);
	if (count < 0)
		fail_msg("%s", err.text);
	uint32_t set = 0;
	for (int i = 0; i < count; i++) {
		assert_true(i == 0 || out[i].gpu > out[i - 1].gpu);
		set |= 1u << out[i].gpu;
	}
	return set;
}

static struct allocator *make(const struct allocator_topology *shape)
{
	struct allocator *allocator = NULL;
	assert_int_equal(allocator_new(shape, &allocator, NULL), 0);
	return allocator;
}

static void test_equals_brute_force(void **state)
{
	(void)state;
	for (uint32_t gpus = 1; gpus <= 7; gpus++) {
		for (int kind = 0; kind < SHAPE_KINDS; kind++) {
			struct allocator_topology shape;
			shape_make(&shape, gpus, (enum shape_kind)kind);
			struct allocator *allocator = make(&shape);
			uint32_t all = (1u << gpus) - 1;
			for (uint32_t must = 0; must <= all; must++) {
				uint32_t musts = (uint32_t)__builtin_popcount(must);
				for (uint32_t size = musts + 1; size < gpus; size++) {
					assert_int_equal(ask(allocator, all, must, size),
							 brute_choose(&shape, all, must, size));
				}
			}
			assert_null(allocator_free(allocator));
		}
	}
}

static void test_equals_brute_force_on_random_questions(void **state)
{
	(void)state;
	for (int i = 0; i < RANDOM_CASES; i++) {
		struct allocator_topology shape;
		uint32_t gpus = 2 + random_below(SMALL_MAX - 1);
		shape_make(&shape, gpus, (enum shape_kind)random_below(SHAPE_KINDS));
		struct allocator *allocator = make(&shape);
		uint32_t available = 1 + random_below((1u << gpus) - 1);
		uint32_t must = random_below(2) ? available & random_below(1u << gpus) : 0;
		uint32_t size = 1 + random_below(gpus);
		uint32_t musts = (uint32_t)__builtin_popcount(must);
		uint32_t count = (uint32_t)__builtin_popcount(available);
		uint32_t expected;
		if (musts > size)
			expected = 0;
		else if (musts == size)
			expected = must;
		else if (size >= count)
			expected = available;
		else
			expected = brute_choose(&shape, available, must, size);
		assert_int_equal(ask(allocator, available, must, size), expected);
		assert_null(allocator_free(allocator));
	}
}

/* 16 GPUs are too many to try every partition; an exchange must never find a better one. */
static void test_sixteen_gpus_every_size(void **state)
{
	(void)state;
	for (int kind = 0; kind < SHAPE_KINDS; kind++) {
		struct allocator_topology shape;
		shape_make(&shape, 16, (enum shape_kind)kind);
		struct allocator *allocator = make(&shape);
		for (uint32_t size = 1; size <= 16; size++) {
			uint32_t set = ask(allocator, 0xffff, 0, size);
			assert_int_equal(__builtin_popcount(set), size);
			uint32_t must = 1u << random_below(16) | 1u << random_below(16);
			if (size >= (uint32_t)__builtin_popcount(must)) {
				uint32_t with = ask(allocator, 0xffff, must, size);
				assert_int_equal(with & must, must);
				assert_int_equal(__builtin_popcount(with), size);
			}
		}
		assert_null(allocator_free(allocator));
	}
}

static void test_adding_a_constant_changes_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct allocator_topology shape;
		uint32_t gpus = 4 + random_below(13);
		shape_make(&shape, gpus, SHAPE_RANDOM);
		struct allocator *before = make(&shape);
		for (uint32_t a = 0; a < gpus; a++) {
			for (uint32_t b = 0; b < a; b++)
				shape_set(&shape, a, b, shape.weight[a][b] + 1200);
		}
		struct allocator *after = make(&shape);
		uint32_t available = (1u << gpus) - 1;
		uint32_t size = 1 + random_below(gpus);
		assert_int_equal(ask(before, available, 0, size), ask(after, available, 0, size));
		assert_null(allocator_free(before));
		assert_null(allocator_free(after));
	}
}

/* A case on which a known plugin dies: four pairs, one of each pair free, three wanted. */
static void test_dgx_a100_three_of_five(void **state)
{
	(void)state;
	struct allocator_topology shape = {.gpu_count = 8};
	for (uint32_t a = 0; a < 8; a++) {
		shape.numa[a] = (int32_t)(a / 2);
		for (uint32_t b = 0; b < a; b++)
			shape_set(&shape, a, b, 1200 + (a / 2 == b / 2 ? 40 : 10));
	}
	struct allocator *allocator = make(&shape);
	uint32_t available = 1u << 0 | 1u << 3 | 1u << 4 | 1u << 6 | 1u << 7;
	/* The remainder of two keeps the pair 6, 7 whole, or the set does: the set wins. */
	assert_int_equal(ask(allocator, available, 0, 3), 1u << 0 | 1u << 6 | 1u << 7);
	assert_null(allocator_free(allocator));
}

static void test_gpu_with_dead_links_goes_first_alone_and_last_together(void **state)
{
	(void)state;
	struct allocator_topology shape;
	shape_make(&shape, 8, SHAPE_DGX2);
	for (uint32_t b = 0; b < 8; b++) {
		if (b != 5)
			shape_set(&shape, 5, b, 10);
	}
	struct allocator *allocator = make(&shape);
	assert_int_equal(ask(allocator, 0xff, 0, 1), 1u << 5);
	for (uint32_t size = 2; size < 8; size++)
		assert_int_equal(ask(allocator, 0xff, 0, size) & (1u << 5), 0);
	assert_null(allocator_free(allocator));
}

static void test_more_than_sixteen_gpus(void **state)
{
	(void)state;
	struct allocator_topology shape;
	shape_make(&shape, 24, SHAPE_DGX2);
	struct allocator *allocator = make(&shape);
	uint32_t set = ask(allocator, 0xffffff, 1u << 9, 8);
	assert_int_equal(set, 0xff00); /* its own half */
	/* Sixteen of the 24 free: exact again, and the same as on a machine of only those. */
	assert_int_equal(ask(allocator, 0xffff00, 0, 4), 0xf00);
	assert_null(allocator_free(allocator));
}

/* --- replicas and MIG devices ------------------------------------------------------------- */

struct pool {
	struct allocator_unit unit[256];
	size_t count;
	uint32_t per_gpu[GPU_MAX];
};

static void pool_fill(struct pool *pool, uint32_t gpus, const uint32_t *replicas)
{
	memset(pool, 0, sizeof(*pool));
	for (uint32_t gpu = 0; gpu < gpus; gpu++) {
		pool->per_gpu[gpu] = replicas[gpu];
		for (uint32_t replica = 0; replica < replicas[gpu]; replica++)
			pool->unit[pool->count++] =
			    (struct allocator_unit){.gpu = gpu, .replica = replica};
	}
}

static void pool_shuffle(struct pool *pool)
{
	for (size_t i = pool->count; i > 1; i--) {
		size_t other = random_below((uint32_t)i);
		struct allocator_unit unit = pool->unit[i - 1];
		pool->unit[i - 1] = pool->unit[other];
		pool->unit[other] = unit;
	}
}

static size_t pool_ask(struct pool *pool, enum allocator_policy policy, size_t size,
		       const struct allocator_unit *must, size_t must_count, uint32_t *out_per_gpu)
{
	struct allocator_topology shape;
	shape_make(&shape, 8, SHAPE_UNIFORM);
	struct allocator *allocator = make(&shape);
	struct allocator_unit out[256];
	struct allocator_question question = {
	    .available = pool->unit,
	    .available_count = pool->count,
	    .must = must,
	    .must_count = must_count,
	    .size = size,
	    .shared = true,
	    .policy = policy,
	    .pool_per_gpu = pool->per_gpu,
	};
	pool_shuffle(pool);
	int count = allocator_prefer(allocator, &question, out, NULL);
	assert_true(count >= 0);

	struct allocator_unit again[256];
	pool_shuffle(pool);
	assert_int_equal(allocator_prefer(allocator, &question, again, NULL), count);
	assert_memory_equal(out, again, (size_t)count * sizeof(out[0]));

	memset(out_per_gpu, 0, GPU_MAX * sizeof(*out_per_gpu));
	for (int i = 0; i < count; i++)
		out_per_gpu[out[i].gpu]++;
	assert_null(allocator_free(allocator));
	return (size_t)count;
}

static void test_policies(void **state)
{
	(void)state;
	static const uint32_t replicas[8] = {4, 4, 4, 4, 0, 0, 0, 0};
	struct pool pool;
	uint32_t taken[GPU_MAX];

	pool_fill(&pool, 8, replicas);
	assert_int_equal(pool_ask(&pool, ALLOCATOR_DISTRIBUTED, 4, NULL, 0, taken), 4);
	for (uint32_t gpu = 0; gpu < 4; gpu++)
		assert_int_equal(taken[gpu], 1);
	assert_int_equal(pool_ask(&pool, ALLOCATOR_PACKED, 4, NULL, 0, taken), 4);
	assert_int_equal(taken[0], 4);
	assert_int_equal(pool_ask(&pool, ALLOCATOR_PACKED, 5, NULL, 0, taken), 5);
	assert_int_equal(taken[0], 4);
	assert_int_equal(taken[1], 1);

	/* GPU 1 has one of four left: packed goes there first, distributed last. */
	pool.count = 0;
	for (uint32_t i = 0; i < 9; i++)
		pool.unit[pool.count++] = (struct allocator_unit){.gpu = i < 4	 ? 0
									 : i < 5 ? 1
										 : 2,
								  .replica = i % 4};
	(void)pool_ask(&pool, ALLOCATOR_PACKED, 2, NULL, 0, taken);
	assert_int_equal(taken[1], 1);
	assert_int_equal(taken[0], 1);
	(void)pool_ask(&pool, ALLOCATOR_DISTRIBUTED, 4, NULL, 0, taken);
	assert_int_equal(taken[1], 0);
	(void)pool_ask(&pool, ALLOCATOR_SPREAD, 3, NULL, 0, taken);
	assert_int_equal(taken[0] * taken[1] * taken[2], 1);
}

static void test_unequal_replicas_fill_by_share(void **state)
{
	(void)state;
	static const uint32_t replicas[8] = {8, 2, 0, 0, 0, 0, 0, 0};
	struct pool pool;
	uint32_t taken[GPU_MAX];
	pool_fill(&pool, 8, replicas);
	(void)pool_ask(&pool, ALLOCATOR_DISTRIBUTED, 5, NULL, 0, taken);
	assert_int_equal(taken[0], 4);
	assert_int_equal(taken[1], 1);
}

static void test_must_is_counted_and_kept(void **state)
{
	(void)state;
	static const uint32_t replicas[8] = {3, 3, 3, 0, 0, 0, 0, 0};
	static const struct allocator_unit must[] = {{.gpu = 2, .replica = 1},
						     {.gpu = 2, .replica = 1}};
	struct pool pool;
	uint32_t taken[GPU_MAX];
	pool_fill(&pool, 8, replicas);
	assert_int_equal(pool_ask(&pool, ALLOCATOR_SPREAD, 3, must, 2, taken), 3);
	assert_int_equal(taken[0] * taken[1] * taken[2], 1);
	assert_int_equal(pool_ask(&pool, ALLOCATOR_PACKED, 3, must, 1, taken), 3);
	assert_int_equal(taken[2], 3);
	assert_int_equal(pool_ask(&pool, ALLOCATOR_PACKED, 100, must, 1, taken), 9);
	assert_int_equal(pool_ask(&pool, ALLOCATOR_PACKED, 0, NULL, 0, taken), 0);
}

static void test_bad_questions(void **state)
{
	(void)state;
	struct allocator_topology shape;
	shape_make(&shape, 2, SHAPE_UNIFORM);
	struct allocator *allocator = make(&shape);
	struct allocator_unit units[] = {{.gpu = 0}, {.gpu = 2}, {.gpu = 0, .device = 1}}, out[3];
	struct allocator_question question = {.available = units, .available_count = 2, .size = 1};
	struct err err = {0};
	assert_int_equal(allocator_prefer(allocator, &question, out, &err), -EINVAL);
	assert_non_null(strstr(err.text, "GPU 2 of 2"));

	units[1] = (struct allocator_unit){.gpu = 1};
	question.available_count = 3; /* two devices of GPU 0, asked for as whole GPUs */
	assert_int_equal(allocator_prefer(allocator, &question, out, &err), -EINVAL);
	assert_non_null(strstr(err.text, "more than once"));

	question.available_count = ALLOCATOR_UNIT_MAX + 1;
	assert_int_equal(allocator_prefer(allocator, &question, out, &err), -EINVAL);
	question.available_count = 0;
	assert_int_equal(allocator_prefer(allocator, &question, out, &err), 0);
	assert_null(allocator_free(allocator));

	shape.gpu_count = GPU_MAX + 1;
	assert_int_equal(allocator_new(&shape, &allocator, &err), -EINVAL);
}

/* --- weights -------------------------------------------------------------------------------- */

static void test_weights(void **state)
{
	(void)state;
	struct gpu *gpus = calloc(4, sizeof(*gpus));
	struct inventory *inventory = calloc(1, sizeof(*inventory));
	assert_non_null(gpus);
	assert_non_null(inventory);
	inventory->gpu_count = 4;
	inventory->gpus = gpus;
	for (uint32_t i = 0; i < 4; i++) {
		gpus[i].has_pci = true;
		gpus[i].pci.bus = (uint8_t)(10 + i);
		gpus[i].numa_node = (int32_t)(i / 2);
		for (uint32_t j = 0; j < 4; j++)
			inventory->level[i][j] = GPU_LEVEL_SYSTEM;
	}
	inventory->level[0][1] = inventory->level[1][0] = GPU_LEVEL_SINGLE;
	/* 0 sees two links to 1, which sees one back: one counts. */
	gpus[0].link_count = 2;
	gpus[0].link[0] = (struct gpu_link){GPU_LINK_GPU, gpus[1].pci};
	gpus[0].link[1] = (struct gpu_link){GPU_LINK_GPU, gpus[1].pci};
	gpus[1].link_count = 1;
	gpus[1].link[0] = (struct gpu_link){GPU_LINK_GPU, gpus[0].pci};
	/* 2 and 3 by switch, one link of 3 is down. */
	gpus[2].link_count = gpus[3].link_count = 3;
	for (uint32_t i = 0; i < 3; i++)
		gpus[2].link[i].peer = gpus[3].link[i].peer = GPU_LINK_SWITCH;
	gpus[3].link[0].peer = GPU_LINK_DOWN;

	struct allocator_topology shape;
	allocator_topology_weigh(inventory, &shape);
	assert_int_equal(shape.weight[0][1], 150);
	assert_int_equal(shape.weight[1][0], 150);
	assert_int_equal(shape.weight[2][3], 210);
	assert_int_equal(shape.weight[0][2], 10);
	assert_int_equal(shape.weight[2][2], 0);
	assert_int_equal(shape.numa[3], 1);

	gpus[3].state = GPU_STATE_LOST;
	allocator_topology_weigh(inventory, &shape);
	assert_int_equal(shape.weight[2][3], 0);
	free(gpus);
	free(inventory);
}

static int scenario_choose(void *context)
{
	struct allocator_topology *shape = context;
	struct allocator_unit units[8], out[8];
	for (uint32_t i = 0; i < 8; i++)
		units[i] = (struct allocator_unit){.gpu = i};
	const struct allocator_question question = {
	    .available = units, .available_count = 8, .size = 3};
	struct allocator *allocator = NULL;
	int rc = allocator_new(shape, &allocator, NULL);
	if (rc == 0)
		rc = allocator_prefer(allocator, &question, out, NULL);
	(void)allocator_free(allocator);
	return rc < 0 ? rc : 0;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	struct allocator_topology shape;
	shape_make(&shape, 8, SHAPE_DGX2);
	assert_true(failmalloc_each(scenario_choose, &shape) > 4);
}

int main(void)
{
	const char *seed = getenv("SLUICE_TEST_SEED");
	uint64_t number = seed ? strtoull(seed, NULL, 10) : UINT64_C(88172645463325252);
	random_seed(number);
	print_message("seed %" PRIu64 "\n", number);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_equals_brute_force),
	    cmocka_unit_test(test_equals_brute_force_on_random_questions),
	    cmocka_unit_test(test_sixteen_gpus_every_size),
	    cmocka_unit_test(test_adding_a_constant_changes_nothing),
	    cmocka_unit_test(test_dgx_a100_three_of_five),
	    cmocka_unit_test(test_gpu_with_dead_links_goes_first_alone_and_last_together),
	    cmocka_unit_test(test_more_than_sixteen_gpus),
	    cmocka_unit_test(test_policies),
	    cmocka_unit_test(test_unequal_replicas_fill_by_share),
	    cmocka_unit_test(test_must_is_counted_and_kept),
	    cmocka_unit_test(test_bad_questions),
	    cmocka_unit_test(test_weights),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests_name("units/allocator", tests, NULL, NULL);
}
