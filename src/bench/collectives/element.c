/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/element.h"
#include "bench/half.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

float element_bf16_to_f32(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof(value));
	return value;
}

uint16_t element_bf16_from_f32(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	if (isnan(value))
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

bool element_is_float(enum collective_type type)
{
	return type >= COLLECTIVE_F16;
}

bool element_is_unsigned(enum collective_type type)
{
	return type == COLLECTIVE_U8 || type == COLLECTIVE_U32 || type == COLLECTIVE_U64;
}

double element_value(enum collective_type type, const void *element)
{
	uint16_t half;
	float single;
	double value;

	switch (type) {
	case COLLECTIVE_F16:
		memcpy(&half, element, sizeof(half));
		return (double)half_to_float(half);
	case COLLECTIVE_BF16:
		memcpy(&half, element, sizeof(half));
		return (double)element_bf16_to_f32(half);
	case COLLECTIVE_F32:
		memcpy(&single, element, sizeof(single));
		return (double)single;
	default:
		memcpy(&value, element, sizeof(value));
		return value;
	}
}

static int64_t signed_of(const void *element, size_t size)
{
	uint64_t bits = 0;
	memcpy(&bits, element, size);
	uint32_t unused = (uint32_t)(64 - size * 8);
	return (int64_t)(bits << unused) >> unused;
}

void element_print(enum collective_type type, const void *element, char out[ELEMENT_TEXT_MAX])
{
	size_t size = collective_type_size(type);
	uint64_t bits = 0;

	memcpy(&bits, element, size);
	double value = element_is_float(type) ? element_value(type, element) : 0;

	if (size == 2)
		(void)snprintf(out, ELEMENT_TEXT_MAX, "%.6g (0x%04x)", value, (unsigned)bits);
	else if (element_is_float(type))
		(void)snprintf(out, ELEMENT_TEXT_MAX, "%.*g", size == 4 ? 9 : 17, value);
	else if (element_is_unsigned(type))
		(void)snprintf(out, ELEMENT_TEXT_MAX, "%llu", (unsigned long long)bits);
	else
		(void)snprintf(out, ELEMENT_TEXT_MAX, "%lld", (long long)signed_of(element, size));
}
