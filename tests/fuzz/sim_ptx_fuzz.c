/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a PTX text, and as a list of the simulated driver's faults. */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/fault.h"
#include "sim/cuda/ptx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ptx ptx;
	static struct faults faults;
	char log[200], text[1024];
	const char *word = "";

	if (ptx_parse((const char *)data, size, &ptx, log, sizeof(log)) != 0) {
		if (!log[0])
			abort();
	} else if (ptx.target == 0 || ptx.version == 0 || ptx.entry_count > PTX_ENTRY_MAX) {
		abort();
	}
	for (uint32_t i = 0; i < ptx.entry_count; i++) {
		if (strlen(ptx.entry[i]) >= PTX_NAME_MAX)
			abort();
	}
	if (size >= sizeof(text))
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	if (faults_parse(text, &faults, &word) != 0 && (word < text || word > text + size))
		abort();
	if (faults.count > FAULT_MAX)
		abort();
	return 0;
}
