/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `sluice run`: the table and the struct that it fills. Knows nothing of what they
 * mean; run_wants.h and run_request.h make of them what the agent is asked for.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_OPTIONS_H
#define SLUICE_CMD_JOBS_RUN_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/options.h"

enum run_options_limits {
	RUN_GPUS_MAX = 256,
	RUN_CPUS_MAX = 1000000,
	RUN_PRIORITY_MAX = 100,
	RUN_WORKERS_MAX = 256,
	RUN_SLOTS_MAX = 65536,
};

#define RUN_GPUS_NOT_GIVEN UINT32_MAX

enum run_outsiders { RUN_OUTSIDERS_WAIT, RUN_OUTSIDERS_IGNORE, RUN_OUTSIDERS_SHARE };
#define RUN_OUTSIDERS_NOT_GIVEN UINT32_MAX

/* The order of the option's words. */
enum run_mpi { RUN_MPI_OPENMPI, RUN_MPI_MPICH, RUN_MPI_INTEL, RUN_MPI_RANKS };

struct run_options {
	uint32_t gpus; /* RUN_GPUS_NOT_GIVEN */
	const char *gpu_ids, *share, *name, *key, *directory, *report, *socket;
	const char *output;
	const char *image, *prefer, *gpu_type, *project, *entrypoint, *user;
	const char *file, *lines;
	struct option_list environment, volumes, resources, tmpfs;
	uint64_t shm_bytes; /* 0: not given */
	uint32_t runtime;   /* the same, from any on */
	uint32_t selinux;   /* place among the option's words */
	bool privileged, cuda_compat;
	uint32_t pull;		 /* place among the option's words */
	uint32_t isolation;	 /* enum isolation */
	uint32_t pids;		 /* 0: not given */
	uint32_t busy_outsiders; /* enum run_outsiders, or RUN_OUTSIDERS_NOT_GIVEN */
	const char *array;	 /* "10%2" */
	const char *begin;	 /* a moment, as job/moment.h */
	const char *signal;	 /* as job/warning.h */
	struct option_list after, after_ok;
	uint32_t retries;
	bool hold, retry_lost;
	bool own, pty, detach, no_wait, dry_run, quiet, verbose;
	bool host, oversubscribe, export;
	uint32_t worker_command; /* place among the option's words: ask, skip */
	int64_t priority;
	double cpus; /* 0: not given; as the sizes */
	uint64_t gpu_memory_bytes, mem_bytes;
	uint32_t workers, slots; /* 0: not given */
	uint32_t mpi;		 /* enum run_mpi */
	bool mpi_merge;
	uint64_t idle_ns; /* 0: not given */
	const char *on_end, *port;
	uint64_t wait_timeout_ns, grace_ns, time_ns;
};

extern const struct option_row run_rows[];
extern const struct run_options run_defaults;

#endif
