/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CDI specification of this machine, as bytes: which nodes each GPU and MIG instance has, and
 * what all of them need. It holds device nodes, bind mounts and one variable, and never a hook:
 * every library is mounted under the name by which programs ask for it, where the loaders of
 * Debian-like and RHEL-like images look without being told. The same machine gives the same bytes.
 * Knows nothing of where they go.
 *
 * Facts: https://github.com/cncf-tags/container-device-interface.
 */
#ifndef SLUICE_CDI_GENERATE_H
#define SLUICE_CDI_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct buf;
struct cdi_driver;
struct err;
struct inventory;
struct minors;

enum generate_limits {
	GENERATE_TEXT_MAX = 1 << 20, /* bytes of a specification; what scan.h reads */
	GENERATE_NODES_MAX = 24,     /* of one device: a GPU with seven instances has 15 */
	GENERATE_DRM_MAX = 64,	     /* entries looked at of one GPU's drm directory */
};

/* "0" and "0:1"; "GPU-..." and "MIG-..."; "gpu0" and "mig0:1". */
enum generate_names { GENERATE_INDEX = 1, GENERATE_UUID = 2, GENERATE_TYPE_INDEX = 4 };
/* The directories in which images' loaders look. */
enum generate_layout { GENERATE_DEBIAN = 1, GENERATE_RHEL = 2, GENERATE_AUTO = 3 };

struct generate_options {
	const char *kind;     /* "nvidia.com/gpu" */
	const char *root;     /* before /sys, and before /dev; "" for the real ones */
	const char *dev_root; /* before /dev, when that is elsewhere; NULL */
	/* The two roots as the container runtime sees them, when that is not how they are seen
	 * here: an agent in a pod finds the host's files below a mount of its own. NULL: as here */
	const char *host_dev_root, *host_driver_root;
	const char *triplet;	    /* NULL: of this machine */
	uint32_t capabilities;	    /* enum driver_capability */
	uint32_t names;		    /* enum generate_names */
	const char *const *devices; /* only these: by index, "0:1" or UUID; NULL: all */
	size_t devices_count;
	const uint32_t *imex; /* channels that every device brings; they are not for everybody */
	size_t imex_count;
	uint32_t layout;  /* enum generate_layout */
	bool versioned;	  /* libraries under their file's name, too */
	bool without_all; /* no device "all" */
	/* A GPU in MIG mode is a device as well, with all its instances: it is handed out whole
	 * where the configuration takes no notice of MIG. */
	bool mig_whole;
	/* lstat(2), or what a test puts in its place: 0 or -errno. NULL: lstat(2). */
	int (*look)(void *context, const char *path, struct stat *out);
	void *context;
};

/*
 * Appends the specification to `out`, and to `notes` (may be NULL) one line for whatever is left
 * out. `driver` may be NULL: no files; `minors` may be NULL: then MIG instances are left out.
 * -ENODEV: no device at all, or one of `devices` or `imex` is not there; -ESTALE: the driver's
 * libraries are not those of the kernel; -ENOPKG: the driver has another severe problem; -EINVAL: a
 * path that is no UTF-8; -ENOSPC, -ENOMEM.
 */
int generate_text(const struct inventory *inventory, const struct minors *minors,
		  const struct cdi_driver *driver, const struct generate_options *options,
		  struct buf *out, struct buf *notes, struct err *err);

/*
 * Appends the specification of options->kind whose one device "0" is IMEX channel 0; nothing where
 * there is no such device node, below `dev_root` or `root`. -EINVAL: a path that is no UTF-8;
 * -ENOSPC, -ENOMEM.
 */
int generate_channel(const struct generate_options *options, struct buf *out, struct err *err);

#endif
