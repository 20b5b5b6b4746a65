/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CDI switched on in a container runtime: what would have to change on this machine, the change
 * itself, and the way back. Only merges into what is there, and touches no file of anybody else
 * without a copy beside it. Never runs a container; what it knows of a runtime is its version and
 * its files. Called by `sluice runtime configure`.
 *
 * Facts: https://github.com/containerd/containerd/blob/main/docs/cri/config.md,
 * https://github.com/containerd/containerd/pull/9621 (on by default in 2.0),
 * https://github.com/containerd/containerd/pull/9982 (imports are merged from 2.0 on),
 * https://github.com/moby/moby/pull/49963 (on by default in 28.2),
 * https://github.com/cri-o/cri-o/pull/5309.
 */
#ifndef SLUICE_CDI_RUNTIME_RUNTIME_H
#define SLUICE_CDI_RUNTIME_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "cdi/version.h"

enum runtime_limits {
	RUNTIME_NOTES_MAX = 16,
	RUNTIME_FILES_MAX = 64, /* that a containerd configuration is spread over */
	RUNTIME_TEXT_MAX = 1 << 20,
};

/* The suffix of the copy that lies beside a file that was edited. */
#define RUNTIME_BACKUP ".sluice-bak"

enum runtime_kind { RUNTIME_PODMAN, RUNTIME_DOCKER, RUNTIME_CONTAINERD, RUNTIME_CRIO };

/* All borrowed. */
struct runtime_machine {
	enum runtime_kind kind;
	const char *root;	/* before every path; "" */
	const char *config;	/* of docker and containerd: instead of the usual file; NULL */
	struct version version; /* not needed by runtime_undo() */
};

enum runtime_state {
	RUNTIME_READY,	/* CDI works, nothing has to be done */
	RUNTIME_CHANGE, /* it will when the file is changed */
	RUNTIME_CANNOT, /* it does not work there */
};

/* What a note is about. */
enum runtime_about {
	RUNTIME_ABOUT_CDI,
	RUNTIME_ABOUT_HOOK,    /* a hook or a runtime of NVIDIA's that is active beside CDI */
	RUNTIME_ABOUT_SELINUX, /* it keeps containers from devices */
};

struct runtime_note {
	bool is_warning;
	enum runtime_about about;
	char text[ERR_TEXT_MAX];
};

/* Freed by runtime_plan_done(). */
struct runtime_plan {
	enum runtime_state state;
	char text[ERR_TEXT_MAX];  /* why, in a sentence */
	char path[FILE_PATH_MAX]; /* the file to be changed; "" */
	bool is_new;		  /* it is not there yet */
	bool needs_backup;	  /* false for a file that is all ours */
	struct buf before, after; /* its text */
	struct runtime_note notes[RUNTIME_NOTES_MAX];
	uint32_t note_count;
};

/* "podman", ... ; the program that knows the version: "dockerd"; what makes it read its files. */
const char *runtime_kind_to_string(enum runtime_kind kind);
const char *runtime_program(enum runtime_kind kind);
const char *runtime_restart(enum runtime_kind kind);
const char *runtime_state_to_string(enum runtime_state state);

/*
 * What has to change. Reads only. -EINVAL: a file that is not understood, or another file that
 * stands in the way; -E2BIG, -ENOMEM; what reading gave.
 */
int runtime_plan(const struct runtime_machine *machine, struct runtime_plan *out, struct err *err);
void runtime_plan_done(struct runtime_plan *plan);
#define _cleanup_runtime_plan_ __attribute__((cleanup(runtime_plan_done)))

/* Does what a plan of state RUNTIME_CHANGE says: first the copy, then the file, each at once, with
 * its owner and mode. What writing gave. */
int runtime_apply(const struct runtime_plan *plan, struct err *err);

/* What runtime_undo() did. `path` "" : there was nothing of ours. */
struct runtime_undone {
	char path[FILE_PATH_MAX];
	bool is_removed; /* the file was all ours; else it is as it was before */
};

/*
 * Takes back what runtime_apply() did. -EINVAL: the file is not as we left it, so nothing was
 * changed; the text names the line to take out. What reading and writing gave.
 */
int runtime_undo(const struct runtime_machine *machine, struct runtime_undone *out,
		 struct err *err);

#endif
