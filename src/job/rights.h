/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights of a process that a job may have at most: groups and resource limits. A job is
 * submitted with those of its submitter, and what happens to it later can only lower them. Pure.
 */
#ifndef SLUICE_JOB_RIGHTS_H
#define SLUICE_JOB_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "job/spec.h"

struct err;

struct rights {
	gid_t gid;
	gid_t *groups; /* owned; beside `gid` */
	size_t group_count;
	struct spec_limit limits[SPEC_LIMITS_MAX]; /* of each resource, in their order */
};

void rights_done(struct rights *rights);
/* -ENOMEM: `out` is untouched. */
int rights_copy(const struct rights *rights, struct rights *out);

/* Takes away the supplementary groups that are not among these. Whether there were any. */
bool rights_keep_groups(struct spec *spec, gid_t gid, const gid_t *groups, size_t count);

/* Takes from the job what these rights lack. -EPERM: that is the group as which it is to run. */
int rights_lower(struct spec *spec, const struct rights *rights, struct err *err);

#endif
