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
	PODMAN_NAME_MAX = 80,	 /* "sluice-job-", a number, '-', a UUID */
	PODMAN_DEVICE_MAX = 128, /* "sluice.dev/gpu=" and a UUID */
	PODMAN_LINE_MAX = 256 << 10,
	PODMAN_MAJOR = 4, /* the first with CDI is 4.1: */
	PODMAN_MINOR = 1, /* https://github.com/containers/podman/blob/main/RELEASE_NOTES.md */
};

/* What this machine and this user need; settings.h finds it out. */
struct podman_settings {
	const char *runtime; /* NULL: podman's own choice */
	const char *parent;  /* the cgroup for the container, from the hierarchy's top; NULL */
	bool has_limits;     /* the two below are set; else podman chooses */
	uint64_t files[2], processes[2]; /* soft and hard */
};

/* The name of the job's container. */
void podman_name(const struct launch *launch, char out[PODMAN_NAME_MAX]);
/* The CDI name of a granted device: of the kind that only sluice writes. */
/* Of an RDMA adapter, by its name of `length` bytes. */
void podman_adapter(const struct launch *launch, const char *name, size_t length,
		    char out[PODMAN_DEVICE_MAX]);
void podman_device(const char *uuid, char out[PODMAN_DEVICE_MAX]);

/* argv of `podman run` and of `podman rm`; ends in NULL, given back by podman_free(). -ENOMEM. */
int podman_run(const struct launch *launch, const struct podman_settings *settings, char ***out,
	       struct err *err);
int podman_remove(const struct launch *launch, const struct podman_settings *settings, char ***out,
		  struct err *err);
char **podman_free(char **argv);

/* Whether "podman version 4.3.1" can do what podman_run() asks. -EINVAL: it is not understood;
 * -ENOTSUP: it is too old. Pure. */
int podman_check_version(const char *text, struct err *err);

#endif
