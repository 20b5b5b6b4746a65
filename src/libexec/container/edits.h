/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CDI devices as options of a docker that does not know CDI: their nodes, mounts and variables,
 * each by its own option. Asks the CDI specifications that were read before, and nobody else. What
 * docker has no option for is refused, rather than left out: sluice's own specifications have none
 * of it.
 *
 * https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
 */
#ifndef SLUICE_LIBEXEC_CONTAINER_EDITS_H
#define SLUICE_LIBEXEC_CONTAINER_EDITS_H

#include <stddef.h>

struct err;
struct scan;
struct scan_file;
struct words;

/* Borrowed for its life. */
struct edits {
	const struct scan *scan;
	struct words *line;
	const struct scan_file *last; /* whose edits for all devices are in it; NULL at first */
};

/* Adds one device by its qualified name, and before the first of a file what that gives to all.
 * -ENODEV: there is none; -ENOTSUP: docker cannot be told of it. */
int edits_add(struct edits *edits, const char *name, struct err *err);

#endif
