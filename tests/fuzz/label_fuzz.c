/* SPDX-License-Identifier: Apache-2.0 */
/* Names of GPUs, profiles and machines on their way to a label: any bytes. The suffix is what comes
 * before the first newline. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doors/labels/label.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[600], suffix[LABEL_VALUE_SIZE] = "", value[LABEL_VALUE_SIZE], key[128] = "x/";
	const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
	size_t used = line ? (size_t)(line - data) : 0;
	if (size >= sizeof(text) || used >= 40)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';

	label_value(text, size, value);
	if (!label_value_is_valid(value))
		abort();
	label_sanitise(text, used, suffix + 1, sizeof(suffix) - 1);
	suffix[0] = '-';
	label_value_with_suffix(text + used, suffix, value);
	if (!label_value_is_valid(value))
		abort();

	struct label_set set;
	label_set_init(&set);
	memcpy(key + 2, text, used);
	label_set_put(&set, key, text);
	label_set_put(&set, key, value);
	for (size_t i = 0; i < set.count; i++) {
		if (!label_key_is_valid(set.items[i].key) ||
		    !label_value_is_valid(set.items[i].value))
			abort();
	}
	label_set_done(&set);
	return 0;
}
