/* SPDX-License-Identifier: Apache-2.0 */
#include "job/entries.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"

int entries_init(struct entries *entries, const char *bytes, size_t length, const char *magic,
		 struct err *err)
{
	size_t size = strlen(magic);
	if (length <= size || memcmp(bytes, magic, size) != 0 || bytes[size] != '\n')
		return err_set(err, -EINVAL, "this is no '%s'", magic);
	*entries = (struct entries){.at = bytes + size + 1, .end = bytes + length, .magic = magic};
	return 0;
}

int entries_error(const struct entries *entries, int code, const char *problem, struct err *err)
{
	return err_set(err, code, "'%s': entry %zu: %s", entries->magic, entries->number, problem);
}

int entries_next(struct entries *entries, struct entry *out, struct err *err)
{
	if (entries->at == entries->end)
		return 0;

	entries->number++;
	size_t left = (size_t)(entries->end - entries->at);
	const char *stop = memchr(entries->at, '\0', left);
	if (!stop)
		return entries_error(entries, -EINVAL, "it is cut short", err);

	size_t length = (size_t)(stop - entries->at);
	const char *equals = memchr(entries->at, '=', length);
	if (!equals || equals == entries->at)
		return entries_error(entries, -EINVAL, "it is not 'name=value'", err);

	*out = (struct entry){.name = entries->at,
			      .name_length = (size_t)(equals - entries->at),
			      .value = equals + 1,
			      .value_length = (size_t)(stop - equals - 1)};
	entries->at = stop + 1;
	return 1;
}

bool entry_is(const struct entry *entry, const char *name)
{
	return strlen(name) == entry->name_length &&
	       memcmp(entry->name, name, entry->name_length) == 0;
}

int entry_u64(const struct entry *entry, uint64_t min, uint64_t max, uint64_t *out)
{
	return parse_u64(entry->value, min, max, out);
}

int entry_copy(const struct entry *entry, char *out, size_t size)
{
	if (entry->value_length >= size)
		return -ENAMETOOLONG;
	memcpy(out, entry->value, entry->value_length + 1);
	return 0;
}

int entries_add_magic(struct buf *out, const char *magic)
{
	int rc = buf_add_text(out, magic);
	return rc < 0 ? rc : buf_add_text(out, "\n");
}

int entries_add(struct buf *out, const char *name, const char *value)
{
	int rc = buf_add_text(out, name);
	if (rc == 0)
		rc = buf_add_text(out, "=");
	return rc < 0 ? rc : buf_add(out, value, strlen(value) + 1);
}

int entries_add_u64(struct buf *out, const char *name, uint64_t value)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%" PRIu64, value); /* 20 digits at most */
	return entries_add(out, name, text);
}
