/* SPDX-License-Identifier: Apache-2.0 */
/* Those that check a GPU: copying by its processors, holding a stream back, comparing results. */
#include "words.cuh"

/* Copies `count` times 16 bytes, by any grid: each thread takes every n-th. Either address may be
 * of this GPU, of another whose memory it may reach, or of the host's. */
KERNEL sl_copy(u32x4 *to, const u32x4 *from, u64 count)
{
	u64 step = (u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
	for (u64 i = global_index(); i < count; i += step)
		to[i] = from[i];
}

/* One thread. Keeps the stream waiting until the host writes something into *flag, so that all the
 * work behind it is queued before its first part begins; but never longer than `limit_ns`, so that a
 * host process that was killed leaves nothing spinning. *result: 1, it was released; 2, the limit
 * passed. */
KERNEL sl_hold(const volatile u32 *flag, u64 limit_ns, volatile u32 *result)
{
	if (global_index() != 0)
		return;
	u64 start = timer_ns();
	while (*flag == 0) {
		if (timer_ns() - start >= limit_ns) {
			*result = 2;
			return;
		}
	}
	*result = 1;
}

/* A 64-bit mixer (the finaliser of splitmix64). */
DEVICE u64 check_mix(u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/*
 * Compares `count` words of 32 bits as integers, so that a NaN is equal to nothing but the same NaN;
 * by any grid. Adds to what is in `out`: out[0] words that differ; out[1] becomes the lowest place of
 * one (the host puts ~0 there before); out[2] words of `a` that are no finite f32; out[3] the sum of
 * mix(place << 32 | word) over `a`: equal results have equal sums, in whatever order.
 */
KERNEL sl_compare(const u32 *a, const u32 *b, u64 count, u64 *out)
{
	u64 step = (u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
	u64 differing = 0, first = ~0ull, infinite = 0, sum = 0;
	for (u64 i = global_index(); i < count; i += step) {
		u32 word = a[i];
		if (word != b[i]) {
			differing++;
			first = i < first ? i : first;
		}
		infinite += (word & 0x7f800000u) == 0x7f800000u;
		sum += check_mix(i << 32 | word);
	}
	if (differing != 0) {
		__nvvm_atom_add_gen_ll((volatile long long *)&out[0], (long long)differing);
		__nvvm_atom_min_gen_ull((volatile u64 *)&out[1], first);
	}
	if (infinite != 0)
		__nvvm_atom_add_gen_ll((volatile long long *)&out[2], (long long)infinite);
	__nvvm_atom_add_gen_ll((volatile long long *)&out[3], (long long)sum);
}
