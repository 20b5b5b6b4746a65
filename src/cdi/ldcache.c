/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/ldcache.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

enum ldcache_layout {
	LDCACHE_OLD_HEADER = 16, /* the magic, a byte of padding, the count */
	LDCACHE_OLD_COUNT = 12,
	LDCACHE_OLD_ENTRY = 12,
	LDCACHE_HEADER = 48,
	LDCACHE_COUNT = 20,
	LDCACHE_ORDER = 28, /* byte order; 0 before glibc 2.33 */
	LDCACHE_ENTRY = 24,
	LDCACHE_KEY = 4,
	LDCACHE_VALUE = 8,
	LDCACHE_ALIGNMENT = 8,
};

static const char ldcache_old_magic[] = "ld.so-1.7.0"; /* 11 bytes and the NUL */
static const char ldcache_magic[] = "glibc-ld.so.cache1.1";

static uint32_t ldcache_u32(const unsigned char *at)
{
	uint32_t value; /* nothing in the file needs to be aligned */
	memcpy(&value, at, sizeof(value));
	return value;
}

/* Where the new form begins: behind the old one, if there is one. -EINVAL. */
static int ldcache_begin(const unsigned char *bytes, size_t length, size_t *out, struct err *err)
{
	*out = 0;
	if (length < LDCACHE_OLD_HEADER ||
	    memcmp(bytes, ldcache_old_magic, sizeof(ldcache_old_magic)) != 0)
		return 0;

	uint64_t count = ldcache_u32(bytes + LDCACHE_OLD_COUNT);
	uint64_t end = LDCACHE_OLD_HEADER + count * LDCACHE_OLD_ENTRY;

	end = (end + LDCACHE_ALIGNMENT - 1) & ~(uint64_t)(LDCACHE_ALIGNMENT - 1);
	if (end > length)
		return err_set(err, -EINVAL,
			       "%s: its old part claims %llu libraries, more than its %zu bytes "
			       "hold; run ldconfig",
			       LDCACHE_PATH, (unsigned long long)count, length);

	*out = (size_t)end;
	return 0;
}

static bool ldcache_is_text(const struct ldcache *cache, uint32_t offset)
{
	return offset < cache->length &&
	       memchr(cache->bytes + offset, '\0', cache->length - offset);
}

static const unsigned char *ldcache_entry_at(const struct ldcache *cache, uint32_t at)
{
	return cache->bytes + LDCACHE_HEADER + (size_t)at * LDCACHE_ENTRY;
}

static bool ldcache_is_elf(const unsigned char *entry)
{
	return ldcache_u32(entry) & 1;
}

static bool ldcache_is_native(unsigned char order)
{
	/* 0: not told, 1: invalid, 2: little endian, 3: big endian */
	static const unsigned char native = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 2 : 3;
	return (order & 3) == 0 || (order & 3) == native;
}

int ldcache_parse(const void *bytes, size_t length, struct ldcache *out, struct err *err)
{
	if (length > LDCACHE_SIZE_MAX)
		return err_set(err, -EFBIG, "%s: more than %d bytes", LDCACHE_PATH,
			       LDCACHE_SIZE_MAX);

	size_t begin;
	int rc = ldcache_begin(bytes, length, &begin, err);
	if (rc < 0)
		return rc;

	struct ldcache cache = {.bytes = (const unsigned char *)bytes + begin,
				.length = length - begin};
	if (cache.length < LDCACHE_HEADER ||
	    memcmp(cache.bytes, ldcache_magic, strlen(ldcache_magic)) != 0)
		return err_set(err, -EINVAL, "%s: not a cache of glibc; run ldconfig",
			       LDCACHE_PATH);

	if (!ldcache_is_native(cache.bytes[LDCACHE_ORDER]))
		return err_set(err, -EINVAL, "%s: of a machine of the other byte order",
			       LDCACHE_PATH);

	cache.count = ldcache_u32(cache.bytes + LDCACHE_COUNT);
	if (cache.count > LDCACHE_COUNT_MAX)
		return err_set(err, -EFBIG, "%s: claims %u libraries, more than %d", LDCACHE_PATH,
			       cache.count, LDCACHE_COUNT_MAX);

	if (cache.count > (cache.length - LDCACHE_HEADER) / LDCACHE_ENTRY)
		return err_set(err, -EINVAL,
			       "%s: claims %u libraries, more than its %zu bytes hold; run "
			       "ldconfig",
			       LDCACHE_PATH, cache.count, length);

	for (uint32_t i = 0; i < cache.count; i++) {
		const unsigned char *entry = ldcache_entry_at(&cache, i);
		if (ldcache_is_elf(entry) &&
		    (!ldcache_is_text(&cache, ldcache_u32(entry + LDCACHE_KEY)) ||
		     !ldcache_is_text(&cache, ldcache_u32(entry + LDCACHE_VALUE))))
			return err_set(err, -EINVAL,
				       "%s: library %u points outside of the file; run ldconfig",
				       LDCACHE_PATH, i);
	}

	*out = cache;
	return 0;
}

bool ldcache_next(const struct ldcache *cache, uint32_t *at, struct ldcache_entry *out)
{
	while (*at < cache->count) {
		const unsigned char *entry = ldcache_entry_at(cache, (*at)++);
		if (!ldcache_is_elf(entry))
			continue;

		out->name = (const char *)cache->bytes + ldcache_u32(entry + LDCACHE_KEY);
		out->path = (const char *)cache->bytes + ldcache_u32(entry + LDCACHE_VALUE);
		out->arch = ldcache_u32(entry) & 0xff00;

		return true;
	}

	return false;
}
