/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent's CDI specifications were made from, kept beside its socket in `cdi.state`: a
 * specification has no room for it that every runtime would accept (annotations came with 0.6.0).
 * With it, whoever looks later can tell whether the machine is still the one that they describe.
 * JSON; knows nothing of what is in the specifications.
 */
#ifndef SLUICE_DOORS_CDI_STATE_H
#define SLUICE_DOORS_CDI_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"

struct buf;
struct err;

#define STATE_NAME "cdi.state" /* in the agent's runtime directory */

enum state_limits {
	STATE_SIZE_MAX = 1 << 18, /* bytes of the file */
	STATE_UUIDS_MAX = GPU_MAX * (1 + GPU_MIG_MAX),
	STATE_SOURCES_MAX = 1024,
	STATE_FILES_MAX = 16,
	STATE_TEXT_MAX = 4096, /* of a path, a kind or a UUID, with its NUL */
	STATE_BOOT_MAX = 48,   /* of /proc/sys/kernel/random/boot_id */
};

/* A file of the driver that is mounted into containers. */
struct state_source {
	char *path;	  /* owned; as the agent saw it */
	int64_t mtime_ns; /* since 1970 */
};

/* A specification that was written. */
struct state_file {
	char *path, *kind; /* owned */
};

/* Zero-initialised; freed by state_done(). */
struct state {
	char driver[GPU_VERSION_MAX]; /* "580.82.07" */
	char boot_id[STATE_BOOT_MAX]; /* "": not known */
	uint32_t uuid_count, source_count, file_count;
	char **uuids; /* owned; of GPUs and MIG devices */
	struct state_source *sources;
	struct state_file *files;
};

void state_done(struct state *state);
#define _cleanup_state_ __attribute__((cleanup(state_done)))

/* Copies are made. -ENOMEM; -E2BIG: a limit. */
int state_add_uuid(struct state *state, const char *uuid, struct err *err);
int state_add_source(struct state *state, const char *path, int64_t mtime_ns, struct err *err);
int state_add_file(struct state *state, const char *path, const char *kind, struct err *err);

/* Appends the file's text. -ENOMEM: also where a text is no UTF-8, or `out` is full. */
int state_format(const struct state *state, struct buf *out, struct err *err);
/* `name` is what errors call the text. Keys that are not known are skipped. -EINVAL: it is no such
 * file; -E2BIG, -ENOMEM. `out` is zero-initialised, and untouched on failure. */
int state_parse(const char *text, size_t length, const char *name, struct state *out,
		struct err *err);
/* Reads a file. -ENOENT, -EACCES, ...; as state_parse(). */
int state_read(const char *path, struct state *out, struct err *err);

#endif
