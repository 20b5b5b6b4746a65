/* SPDX-License-Identifier: Apache-2.0 */
/* C = A B on tensor cores: half precision in, single precision sums. */
#include "words.cuh"

#define TILE_M	  128
#define TILE_N	  128
#define TILE_K	  32
#define STRIDE	  40 /* halves from row to row: 80 bytes spread the banks */
#define WARP_M	  32 /* 8 warps, 4 down and 2 across */
#define WARP_N	  64
#define PART	  16 /* a fragment's edge */
#define ROWS_FRAG (WARP_M / PART)
#define COLS_FRAG (WARP_N / PART)
#define LOADS	  2 /* of 16 bytes, for each thread and tile */
#define HALF_TILE 64
#define ROW_MAJOR 0
#define COL_MAJOR 1
#define ROW_COL	  1 /* the layouts of A and B in a product */

struct frag_half {
	int word[8];
};
struct frag_sum {
	float value[8];
};

/* A thread moves 16 bytes of two rows of a tile, 64 apart: `from` and `shared` are where its first
 * ones are. Through registers, so that the next tile is on its way while this one is used. */
DEVICE void tile_load(u32x4 out[LOADS], const f16 *from, u64 apart)
{
	out[0] = *(const u32x4 *)from;
	out[1] = *(const u32x4 *)(from + apart);
}

DEVICE void tile_store(f16 *shared, const u32x4 in[LOADS])
{
	*(u32x4 *)shared = in[0];
	*(u32x4 *)(shared + HALF_TILE * STRIDE) = in[1];
}

DEVICE void tile_multiply(struct frag_sum sum[ROWS_FRAG][COLS_FRAG], const f16 *a, const f16 *b)
{
#pragma unroll 1 /* unrolled, its operands do not fit into 128 registers */
	for (int k = 0; k < TILE_K; k += PART) {
		struct frag_half left[ROWS_FRAG], right;
#pragma unroll
		for (int i = 0; i < ROWS_FRAG; i++)
			__hmma_m16n16k16_ld_a(left[i].word, (const int *)(a + i * PART * STRIDE + k),
					      STRIDE, ROW_MAJOR);
#pragma unroll
		for (int j = 0; j < COLS_FRAG; j++) {
			__hmma_m16n16k16_ld_b(right.word, (const int *)(b + j * PART * STRIDE + k),
					      STRIDE, COL_MAJOR);
#pragma unroll
			for (int i = 0; i < ROWS_FRAG; i++)
				__hmma_m16n16k16_mma_f32f32(sum[i][j].value, left[i].word, right.word,
							    sum[i][j].value, ROW_COL, 0);
		}
	}
}

/* A: M rows of K halves; B: N rows of K halves, that is K by N in columns; C: M rows of N. Blocks
 * of 256 threads, one for each 128 by 128 of C: M and N are multiples of 128, K of 32. */
__attribute__((launch_bounds(256, 2))) /* two blocks on a processor hide what they wait for */
KERNEL
sl_hgemm(const f16 *A, const f16 *B, float *C, int M, int N, int K)
{
	/* The alignment is what the tensor cores' loads want. */
	static SHARED __attribute__((aligned(128))) f16 shared_a[TILE_M * STRIDE];
	static SHARED __attribute__((aligned(128))) f16 shared_b[TILE_N * STRIDE];
	u32 thread = thread_index(), warp = thread >> 5;
	u32 row = __nvvm_read_ptx_sreg_ctaid_y() * TILE_M, column = block_index() * TILE_N;
	u32 warp_row = (warp >> 1) * WARP_M, warp_column = (warp & 1) * WARP_N;
	u32 my_row = thread >> 2, my_column = (thread & 3) * 8;
	const f16 *a = A + (u64)(row + my_row) * K + my_column;
	const f16 *b = B + (u64)(column + my_row) * K + my_column;
	u32 mine = my_row * STRIDE + my_column;
	u64 apart = (u64)HALF_TILE * K;
	struct frag_sum sum[ROWS_FRAG][COLS_FRAG];
	u32x4 next_a[LOADS], next_b[LOADS];
	(void)M;
#pragma unroll
	for (int i = 0; i < ROWS_FRAG; i++)
#pragma unroll
		for (int j = 0; j < COLS_FRAG; j++)
#pragma unroll
			for (int e = 0; e < 8; e++)
				sum[i][j].value[e] = 0;
	tile_load(next_a, a, apart);
	tile_load(next_b, b, apart);
	for (int left = K; left > 0; left -= TILE_K) {
		tile_store(shared_a + mine, next_a);
		tile_store(shared_b + mine, next_b);
		__nvvm_bar_sync(0);
		if (left > TILE_K) {
			tile_load(next_a, a += TILE_K, apart);
			tile_load(next_b, b += TILE_K, apart);
		}
		tile_multiply(sum, shared_a + warp_row * STRIDE, shared_b + warp_column * STRIDE);
		__nvvm_bar_sync(0);
	}
	float *c = C + (u64)(row + warp_row) * N + column + warp_column;
#pragma unroll
	for (int i = 0; i < ROWS_FRAG; i++)
#pragma unroll
		for (int j = 0; j < COLS_FRAG; j++)
			__hmma_m16n16k16_st_c_f32(c + (u64)i * PART * N + j * PART, sum[i][j].value, N,
						  ROW_MAJOR);
}
