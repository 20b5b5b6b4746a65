/* SPDX-License-Identifier: Apache-2.0 */
#include "job/demand.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"

static bool demand_is_alphanumeric(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "domain/name": letters, digits, '-', '_' and '.', each part with a letter or digit at its ends.
 */
static bool demand_name_is_good(const char *text, size_t length)
{
	const char *slash = memchr(text, '/', length);
	if (!slash || length >= DEMAND_NAME_MAX || !demand_is_alphanumeric(text[0]) ||
	    !demand_is_alphanumeric(text[length - 1]))
		return false;

	size_t at = (size_t)(slash - text);
	for (size_t i = 0; i < length; i++)
		if (i != at && !demand_is_alphanumeric(text[i]) && text[i] != '-' &&
		    text[i] != '_' && text[i] != '.')
			return false;

	return demand_is_alphanumeric(text[at - 1]) && demand_is_alphanumeric(text[at + 1]);
}

/* One entry; without `needs_units` they may be left out. */
static int demand_parse(const char *text, size_t length, bool needs_units, struct demand *out,
			struct err *err)
{
	const char *equals = memchr(text, '=', length);
	size_t name = equals ? (size_t)(equals - text) : length;
	uint64_t units = 1;

	if (!demand_name_is_good(text, name))
		return err_set(err, -EINVAL,
			       "'%.*s' is no name of a resource: one such as rdma/hca is wanted",
			       (int)(name < 128 ? name : 128), text);

	if (equals ? parse_u64_span(equals + 1, length - name - 1, 1, DEMAND_UNITS_MAX, &units) < 0
		   : needs_units)
		return err_set(err, -EINVAL, "'%.*s': a number of 1 to %d is wanted behind '='",
			       (int)(length < 256 ? length : 256), text, DEMAND_UNITS_MAX);

	memcpy(out->name, text, name);
	out->name[name] = '\0';
	out->units = (uint32_t)units;

	return 0;
}

int demand_next(const char **list, struct demand *out, struct err *err)
{
	const char *at = *list;
	if (!at || *at == '\0')
		return 0;

	size_t length = strcspn(at, ",");
	int rc = demand_parse(at, length, true, out, err);
	if (rc < 0)
		return rc;

	*list = at[length] == ',' ? at + length + 1 : NULL;
	/* A comma at the end is followed by an entry that is missing. */
	return *list && **list == '\0' ? err_set(err, -EINVAL, "the list of resources ends in ','")
				       : 1;
}

int demand_check(const char *list, struct err *err)
{
	struct demand demand[2];
	size_t count = 0;

	if (strnlen(list, DEMAND_TEXT_MAX) == DEMAND_TEXT_MAX)
		return err_set(err, -E2BIG, "the list of resources is longer than %d bytes",
			       DEMAND_TEXT_MAX - 1);

	int more;

	while ((more = demand_next(&list, &demand[count % 2], err)) > 0) {
		if (count > 0 && strcmp(demand[(count - 1) % 2].name, demand[count % 2].name) >= 0)
			return err_set(err, -EINVAL,
				       "the resource '%s' is named twice, or out of order",
				       demand[count % 2].name);

		if (++count > DEMAND_LIST_MAX)
			return err_set(err, -E2BIG, "more than %d resources are wanted",
				       DEMAND_LIST_MAX);
	}

	return more;
}

static int demand_compare(const void *a, const void *b)
{
	return strcmp(((const struct demand *)a)->name, ((const struct demand *)b)->name);
}

int demand_make(const char *const *items, size_t count, struct buf *out, struct err *err)
{
	struct demand demands[DEMAND_LIST_MAX];

	if (count > DEMAND_LIST_MAX)
		return err_set(err, -E2BIG, "more than %d resources are wanted", DEMAND_LIST_MAX);

	for (size_t i = 0; i < count; i++) {
		int rc = demand_parse(items[i], strlen(items[i]), false, &demands[i], err);
		if (rc < 0)
			return rc;
	}

	qsort(demands, count, sizeof(*demands), demand_compare);

	for (size_t i = 0; i < count; i++) {
		if (i > 0 && strcmp(demands[i - 1].name, demands[i].name) == 0)
			return err_set(err, -EINVAL, "the resource '%s' is named twice",
				       demands[i].name);

		int rc = buf_printf(out, "%s%s=%" PRIu32, i > 0 ? "," : "", demands[i].name,
				    demands[i].units);
		if (rc < 0)
			return err_set(err, rc == -ENOSPC ? -E2BIG : rc,
				       "the list of resources is longer than %d bytes",
				       DEMAND_TEXT_MAX - 1);
	}

	return 0;
}
