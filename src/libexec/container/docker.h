/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command lines with which docker runs a job's container and takes it away, and what docker
 * says of itself. docker's daemon makes the container, which is no descendant of the job's: below
 * the job's cgroup it is only where docker makes cgroups itself. Pure. Knows nothing of the machine
 * but what it is told.
 *
 * https://docs.docker.com/reference/cli/docker/container/run/,
 * https://docs.docker.com/reference/cli/dockerd/
 */
#ifndef SLUICE_LIBEXEC_CONTAINER_DOCKER_H
#define SLUICE_LIBEXEC_CONTAINER_DOCKER_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct launch;
struct scan;

enum docker_limits {
	DOCKER_MAJOR = 20,	   /* the first whose `run` has --pull is 20.10 */
	DOCKER_TROUBLE_MAX = 160,  /* bytes of what it says */
	DOCKER_VERSION_MAX = 64,   /* of its text, with its NUL */
	DOCKER_INFO_MAX = 1 << 20, /* bytes of what `docker info` prints */
};

/* What a daemon says of itself. */
struct docker_info {
	char version[DOCKER_VERSION_MAX];
	bool has_cdi;	  /* it reads CDI specifications by itself */
	bool has_cgroups; /* it makes cgroups, and does not ask systemd for them */
	bool has_context; /* it was found by a context of its user's, as the client says */
};

/* What `docker info --format {{json .}}` prints. -EINVAL: it is not understood; -ENOTCONN: the
 * daemon did not answer, and why; -EACCES: the same, for want of a permission; -ENOTSUP: it is too
 * old. Pure; takes anything. */
int docker_parse_info(const char *text, size_t length, struct docker_info *out, struct err *err);

/* What its client says when the daemon does not answer. -ENOTCONN, -EACCES. */
int docker_trouble(const char *text, struct err *err);

/* What this machine and this user need; settings.h finds it out. */
struct docker_settings {
	const char *parent;	 /* the cgroup for the container, from the hierarchy's top; NULL */
	const struct scan *scan; /* where the devices are looked up; NULL: docker does that */
};

/* argv of `docker run`; ends in NULL, given back by words_free(). -ENOMEM; -ENODEV, -ENOTSUP: of a
 * device that docker cannot be told of. */
int docker_run(const struct launch *launch, const struct docker_settings *settings, char ***out,
	       struct err *err);
/* Of the command that prints the container's id, or nothing when there is none. */
int docker_find(const struct launch *launch, char ***out, struct err *err);
int docker_remove(const struct launch *launch, char ***out, struct err *err);

#endif
