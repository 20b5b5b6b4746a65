/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the driver search share: nobody else includes this. */
#ifndef SLUICE_CDI_DRIVER_INTERNAL_H
#define SLUICE_CDI_DRIVER_INTERNAL_H

#include <dirent.h>

#include "cdi/driver.h"
#include "cdi/rootdir.h"

/* A directory with libraries, open. */
struct driver_directory {
	char *path;  /* owned; without links */
	DIR *stream; /* owned */
};

struct driver_search {
	const struct driver_options *options;
	struct rootdir *root;
	struct cdi_driver *driver;
	const char *triplet;
	struct driver_directory directories[DRIVER_DIRECTORIES_MAX];
	uint32_t directory_count;
	char
	    asked[FILE_PATH_MAX]; /* the directory of the loader's cache that was looked for last */
	bool has_version;	  /* driver->version is settled */
};

/* Which capability a library or program belongs to: "libcuda", "nvidia-smi". */
uint32_t driver_capabilities_of(const char *stem, size_t length);
/* Notes a problem. -ENOMEM. */
int driver_complain(struct cdi_driver *driver, bool is_severe, bool is_mismatch, const char *format,
		    ...) __attribute__((format(printf, 4, 5)));
/* Adds a file; does nothing where one of this kind and name is there. -ENOMEM, -E2BIG. */
int driver_add(struct cdi_driver *driver, enum driver_kind kind, uint32_t capabilities,
	       const char *path, const char *name, struct err *err);
/* A refused file: a problem, severe if it belongs to compute or utility. -ENOMEM. */
int driver_refuse(struct cdi_driver *driver, uint32_t capabilities, const struct err *why);
/* Adds `path` if it is there; what is there and cannot be taken is a problem. */
int driver_try(struct driver_search *search, enum driver_kind kind, uint32_t capabilities,
	       const char *path, const char *name, bool *out_taken, struct err *err);
int driver_find_data(struct driver_search *search, struct err *err);
int driver_find_libraries(struct driver_search *search, struct err *err);

#endif
