/* SPDX-License-Identifier: Apache-2.0 */
/* Checked arithmetic for sizes: true when the result fits. `out` is untouched otherwise. */
#ifndef SLUICE_BASE_CHECK_H
#define SLUICE_BASE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

static inline bool size_add(size_t a, size_t b, size_t *out)
{
	size_t sum;
	if (__builtin_add_overflow(a, b, &sum))
		return false;
	*out = sum;
	return true;
}

static inline bool size_mul(size_t a, size_t b, size_t *out)
{
	size_t product;
	if (__builtin_mul_overflow(a, b, &product))
		return false;
	*out = product;
	return true;
}

#define array_length(array) (sizeof(array) / sizeof((array)[0]))

#endif
