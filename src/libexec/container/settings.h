/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What podman or docker has to be told on this machine, and whether it can start at all: found out
 * rather than configured. Called in the job's own process, as the job's user. Knows nothing of
 * images.
 */
#ifndef SLUICE_LIBEXEC_CONTAINER_SETTINGS_H
#define SLUICE_LIBEXEC_CONTAINER_SETTINGS_H

#include <stdbool.h>

#include "job/cgroup/cgroup.h"
#include "libexec/container/docker.h"
#include "libexec/container/podman.h"

struct err;
struct launch;
struct scan;

enum container_settings_limits {
	SETTINGS_TEXT_MAX = 16 << 10, /* bytes of /proc/self/cgroup; of what a program prints */
	SETTINGS_VERSION_MAX = 128,
};

/* Where the machine is looked at; for tests. */
struct settings_places {
	const char *cgroups; /* "/sys/fs/cgroup" */
	const char *self;    /* "/proc/self/cgroup" */
	const char *pid_max; /* "/proc/sys/kernel/pid_max" */
};

struct container_settings {
	struct podman_settings podman; /* points into this */
	char parent[CGROUP_PATH_MAX];  /* the job's group, whoever may use it; "": none */
};

/* `places`: NULL for the real ones. */
void settings_read(const struct launch *launch, const struct settings_places *places,
		   struct container_settings *out);

/* The group of the job from the text of /proc/self/cgroup of a process in it (or in "launcher" of
 * it). False: it is in another one, or in none of cgroup v2. Pure. */
bool settings_parent(const char *text, const char *group, char out[CGROUP_PATH_MAX]);

/* Which of enum spec_runtime makes the container: podman where both are. -ENOENT: there is none. */
int settings_choose(const struct launch *launch, uint32_t *out, struct err *err);
/* That podman is here and new enough. -ENOENT, -ENOTSUP, -EINVAL, ... */
int settings_check_podman(struct err *err);
/* That docker's daemon answers, and what it is like. As docker_parse_info(); -EREMOTE: it would be
 * one of another machine. */
int settings_ask_docker(struct docker_info *out, struct err *err);
/* Why a container that this docker makes is not in the job's cgroup, or why that is not known:
 * another daemon than root's may say of itself what it likes (`host`: $DOCKER_HOST, or NULL). What
 * root's own job asks is the administrator's. NULL: it is. */
const char *settings_elsewhere(const struct docker_info *info,
			       const struct container_settings *settings, uid_t uid,
			       const char *host);
/* That each device of the job has a CDI specification which the runtime finds. -ENODEV. `scan`: all
 * that were read, the caller's in any case: scan_done(). */
int settings_check_devices(const struct launch *launch, struct scan *scan, struct err *err);

#endif
