/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What compilers may call on their own, whatever they are told, for programs without a C library.
 * Included by the file of such a program that has its first instruction, and by no other.
 */
#ifndef SLUICE_LIBEXEC_FREESTANDING_MEMORY_H
#define SLUICE_LIBEXEC_FREESTANDING_MEMORY_H

#include <stddef.h>

void *memset(void *out, int value, size_t length);
void *memcpy(void *out, const void *from, size_t length);

void *memset(void *out, int value, size_t length)
{
	for (size_t i = 0; i < length; i++)
		((volatile unsigned char *)out)[i] = (unsigned char)value;
	return out;
}

void *memcpy(void *out, const void *from, size_t length)
{
	for (size_t i = 0; i < length; i++)
		((volatile unsigned char *)out)[i] = ((const unsigned char *)from)[i];
	return out;
}

#endif
