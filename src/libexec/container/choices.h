/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What podman and docker are told in the same words about a job's container: its name, what is set,
 * mounted and published in it, and as whom it runs. Pure.
 */
#ifndef SLUICE_LIBEXEC_CONTAINER_CHOICES_H
#define SLUICE_LIBEXEC_CONTAINER_CHOICES_H

#include <stddef.h>

struct launch;
struct words;

enum choices_limits {
	CHOICES_NAME_MAX = 80,	  /* "sluice-job-", a number, '-', a UUID */
	CHOICES_DEVICE_MAX = 128, /* "sluice.dev/gpu=" and a UUID */
};

/* The name of the job's container. */
void choices_name(const struct launch *launch, char out[CHOICES_NAME_MAX]);
/* The CDI name of a granted device: of the kind that only sluice writes. */
void choices_device(const char *uuid, char out[CHOICES_DEVICE_MAX]);
/* Of an RDMA adapter, by its name of `length` bytes. */
void choices_adapter(const struct launch *launch, const char *name, size_t length,
		     char out[CHOICES_DEVICE_MAX]);

/* By which name its processes and its leftovers are known. */
void choices_add_name(struct words *line, const struct launch *launch);
/* Its devices, for a runtime that knows CDI. */
void choices_add_devices(struct words *line, const struct launch *launch);
/* Everything else that both are told in the same words. `tmpfs_options`: what is added to those of
 * a directory in memory, with a comma in front; "". */
void choices_add(struct words *line, const struct launch *launch, const char *tmpfs_options);

/* Limits of its own, where the job's group is not around it: of memory, processors and processes.
 */
void choices_add_group(struct words *line, const struct launch *launch);

#endif
