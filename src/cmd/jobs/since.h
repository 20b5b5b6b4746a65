/* SPDX-License-Identifier: Apache-2.0 */
/* A time in the past as people write it on a command line. Knows nothing of what it is for. */
#ifndef SLUICE_CMD_JOBS_SINCE_H
#define SLUICE_CMD_JOBS_SINCE_H

#include <stdint.h>

struct err;

/* What `--since` may be, for messages and help. */
#define SINCE_FORMS "7d, 12h30m, 2026-11-01 or 2026-11-01T08:30"

/*
 * "7d", "2w" and what parse_duration() takes: so long before `now_unix_ns`; "2026-11-01", or with
 * "T08:30" or "T08:30:15": that time, of this machine's zone. Never before 1970. -EINVAL with a
 * text.
 */
int since_read(const char *text, int64_t now_unix_ns, int64_t *out_unix_ns, struct err *err);

#endif
