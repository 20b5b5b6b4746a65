/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/half.h"

#include <math.h>
#include <string.h>

float half_to_float(uint16_t bits)
{
	uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
	float value;

	if (exponent == 31)
		value = fraction ? NAN : INFINITY;
	else if (exponent == 0)
		value = ldexpf((float)fraction, -24);
	else
		value = ldexpf((float)(fraction | 1024), (int)exponent - 25);

	return bits >> 15 ? -value : value;
}

uint16_t half_from_float(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));

	uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
	if (magnitude > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (magnitude >= 0x477ff000) /* 65520 and more round to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude < 0x38800000) { /* below 2^-14: counted in steps of 2^-24 */
		float steps = fabsf(value) * 0x1p24F;
		return (uint16_t)(sign | (uint32_t)lrintf(steps));
	}

	magnitude -= UINT32_C(112) << 23;
	return (uint16_t)(sign | (magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13);
}
