/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which job somebody means: "17" is a job, or all of the array that begins with it; "17.3" is one
 * member of that array. Asks the agent whether there is such a member, so that nobody else's job is
 * meant by a slip.
 */
#ifndef SLUICE_CMD_JOBS_JOB_TARGET_H
#define SLUICE_CMD_JOBS_JOB_TARGET_H

#include <stdbool.h>
#include <stdint.h>

struct agent_call;
struct err;

struct job_target {
	uint64_t id;
	bool is_member;	      /* of an array, and that member alone */
	uint64_t array_count; /* it is an array with so many members; 0: it is none */
};

/* Reads one. With `has_array` asks for the array of "17" too. -EINVAL: no number; -ENOENT: no such
 * member; else as agent_call_ask(). */
int job_target_find(struct agent_call *agent, const char *text, bool has_array,
		    struct job_target *out, struct err *err);

#endif
