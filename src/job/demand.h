/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job wants beside GPUs: units of named resources, as a list "rdma/hca_a=1,rdma/hca_b=2" in
 * the order of the names. Names are those of Kubernetes' extended resources, so that a request here
 * is one there. Pure; knows nothing of what this machine has.
 *
 * https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
 */
#ifndef SLUICE_JOB_DEMAND_H
#define SLUICE_JOB_DEMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum demand_limits {
	DEMAND_NAME_MAX = 256, /* with its NUL: a domain, '/', and up to 63 characters */
	DEMAND_UNITS_MAX = 16384,
	DEMAND_LIST_MAX = 32,	/* entries of one job */
	DEMAND_TEXT_MAX = 4096, /* of a list with its NUL */
};

struct demand {
	char name[DEMAND_NAME_MAX];
	uint32_t units; /* 1 to DEMAND_UNITS_MAX */
};

/* The next entry of the list at `*list`, which moves behind it and is NULL after the last: 1, or 0
 * when there is none (an empty list or NULL); -EINVAL. */
int demand_next(const char **list, struct demand *out, struct err *err);

/* Whether it is a list as above: every name once, in their order. -EINVAL names the entry, -E2BIG.
 */
int demand_check(const char *list, struct err *err);

/* A list of what a user wrote, "NAME" or "NAME=UNITS" each, into `out`. -EINVAL names what is
 * wrong, -E2BIG, -ENOMEM. */
int demand_make(const char *const *items, size_t count, struct buf *out, struct err *err);

#endif
