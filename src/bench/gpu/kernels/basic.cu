/* SPDX-License-Identifier: Apache-2.0 */
/* The small ones: nothing, waiting, adding two vectors. */
#include "words.cuh"

/* What a launch costs. */
KERNEL sl_nop(void)
{
}

/* Runs for `ns` by the GPU's timer, which also runs on while the kernel is switched out: it
 * measures time, not work. `out`, unless it is NULL: what it took, one for each block. */
KERNEL sl_spin(u64 ns, u32 *out)
{
	u64 start = timer_ns();
	while (timer_ns() - start < ns)
		;
	if (out && thread_index() == 0)
		out[block_index()] = (u32)(timer_ns() - start);
}

/* c = a + b, one thread for each element. */
KERNEL sl_vadd(const float *a, const float *b, float *c, int n)
{
	u32 i = global_index();
	if (i < (u32)n)
		c[i] = a[i] + b[i];
}
