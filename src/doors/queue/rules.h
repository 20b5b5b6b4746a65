/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the owner of this machine wants its queue to be: `sluice.jobs` of the configuration, in the
 * queue's own words. Plain data; read anew whenever the configuration is, without touching what
 * runs.
 */
#ifndef SLUICE_DOORS_QUEUE_RULES_H
#define SLUICE_DOORS_QUEUE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum rules_limits {
	RULES_GROUPS_MAX = 64,
	RULES_PREFER_MAX = 8192, /* bytes of the list with its NUL */
};

enum rules_order {
	RULES_ORDER_FIFO,     /* by score */
	RULES_ORDER_SHORTEST, /* priority, then the shortest `--time`, then by score */
};

enum rules_outsiders {
	RULES_OUTSIDERS_WAIT,	/* a GPU on which somebody computes without the queue is busy */
	RULES_OUTSIDERS_IGNORE, /* it is taken nevertheless */
	RULES_OUTSIDERS_SHARE,	/* shares of it are given, and not the whole */
};

/* What one user may have; 0: as many as there are. */
struct rules_limit {
	uint32_t pending; /* jobs that have not started */
	uint32_t gpus;	  /* devices that his running jobs have, a share counting as a whole one */
};

/* For the members of a group; of several that somebody is in the most generous counts. */
struct rules_group {
	gid_t group;
	struct rules_limit limit;
};

/* What the parts of a job's score are worth, in points: see schedule/schedule_score.h. */
struct rules_weights {
	uint32_t age;	   /* an hour of waiting */
	uint32_t size;	   /* each GPU beyond the first */
	uint32_t priority; /* a step of it */
	uint32_t usage;	   /* an hour of the whole machine that its user has had */
};
#define RULES_WEIGHTS_DEFAULT                                                                      \
	{                                                                                          \
		.age = 100, .size = 50, .priority = 100000, .usage = 20                            \
	}
#define RULES_HALF_LIFE_NS UINT64_C(86400000000000)

struct queue_rules {
	enum rules_order order;
	struct rules_weights weights;
	uint64_t half_life_ns; /* of what users have had; 0: RULES_HALF_LIFE_NS */
	enum rules_outsiders outsiders;
	bool is_draining; /* what runs is finished, nothing is started; see queue_drain() */
	struct rules_limit limit;
	struct rules_group groups[RULES_GROUPS_MAX];
	size_t group_count;
	char prefer[RULES_PREFER_MAX]; /* devices, the best first; "": none */
	uint32_t minimum_isolation;    /* enum isolation: what a job has to reach at least */
	uint64_t reserve_after_ns;     /* one has waited so long: schedule_due_ns(); 0: never */
	uint64_t default_time_ns;      /* of a job that says none; 0: none */
	uint64_t max_time_ns;	       /* of everybody's but a manager's; 0: none */
	int64_t retention_ns;	       /* of final jobs */
	uint32_t retention_jobs;
	uint64_t log_bytes;   /* of stdout and of stderr of an attempt; 0: no limit */
	uint32_t cpu_milli;   /* that all running jobs may have together */
	uint64_t mem_bytes;   /* the same */
	bool has_admin_group; /* whose members may do with any job what its owner may */
	gid_t admin_group;
	bool is_enforced; /* GPU nodes are open to jobs alone */
};

#endif
