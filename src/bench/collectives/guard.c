/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/guard.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* In pages: one to protect, one of guard, the data and what fills the last of theirs, one to
 * protect. */
size_t guard_alloc_bytes(size_t bytes, size_t offset)
{
	size_t page = page_bytes(), total;
	if (!size_add(bytes, offset + GUARD_BYTES_MIN + page - 1, &total))
		return 0;
	total -= total % page;
	return size_add(total, 3 * page, &total) ? total : 0;
}

/* The guard before the data; how long it and the one behind them are. */
static uint8_t *guard_begin(const struct guard *guard, size_t *out_before, size_t *out_after)
{
	uint8_t *begin = (uint8_t *)guard->base + page_bytes();
	const uint8_t *end = (uint8_t *)guard->base + guard->base_bytes - page_bytes();
	*out_before = (size_t)((uint8_t *)guard->data - begin);
	*out_after = (size_t)(end - (uint8_t *)guard->data) - guard->bytes;
	return begin;
}

static int protect(struct guard *guard, int how)
{
	size_t page = page_bytes();
	uint8_t *last = (uint8_t *)guard->base + guard->base_bytes - page;
	if (mprotect(guard->base, page, how) < 0)
		return -errno;
	return mprotect(last, page, how) < 0 ? -errno : 0;
}

static int fill_guards(const struct guard *guard, struct err *err)
{
	size_t before, after;
	uint8_t *begin = guard_begin(guard, &before, &after);
	uint8_t fill[1024];

	memset(fill, GUARD_FILL, sizeof(fill));
	uint8_t *const starts[] = {begin, (uint8_t *)guard->data + guard->bytes};

	const size_t lengths[] = {before, after};

	for (size_t i = 0; i < array_length(starts); i++)
		for (size_t at = 0; at < lengths[i]; at += sizeof(fill)) {
			size_t left = lengths[i] - at;
			int rc = guard->backend->ops->put(guard->backend, starts[i] + at, fill,
							  left < sizeof(fill) ? left : sizeof(fill),
							  err);
			if (rc < 0)
				return err_wrap(err, "writing the guards of a buffer");
		}

	return 0;
}

int guard_alloc(struct backend *backend, enum backend_memory memory, size_t bytes, size_t offset,
		struct guard *out, struct err *err)
{
	size_t total = guard_alloc_bytes(bytes, offset), page = page_bytes();

	*out = (struct guard){0};
	if (total == 0)
		return err_set(err, -ENOMEM, "a buffer of %zu bytes cannot be had", bytes);

	void *base = NULL;
	int rc = backend->ops->alloc(backend, memory, total, &base, err);
	if (rc < 0)
		return rc;

	*out = (struct guard){.backend = backend,
			      .base = base,
			      .base_bytes = total,
			      .data = (uint8_t *)base + 2 * page + offset,
			      .bytes = bytes};
	rc = fill_guards(out, err);
	if (rc < 0) {
		guard_free(out);
		return rc;
	}

	/* Memory that others map as well they reach past any protection of ours. */
	if (memory == BACKEND_PRIVATE && backend->ops->is_host_memory &&
	    (uintptr_t)base % page == 0) {
		out->is_protected = protect(out, PROT_NONE) == 0;
		if (!out->is_protected) /* the first page may be: undone */
			(void)protect(out, PROT_READ | PROT_WRITE);
	}

	return 0;
}

void guard_free(struct guard *guard)
{
	if (!guard->backend)
		return;
	if (guard->is_protected) /* whoever allocates may write into what is freed */
		(void)protect(guard, PROT_READ | PROT_WRITE);
	guard->backend->ops->free(guard->backend, guard->base);
	*guard = (struct guard){0};
}

int guard_check(const struct guard *guard, bool *out_is_hurt, struct err *err)
{
	size_t before, after;
	const uint8_t *begin = guard_begin(guard, &before, &after);

	const uint8_t *const starts[] = {begin, (const uint8_t *)guard->data + guard->bytes};
	const size_t lengths[] = {before, after};
	uint8_t fill[1024], got[1024];
	bool is_hurt = false;

	memset(fill, GUARD_FILL, sizeof(fill));

	for (size_t i = 0; i < array_length(starts); i++)
		for (size_t at = 0; at < lengths[i]; at += sizeof(got)) {
			size_t some = lengths[i] - at;
			if (some > sizeof(got))
				some = sizeof(got);

			int rc = guard->backend->ops->get(guard->backend, got, starts[i] + at, some,
							  err);
			if (rc < 0)
				return err_wrap(err, "reading the guards of a buffer");

			is_hurt = is_hurt || memcmp(got, fill, some) != 0;
		}

	*out_is_hurt = is_hurt;
	return 0;
}
