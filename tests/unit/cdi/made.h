/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made-up parts of a driver that the tests of this door share: the smallest shared library that has
 * a SONAME. Knows nothing of cmocka, so that the fuzzers' seeds can come from here.
 */
#ifndef TESTS_UNIT_DOORS_CDI_MADE_H
#define TESTS_UNIT_DOORS_CDI_MADE_H

#include <elf.h>

struct made_library {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2]; /* all of it, and the dynamic section */
	Elf64_Dyn dynamic[3];	/* SONAME, table of texts, end */
	char text[160];
};

void made_library(struct made_library *out, const char *soname);

#endif
