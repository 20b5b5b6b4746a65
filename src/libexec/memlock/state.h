/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hook is told of a container: the state that the runtime writes to its standard input,
 * and the limit of locked memory in the container's config.json, which the runtime sets after the
 * hooks. Pure; no memory of its own.
 *
 * https://github.com/opencontainers/runtime-spec/blob/main/runtime.md#state
 * https://github.com/opencontainers/runtime-spec/blob/main/config.md#posix-process
 */
#ifndef SLUICE_LIBEXEC_MEMLOCK_STATE_H
#define SLUICE_LIBEXEC_MEMLOCK_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum memlock_state_limits {
	STATE_TEXT_MAX = 64 << 10,  /* bytes of the state */
	STATE_CONFIG_MAX = 4 << 20, /* of a config.json that is looked at */
};

#define STATE_UNLIMITED UINT64_MAX /* as RLIM_INFINITY */

struct memlock_state {
	const char *id; /* as it is written; borrowed. NULL: it is not said */
	size_t id_length;
	const char *bundle; /* the same; the container's directory on the host */
	size_t bundle_length;
	int32_t pid; /* > 1 */
};

/* False: no JSON object, or it names no process. */
bool memlock_state_parse(const char *bytes, size_t length, struct memlock_state *out);

struct state_limit {
	uint64_t soft, hard; /* bytes */
};

/* The RLIMIT_MEMLOCK of config.json. False: there is none, or it cannot be read. */
bool state_config_parse(const char *bytes, size_t length, struct state_limit *out);

/* "unlimited", or bytes as a decimal number > 0. */
bool state_limit_parse(const char *text, size_t length, uint64_t *out);

#endif
