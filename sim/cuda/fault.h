/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated driver does wrong because it was asked to: $SLUICE_SIM_CUDA_FAULT, a list like
 * "cuInit=802,flip@3". Each word is NAME, NAME@N, NAME=VALUE or NAME@N=VALUE. Parses and remembers;
 * who does the wrong is elsewhere. Pure but for the counts.
 *
 *   cuNAME[@N]=CODE  the N-th call of that function (default: every one) answers CODE
 *   flip@N           the N-th kernel that computes something has one bit wrong
 *   nan@N            ... has a NaN in its result
 *   die@N[=CODE]     the N-th kernel fails with CODE (default 719), and all calls after it do
 *   stall@N[=MS]     the N-th kernel takes MS (default 1000) longer
 *   oom@N            allocations fail from the N-th on
 *   jit              no PTX text compiles
 *   event-hang       recorded events never complete
 *   procaddress      cuGetProcAddress gives other pointers than the library exports
 *   missing=cuNAME   cuGetProcAddress does not know that function
 */
#ifndef SLUICE_SIM_CUDA_FAULT_H
#define SLUICE_SIM_CUDA_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum fault_limits { FAULT_MAX = 16, FAULT_NAME_MAX = 64 };

enum fault_kind {
	FAULT_CALL,
	FAULT_FLIP,
	FAULT_NAN,
	FAULT_DIE,
	FAULT_STALL,
	FAULT_OOM,
	FAULT_JIT,
	FAULT_EVENT_HANG,
	FAULT_PROC_ADDRESS,
	FAULT_MISSING,
	FAULT_KIND_COUNT,
};

struct faults {
	uint32_t count;
	struct fault {
		enum fault_kind kind;
		char name[FAULT_NAME_MAX]; /* of CALL and MISSING */
		uint64_t at;		   /* 0: every time */
		uint64_t value;
		uint64_t seen;
	} fault[FAULT_MAX];
};

/* 0, or -1: `*out_word` is the beginning of the word that cannot be understood. `text` NULL: none.
 */
int faults_parse(const char *text, struct faults *out, const char **out_word);
/* Counts one chance for it: true when it is to happen now, with its value. `name`: the function, of
 * CALL and MISSING; else NULL. */
bool faults_strike(struct faults *faults, enum fault_kind kind, const char *name,
		   uint64_t *out_value);

#endif
