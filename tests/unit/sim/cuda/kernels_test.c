/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/api.h"
#include "sim/cuda/scheduler.h"
#include "unit/unit.h"

static unsigned char arena[1 << 20];
static uint64_t address, bytes;

/* Addresses begin at 4096. */
static void *arena_at(void *context, uint64_t at, uint64_t count)
{
	(void)context;
	if (at < 4096 || at - 4096 > sizeof(arena) || count > sizeof(arena) - (at - 4096))
		return NULL;
	return arena + (at - 4096);
}

static const struct kernel_memory memory = {arena_at, NULL};
static const struct kernel_run run = {.begin_ns = 1000, .end_ns = 2001000};

static int compute(const struct kernel_launch *launch)
{
	return kernel_compute(launch, &memory, &run, &address, &bytes);
}

static void test_halves_are_those_of_the_standard(void **state)
{
	(void)state;
	assert_true(kernel_half(0x3c00) == 1.0F);
	assert_true(kernel_half(0xc000) == -2.0F);
	assert_true(kernel_half(0x7bff) == 65504.0F);
	assert_true(kernel_half(0x0001) == 5.9604644775390625e-8F);
	assert_true(kernel_half(0x0400) == 6.103515625e-5F);
	assert_true(kernel_half(0x3555) == 0.333251953125F);
	assert_true(isinf(kernel_half(0xfc00)));
	assert_true(isnan(kernel_half(0x7e00)));
}

static void test_vectors_are_added_by_as_many_threads_as_there_are(void **state)
{
	struct kernel_launch launch = {.id = KERNEL_VADD,
				       .grid = {2, 1, 1},
				       .block = {64, 1, 1},
				       .argument = {4096, 8192, 12288, 200}};
	float *a = arena_at(NULL, 4096, 800), *b = arena_at(NULL, 8192, 800),
	      *c = arena_at(NULL, 12288, 800);

	(void)state;
	for (int i = 0; i < 200; i++) {
		a[i] = (float)i;
		b[i] = 0.5F;
		c[i] = -1;
	}
	assert_int_equal(compute(&launch), CU_OK);
	assert_true(c[0] == 0.5F && c[127] == 127.5F && c[128] == -1);
	launch.argument[2] = 64;
	assert_int_equal(compute(&launch), CU_ILLEGAL_ADDRESS);
}

/* Whole numbers, so that every order of adding gives the same. */
static void test_products_are_those_of_three_loops(void **state)
{
	enum { M = 128, N = 256, K = 32 };
	struct kernel_launch launch = {.id = KERNEL_HGEMM,
				       .grid = {N / 128, M / 128, 1},
				       .block = {256, 1, 1},
				       .argument = {4096, 65536, 131072, M, N, K}};
	static const uint16_t half[] = {0x0000, 0x3c00, 0x4000, 0xc200, 0x4400}; /* 0 1 2 -3 4 */
	static const int whole[] = {0, 1, 2, -3, 4};
	uint16_t *a = arena_at(NULL, 4096, M * K * 2), *b = arena_at(NULL, 65536, N * K * 2);
	float *c = arena_at(NULL, 131072, M * N * 4);

	(void)state;
	for (int i = 0; i < M * K; i++)
		a[i] = half[i * 7 % 5];
	for (int i = 0; i < N * K; i++)
		b[i] = half[i * 3 % 5];
	assert_int_equal(compute(&launch), CU_OK);
	assert_int_equal(bytes, M * N * 4);
	for (int i = 0; i < M; i++) {
		for (int j = 0; j < N; j++) {
			int sum = 0;

			for (int k = 0; k < K; k++)
				sum += whole[(i * K + k) * 7 % 5] * whole[(j * K + k) * 3 % 5];
			assert_true(c[i * N + j] == (float)sum);
		}
	}
}

static void test_burns_give_the_same_each_time_and_other_seeds_others(void **state)
{
	struct kernel_launch launch = {.id = KERNEL_MMA_BURN,
				       .grid = {4, 1, 1},
				       .block = {64, 1, 1},
				       .argument = {4096, 1000, 1}};
	float first[256];
	const float *c = arena_at(NULL, 4096, sizeof(first));

	(void)state;
	assert_int_equal(compute(&launch), CU_OK);
	memcpy(first, c, sizeof(first));
	assert_int_equal(compute(&launch), CU_OK);
	assert_memory_equal(first, c, sizeof(first));
	launch.argument[2] = 2;
	assert_int_equal(compute(&launch), CU_OK);
	assert_memory_not_equal(first, c, sizeof(first));
	for (int i = 0; i < 256; i++)
		assert_true(isfinite(c[i]));
}

static void test_the_ruler_logs_the_times_in_which_it_was_away(void **state)
{
	static const struct sched_gap gap[] = {
	    {100, 900}, {500000, 800000}, {900000, 902000}, {1000000, 1200000}};
	const struct kernel_run with = {1000, 2001000, gap, 4};
	struct kernel_launch launch = {.id = KERNEL_RULER,
				       .grid = {1, 1, 1},
				       .block = {1, 1, 1},
				       .argument = {2000000, 4096, 1}};
	const uint64_t *log = arena_at(NULL, 4096, 48);

	(void)state;
	assert_int_equal(kernel_compute(&launch, &memory, &with, &address, &bytes), CU_OK);
	assert_int_equal(log[0], 2); /* one of them has room; what is short or before is none */
	assert_int_equal(log[1], 1000);
	assert_int_equal(log[2], 2001000);
	assert_int_equal(log[4], 500000);
	assert_int_equal(log[5], 800000);
}

static void test_comparing_counts_differences_and_what_is_not_finite(void **state)
{
	struct kernel_launch launch = {.id = KERNEL_COMPARE,
				       .grid = {1, 1, 1},
				       .block = {32, 1, 1},
				       .argument = {4096, 8192, 100, 12288}};
	uint32_t *a = arena_at(NULL, 4096, 400), *b = arena_at(NULL, 8192, 400);
	uint64_t *out = arena_at(NULL, 12288, 32);

	(void)state;
	memset(a, 0, 400);
	memset(b, 0, 400);
	a[40] = a[7] = 0x7fc00000;
	b[40] = 0x7fc00000;
	memset(out, 0, 32);
	out[1] = UINT64_MAX;
	assert_int_equal(compute(&launch), CU_OK);
	assert_int_equal(out[0], 1);
	assert_int_equal(out[1], 7);
	assert_int_equal(out[2], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_halves_are_those_of_the_standard),
	    cmocka_unit_test(test_vectors_are_added_by_as_many_threads_as_there_are),
	    cmocka_unit_test(test_products_are_those_of_three_loops),
	    cmocka_unit_test(test_burns_give_the_same_each_time_and_other_seeds_others),
	    cmocka_unit_test(test_the_ruler_logs_the_times_in_which_it_was_away),
	    cmocka_unit_test(test_comparing_counts_differences_and_what_is_not_finite),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
