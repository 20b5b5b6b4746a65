/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int array_grow(void *array, size_t size, size_t count, size_t *room, size_t first)
{
	void *items;

	if (count < *room)
		return 0;
	if (*room > SIZE_MAX / 2)
		return -ENOMEM;

	/* The pointer has a type that is not known here: its bytes are taken. */
	memcpy(&items, array, sizeof(items));
	size_t more = *room > 0 ? 2 * *room : first;

	items = reallocarray(items, more, size);
	if (!items)
		return -ENOMEM;

	memcpy(array, &items, sizeof(items));
	*room = more;
	return 0;
}
