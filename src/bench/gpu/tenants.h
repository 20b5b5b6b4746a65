/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several loads on one GPU at once, each a process of its own, as pods would be: started together,
 * waited for with a deadline, their summaries read. Knows nothing of what they are compared with.
 */
#ifndef SLUICE_BENCH_GPU_TENANTS_H
#define SLUICE_BENCH_GPU_TENANTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum tenants_limits {
	TENANTS_MAX = 16,
	TENANTS_ARGUMENTS_MAX = 24, /* of one */
	TENANTS_TEXT_MAX = 96,
	TENANTS_OUTPUT_MAX = 1 << 20, /* bytes that one may write */
};

/* What the last line of a load says. */
struct tenant_summary {
	bool is_simulated;
	char device[TENANTS_TEXT_MAX], uuid[TENANTS_TEXT_MAX], cuda[TENANTS_TEXT_MAX];
	char verified[TENANTS_TEXT_MAX], problem[TENANTS_TEXT_MAX * 4];
	double tflops, p50_ms, p99_ms;
	uint64_t iterations;
	bool has_clock;
	double clock_mhz[3], power_w, temp_c; /* 0: not known */
	char throttle[TENANTS_TEXT_MAX];      /* "sw_power_cap, ..."; "" */
};
/* Of all that a load wrote: the last line that is a summary. -EBADMSG: there is none, or it is no
 * JSON. Pure; takes anything. */
int tenant_summary_parse(const char *text, size_t length, struct tenant_summary *out,
			 struct err *err);

struct tenant {
	/* What follows "sluice bench gpu", ends in NULL; borrowed. */
	const char *arguments[TENANTS_ARGUMENTS_MAX];
	struct tenant_summary summary; /* set where has_summary */
	bool has_summary;
	int rc; /* as a shell has it */
};

/*
 * Starts `program` (sluice) for each with "--json --quiet" and, if there are several, a barrier;
 * waits until all have ended. Their errors go to our standard error. 0, also when loads failed:
 * their rc says so; -ETIMEDOUT (all are killed), -EINTR when `stop` is set, errors of starting one.
 */
int tenants_run(const char *program, struct tenant *tenants, size_t count, uint64_t deadline_ns,
		const atomic_bool *stop, struct err *err);

#endif
