/* SPDX-License-Identifier: Apache-2.0 */
/* What a container asks for, by any config.json. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cdi/oci.h"
#include "cdi/visible.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_auto_t *config = NULL;
	if (oci_parse((const char *)data, size, &config, NULL) < 0)
		return 0;
	for (unsigned bits = 0; bits < 8; bits++) {
		const struct visible_settings settings = {bits & 1, bits & 2, bits & 4,
							  "SWARM,OTHER"};
		_cleanup_visible_ struct visible visible = {0};
		if (visible_read(config, &settings, &visible, NULL) < 0)
			continue;
		/* Nobody who may not ask gets anything. */
		if (bits == 0 && visible.source != VISIBLE_NOBODY &&
		    (visible.source != VISIBLE_VARIABLE || !visible_is_privileged(config)))
			abort();
		if (visible.source == VISIBLE_NOBODY && (visible.count > 0 || visible.mig_config))
			abort();
		/* A name that is taken cannot lead anywhere. */
		for (uint32_t i = 0; i < visible.count; i++)
			if (strstr(visible.names[i], "..") == visible.names[i] ||
			    visible.names[i][0] == '/')
				abort();
	}
	return 0;
}
