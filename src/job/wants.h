/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job wants of the queue beside its GPUs: its place in the order, what it waits for, how
 * much of the machine it takes, how often it is tried. Kept in memory with every job that is not
 * final; as bytes it is a Wants of proto/job.proto. Pure; decides nothing.
 */
#ifndef SLUICE_JOB_WANTS_H
#define SLUICE_JOB_WANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/isolation.h"

struct err;

enum wants_limits {
	WANTS_PRIORITY_MAX = 100, /* and the least is its negative */
	WANTS_RETRIES_MAX = 1000,
	WANTS_ARRAY_MAX = 10000, /* members of an array */
	WANTS_WORKERS_MAX = 256,
	WANTS_AFTER_MAX = 256,	 /* jobs that one waits for */
	WANTS_LIST_MAX = 8192,	 /* bytes of a list with its NUL */
	WANTS_NAME_MAX = 128,	 /* bytes of a product's or a project's name with its NUL */
	WANTS_BYTES_MAX = 32768, /* of all of it */
};

/* Who keeps it from starting, until it is released. */
enum wants_hold { WANTS_HOLD_NONE, WANTS_HOLD_USER, WANTS_HOLD_SUSPENDED };
#define WANTS_HOLD_COUNT 3

/* What it wants done about a GPU on which somebody computes without the queue. */
enum wants_outsiders {
	WANTS_OUTSIDERS_RULE, /* as the owner of the machine wants it */
	WANTS_OUTSIDERS_WAIT,
	WANTS_OUTSIDERS_IGNORE,
	WANTS_OUTSIDERS_SHARE, /* shares of it are taken, and not the whole */
};
#define WANTS_OUTSIDERS_COUNT 4

/* How the members of an array belong together. */
enum wants_array {
	WANTS_ARRAY_NONE,
	WANTS_ARRAY_PLAIN,	/* each for itself: `completions` of a Job */
	WANTS_ARRAY_INDEXED,	/* the same, and each is told its index */
	WANTS_ARRAY_WORK_QUEUE, /* they end as one: one that succeeds is enough */
};
#define WANTS_ARRAY_COUNT 4

/* What starts the workers of a job with several. */
enum wants_launcher {
	WANTS_LAUNCHER_NONE, /* one command, no workers */
	WANTS_LAUNCHER_OPENMPI,
	WANTS_LAUNCHER_MPICH,
	WANTS_LAUNCHER_INTEL,
	WANTS_LAUNCHER_RANKS, /* the queue itself: the command once for each, with RANK */
};
#define WANTS_LAUNCHER_COUNT 5

/* What the scheduler goes by comes first: a pass looks at it in each of many jobs, and memory is
 * what it waits for. */
struct wants {
	uint64_t time_ns;	   /* what it may run at most; 0: not known. As spec.deadline_ns */
	uint64_t mem_bytes;	   /* of the host; 0: no limit */
	uint64_t gpu_memory_bytes; /* that a device has at least; 0: any */
	char *gpu_type;		   /* owned, NULL: any. a glob of product names */
	int32_t priority;	   /* -100 to 100; more is earlier */
	uint32_t cpu_milli;	   /* thousandths of a processor; 0: no limit */
	uint32_t outsiders;	   /* enum wants_outsiders */
	uint32_t array_parallel;   /* that run at the same time; 0: any number */
	uint32_t worker_gpus;	   /* of each; struct job and struct spec have the sum in `gpus` */
	bool oversubscribe;	   /* workers may share a GPU, if there are not enough */
	char *after; /* owned, NULL: none. "12,ok:13": jobs that have to end, or to succeed */
	uint64_t begin_unix_ns; /* it does not start before this moment of the wall clock; 0: at
				   once */

	uint32_t hold;		 /* enum wants_hold */
	uint32_t pids;		 /* processes; 0: no limit */
	uint32_t isolation;	 /* enum isolation */
	uint32_t retries;	 /* after a failure */
	bool retry_lost;	 /* also when it is not known how it ended */
	uint64_t retry_delay_ns; /* before the first; doubled each time, up to 6 minutes */
	uint64_t idle_ns; /* it is ended when its GPUs have done nothing for so long; 0: never */
	bool has_ttl;
	uint64_t ttl_ns;       /* it is forgotten so long after its end */
	uint32_t array;	       /* enum wants_array */
	uint32_t array_count;  /* members; 0: it is none */
	bool array_apart;      /* each fails for itself: its own `retries`, no other is cancelled */
	uint32_t launcher;     /* enum wants_launcher */
	uint32_t workers;      /* 0: it has none */
	uint32_t worker_slots; /* ranks of each, for the launcher's list of hosts */
	bool launcher_is_worker; /* the launcher is the first of them */
	bool merge;    /* all ranks below one daemon of MPI: see local jobs in the manual */
	char *prefer;  /* owned, NULL: none. devices, the best first, as spec.ids */
	char *project; /* owned, NULL: none. what its use is counted for */
	/* Owned, NULL: from 0 on, or the job is another member than the first. "3-17:2", as
	 * indices.h. */
	char *array_indices;
};

void wants_init(struct wants *wants);
void wants_done(struct wants *wants);
#define _cleanup_wants_ __attribute__((cleanup(wants_done)))
/* A copy with strings of its own. -ENOMEM: `out` is untouched. */
int wants_copy(const struct wants *wants, struct wants *out);
bool wants_are_equal(const struct wants *a, const struct wants *b);

/* Whether this can be meant. -EINVAL names the field, -E2BIG. */
int wants_check(const struct wants *wants, struct err *err);

/* The bytes (owned, free()). -E2BIG, -ENOMEM. */
int wants_format(const struct wants *wants, char **out_bytes, size_t *out_length);
/* `out` is initialised here and holds what wants_check() passes. Fields that are not known are
 * refused. -EINVAL names the field, -ENOMEM. Pure; takes anything. */
int wants_parse(const void *bytes, size_t length, struct wants *out, struct err *err);

/* One of the jobs that it waits for. */
struct wants_after {
	uint64_t id;
	bool has_to_succeed;
};
/* The next of the list at `*list`, which moves behind it and is NULL after the last: 1, or 0 when
 * there is none (NULL or empty); -EINVAL. */
int wants_next_after(const char **list, struct wants_after *out, struct err *err);

#endif
