/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow one by one, their room doubling. Knows nothing of what lies in them. */
#ifndef SLUICE_BASE_ARRAY_H
#define SLUICE_BASE_ARRAY_H

#include <stddef.h>

/*
 * Room for one more element. `array` is the address of the pointer to `count` elements (NULL before
 * the first), `room` that of how many there is memory for; the first time there is for `first`.
 * What is new is not initialised. 0, or -ENOMEM: everything is as it was. A macro, because only a
 * macro knows the size of an element.
 */
#define array_room(array, count, room, first)                                                      \
	array_grow((array), sizeof(**(array)), (count), (room), (first))

/* For array_room(), which cannot mistake the size. */
int array_grow(void *array, size_t size, size_t count, size_t *room, size_t first);

#endif
