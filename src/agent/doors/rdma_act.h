/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done on the machine because of RDMA adapters, off the loop: their CDI specification is
 * kept, and interfaces are set up where the configuration asks for it. One call is one round.
 */
#ifndef SLUICE_AGENT_DOORS_RDMA_ACT_H
#define SLUICE_AGENT_DOORS_RDMA_ACT_H

#include <stdbool.h>

#include "policy/rdma.h"

struct err;
struct rdma_act;
struct storage;

/* What has come of a round. */
struct rdma_act_result {
	const char *error; /* borrowed: what failed, "" when nothing did */
	bool has_cdi;	   /* the specification is as it should be */
	bool has_hook;	   /* or nobody wants it: devices that need it are in the specification */
};

struct rdma_act_options {
	struct storage *storage; /* borrowed until done(); all others for the call only */
	const char *root;
	const char *directory; /* for programs that runtimes start: of root alone */
	const struct rdma_inventory *inventory; /* NULL: there are no adapters */
	const struct rdma_policy *policy;
	const bool *is_down, *is_new; /* by place in the inventory */
	bool writes_cdi;	      /* else CDI is not touched */
	bool wants_cdi;		      /* else ours is removed */
	/* Later, once. The round is freed after it returns. */
	void (*done)(const struct rdma_act_result *result, void *context);
	void *context;
};

/* -ENOMEM, -ENOSPC: then done() is not called. */
int rdma_act_start(const struct rdma_act_options *options, struct rdma_act **out, struct err *err);

#endif
