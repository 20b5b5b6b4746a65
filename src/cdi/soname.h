/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shared library says of itself: its SONAME, class and machine. A driver's library can have
 * a hundred megabytes: one to three short reads find the name, and nothing in the file is believed
 * beforehand. Called by driver.h; knows nothing of drivers.
 *
 * Facts: the System V ABI, chapters 4 and 5 (https://refspecs.linuxfoundation.org/elf/gabi4+/).
 */
#ifndef SLUICE_CDI_SONAME_H
#define SLUICE_CDI_SONAME_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum soname_limits {
	SONAME_MAX = 128, /* of a SONAME, with its NUL */
	SONAME_SEGMENTS_MAX = 64,
	SONAME_DYNAMIC_MAX = 512, /* entries of the dynamic section */
};

enum soname_class { SONAME_CLASS_32 = 1, SONAME_CLASS_64 = 2 };

struct soname {
	uint32_t bits;		 /* enum soname_class */
	uint32_t machine;	 /* EM_X86_64, EM_AARCH64, ... of <elf.h> */
	char soname[SONAME_MAX]; /* "" when it has none, and for 32-bit libraries */
};

/*
 * Of the bytes of a file. -EINVAL: no ELF shared library of this machine's byte order, or damaged;
 * -EFBIG: beyond the limits. A SONAME with a slash or a control character is damage: it would
 * become a path.
 */
int soname_parse(const void *bytes, size_t length, struct soname *out, struct err *err);
/* Of an open file; `name` is what errors call it. The file's offset stays. As soname_parse(), and
 * what pread(2) gives. */
int soname_read(int fd, const char *name, struct soname *out, struct err *err);
/* EM_* of the machine that this is compiled for; 0 if it is none that has GPUs. */
uint32_t soname_machine_here(void);

#endif
