/* SPDX-License-Identifier: Apache-2.0 */
/* What an image requires: one expression, and a whole environment, of any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "cdi/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct require_facts facts = {.cuda = "12.8",
					    .driver = "570.124.06",
					    .has_gpu = true,
					    .arch = "8.0",
					    .brand = "NvidiaVApps"};
	const struct require_facts nothing = {.brand = "Unknown"};
	const char *text = (const char *)data;
	bool is_met, again;
	struct err err = {0}, why = {0};
	_cleanup_buf_ struct buf unknown;
	buf_init(&unknown, 4096);
	/* What is there decides whether it holds, never whether it can be read. */
	int rc = require_check(text, size, &facts, &is_met, &unknown, &err);
	if (rc != require_check(text, size, &nothing, &again, NULL, NULL) ||
	    (rc < 0 && !err.text[0]))
		abort();
	json_auto_t *env = NULL;
	if (require_env_parse(text, size, &env, &err) == 0) {
		is_met = true;
		rc = require_env(env, &facts, &is_met, &why, &unknown, &err);
		if (rc == 0 && !is_met && !why.text[0])
			abort();
	}
	return 0;
}
