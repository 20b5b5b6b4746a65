/* SPDX-License-Identifier: Apache-2.0 */
/* What a way to meet is, for bootstrap*.c alone. */
#ifndef SLUICE_BENCH_COLLECTIVES_BOOTSTRAP_PRIVATE_H
#define SLUICE_BENCH_COLLECTIVES_BOOTSTRAP_PRIVATE_H

#include "bench/collectives/bootstrap.h"

struct bootstrap {
	uint32_t rank, ranks;
	int (*share)(struct bootstrap *bootstrap, const void *mine, void *all, size_t bytes,
		     uint64_t deadline_ns, struct err *err);
	void (*abort)(struct bootstrap *bootstrap);
	void (*free)(struct bootstrap *bootstrap);
};

#endif
