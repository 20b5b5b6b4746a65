/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process takes of the machine, read from /proc: memory, threads, processor time. Knows
 * nothing of what the processes are for. perf/footprint asks it.
 */
#ifndef SLUICE_PERF_FOOTPRINT_PROCESS_H
#define SLUICE_PERF_FOOTPRINT_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum footprint_limits {
	FOOTPRINT_PROCESSES_MAX = 64,
	FOOTPRINT_ROLE_MAX = 64,
};

struct footprint {
	pid_t pid, parent;
	char role[FOOTPRINT_ROLE_MAX];	  /* its name, until somebody knows better */
	uint64_t pss, private_dirty, rss; /* bytes */
	uint64_t threads;
	uint64_t cpu_ns; /* of all its threads, since they began */
};

/* Memory and threads of a process. 0 or -errno (it has ended, or is somebody else's). */
int footprint_read(pid_t pid, struct footprint *out);
/* Processor time alone: reading memory costs the process some. */
int footprint_read_cpu(pid_t pid, uint64_t *out_ns);
/*
 * The processes that descend from `root`, itself first; at most FOOTPRINT_PROCESSES_MAX. Only pid,
 * parent and role are filled in. Returns how many.
 */
size_t footprint_tree(pid_t root, struct footprint *out);
/* The largest mappings of a process by PSS, a line each to stderr:
 * where to look when a gate is missed. */
void footprint_explain(pid_t pid, size_t lines);

#endif
