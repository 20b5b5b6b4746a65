/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files of the driver are on this machine and go into containers: libraries with the names by
 * which programs ask for them, programs, firmware, sockets. Found by looking, below a driver root
 * that may be hostile; nothing is executed and no library loaded. What is wrong (half a driver, two
 * of them, libraries that are not of the loaded module) is told by name. Knows nothing of CDI.
 */
#ifndef SLUICE_CDI_DRIVER_H
#define SLUICE_CDI_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "hardware/gpu.h"

enum cdi_driver_limits {
	DRIVER_FILES_MAX = 512,
	DRIVER_PROBLEMS_MAX = 64,    /* more are only counted */
	DRIVER_DIRECTORIES_MAX = 32, /* in which libraries are looked for */
	DRIVER_ENTRIES_MAX = 65536,  /* looked at in one of them */
};

enum driver_kind {
	DRIVER_LIBRARY,
	DRIVER_BINARY,
	DRIVER_FIRMWARE,
	DRIVER_SOCKET, /* of a daemon; its directory is what containers get: rootdir.h says why */
	DRIVER_DIRECTORY, /* the pipes of MPS */
	DRIVER_DATA,	  /* what libraries read: JSON for EGL and Vulkan, ... */
	DRIVER_MODULE,	  /* of the X server */
};

/* What a container may ask for; the words of NVIDIA_DRIVER_CAPABILITIES. */
enum driver_capability {
	DRIVER_UTILITY = 1 << 0,
	DRIVER_COMPUTE = 1 << 1,
	DRIVER_VIDEO = 1 << 2,
	DRIVER_GRAPHICS = 1 << 3,
	DRIVER_NGX = 1 << 4,
	DRIVER_DISPLAY = 1 << 5,
	DRIVER_OTHER = 1 << 6, /* of no capability that we know; only with all of them */
	DRIVER_ALL = (1 << 7) - 1,
};

struct driver_file {
	enum driver_kind kind;
	uint32_t capabilities; /* a file goes into a container that has one of them; 0: always */
	char *path; /* owned; inside of the root, without links: "/usr/lib64/libcuda.so.580.82" */
	char *name; /* owned; libraries: the SONAME, perhaps after "vdpau/"; X modules:
		       "drivers/..." or "extensions/..."; else the path in the container */
};

struct driver_problem {
	bool is_severe;	  /* containers would not work: nothing is to be written */
	bool is_mismatch; /* libraries are not those of the kernel module */
	char text[ERR_TEXT_MAX];
};

struct cdi_driver {
	char root[GPU_PATH_MAX];       /* "" for / */
	char version[GPU_VERSION_MAX]; /* of the files */
	uint32_t file_count;
	struct driver_file *files;	 /* owned; ordered by kind, name */
	uint32_t problem_count;		 /* may be more than are kept */
	struct driver_problem *problems; /* owned */
};

struct driver_options {
	const char *root;     /* "/" */
	const char *version;  /* of the loaded kernel module; "": not known, then that of libcuda */
	const char *release;  /* of the kernel, for its firmware; "": not known */
	const char *firmware; /* firmware_class' own path; "" */
	const char *triplet;  /* "x86_64-linux-gnu"; NULL: of this machine */
	const char *mps;      /* where MPS has its pipes, if not in /tmp/nvidia-mps; NULL */
	const char *const *directories; /* more of them, looked at first, as seen from inside */
	size_t directory_count;
};

/*
 * Looks. 0 also when there are problems; -ENOENT: not one library of a driver there; the root's
 * errors are those of rootdir_open(); -ENOMEM; -E2BIG: a limit.
 */
int driver_find(const struct driver_options *options, struct cdi_driver *out, struct err *err);
void driver_done(struct cdi_driver *driver);
#define _cleanup_driver_ __attribute__((cleanup(driver_done)))

/* Whether a problem is severe, and which is the first; NULL if none. Borrowed. */
const struct driver_problem *driver_severe(const struct cdi_driver *driver);
/* The same as an error: -ESTALE: libraries that are not the kernel's; -ENOPKG: another one. 0. */
int driver_check(const struct cdi_driver *driver, struct err *err);

/* "x86_64-linux-gnu": the name of this machine's libraries in Debian-like systems. */
const char *driver_triplet_here(void);

/* "utility,compute", "all": the bits. -EINVAL names the word that is none. */
int driver_capabilities_parse(const char *text, uint32_t *out, struct err *err);
/* What a container has to ask for to get the file or node at `path`, as it sees it, whoever put it
 * into a specification: a library's name says it, a program's and a node's. 0: always. */
uint32_t driver_capabilities_at(const char *path);

#endif
