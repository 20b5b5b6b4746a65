/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice.jobs` of the configuration in the queue's words: names of groups as numbers, what the
 * machine has where the owner says nothing. Called at the start, after each reload and when a group
 * has become known; decides nothing itself.
 */
#ifndef SLUICE_AGENT_DOORS_QUEUE_RULES_H
#define SLUICE_AGENT_DOORS_QUEUE_RULES_H

#include <stddef.h>
#include <stdint.h>

struct config;
struct groups;
struct queue_rules;

enum queue_rules_limits {
	QUEUE_RULES_WARNINGS_MAX = 8,  /* those beyond are counted in the last */
	QUEUE_RULES_WARNING_MAX = 200, /* bytes of one with its NUL */
	QUEUE_RULES_RESERVE_PART = 16, /* of the memory, which jobs do not get ... */
};
#define QUEUE_RULES_RESERVE_MIN UINT64_C(536870912)  /* ... but at least 512 MiB, */
#define QUEUE_RULES_RESERVE_MAX UINT64_C(8589934592) /* and at most 8 GiB */

/* What the machine has. */
struct queue_rules_machine {
	uint32_t cpus;
	uint64_t mem_bytes;
};

/* What the owner should know. */
struct queue_rules_warnings {
	size_t count; /* at most QUEUE_RULES_WARNINGS_MAX */
	char text[QUEUE_RULES_WARNINGS_MAX][QUEUE_RULES_WARNING_MAX];
};

/* This machine's. Never 0. */
void queue_rules_read_machine(struct queue_rules_machine *out);

/* The memory that jobs get of `mem_bytes` where the owner does not say: all but a reserve for the
 * system, and never less than half. Processors have none: they are shared out by weight, and who
 * asks for all of them is to get them. */
uint64_t queue_rules_memory(uint64_t mem_bytes);

/* A group that is not known has no limits of its own, and as adminGroup no member: both are
 * warnings once nobody is asked any more. */
void queue_rules_make(const struct config *config, const struct queue_rules_machine *machine,
		      struct groups *groups, struct queue_rules *out,
		      struct queue_rules_warnings *warnings);

#endif
