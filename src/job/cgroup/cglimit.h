/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of memory, processors and processes for a job's cgroup: in cgroup v2 where its controllers
 * are there or can be switched on above it, else in groups of the same name of cgroup v1. What
 * cannot be limited is said: memory and processors are counted by the queue all the same, processes
 * by nobody. Knows nothing of jobs.
 *
 * Kernel: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, cgroup-v1/pids.rst,
 * Documentation/scheduler/sched-bwc.rst.
 */
#ifndef SLUICE_JOB_CGROUP_CGLIMIT_H
#define SLUICE_JOB_CGROUP_CGLIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/cgroup/cgroup.h"

enum cglimit_limits {
	CGLIMIT_PIDS_DEFAULT = 16384, /* of a job that says nothing; and half of what there are */
	CGLIMIT_GROUPS_MAX = 3,
	CGLIMIT_WHY_MAX = 256,
	CGLIMIT_PERIOD_US = 100000,
	CGLIMIT_QUOTA_MIN_US = 1000, /* the kernel's */
};

/* 0: no limit. */
struct cglimit_wants {
	uint64_t mem_bytes;
	uint32_t cpu_milli; /* thousandths of a processor */
	uint32_t pids;	    /* threads, as the kernel counts them */
	/* In v1, pids are for cglimit_join_late(): to move a process takes the kernel some 10 ms,
	 * for it waits until every processor has noticed. */
	bool is_late;
};

struct cglimit {
	/* Groups of cgroup v1 that the job has to join as well. */
	char groups[CGLIMIT_GROUPS_MAX][CGROUP_PATH_MAX];
	size_t group_count;
	char memory_v1[CGROUP_PATH_MAX];   /* the one with its memory; "": none */
	char late[CGROUP_PATH_MAX];	   /* one that is joined later; "": none */
	char why[CGLIMIT_WHY_MAX];	   /* what is not limited though wanted; "" */
	char why_no_pids[CGLIMIT_WHY_MAX]; /* of the processes alone; "" */
};

/* `pids` of a job that says none: finite, so that it cannot take all of the machine's. */
uint32_t cglimit_default_pids(void);

/* Best effort: see `why`. A group without a descriptor (-1) has no limits. */
void cglimit_apply(const struct cgroup *cgroup, const struct cglimit_wants *wants,
		   struct cglimit *out);

/* Moves what is in the cgroup now, and what it forks meanwhile, to where its processes are limited.
 * Whoever forks faster than he is moved is frozen for it. Not what is in groups below the cgroup.
 */
void cglimit_join_late(const struct cgroup *cgroup, const struct cglimit *limit);

/* How many of its processes the kernel has killed for want of memory; 0 if that is not known. */
uint64_t cglimit_oom_kills(const struct cgroup *cgroup, const struct cglimit *limit);

/* "oom_kill N" of memory.events or of v1's memory.oom_control; 0: it is not there. Pure. */
uint64_t cglimit_read_oom(const char *text, size_t length);

#endif
