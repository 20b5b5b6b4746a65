/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer of a backend with guards around it: bytes that must not change before and after the
 * data, and where it is this process's private memory also a page before and after that nobody may
 * touch. A write beside the data is found afterwards; one further away ends the rank, which its
 * parent names.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_GUARD_H
#define SLUICE_BENCH_COLLECTIVES_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/collectives/backend.h"

struct err;

enum guard_limits {
	GUARD_BYTES_MIN = 64, /* of what must not change after the data; a page before them */
	GUARD_FILL = 0xc5,
};

struct guard {
	struct backend *backend; /* borrowed; NULL: nothing is there */
	void *base;		 /* owned; of the backend's memory, as is data */
	size_t base_bytes;
	void *data;
	size_t bytes; /* of the data */
	bool is_protected;
};

/* All ranks call it with the same sizes. `offset`: bytes by which the data lie beside a page's
 * beginning (-u); below 4096. `out` is initialised here, also on failure. The backend's errors. */
int guard_alloc(struct backend *backend, enum backend_memory memory, size_t bytes, size_t offset,
		struct guard *out, struct err *err);
void guard_free(struct guard *guard);
/* What guard_alloc() asks the backend for; 0: more than there can be. */
size_t guard_alloc_bytes(size_t bytes, size_t offset);

/* Whether something beside the data was changed. -errno: it cannot be read. */
int guard_check(const struct guard *guard, bool *out_is_hurt, struct err *err);

#endif
