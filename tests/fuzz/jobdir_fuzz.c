/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a job's claim and result: refused, or values that are within their limits. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job/jobdir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jobdir_claim claim;
	struct jobdir_result result;
	struct err err = {0};
	if (jobdir_parse_claim((const char *)data, size, &claim, &err) == 0) {
		if (claim.pid < 0 || strlen(claim.boot_id) >= JOBDIR_BOOT_MAX ||
		    strlen(claim.cgroup) >= JOBDIR_TEXT_MAX)
			abort();
	} else if (err.code != -EBADMSG) {
		abort();
	}
	if (jobdir_parse_result((const char *)data, size, &result, &err) == 0) {
		if (result.end > JOBDIR_DEADLINE || result.exit_code < 0 ||
		    strlen(result.text) >= JOBDIR_TEXT_MAX)
			abort();
	} else if (err.code != -EBADMSG) {
		abort();
	}
	return 0;
}
