/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run --on-end COMMAND`: what the job's user wants to be run when an attempt has ended.
 * The supervisor that made the claim runs it, so it runs once at most, and not at all when that is
 * killed. It belongs to the job still: in its cgroup, with its rules, and its GPUs are not given
 * back before. Whatever becomes of it, the attempt's result stays.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_ONEND_H
#define SLUICE_LIBEXEC_SUPERVISE_ONEND_H

#include <stdbool.h>

#include "job/cgroup/cgroup.h"
#include "job/jobdir.h"

struct agents;
struct cglimit;
struct desk;
struct sandbox;

#define ONEND_LIMIT_NS UINT64_C(60000000000) /* that it may take */
#define ONEND_GRACE_NS UINT64_C(1000000000)  /* and then to end */

/* All borrowed. */
struct onend {
	struct agents *agents;
	struct desk *desk;	       /* NULL: no tokens */
	const struct cgroup *cgroup;   /* the job's; fd -1: none */
	const struct sandbox *sandbox; /* the job's: it is kept in as the job was */
	const struct cglimit *limit;
	const char *devices_v1; /* "": none */
	bool needs_cgroup;	/* the device rules are around that */
	int signal_fd;
	bool was_cancelled;
	const struct jobdir_result *result;
};

/* Runs it, if there is one, and returns when nothing of it is left. */
void onend_run(const struct onend *onend);

/* "Succeeded", "Failed", "Cancelled", and "ExitCode", "Signal", ... or "": as `sluice jobs` calls
 * it. Pure. */
const char *onend_state(const struct jobdir_result *result, bool was_cancelled);
const char *onend_reason(const struct jobdir_result *result, bool was_cancelled);

#endif
