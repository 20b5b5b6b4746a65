/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings our files in /var/run/cdi into the state that they should have: written where they differ,
 * gone where somebody else provides their kind or where a container that used them would fail
 * strangely. One look and one repair at a time; who calls it, and when, is the agent's business.
 * Blocks (it reads the driver's files and writes), so not for a loop's thread. Never touches a file
 * that is not ours: ours are called sluice*.json.
 */
#ifndef SLUICE_DOORS_CDI_KEEP_H
#define SLUICE_DOORS_CDI_KEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "cdi/nodes.h"
#include "cdi/scan.h"
#include "hardware/gpu.h"

struct err;
struct inventory;
struct keep;

#define KEEP_DIRECTORY "/var/run/cdi"
#define KEEP_LOCK      ".sluice.lock" /* in it: of two agents one writes */

enum keep_limits {
	KEEP_KINDS_MAX = 4,
	KEEP_NAMES_MAX = 4,
	KEEP_NAME_MAX = SCAN_KIND_MAX + 16, /* of a file of ours */
	KEEP_NOTES_MAX = 1 << 14,
	KEEP_TEMPORARY_S = 60, /* a temporary file that is older was left by somebody who was killed
				*/
};

struct keep_options {
	const char *root;	/* before every path; "" for the real ones. Copied */
	const char *state_path; /* of the side file (state.h). Copied */
	bool makes_nodes;	/* device nodes that are missing */
	/* In a pod the host's driver is below a mount, and /dev and /run may be others. */
	bool is_pod;
	struct nodes_options nodes; /* for tests: make() and context */
	/* For tests: generate_options.look, without a context. */
	int (*look)(void *context, const char *path, struct stat *out);
};

/* What is to be. Borrowed for the call. */
struct keep_wish {
	/* NULL: there is no driver now. Nothing is written then, and what is there stays, but for
	 * what is in others' way and what would not work. */
	const struct inventory *inventory;
	/* Ours first. Of the class "imex-channel": channel 0, where it is there. None: nothing is
	 * wanted any more, and what the side file names is removed. */
	uint32_t kind_count;
	const char *kinds[KEEP_KINDS_MAX];
	/* nvidiaDriverRoot, nvidiaDevRoot, containerDriverRoot; NULL or "": as they are. */
	const char *driver_root, *dev_root, *container_root;
	uint32_t name_count;
	const char *names[KEEP_NAMES_MAX]; /* devices to look for: "nvidia.com/gds=all" */
	bool mig_whole;			   /* as in generate.h */
	/* The kind by which others name the GPUs and MIG devices of the inventory, by UUID or by
	 * index; NULL: nobody does. */
	const char *asked_kind;
	bool asked_by_index;
};

enum keep_state {
	KEEP_ABSENT,  /* there is no file of ours */
	KEEP_WRITTEN, /* ours is there, and right */
	KEEP_STAYS,   /* ours is there, as it was before the driver went */
	KEEP_FOREIGN, /* another file provides it */
};

struct keep_kind {
	char kind[SCAN_KIND_MAX];
	enum keep_state state;
	char foreign[FILE_PATH_MAX]; /* the other file; "" */
};

/* What has been done. Zero-initialised; freed by keep_report_done(). */
struct keep_report {
	uint32_t kind_count; /* as wished */
	struct keep_kind kinds[KEEP_KINDS_MAX];
	uint32_t written, removed; /* files */
	uint32_t names;		   /* bit i: name i of the wish is there */
	bool is_resolved;	   /* `missing` is known: what is there now will stay */
	/* Owned: UUIDs of GPUs and MIG devices that no specification has by the name that they are
	 * asked for by. */
	char (*missing)[GPU_UUID_MAX];
	uint32_t missing_count;
	struct buf notes; /* a line for each node made and each device left out */
};
void keep_report_done(struct keep_report *report);

/* -ENOMEM, -ENAMETOOLONG. */
int keep_new(const struct keep_options *options, struct keep **out, struct err *err);
/* Leaves the files. NULL is fine; returns NULL. */
struct keep *keep_free(struct keep *keep);

/*
 * One run. `out` is filled in any case as far as it came. 0; -EBUSY: another agent writes there;
 * -ENXIO: no kernel module is loaded, and what is there stays. Removed is what would not work:
 * -ESTALE: libraries that are not the kernel module's; -ENOPKG: half a driver; -ENOENT: none;
 * -ENODEV: not one device with its nodes; -EPERM, -EINVAL, -ENOTDIR: a driver root that others can
 * write, or none. The directory's errors: -EROFS, -ENOSPC, -EACCES, -ELOOP for a link in its place,
 * -ENOTDIR. -ENOMEM, -E2BIG.
 */
int keep_run(struct keep *keep, const struct keep_wish *wish, struct keep_report *out,
	     struct err *err);

/* The file of a kind: "sluice.dev-gpu.json", "sluice-nvidia.com-gpu.json". */
void keep_name(const char *kind, char out[KEEP_NAME_MAX]);

#endif
