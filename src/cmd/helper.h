/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one of our programs of libexec to its end and takes what it prints: for commands that need
 * what sluice itself does not link (XML, compression, HTTP). Knows nothing of what they say.
 */
#ifndef SLUICE_CMD_HELPER_H
#define SLUICE_CMD_HELPER_H

#include <stdint.h>

struct buf;
struct err;

/*
 * `name`: "sluice-packages", which a build has in `directory` of its libexec. `arguments` follow
 * it and end in NULL; `input` (may be NULL) is what it reads. What it prints is appended to `out`,
 * whose max is the cap. 0; -ENOPKG: it is not installed; -EIO: it failed, and the error is the last
 * line that it said; -ETIMEDOUT: it was killed after `timeout_ms`; -EFBIG; what starting it gave.
 */
int helper_run(const char *name, const char *directory, const char *const *arguments,
	       const char *input, uint32_t timeout_ms, struct buf *out, struct err *err);

#endif
