/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel module says of itself: for which kernel it was built, by which version, under which
 * licence. A module can have a hundred megabytes: a few short reads find its section .modinfo, and
 * nothing in the file is believed beforehand. Knows nothing of drivers.
 *
 * Facts: the System V ABI, chapter 4 (https://refspecs.linuxfoundation.org/elf/gabi4+/);
 * MODULE_INFO of the kernel's include/linux/moduleparam.h; modinfo(8).
 */
#ifndef SLUICE_DOCTOR_MODINFO_H
#define SLUICE_DOCTOR_MODINFO_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum modinfo_limits {
	MODINFO_TEXT_MAX = 192,
	MODINFO_SECTIONS_MAX = 8192,
	MODINFO_SIZE_MAX = 256 << 10, /* of the section; aliases and parameters are most of it */
};

struct modinfo {
	char vermagic[MODINFO_TEXT_MAX]; /* "6.1.0-18-amd64 SMP preempt mod_unload modversions" */
	char version[MODINFO_TEXT_MAX];	 /* "580.105.08"; "" */
	char license[MODINFO_TEXT_MAX];	 /* "NVIDIA", "Dual MIT/GPL"; "" */
};

/*
 * Of the bytes of a file. -EINVAL: no 64-bit ELF file of this machine's byte order, damaged, or
 * without that section; -ENOTSUP: it is compressed (xz, zstd, gzip); -ENOMEM. A text that is too
 * long or has control characters stays empty.
 */
int modinfo_parse(const void *bytes, size_t length, struct modinfo *out, struct err *err);
/* Of an open file, whose offset stays; `name` is what errors call it. As modinfo_parse(), and what
 * pread(2) gives. */
int modinfo_read(int fd, const char *name, struct modinfo *out, struct err *err);

#endif
