/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a configuration of k8s-rdma-shared-dev-plugin: refused with a text, or entries whose
 * values are in range and whose names are one each. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "policy/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_entry(const struct rdma_config *rdma, size_t index)
{
	const struct rdma_config_entry *entry = &rdma->entries[index];
	char name[RDMA_CONFIG_RESOURCE_MAX], other[RDMA_CONFIG_RESOURCE_MAX];
	size_t words = 0;
	for (size_t i = 0; i < RDMA_SELECT_COUNT; i++)
		words += entry->selectors[i].count;
	if (words == 0 || entry->name[0] == '\0' || entry->prefix[0] == '\0' ||
	    entry->units > RDMA_CONFIG_UNITS_MAX)
		abort();
	rdma_config_name(entry, name);
	for (size_t i = 0; i < index; i++) {
		rdma_config_name(&rdma->entries[i], other);
		if (strcmp(name, other) == 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *config = NULL;
	struct err err = {0};
	(void)config_is_rdma((const char *)data, size);
	int rc = config_parse_rdma((const char *)data, size, "fuzz", NULL, false, &config, &err);
	if (rc < 0) {
		if (rc != err.code || config || err.text[0] == '\0')
			abort();
		return 0;
	}
	if (!config->rdma.is_set || config->rdma.count == 0)
		abort();
	for (size_t i = 0; i < config->rdma.count; i++)
		check_entry(&config->rdma, i);
	(void)config_free(config);
	return 0;
}
