/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One argument that means jobs, as people type it: "17" (a job, or all of an array), "12-20",
 * "17.3" and "17.3-9" (members of an array), or a name, which may be a pattern such as "train-*".
 * Pure. What consists of digits, '.' and '-' is never a name: --name takes such names.
 */
#ifndef SLUICE_CMD_JOBS_JOB_SET_H
#define SLUICE_CMD_JOBS_JOB_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice.pb-c.h"

struct err;

enum job_set_limits { JOB_SET_NAME_MAX = 127 /* bytes */ };

enum job_set_kind {
	JOB_SET_ID,	 /* `first` */
	JOB_SET_RANGE,	 /* `first` to `last` */
	JOB_SET_MEMBERS, /* of `array_id`, the indices `first` to `last` */
	JOB_SET_NAME,	 /* `text` */
};

struct job_set_item {
	enum job_set_kind kind;
	uint64_t first, last, array_id;
	const char *text; /* borrowed: what was read */
};

/* -EINVAL: neither; the text says at which character. */
int job_set_read(const char *text, struct job_set_item *out, struct err *err);
/* As an option --name has it: a name, whatever it looks like. */
int job_set_read_name(const char *text, struct job_set_item *out, struct err *err);
/* Whether it names one job or array: "17", "17.3". */
bool job_set_is_single(const struct job_set_item *item);
/* Whether the job is one of them. */
bool job_set_has(const struct job_set_item *item, const Sluice__V1__Job *job);

#endif
