/* SPDX-License-Identifier: Apache-2.0 */
/* How long to wait before something is tried again: doubling, with chance in it, so that the nodes
 * of a cluster do not come all at once when its API server is back. Pure. */
#ifndef SLUICE_LIBEXEC_KUBE_BACKOFF_H
#define SLUICE_LIBEXEC_KUBE_BACKOFF_H

#include <stdint.h>

#define BACKOFF_FIRST_NS UINT64_C(1000000000)
#define BACKOFF_LAST_NS	 UINT64_C(30000000000)

struct backoff {
	uint64_t first_ns, last_ns;
	uint64_t step_ns; /* 0: nothing has failed since the last success */
	uint64_t chance;
	uint32_t failures; /* since the last success */
};

/* `first_ns` 0: BACKOFF_FIRST_NS. `seed`: any number. */
void backoff_init(struct backoff *backoff, uint64_t first_ns, uint64_t seed);
/* It failed: how long to wait, between half and the whole of the step. */
uint64_t backoff_fail(struct backoff *backoff);
void backoff_succeed(struct backoff *backoff);
/* A number that nobody can foresee, for other waits. */
uint64_t backoff_chance(struct backoff *backoff);

#endif
