/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The product that sl_hgemm computes: which sizes it takes, how it is launched, how much work it
 * is, and whether what came out is right. C = A B; A: m rows of k halves, B: n rows of k halves
 * (its columns, that is), C: m rows of n floats. Pure; knows no GPU.
 */
#ifndef SLUICE_BENCH_GPU_HGEMM_H
#define SLUICE_BENCH_GPU_HGEMM_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct stats_random;

enum hgemm_limits {
	HGEMM_TILE = 128, /* of m and n */
	HGEMM_TILE_K = 32,
	HGEMM_BLOCK = 256, /* threads */
	HGEMM_EDGE_MAX = 65536,
	HGEMM_SAMPLES = 64, /* elements of C that are verified */
};

struct hgemm_size {
	uint32_t m, n, k;
};

/* "4096,4096,4096", or one number for all three. -EINVAL says what is wanted. Pure. */
int hgemm_size_read(const char *text, struct hgemm_size *out, struct err *err);
/* 2 m n k. */
double hgemm_operations(const struct hgemm_size *size);
/* Blocks across (n) and down (m). */
void hgemm_grid(const struct hgemm_size *size, uint32_t *out_x, uint32_t *out_y);
/* Bytes of A, B and C. */
void hgemm_bytes(const struct hgemm_size *size, size_t *out_a, size_t *out_b, size_t *out_c);

/* One place of C, against double precision: |difference| <= 1e-2 sqrt(k), which operands in (-1, 1)
 * stay well within. -EBADMSG says where, what it is and what it should be; a NaN is wrong. `a` and
 * `b`: that row and that column, k halves each. */
int hgemm_check_one(const struct hgemm_size *size, uint32_t row, uint32_t column, const uint16_t *a,
		    const uint16_t *b, float value, struct err *err);

#endif
