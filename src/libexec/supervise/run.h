/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A supervisor from its claim to the end of the last process of the job: what is started, what is
 * heard meanwhile, what became of it. Jobs are of several kinds, and what one kind has beside the
 * others stands here in one place each: run_call() says what is executed, run_command() what is
 * watched, run_read_status() what that means. What listens while the job runs adds itself with
 * run_listen(). Called by main.c alone, which owns the order of the steps.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_RUN_H
#define SLUICE_LIBEXEC_SUPERVISE_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "job/cgroup/cglimit.h"
#include "job/cgroup/cgroup.h"
#include "job/desk.h"
#include "job/jobdir.h"
#include "job/launch.h"
#include "libexec/supervise/agents.h"
#include "libexec/supervise/image.h"
#include "libexec/supervise/init.h"
#include "libexec/supervise/nodes.h"
#include "libexec/supervise/order.h"
#include "libexec/supervise/output.h"
#include "libexec/supervise/prepare.h"
#include "libexec/supervise/sandbox.h"
#include "libexec/supervise/watch.h"
#include "libexec/supervise/workers.h"

enum run_exit { RUN_EXIT_CANCELLED = 128 + SIGTERM };

struct supervisor {
	struct launch launch;
	int signal_fd, out_fd, err_fd;
	int rules_fd; /* LAUNCH_FD_RULES until it is put around the job; -1: none */
	struct output output;
	struct order order;
	struct agents agents;
	struct cgroup cgroup;
	struct cglimit limit;
	struct sandbox sandbox;
	struct init init;
	struct nodes_memories memories; /* of GPU nodes of its own */
	bool has_image;
	struct image image;	 /* with has_image */
	struct workers *workers; /* owned; NULL: it has none */
	struct prepare_tokens tokens;
	struct desk desk;
	bool has_desk;
	struct jobdir_result result;
	struct err no_terminal; /* why it has none that was asked for one; code 0: it has it */
	int port, port_fd; /* 0: it asked for none; the descriptor keeps it its own, to our end */
	uint64_t used_again_ns; /* when it is said again that its terminal is used */
	uint64_t give_up_at_ns; /* 0: no deadline */
	uint64_t ask_until_ns;	/* for a removal to begin */
	/* What listens while the command runs; see run_listen(). */
	struct watch_source sources[WATCH_SOURCES_MAX];
	size_t source_count;
	bool has_given_up; /* before the command was executed, as `given_up` says */
	enum jobdir_end given_up;
};

/* Before run_command(): has `source` served as long as the job runs. -ENOSPC: there are
 * WATCH_SOURCES_MAX already. */
int run_listen(struct supervisor *self, const struct watch_source *source);

/* Runs the command and returns when nothing of the job is left; self->result says what became of
 * it, but for the times and marks that are entered when it is written. */
void run_command(struct supervisor *self);

/* Whoever is killed cannot take its container out of podman's lists. */
void run_remove_container(struct supervisor *self);

#endif
