/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the name of a device. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doors/kubelet/deviceid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Without a NUL behind it. */
	char *text = malloc(size > 0 ? size : 1);
	struct deviceid id;
	if (!text)
		abort();
	memcpy(text, data, size);
	int result = deviceid_parse(text, size, &id);
	if (result != 0 && result != -EINVAL)
		abort();
	if (result == 0 && ((id.kind == DEVICEID_MINOR) != (id.uuid[0] == '\0') ||
			    memchr(id.uuid, '\0', sizeof(id.uuid)) == NULL))
		abort();
	free(text);
	return 0;
}
