/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line with which podman runs a job's container: exactly the devices that the job was
 * given, by their CDI names, below the job's cgroup. Nothing of it is read by a shell, and nothing
 * that a user names can be taken for an option. Pure. Knows nothing of the machine but what it is
 * told.
 */
#ifndef SLUICE_LIBEXEC_CONTAINER_PODMAN_H
#define SLUICE_LIBEXEC_CONTAINER_PODMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct launch;

enum podman_limits {
	PODMAN_MAJOR = 4, /* the first with CDI is 4.1: */
	PODMAN_MINOR = 1, /* https://github.com/containers/podman/blob/main/RELEASE_NOTES.md */
};

/* What this machine and this user need; settings.h finds it out. */
struct podman_settings {
	const char *runtime; /* NULL: podman's own choice */
	const char *parent;  /* the cgroup for the container, from the hierarchy's top; NULL */
	bool has_limits;     /* the two below are set; else podman chooses */
	uint64_t files[2], processes[2]; /* soft and hard */
	uint64_t locked[2]; /* of memory, for a job that may lock it; UINT64_MAX: no limit */
	bool sets_group;    /* there is no group of the job's, and podman can limit its own */
};

/* argv of `podman run` and of `podman rm`; ends in NULL, given back by words_free(). -ENOMEM. */
int podman_run(const struct launch *launch, const struct podman_settings *settings, char ***out,
	       struct err *err);
int podman_remove(const struct launch *launch, const struct podman_settings *settings, char ***out,
		  struct err *err);

/* Whether "podman version 4.3.1" can do what podman_run() asks. -EINVAL: it is not understood;
 * -ENOTSUP: it is too old. Pure. */
int podman_check_version(const char *text, struct err *err);

#endif
