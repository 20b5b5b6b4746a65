/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the configuration file: refused with a text, or a config whose values are in range.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "policy/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *config = NULL;
	struct err err = {0};
	int rc = config_parse((const char *)data, size, "fuzz", NULL, false, &config, &err);
	if (rc < 0) {
		if (rc != err.code || config || err.text[0] == '\0')
			abort();
		return 0;
	}
	char value[CONFIG_TEXT_MAX];
	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		if (schema_format(config, (enum schema_id)i, value, sizeof(value)) < 0)
			abort();
	}
	for (size_t i = 0; i < config->time_slicing.count; i++) {
		uint32_t replicas = config->time_slicing.items[i].replicas;
		if (replicas < 2 || replicas > CONFIG_REPLICAS_MAX)
			abort();
	}
	(void)config_free(config);
	return 0;
}
