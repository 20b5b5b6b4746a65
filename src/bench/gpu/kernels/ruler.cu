/* SPDX-License-Identifier: Apache-2.0 */
/* When this process has the GPU, and when it has not. */
#include "words.cuh"

#define RULER_GAP_NS 5000
#define RULER_HEAD   4

/* One thread. Reads the timer for `ns` and logs (before, after) of every step of more than 5 us,
 * which is a time in which it did not run. log[0]: how many there were, also those beyond `cap`;
 * log[1], log[2]: first and last reading; log[3]: the smallest step of the timer; then the pairs. */
KERNEL sl_ruler(u64 ns, u64 *log, u32 cap)
{
	if (global_index() != 0)
		return;
	u64 start = timer_ns(), before = start, count = 0, least = ~0ull;
	while (before - start < ns) {
		u64 now = timer_ns(), step = now - before;
		if (step > RULER_GAP_NS) {
			if (count < cap) {
				log[RULER_HEAD + 2 * count] = before;
				log[RULER_HEAD + 2 * count + 1] = now;
			}
			count++;
		}
		if (step != 0 && step < least)
			least = step;
		before = now;
	}
	log[0] = count;
	log[1] = start;
	log[2] = before;
	log[3] = least;
}
