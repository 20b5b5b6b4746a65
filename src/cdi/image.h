/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether programs of an unpacked container image would find the driver's libraries where CDI
 * mounts them: which C library it has, where its loader looks, and whether a library of its own
 * would be taken instead. The image is hostile: links are resolved inside of it by the kernel, only
 * regular files are read, and none is believed. Changes nothing and runs nothing.
 *
 * Facts: the order in which a loader looks, ld.so(8) and elf/dl-load.c of
 * https://sourceware.org/git/glibc.git.
 */
#ifndef SLUICE_CDI_IMAGE_H
#define SLUICE_CDI_IMAGE_H

struct cdi_check;
struct err;

enum image_libc { IMAGE_NO_LIBC, IMAGE_GLIBC, IMAGE_MUSL };

/* Where its loader looks without being told. */
enum image_layout {
	IMAGE_UNKNOWN,
	IMAGE_DEBIAN, /* /usr/lib/x86_64-linux-gnu */
	IMAGE_RHEL,   /* /usr/lib64 */
	IMAGE_FLAT,   /* /usr/lib alone */
};

struct cdi_image {
	enum image_libc libc;
	enum image_layout layout;
};

/*
 * Looks at the image that is unpacked in `directory`. `triplet`: NULL for this machine's. Findings
 * go to `check`, all zero before, freed by check_done(). -ENOENT, -ENOTDIR, -EACCES: the directory;
 * -EOPNOTSUPP: the kernel has no openat2(2); -ENOMEM.
 */
int image_check(const char *directory, const char *triplet, struct cdi_image *out,
		struct cdi_check *check, struct err *err);

/* "glibc", "musl", "none"; "debian", "rhel", "flat", "unknown". */
const char *image_libc_to_string(enum image_libc libc);
const char *image_layout_to_string(enum image_layout layout);

#endif
