/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that answers HTTP: takes the descriptors of web/handed.h that the agent gives it,
 * shuts itself in, and serves what the view says until the agent is gone. Called by
 * libexec/web/main.c only.
 */
#ifndef SLUICE_WEB_WEB_H
#define SLUICE_WEB_WEB_H

#include <stdbool.h>
#include <stdint.h>

struct err;

struct web_options {
	uint32_t uid, gid; /* whom it becomes; SANDBOX_KEEP: stays who it is */
	bool no_sandbox;   /* for debuggers and sanitizers */
};

/* Runs until the agent is gone or SIGTERM comes: 0. Errors: -EBADF (not started by an agent),
 * -EINVAL (the view is of another version), -ENOMEM, -EPERM (it cannot shut itself in). */
int web_run(const struct web_options *options, struct err *err);

#endif
