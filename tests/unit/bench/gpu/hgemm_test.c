/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/hgemm.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bench/gpu/figures.h"
#include "bench/stats.h"
#include "bench/half.h"
#include "unit/unit.h"

/* As gemm.cu has them. */
enum { TILE = 128, TILE_K = 32, STRIDE = 40, THREADS = 256, PART = 16, WARPS = 8 };

static void sizes_are_read_strictly(void **state)
{
	struct hgemm_size size;
	struct err err = {0};
	assert_int_equal(hgemm_size_read("4096,256,64", &size, NULL), 0);
	assert_true(size.m == 4096 && size.n == 256 && size.k == 64);
	assert_int_equal(hgemm_size_read("8192", &size, NULL), 0);
	assert_true(size.m == 8192 && size.n == 8192 && size.k == 8192);
	static const char *const wrong[] = {
	    "",		"0", "100,128,32", "128,129,32",   "128,128,33", "128,128",
	    "128,128,", ",", "-128",	   "128,128,32,1", "1e3",	 "131072"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(hgemm_size_read(wrong[i], &size, &err), -EINVAL);
	assert_int_equal(hgemm_size_read("128,200,32", &size, &err), -EINVAL);
	assert_string_equal(err.text, "size: M and N must be multiples of 128, K of 32");
}

static void work_and_grid_follow_from_the_size(void **state)
{
	struct hgemm_size size = {256, 512, 64};
	uint32_t x, y;
	size_t a, b, c;
	hgemm_grid(&size, &x, &y);
	hgemm_bytes(&size, &a, &b, &c);
	assert_int_equal(x, 4);
	assert_int_equal(y, 2);
	assert_int_equal(a, 256 * 64 * 2);
	assert_int_equal(b, 512 * 64 * 2);
	assert_int_equal(c, 256 * 512 * 4);
	size = (struct hgemm_size){8192, 8192, 8192};
	assert_true(hgemm_operations(&size) == 1099511627776.0);
}

/* --- the kernel once more, in C: the same indices, one block after the other -------------------
 */

struct twin {
	const uint16_t *a, *b;
	float *c;
	struct hgemm_size size;
	uint16_t shared_a[TILE * STRIDE], shared_b[TILE * STRIDE];
	float sum[TILE][TILE];
};

static void twin_fill(uint16_t *shared, const uint16_t *from, uint32_t k)
{
	for (uint32_t thread = 0; thread < THREADS; thread++) {
		uint32_t row = thread >> 2, column = (thread & 3) * 8;
		const uint16_t *mine = from + (size_t)row * k + column;
		uint16_t *to = shared + row * STRIDE + column;
		memcpy(to, mine, 16);
		memcpy(to + 64 * STRIDE, mine + (size_t)64 * k, 16);
	}
}

/* wmma m16n16k16: a by rows, b by columns, both with that stride. */
static void twin_mma(struct twin *twin, uint32_t row, uint32_t column, const uint16_t *a,
		     const uint16_t *b)
{
	for (uint32_t i = 0; i < PART; i++)
		for (uint32_t j = 0; j < PART; j++)
			for (uint32_t k = 0; k < PART; k++)
				twin->sum[row + i][column + j] += half_to_float(a[i * STRIDE + k]) *
								  half_to_float(b[j * STRIDE + k]);
}

static void twin_warp(struct twin *twin, uint32_t warp)
{
	uint32_t warp_row = (warp >> 1) * 32, warp_column = (warp & 1) * 64;
	const uint16_t *a = twin->shared_a + warp_row * STRIDE;
	const uint16_t *b = twin->shared_b + warp_column * STRIDE;
	for (uint32_t k = 0; k < TILE_K; k += PART)
		for (uint32_t j = 0; j < 4; j++)
			for (uint32_t i = 0; i < 2; i++)
				twin_mma(twin, warp_row + i * PART, warp_column + j * PART,
					 a + i * PART * STRIDE + k, b + j * PART * STRIDE + k);
}

static void twin_block(struct twin *twin, uint32_t x, uint32_t y)
{
	uint32_t n = twin->size.n, depth = twin->size.k;
	uint32_t row = y * TILE, column = x * TILE;
	memset(twin->sum, 0, sizeof(twin->sum));
	for (uint32_t k = 0; k < depth; k += TILE_K) {
		twin_fill(twin->shared_a, twin->a + (size_t)row * depth + k, depth);
		twin_fill(twin->shared_b, twin->b + (size_t)column * depth + k, depth);
		for (uint32_t warp = 0; warp < WARPS; warp++)
			twin_warp(twin, warp);
	}
	for (uint32_t i = 0; i < TILE; i++)
		memcpy(twin->c + (size_t)(row + i) * n + column, twin->sum[i],
		       sizeof(twin->sum[i]));
}

static void twin_run(struct twin *twin)
{
	uint32_t x, y;
	hgemm_grid(&twin->size, &x, &y);
	for (uint32_t j = 0; j < y; j++)
		for (uint32_t i = 0; i < x; i++)
			twin_block(twin, i, j);
}

static struct twin *twin_new(struct hgemm_size size)
{
	struct twin *twin = calloc(1, sizeof(*twin));
	struct stats_random random = {size.m + size.n + size.k};
	size_t a_bytes, b_bytes, c_bytes;
	hgemm_bytes(&size, &a_bytes, &b_bytes, &c_bytes);
	assert_non_null(twin);
	uint16_t *a = malloc(a_bytes), *b = malloc(b_bytes);
	twin->c = malloc(c_bytes);
	assert_true(a && b && twin->c);
	figures_fill_halves(a, a_bytes / 2, &random);
	figures_fill_halves(b, b_bytes / 2, &random);
	memset(twin->c, 0xff, c_bytes); /* NaN: what is never written is found */
	twin->a = a;
	twin->b = b;
	twin->size = size;
	return twin;
}

static void twin_free(struct twin *twin)
{
	free((void *)(uintptr_t)twin->a);
	free((void *)(uintptr_t)twin->b);
	free(twin->c);
	free(twin);
}

static int twin_check(const struct twin *twin, uint32_t row, uint32_t column, struct err *err)
{
	const struct hgemm_size *size = &twin->size;
	return hgemm_check_one(size, row, column, twin->a + (size_t)row * size->k,
			       twin->b + (size_t)column * size->k,
			       twin->c[(size_t)row * size->n + column], err);
}

static void the_kernels_indices_are_those_of_a_product(void **state)
{
	static const struct hgemm_size sizes[] = {
	    {128, 128, 32}, {128, 256, 64}, {256, 128, 96}, {512, 384, 128}};
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct twin *twin = twin_new(sizes[s]);
		uint32_t m = sizes[s].m, n = sizes[s].n, k = sizes[s].k;
		twin_run(twin);
		for (uint32_t i = 0; i < m; i += 1 + s * 3)
			for (uint32_t j = 0; j < n; j++) {
				double sum = 0;
				for (uint32_t l = 0; l < k; l++)
					sum += (double)half_to_float(twin->a[i * k + l]) *
					       (double)half_to_float(twin->b[j * k + l]);
				assert_true(fabs((double)twin->c[i * n + j] - sum) < 1e-4);
			}
		twin_free(twin);
	}
}

static void a_wrong_element_is_found_and_named(void **state)
{
	struct twin *twin = twin_new((struct hgemm_size){128, 128, 64});
	struct err err = {0};
	twin_run(twin);
	assert_int_equal(twin_check(twin, 5, 7, &err), 0);
	twin->c[5 * 128 + 7] += 0.2f; /* 1e-2 sqrt(64) is 0.08 */
	assert_int_equal(twin_check(twin, 5, 7, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "C[5][7] of the product 128x128x64"));
	twin->c[5 * 128 + 7] = NAN;
	assert_int_equal(twin_check(twin, 5, 7, &err), -EBADMSG);
	/* Rows and columns exchanged: nearly all are wrong. */
	uint32_t wrong = 0;
	for (uint32_t i = 0; i < 128; i++) {
		twin->c[i * 128 + 3] = twin->c[3 * 128 + i];
		wrong += twin_check(twin, i, 3, NULL) < 0;
	}
	assert_true(wrong > 100);
	twin_free(twin);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sizes_are_read_strictly),
	    cmocka_unit_test(work_and_grid_follow_from_the_size),
	    cmocka_unit_test(the_kernels_indices_are_those_of_a_product),
	    cmocka_unit_test(a_wrong_element_is_found_and_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
