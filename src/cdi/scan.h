/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All CDI specifications of the machine, whoever wrote them: what they provide, which devices two
 * of them claim, why a file is of no use, and whether we may write one of a kind. Only reads. Knows
 * nothing of GPUs.
 */
#ifndef SLUICE_CDI_SCAN_H
#define SLUICE_CDI_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cdi/document.h"

enum scan_limits {
	SCAN_DIRECTORIES_MAX = 16,
	SCAN_FILES_MAX = 1024,	 /* DRA drivers write one for each claim */
	SCAN_ENTRIES_MAX = 4096, /* looked at in one directory */
	SCAN_KIND_MAX = DOCUMENT_NAME_MAX,
};

struct scan_file {
	char *path;		  /* owned; as it is on this machine */
	uint32_t priority;	  /* of two files with one device the higher wins */
	struct document document; /* all zero when it is of no use */
	char kind[SCAN_KIND_MAX]; /* also of a file of no use, if it can be told; "" */
	char why[ERR_TEXT_MAX];	  /* it is of no use; "" when it is good */
	int code;		  /* the same as -errno: -EINVAL: no valid specification; 0 */
	bool is_directory;	  /* that cannot be read */
	bool is_simulated;	  /* by its kind, or by the UUID of a device */
};

/* What was found. Freed by scan_done(). */
struct scan {
	struct scan_file *files; /* owned; by priority, then name */
	uint32_t count;
	char *directories[SCAN_DIRECTORIES_MAX]; /* owned; that were looked at */
	uint32_t directory_count;
};

enum scan_state {
	SCAN_FOUND,
	SCAN_NO_NAME,	/* not of the form VENDOR/CLASS=NAME */
	SCAN_NO_KIND,	/* no good file provides the kind */
	SCAN_NO_DEVICE, /* one does, without this device */
	SCAN_CONFLICT,	/* two files of one priority claim it: no runtime takes any */
	SCAN_HIDDEN,	/* only of a claim: a file of higher priority has the device, too */
};

/* One device of one file. */
struct scan_device {
	const struct scan_file *file;	/* borrowed, as all of it: until scan_done() */
	const struct yaml_node *device; /* its entry in the file */
	const char *name;		/* "0" */
	enum scan_state state;		/* SCAN_FOUND, SCAN_CONFLICT or SCAN_HIDDEN */
	/* The file in the way; NULL. Of several with one priority it is the first, and the first
	 * has the second; a file that they make unusable as well has the second. */
	const struct scan_file *other;
};

/*
 * Reads /etc/cdi and /var/run/cdi below `root` ("" for the real ones). A directory that is not
 * there is empty; a directory or file that cannot be read or is no specification is a scan_file
 * with its reason. -ENOMEM, -E2BIG.
 */
int scan_read(const char *root, struct scan *out, struct err *err);
/* The same of these directories; a later one has a higher priority. -E2BIG: too many of them, too.
 */
int scan_read_directories(const char *const *directories, size_t count, struct scan *out,
			  struct err *err);
void scan_done(struct scan *scan);
#define _cleanup_scan_ __attribute__((cleanup(scan_done)))

/* Where a qualified name comes from. `out_file` gets the file; of a conflict one, and `out_other`
 * the other one. Both may be NULL, and are NULL where there is none. Borrowed. */
enum scan_state scan_find(const struct scan *scan, const char *name,
			  const struct scan_file **out_file, const struct scan_file **out_other);

/* Every device of every good file, by kind, then name ("2" before "10"), then priority. `out` is
 * given, to be freed; NULL where there are none. -ENOMEM. */
int scan_devices(const struct scan *scan, struct scan_device **out, size_t *out_count,
		 struct err *err);

/* Whether it claims a name that an earlier file of its priority has: each conflict is seen once. */
bool scan_is_second(const struct scan_device *device);

/*
 * Whether we may provide `kind` in the file `own`: no other file does, be it good or broken,
 * because the same device twice makes both unusable. Kinds that are ours alone are always allowed.
 * Otherwise `out_foreign` (may be NULL) gets the file in the way. Borrowed.
 */
bool scan_may_write(const struct scan *scan, const char *kind, const char *own,
		    const struct scan_file **out_foreign);

/* "found", "no such device", ... */
const char *scan_state_to_string(enum scan_state state);

#endif
