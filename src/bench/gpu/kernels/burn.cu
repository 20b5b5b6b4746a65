/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat: products whose operands stay in registers, so that tensor cores are all that works. Each
 * does 32768 operations for a warp and iteration; what comes out is always the same.
 */
#include "words.cuh"

/* A and B: 16 by 16 halves, by rows and by columns; C: 16 by 16 for each warp. */
KERNEL sl_wmma_burn(const f16 *A, const f16 *B, float *C, int iters)
{
	int left[8], right[8];
	float sum[4][8];
	__hmma_m16n16k16_ld_a(left, (const int *)A, 16, 0);
	__hmma_m16n16k16_ld_b(right, (const int *)B, 16, 1);
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int e = 0; e < 8; e++)
			sum[i][e] = (float)i; /* were they equal, one would be computed for all */
#pragma unroll 1
	for (int n = 0; n < iters; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			__hmma_m16n16k16_mma_f32f32(sum[i], left, right, sum[i], 1, 0);
#pragma unroll
	for (int e = 0; e < 8; e++)
		sum[0][e] = (sum[0][e] + sum[1][e]) + (sum[2][e] + sum[3][e]);
	__hmma_m16n16k16_st_c_f32(C + (u64)(global_index() >> 5) * 256, sum[0], 16, 0);
}

#if KERNEL_TARGET >= 80
DEVICE u32 burn_mix(u32 x)
{
	x = (x ^ (x >> 16)) * 0x7feb352d;
	x = (x ^ (x >> 15)) * 0x846ca68b;
	return x ^ (x >> 16);
}

/* Two halves of either sign between 1/16 and 1: the clock of a GPU depends on its operands, and
 * zeros or equal numbers would show one that no work reaches. */
DEVICE u32 burn_pair(u32 random)
{
	u32 high = 11 + (random >> 30), low = 11 + ((random >> 14) & 3);
	return (random & 0x83ff83ff) | high << 26 | low << 10;
}

/* C: one for each thread. */
KERNEL sl_mma_burn(float *C, int iters, u32 seed)
{
	u32 index = global_index(), word[6];
	float sum[8][4];
#pragma unroll
	for (int i = 0; i < 6; i++)
		word[i] = burn_pair(burn_mix(burn_mix(seed + 1) ^ (index * 6 + i)));
#pragma unroll
	for (int i = 0; i < 8; i++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			sum[i][e] = (float)i;
#pragma unroll 1
	for (int n = 0; n < iters; n++)
#pragma unroll
		for (int i = 0; i < 8; i++)
			asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
				     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
				     : "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]),
				       "+f"(sum[i][3])
				     : "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]),
				       "r"(word[4]), "r"(word[5]));
	float all = 0;
#pragma unroll
	for (int i = 0; i < 8; i++)
		all += (sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]);
	C[index] = all;
}
#endif
