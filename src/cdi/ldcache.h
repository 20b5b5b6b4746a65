/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /etc/ld.so.cache: where the loader of this machine finds each library. Reads the new form
 * (glibc-ld.so.cache1.1), alone or behind the old one. Pure, allocates nothing, and believes no
 * number in the file. Called by driver.h; knows nothing of drivers.
 *
 * Facts: sysdeps/generic/dl-cache.h of https://sourceware.org/git/glibc.git.
 */
#ifndef SLUICE_CDI_LDCACHE_H
#define SLUICE_CDI_LDCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define LDCACHE_PATH "/etc/ld.so.cache"

enum ldcache_limits {
	LDCACHE_SIZE_MAX = 16 << 20, /* bytes of the file */
	LDCACHE_COUNT_MAX = 1 << 17, /* libraries */
};

/* The architecture that an entry is for: bits 8-15 of its flags. */
enum ldcache_arch {
	LDCACHE_I386 = 0x0000,
	LDCACHE_X86_64 = 0x0300,
	LDCACHE_PPC64LE = 0x0500,
	LDCACHE_X32 = 0x0800,
	LDCACHE_ARMHF = 0x0900,
	LDCACHE_AARCH64 = 0x0a00,
};

/* A cache that was found valid. Its bytes are borrowed: valid as long as those it was parsed of. */
struct ldcache {
	const unsigned char *bytes; /* from the new header on */
	size_t length;
	uint32_t count; /* entries, also those that are not of ELF */
};

struct ldcache_entry {
	const char *name, *path; /* "libcuda.so.1", "/usr/lib64/libcuda.so.1" */
	uint32_t arch;		 /* enum ldcache_arch, or what a later glibc adds */
};

/*
 * Checks all of it: afterwards no entry points outside of the bytes, and every text ends in them.
 * -EINVAL: not such a cache, of the other byte order, or damaged; -EFBIG: beyond the limits.
 */
int ldcache_parse(const void *bytes, size_t length, struct ldcache *out, struct err *err);
/* The next entry of an ELF library; `at` starts at 0. False at the end. */
bool ldcache_next(const struct ldcache *cache, uint32_t *at, struct ldcache_entry *out);

#endif
