/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver for unit tests: a table of calls on memory of this process, done when they are called.
 * Time passes by what is copied. A call can be made to fail, and a kernel to compute wrongly. It
 * keeps count of what was not given back.
 */
#ifndef TESTS_UNIT_VALIDATE_GPU_FAKE_H
#define TESTS_UNIT_VALIDATE_GPU_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/checks.h"
#include "bench/gpu/driver.h"

enum fake_fault {
	FAKE_RIGHT,
	FAKE_FLIP,
	FAKE_NAN,
	FAKE_ALWAYS_WRONG,
	FAKE_NOTHING_DONE,
	FAKE_COMPARES_ONCE
};

struct fake {
	uint64_t now_ns;
	uint64_t free_bytes;
	uint32_t held;		      /* allocations that were not given back */
	uint32_t contexts;	      /* retained */
	uint32_t launches;	      /* of kernels that compute something */
	uint32_t copies, comparisons; /* launches of sl_copy, sl_compare */
	bool has_peers;		      /* GPUs reach each other */
	double bytes_per_ns;	      /* of every copy */
	const char *failing; /* a call's name, that answers `result` from its `after`-th on */
	uint32_t after, result;
	enum fake_fault fault;
	uint32_t fault_at; /* the kernel that is wrong, from 1 on; ALWAYS_WRONG: all */
	bool is_late;	   /* the hold runs out */
};
extern struct fake fake;

/* A driver and `count` devices of it. Starts `fake` anew. */
void fake_open(struct driver *driver, struct driver_device *devices, uint32_t count);

/* Keeps what is reported. */
struct fake_sink {
	struct checks checks;
	uint32_t begun, notes;
	uint64_t fact;
	char last_note[CHECKS_TEXT_MAX];
	bool has_passed; /* a note says "Test PASSED" */
};
void fake_sink_init(struct fake_sink *sink, struct checks_sink *out);
void fake_sink_done(struct fake_sink *sink);

#endif
