/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Docker's daemon.json: what it says about CDI and NVIDIA's runtime, and CDI switched on in it with
 * every other byte kept, unknown keys, their order and the layout included. Pure. Called by
 * `sluice runtime configure`.
 *
 * Facts: https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file and
 * daemon/config/config.go of https://github.com/moby/moby.
 */
#ifndef SLUICE_CDI_RUNTIME_DAEMON_JSON_H
#define SLUICE_CDI_RUNTIME_DAEMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum daemon_json_limits {
	DAEMON_JSON_TEXT_MAX = 1 << 20,
	DAEMON_JSON_NAME_MAX = 256,
};

enum daemon_json_cdi { DAEMON_JSON_UNSET, DAEMON_JSON_ON, DAEMON_JSON_OFF };

struct daemon_json {
	enum daemon_json_cdi cdi;
	uint32_t cdi_line;			    /* where it stands; 0: it does not */
	char default_runtime[DAEMON_JSON_NAME_MAX]; /* "" : not said */
	char nvidia_path[DAEMON_JSON_NAME_MAX];	    /* program of a runtime that is NVIDIA's; "" */
	bool has_directories;			    /* cdi-spec-dirs is there */
	bool has_run_directory;			    /* and names /var/run/cdi or /run/cdi */
};

/* Nothing but white space is an empty file, as it is for docker. -EINVAL: no JSON, a key twice, or
 * a value of another type than docker's; `name` is what the error calls the text. -E2BIG, -ENOMEM.
 */
int daemon_json_parse(const char *text, size_t length, const char *name, struct daemon_json *out,
		      struct err *err);

/* Adds the text with features.cdi set to true to `out`: 1; 0 when it is true already (`out` has
 * nothing then). -EINVAL, -E2BIG as above, -ENOMEM. */
int daemon_json_set_cdi(const char *text, size_t length, const char *name, struct buf *out,
			struct err *err);

#endif
