/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CDI devices applied to the configuration of an OCI container (config.json): what container
 * runtimes that know CDI do by themselves, for those that do not. Works on the JSON value, looks at
 * device nodes with stat(2), and never at the container's file system. Applying again changes
 * nothing.
 *
 * Facts: https://github.com/cncf-tags/container-device-interface, its pkg/cdi, and
 * https://github.com/opencontainers/runtime-spec.
 */
#ifndef SLUICE_CDI_APPLY_H
#define SLUICE_CDI_APPLY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "cdi/scan.h"

enum apply_limits {
	APPLY_NAMES_MAX = 1024, /* devices asked for at once */
};

/* Leaves out nodes and mounts. May be NULL: nothing is left out. */
struct apply_filter {
	/* Whether the container gets `path` (as it sees it), which a file of `kind` gives it. */
	bool (*wants)(void *context, const char *kind, const char *path);
	void *context;
};

/*
 * `names` are qualified ("nvidia.com/gpu=0"), or a kind alone ("nvidia.com/gpu"): then only what
 * its file gives to all devices. A name given twice counts once. All are resolved before anything
 * is edited; then come, for each in the order asked, the edits of its file (once) and its own.
 * `out_edited` gets a new value, owned, which shares nothing with `config`.
 *
 * -ENODEV: a name that is not resolved, and why; -ENOENT: a device node or the source of a mount
 * that is not on this machine; -EINVAL: `config` is not of the form of an OCI configuration, or a
 * node is not of the type that its file says; -E2BIG: too many names; -ENOMEM.
 */
int apply_devices(const struct scan *scan, const char *const *names, size_t count,
		  const struct apply_filter *filter, const json_t *config, json_t **out_edited,
		  struct err *err);

#endif
