/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/backoff.h"

void backoff_init(struct backoff *backoff, uint64_t first_ns, uint64_t seed)
{
	*backoff = (struct backoff){.first_ns = first_ns ? first_ns : BACKOFF_FIRST_NS,
				    .last_ns = BACKOFF_LAST_NS,
				    .chance = seed | 1};
}

/* xorshift64*: https://doi.org/10.18637/jss.v008.i14. No secret depends on it. */
uint64_t backoff_chance(struct backoff *backoff)
{
	backoff->chance ^= backoff->chance >> 12;
	backoff->chance ^= backoff->chance << 25;
	backoff->chance ^= backoff->chance >> 27;
	return backoff->chance * UINT64_C(0x2545f4914f6cdd1d);
}

uint64_t backoff_fail(struct backoff *backoff)
{
	uint64_t step_ns = backoff->step_ns ? backoff->step_ns * 2 : backoff->first_ns;
	backoff->step_ns = step_ns < backoff->last_ns ? step_ns : backoff->last_ns;
	if (backoff->failures < UINT32_MAX)
		backoff->failures++;
	return backoff->step_ns / 2 + backoff_chance(backoff) % (backoff->step_ns / 2 + 1);
}

void backoff_succeed(struct backoff *backoff)
{
	backoff->step_ns = 0;
	backoff->failures = 0;
}
