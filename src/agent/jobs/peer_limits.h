/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resource limits of whoever asks, as the kernel has them: a job may have no more than the
 * login from which it was submitted. What the other side says of itself is not believed. Knows
 * nothing of jobs. Called by the service for each submission.
 */
#ifndef SLUICE_AGENT_JOBS_PEER_LIMITS_H
#define SLUICE_AGENT_JOBS_PEER_LIMITS_H

#include <stddef.h>
#include <sys/types.h>

#include "job/spec.h"

struct err;

enum peer_limits_limits {
	PEER_LIMITS_TEXT_MAX =
	    8192, /* bytes of /proc/PID/limits, of which 16 lines of 80 are known */
};

/* A process at the other end of a connection, as the kernel says. */
struct peer_process {
	pid_t pid; /* 0: it has no number here, for its PID namespace is not below ours */
	uid_t uid;
	int pidfd; /* borrowed; of SO_PEERPIDFD, -1: the kernel is older than Linux 6.5 */
};

/*
 * Fills `out` with each limit that there is, in the order of their numbers; unlimited is
 * UINT64_MAX. Does not block. The number of a process that has ended may be somebody else's: with a
 * pidfd that is noticed, and without one a process counts that is of the same user then, whose
 * limits that user could have had as well. Read by prlimit(2), and where that takes
 * CAP_SYS_RESOURCE which we lack, from /proc/PID/limits (Documentation/filesystems/proc.rst).
 * Root's process that cannot be seen has none.
 *
 * -EPERM: it has ended, cannot be seen, or is another user's by now. -EINVAL: what /proc says is
 * not understood.
 */
int peer_limits_read(const struct peer_process *peer, struct spec_limit out[SPEC_LIMITS_MAX],
		     struct err *err);

/* /proc/PID/limits. -EINVAL: one is missing, or is no number. Pure; takes anything. */
int peer_limits_parse(const char *text, size_t length, struct spec_limit out[SPEC_LIMITS_MAX],
		      struct err *err);

/* Lowers `limits`, of which there is one of each resource in their order, to what is wanted. Of one
 * that is wanted twice the lower one counts. -EINVAL: no resource has that number. */
int peer_limits_lower(struct spec_limit limits[SPEC_LIMITS_MAX], const struct spec_limit *wanted,
		      size_t count, struct err *err);

#endif
