/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the driver search share: nobody else includes this. */
#ifndef SLUICE_DOORS_CDI_DRIVER_INTERNAL_H
#define SLUICE_DOORS_CDI_DRIVER_INTERNAL_H

#include "doors/cdi/driver.h"
#include "doors/cdi/rootdir.h"

struct driver_search {
	const struct driver_options *options;
	struct rootdir *root;
	struct driver *driver;
	const char *triplet;
	char *directories[DRIVER_DIRECTORIES_MAX]; /* owned; without links */
	uint32_t directory_count;
	bool has_version; /* driver->version is settled */
};

/* Which capability a library or program belongs to: "libcuda", "nvidia-smi". */
uint32_t driver_capabilities_of(const char *stem, size_t length);
/* Notes a problem. -ENOMEM. */
int driver_complain(struct driver *driver, bool is_severe, bool is_mismatch, const char *format,
		    ...) __attribute__((format(printf, 4, 5)));
/* Adds a file; does nothing where one of this kind and name is there. -ENOMEM, -E2BIG. */
int driver_add(struct driver *driver, enum driver_kind kind, uint32_t capabilities,
	       const char *path, const char *name, struct err *err);
/* A refused file: a problem, severe if it belongs to compute or utility. -ENOMEM. */
int driver_refuse(struct driver *driver, uint32_t capabilities, const struct err *why);
int driver_find_libraries(struct driver_search *search, struct err *err);

#endif
