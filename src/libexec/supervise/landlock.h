/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the calling process, and all that it starts, from opening some device nodes, without any
 * privilege: everything may be read and written but those. What it costs: programs in it gain no
 * privilege (sudo), mount nothing, make no device nodes, and open nothing that is made later
 * directly in / or /dev. Knows nothing of GPUs or jobs.
 *
 * Kernel: Documentation/userspace-api/landlock.rst.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_LANDLOCK_H
#define SLUICE_LIBEXEC_SUPERVISE_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct devguard_rule;

enum landlock_limits {
	LANDLOCK_ENTRIES_MAX = 16384, /* of one directory */
	LANDLOCK_DEPTH_MAX = 16,
};

struct landlock_plan {
	const struct devguard_rule *denied; /* borrowed */
	size_t count;
	const char *device_root; /* borrowed; another place with a /dev; "": none */
};

/* The version that the kernel has: 1 or more. -ENOSYS, -EOPNOTSUPP: it has none, or it is off. */
int landlock_version(void);

/* Sets no_new_privs and puts the rules around this thread, for good. May be called between fork
 * and exec of a program with one thread. -errno: nothing but no_new_privs has changed. */
int landlock_restrict(const struct landlock_plan *plan);

#endif
