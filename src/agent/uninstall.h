/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes away what an agent has left on the host for others to find, once it is gone for good: our
 * validation files, the feature file, CDI specifications, dead sockets in the kubelet's directory;
 * the jobs and their output only when that is asked for. Never touches what others have written.
 * Called by `sluice agent --cleanup`.
 */
#ifndef SLUICE_AGENT_UNINSTALL_H
#define SLUICE_AGENT_UNINSTALL_H

#include <stdbool.h>

struct agent_paths;
struct err;

enum uninstall_limits {
	UNINSTALL_DEPTH_MAX = 16, /* of directories below the state directory */
};

struct uninstall_options {
	const struct agent_paths *paths; /* borrowed */
	const char *root;		 /* before every other path; pci_root() */
	bool purges;			 /* all that is in the state directory, too */
	bool withdraws; /* the caller then removes the labels that were applied to the Node */
	/* A sentence about what was removed, or what cannot be from here. */
	void (*tell)(const char *text, void *context);
	void *context;
};

/* 0, also when there was nothing. -EBUSY: an agent runs with this state or listens there, or (to
 * purge) a job runs; nothing was touched then. What else removing gives; the rest is done all the
 * same. */
int uninstall_run(const struct uninstall_options *options, struct err *err);

/* For doors: a sentence to whoever asked. */
void uninstall_tell(const struct uninstall_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
