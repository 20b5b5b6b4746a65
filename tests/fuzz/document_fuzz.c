/* SPDX-License-Identifier: Apache-2.0 */
/* A CDI specification that somebody else wrote: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "cdi/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_document_ struct document document = {0};
	if (document_parse((const char *)data, size, "fuzz", &document, NULL) < 0)
		return 0;
	/* Whatever is taken has a kind, and devices that can be found. */
	if (!document_is_kind(document.kind) || document.devices->entry_count == 0)
		abort();
	for (size_t i = 0; i < document.devices->entry_count && i < 16; i++) {
		const struct yaml_node *device = document.devices->entries[i].value;
		const char *name = yaml_get(device, "name")->text;
		if (!document_is_device(name) || document_find(&document, name) != device)
			abort();
	}
	return 0;
}
