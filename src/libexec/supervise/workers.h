/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers of a job that has some: each a cgroup, GPUs and an environment of its own, in which
 * commands are run for whoever asks through sluice-rsh. Sees to it that the job ends when a worker
 * does: Hydra waits for ever for one whose daemon has died. Knows what MPI's launchers are told
 * from mpienv.h alone.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_WORKERS_H
#define SLUICE_LIBEXEC_SUPERVISE_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "job/cgroup/cgroup.h"
#include "job/jobdir.h"
#include "job/launch.h"
#include "job/token.h"
#include "libexec/supervise/watch.h"

struct cglimit;
struct devguard_rule;
struct err;
struct init;
struct sandbox;
struct workers;

enum workers_limits {
	WORKERS_SOURCES = 2, /* of workers_sources() */
	WORKERS_ARGV = 3,    /* of workers_argv() */
};

#define WORKERS_NAME_NS UINT64_C(300000000) /* for the launcher to end by itself */
#define WORKERS_KILL_NS UINT64_C(500000000) /* between SIGTERM and SIGKILL of a job that failed */
#define WORKERS_GONE_NS                                                                            \
	UINT64_C(10000000000) /* the same, of a command whose sluice-rsh is gone                   \
			       */

struct workers_options {
	const struct launch *launch;   /* borrowed until workers_free(), with its spec */
	int job_fd;		       /* the job's directory; borrowed */
	const struct cgroup *cgroup;   /* the job's, or fd -1; borrowed */
	const struct sandbox *sandbox; /* what keeps the job to its devices; NULL: nothing */
	const struct cglimit *limit;   /* NULL: none */
	const struct init *init;       /* a PID namespace for all of the job; NULL: none */
	const struct token *tokens;    /* borrowed */
	size_t token_count;
	struct output *output; /* where what ranks write goes through; borrowed */
	struct order *order;   /* looks after the orders of ranks until order_done(); borrowed */
	struct nodes_memories *memories; /* for GPU nodes of their own; borrowed; NULL: none */
};

/* Makes the workers and listens. -EINVAL: launcher, image or grants that do not fit together;
 * -ENOPKG: sluice-rsh is not installed. Nothing is left behind then but files in `job_fd`. */
int workers_new(const struct workers_options *options, struct workers **out, struct err *err);
struct workers *workers_free(struct workers *workers);

/* For the launcher: its group (NULL: none), what is executed in place of the spec's argv (NULL:
 * that), its environment (the caller's: jobenv_free()). */
const struct cgroup *workers_cgroup(const struct workers *workers);
char *const *workers_argv(const struct workers *workers);
int workers_environment(const struct workers *workers, char ***out, struct err *err);
/* The nodes that it may not use; borrowed. */
void workers_denied(const struct workers *workers, const struct devguard_rule **out,
		    size_t *out_count);
/* The v1 group that it has to join, "" for none. */
const char *workers_devices_v1(const struct workers *workers);

/* What the watch has to hear; and the watch, before it runs, with the launcher's pid. */
void workers_sources(struct workers *workers, struct watch_source out[WORKERS_SOURCES]);
void workers_watch(struct workers *workers, struct job_watch *watch);

/* After it: whether a worker's failure is how the job ended. Fills the result's end, value,
 * exit_code and text then. */
bool workers_result(const struct workers *workers, const struct job_watch *watch,
		    struct jobdir_result *out);

#endif
