/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what lies in the CDI directories would work now: every node, mount and hook that the
 * files name is looked at, and they are compared with the loaded kernel module, the installed
 * driver and the GPUs that the driver lists. Each difference is a finding: with an id that stays,
 * the file and device that it is about, a sentence with the reason, and what mends it. Only looks;
 * the driver is asked by whoever calls this.
 */
#ifndef SLUICE_CDI_CHECK_H
#define SLUICE_CDI_CHECK_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct inventory;
struct minors;
struct scan;
struct scan_file;

enum check_limits {
	CHECK_FINDINGS_MAX = 1024, /* more are only counted */
	CHECK_TEXT_MAX = 4096,	   /* bytes of a finding's text */
	CHECK_LISTED_MAX = 8,	   /* names of devices or kinds that one text lists */
};

enum check_severity {
	CHECK_NOTE,	  /* it would work, and this is worth knowing */
	CHECK_STALE,	  /* it would not work, or not as the file says */
	CHECK_UNREADABLE, /* it cannot be told: this user may not look, or nobody can read it */
};

enum check_id {
	CHECK_NOTHING,		    /* no CDI file at all */
	CHECK_DIRECTORY_UNREADABLE, /* by this user */
	CHECK_FILE_UNREADABLE,
	CHECK_FILE_REJECTED,	/* it is no valid specification */
	CHECK_NAME_INVALID,	/* not VENDOR/CLASS=NAME */
	CHECK_KIND_UNKNOWN,	/* no file provides it */
	CHECK_DEVICE_UNKNOWN,	/* a file provides the kind without it */
	CHECK_DEVICE_CONFLICT,	/* two files of one priority claim it */
	CHECK_VERSION_TOO_NEW,	/* for the runtime */
	CHECK_NODE_MISSING,	/* a device node */
	CHECK_NODE_TYPE,	/* no device node, or of another type */
	CHECK_NODE_NUMBER,	/* its major and minor are not those that are stated */
	CHECK_MOUNT_MISSING,	/* the source of a mount */
	CHECK_HOOK_MISSING,	/* its program */
	CHECK_PATH_UNREADABLE,	/* this user may not look at it */
	CHECK_LIBRARY_REPLACED, /* programs of the machine get another file by this name */
	CHECK_MODULE_MISSING,	/* the driver's kernel module is not loaded */
	CHECK_MODULE_VERSION,	/* the files are of another version than the module */
	CHECK_DRIVER_UNFIT,	/* the installed driver does not fit the module, or is incomplete */
	CHECK_GPU_GONE,
	CHECK_GPU_MOVED, /* another GPU has this node now */
	CHECK_GPU_MIG,	 /* cannot be used as a whole: it is in MIG mode */
	CHECK_GPU_NEW,	 /* the machine has it, and no device of the file is it */
	CHECK_MIG_GONE,
	CHECK_MIG_MOVED,
	CHECK_MIG_NEW,
	CHECK_DRIVER_SILENT, /* it was not asked, or did not answer */
	CHECK_READ_ONLY,     /* the directory cannot be written */
	CHECK_OTHERS_WRITE,  /* others than root can change what is there */
	/* Of an image: image.h. */
	CHECK_IMAGE_MUSL,
	CHECK_IMAGE_LOADER,  /* no C library, or no loader */
	CHECK_IMAGE_ARCH,    /* of another machine */
	CHECK_IMAGE_LAYOUT,  /* its loader looks where nothing is mounted */
	CHECK_IMAGE_LIBRARY, /* one of its own comes before the driver's */
	CHECK_IMAGE_BLOCKED, /* something is in the place of a mount */
	CHECK_IMAGE_CACHE,   /* its ld.so.cache is damaged */
	CHECK_ID_COUNT,
};

struct check_finding {
	enum check_id id;
	enum check_severity severity;
	const struct scan_file *file; /* borrowed: of the scan; NULL: of none */
	char *device;		      /* owned; "nvidia.com/gpu=0"; NULL: of none, or of all */
	char *path;		      /* owned; what the text is about; NULL */
	char *key;		      /* owned; findings of one id, file and key are one */
	char *text;		      /* owned; a sentence without a full stop */
	char *fix;		      /* owned; a command; NULL: there is none */
	uint32_t count;		      /* things like it that this stands for; 1 and more */
};

/* Freed by check_done(). */
struct cdi_check {
	struct check_finding *findings; /* owned; in the order of the files */
	size_t room;
	uint32_t count, total;		   /* that are kept, and all */
	uint32_t file_count, device_count; /* that were looked at */
	uint32_t gpu_file_count;	   /* files of those that give GPUs */
	enum check_severity worst;	   /* of all; CHECK_NOTE: fresh */
};

/* What the driver says, borrowed until check_scan() returns. */
struct check_machine {
	const struct inventory *inventory; /* NULL: not known */
	const struct minors *minors;	   /* NULL: not known */
};

/* What podman 4.3 to 4.5 read, and say nowhere: the CDI project's package with 0.6.0 came after
 * them (https://github.com/moby/moby/pull/45933). Verified with 4.3.1. */
#define CHECK_VERSION_OLDEST "0.5.0"

struct cdi_check_options {
	const char *root;	  /* before /dev, and before what files name that is not below it
				     already; "" for the real machine */
	const char *const *names; /* qualified names that are to work; none: all that lies there */
	size_t name_count;
	const char *runtime;	     /* "podman 4.3.1" */
	const char *runtime_version; /* the newest cdiVersion that it reads; NULL: not known */
	const char *module_version;  /* of the loaded kernel module; "": none is loaded */
	/* Both are called once at most, and only when needed; NULL: there is nobody to ask. */
	/* Asks the driver. -errno and why: it does not answer. */
	int (*ask)(void *context, struct check_machine *out, struct err *err);
	/* Whether the installed driver is whole and fits the module. -errno and why not. */
	int (*look)(void *context, struct err *err);
	void *context;
};

/* -ENOMEM. `scan` is borrowed until check_done(). */
int check_scan(const struct scan *scan, const struct cdi_check_options *options,
	       struct cdi_check *out, struct err *err);
void check_done(struct cdi_check *check);
#define _cleanup_check_ __attribute__((cleanup(check_done)))

/* "node-missing": the same in every release. */
const char *check_id_to_string(enum check_id id);
/* "note", "stale", "unreadable". */
const char *check_severity_to_string(enum check_severity severity);

#endif
