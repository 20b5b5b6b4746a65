/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a supervisor gathers before it may claim an attempt: what it was told, the tokens of the
 * slots, the files of the output. All of it can be given back, so that the job waits on as if
 * nothing had been.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_PREPARE_H
#define SLUICE_LIBEXEC_SUPERVISE_PREPARE_H

#include <stddef.h>

#include "job/cgroup/cglimit.h"
#include "job/cgroup/cgroup.h"
#include "job/jobdir.h"
#include "job/launch.h"
#include "job/token.h"

struct err;

enum prepare_limits {
	PREPARE_FD_MIN = 600, /* tokens lie above what programs use themselves */
	PREPARE_WHO_MS = 100, /* for a token's holder to say who it is */
	PREPARE_TEXT_MAX = 256,
};

/* Reads the launch from `fd`, from its beginning. -EINVAL, -ENOMEM, ... */
int prepare_launch(int fd, struct launch *out, struct err *err);

/* The job's cgroup below launch->cgroup_root. -ENOENT when that is "": none is wanted. */
int prepare_cgroup(const struct launch *launch, struct cgroup *out, struct err *err);
/* The group that supervisors have beside jobs', which not every agent makes. -ENOENT. */
int prepare_supervisors(const struct launch *launch, struct cgroup *out, struct err *err);

/* What others are told of who has a GPU: the job's number. Its name is for its owner. */
void prepare_set_name(const struct launch *launch, struct note *out);

/* The job's limits, as far as they can be set here. */
void prepare_limits(const struct launch *launch, const struct cgroup *cgroup, struct cglimit *out);

struct prepare_tokens {
	struct token *tokens; /* owned, and what is in it */
	size_t count;
};
/*
 * Takes the tokens of all granted slots, on descriptors from PREPARE_FD_MIN on. -EBUSY: somebody
 * has one, and the error says which and who; then, as after any error, none is held.
 */
int prepare_tokens(const struct launch *launch, struct prepare_tokens *out, struct err *err);
void prepare_release(struct prepare_tokens *tokens);

/* Whether the files that it keeps of what the job writes have to be root's, or its user could fill
 * them past their limit. */
bool prepare_is_limited(int job_fd, const struct launch *launch);
/* Makes one of them root's, which the job's user may read. */
int prepare_keep(int fd, uid_t uid, gid_t gid);
/* Opens out.N or err.N of the job's directory for its user, who may read it. He owns it where its
 * length has no limit, or his quota is one; else it is root's. The descriptor: with a limit it is
 * not for the job, which writes into a pipe then. */
int prepare_output(int job_fd, const struct launch *launch, const char *prefix, struct err *err);

/* The claim of this process. */
int prepare_claim(const struct launch *launch, const struct cgroup *cgroup,
		  struct jobdir_claim *out, struct err *err);

#endif
