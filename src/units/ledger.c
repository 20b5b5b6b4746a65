/* SPDX-License-Identifier: Apache-2.0 */
#include "units/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"

/* First line of the file. Each lease is a line of five fields between tabs; the last line counts.
 */
static const char LEDGER_HEADER[] = "sluice-ledger 1";

enum ledger_fields {
	LEDGER_UNIT,
	LEDGER_RESOURCE,
	LEDGER_DOOR,
	LEDGER_SINCE,
	LEDGER_HOLDER,
	LEDGER_FIELDS,
};

struct ledger {
	struct ledger_lease **leases; /* owned; in the order of unit ids */
	size_t count, capacity;
};

struct ledger *ledger_new(void)
{
	return calloc(1, sizeof(struct ledger));
}

struct ledger *ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return NULL;
	for (size_t i = 0; i < ledger->count; i++)
		free(ledger->leases[i]);
	free(ledger->leases);
	free(ledger);
	return NULL;
}

/* Where `unit` is or would be. */
static size_t ledger_place(const struct ledger *ledger, const char *unit, bool *out_found)
{
	size_t low = 0, high = ledger->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(ledger->leases[middle]->unit, unit);
		if (order == 0) {
			*out_found = true;
			return middle;
		}

		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}

	*out_found = false;
	return low;
}

const struct ledger_lease *ledger_find(const struct ledger *ledger, const char *unit)
{
	bool found;
	size_t place = ledger_place(ledger, unit, &found);
	return found ? ledger->leases[place] : NULL;
}

size_t ledger_count(const struct ledger *ledger)
{
	return ledger->count;
}

const struct ledger_lease *ledger_at(const struct ledger *ledger, size_t index)
{
	return index < ledger->count ? ledger->leases[index] : NULL;
}

/* Neither empty nor anything that would break a line of the file. */
static bool text_is_plain(const char *text, size_t size)
{
	size_t length = strnlen(text, size);
	if (length == 0 || length == size)
		return false;

	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	}

	return true;
}

static int lease_check(const struct ledger_lease *lease, struct err *err)
{
	if (!text_is_plain(lease->unit, sizeof(lease->unit)))
		return err_set(err, -EINVAL, "a lease needs the printable id of a unit");
	if (!text_is_plain(lease->resource, sizeof(lease->resource)))
		return err_set(err, -EINVAL, "lease of '%s': the resource has no printable name",
			       lease->unit);
	if (!text_is_plain(lease->holder, sizeof(lease->holder)))
		return err_set(err, -EINVAL, "lease of '%s': the holder has no printable name",
			       lease->unit);
	if (lease->door != POLICY_DOOR_KUBELET && lease->door != POLICY_DOOR_QUEUE)
		return err_set(err, -EINVAL, "lease of '%s': no door hands it out", lease->unit);

	return 0;
}

static int ledger_grow(struct ledger *ledger, struct err *err)
{
	if (ledger->count < ledger->capacity)
		return 0;

	size_t capacity = ledger->capacity ? 2 * ledger->capacity : 16;
	struct ledger_lease **grown = reallocarray(ledger->leases, capacity, sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "out of memory for %zu leases", capacity);

	ledger->leases = grown;
	ledger->capacity = capacity;
	return 0;
}

int ledger_take(struct ledger *ledger, const struct ledger_lease *lease, struct err *err)
{
	bool found;
	int rc = lease_check(lease, err);
	if (rc < 0)
		return rc;

	size_t place = ledger_place(ledger, lease->unit, &found);

	if (found)
		return err_set(err, -EBUSY, "unit '%s' is held by %s", lease->unit,
			       ledger->leases[place]->holder);
	if (ledger->count >= LEDGER_LEASES_MAX)
		return err_set(err, -ENOSPC, "unit '%s': there are %zu leases already", lease->unit,
			       ledger->count);

	rc = ledger_grow(ledger, err);
	if (rc < 0)
		return rc;

	struct ledger_lease *copy = malloc(sizeof(*copy));
	if (!copy)
		return err_set(err, -ENOMEM, "out of memory for the lease of '%s'", lease->unit);

	*copy = *lease;
	memmove(&ledger->leases[place + 1], &ledger->leases[place],
		(ledger->count - place) * sizeof(struct ledger_lease *));
	ledger->leases[place] = copy;
	ledger->count++;

	return 0;
}

static void ledger_remove(struct ledger *ledger, size_t place)
{
	free(ledger->leases[place]);
	ledger->count--;
	memmove(&ledger->leases[place], &ledger->leases[place + 1],
		(ledger->count - place) * sizeof(struct ledger_lease *));
}

int ledger_take_all(struct ledger *ledger, const struct ledger_lease *leases, size_t count,
		    struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		int rc = ledger_take(ledger, &leases[i], err);
		if (rc == 0)
			continue;

		while (i-- > 0) {
			bool found;
			size_t place = ledger_place(ledger, leases[i].unit, &found);
			if (found)
				ledger_remove(ledger, place);
		}

		return rc;
	}

	return 0;
}

int ledger_release(struct ledger *ledger, const char *unit, const char *holder, struct err *err)
{
	bool found;
	size_t place = ledger_place(ledger, unit, &found);

	if (!found)
		return err_set(err, -ENOENT, "unit '%s' is held by nobody", unit);
	if (strcmp(ledger->leases[place]->holder, holder) != 0)
		return err_set(err, -EPERM, "unit '%s' is held by %s, not by %s", unit,
			       ledger->leases[place]->holder, holder);

	ledger_remove(ledger, place);
	return 0;
}

size_t ledger_release_holder(struct ledger *ledger, const char *holder)
{
	size_t kept = 0, before = ledger->count;
	for (size_t i = 0; i < before; i++) {
		if (strcmp(ledger->leases[i]->holder, holder) == 0)
			free(ledger->leases[i]);
		else
			ledger->leases[kept++] = ledger->leases[i];
	}

	ledger->count = kept;
	return before - kept;
}

int ledger_format(const struct ledger *ledger, char **out_text, size_t *out_length, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, LEDGER_FILE_MAX);

	int rc = buf_printf(&text, "%s\n", LEDGER_HEADER);
	for (size_t i = 0; rc == 0 && i < ledger->count; i++) {
		const struct ledger_lease *lease = ledger->leases[i];
		rc = buf_printf(&text, "%s\t%s\t%s\t%" PRId64 "\t%s\n", lease->unit,
				lease->resource, policy_door_to_string(lease->door),
				lease->since_unix_ns, lease->holder);
	}

	if (rc == 0)
		rc = buf_printf(&text, "end %zu\n", ledger->count);

	size_t length = text.length;
	char *taken = rc == 0 ? buf_take(&text) : NULL;
	if (!taken)
		return err_set(err, rc < 0 ? rc : -ENOMEM, "no room to write %zu leases",
			       ledger->count);

	*out_text = taken;
	*out_length = length;
	return 0;
}

/* A piece of the text. */
struct span {
	const char *start;
	size_t length;
};

static bool span_is(struct span span, const char *text)
{
	return span.length == strlen(text) && memcmp(span.start, text, span.length) == 0;
}

static bool span_copy(struct span span, char *out, size_t size)
{
	if (span.length == 0 || span.length >= size || memchr(span.start, '\0', span.length))
		return false;
	memcpy(out, span.start, span.length);
	out[span.length] = '\0';
	return true;
}

/* Everything up to the next `end`, which is skipped. False when there is none. */
static bool span_next(struct span *rest, char end, struct span *out)
{
	const char *at = rest->length ? memchr(rest->start, end, rest->length) : NULL;
	if (!at)
		return false;

	out->start = rest->start;
	out->length = (size_t)(at - rest->start);
	rest->start = at + 1;
	rest->length -= out->length + 1;

	return true;
}

static bool parse_lease(struct span line, struct ledger_lease *out)
{
	struct span field[LEDGER_FIELDS];
	for (int i = 0; i < LEDGER_FIELDS - 1; i++) {
		if (!span_next(&line, '\t', &field[i]))
			return false;
	}

	field[LEDGER_HOLDER] = line;
	uint64_t since;
	if (parse_u64_span(field[LEDGER_SINCE].start, field[LEDGER_SINCE].length, 0, INT64_MAX,
			   &since) < 0)
		return false;

	out->since_unix_ns = (int64_t)since;
	out->door = POLICY_DOOR_NONE;
	for (int door = POLICY_DOOR_KUBELET; door < POLICY_DOOR_NONE; door++) {
		if (span_is(field[LEDGER_DOOR], policy_door_to_string((enum policy_door)door)))
			out->door = (enum policy_door)door;
	}

	return span_copy(field[LEDGER_UNIT], out->unit, sizeof(out->unit)) &&
	       span_copy(field[LEDGER_RESOURCE], out->resource, sizeof(out->resource)) &&
	       span_copy(field[LEDGER_HOLDER], out->holder, sizeof(out->holder));
}

/* The lines between header and end, then the end itself. */
static int parse_lines(struct ledger *ledger, struct span rest, const char *name, struct err *err)
{
	static const char end[] = "end ";
	struct span line;

	for (size_t number = 2; span_next(&rest, '\n', &line); number++) {
		struct ledger_lease lease = {0};
		uint64_t count;

		if (line.length > sizeof(end) - 1 &&
		    memcmp(line.start, end, sizeof(end) - 1) == 0) {
			int rc =
			    parse_u64_span(line.start + sizeof(end) - 1,
					   line.length - (sizeof(end) - 1), 0, SIZE_MAX, &count);
			if (rc == 0 && count == ledger->count && rest.length == 0)
				return 0;

			return err_set(
			    err, -EINVAL,
			    "%s:%zu: the last line does not count the %zu leases before it", name,
			    number, ledger->count);
		}

		if (!parse_lease(line, &lease))
			return err_set(err, -EINVAL, "%s:%zu: not a lease", name, number);

		struct err inner = {0};
		int rc = ledger_take(ledger, &lease, &inner);
		if (rc < 0)
			return err_set(err, rc == -ENOMEM ? rc : -EINVAL, "%s:%zu: %s", name,
				       number, inner.text);
	}

	return err_set(err, -EINVAL, "%s: cut short: the last line is missing", name);
}

int ledger_parse(const char *text, size_t length, const char *name, struct ledger **out,
		 struct err *err)
{
	struct span rest = {text, length}, header;

	if (length > LEDGER_FILE_MAX)
		return err_set(err, -EFBIG, "%s: larger than %d bytes", name, LEDGER_FILE_MAX);
	if (!span_next(&rest, '\n', &header) || !span_is(header, LEDGER_HEADER))
		return err_set(err, -EINVAL, "%s:1: not a ledger of this version (expected '%s')",
			       name, LEDGER_HEADER);

	struct ledger *ledger = ledger_new();
	if (!ledger)
		return err_set(err, -ENOMEM, "%s: out of memory", name);

	int rc = parse_lines(ledger, rest, name, err);
	if (rc < 0) {
		(void)ledger_free(ledger);
		return rc;
	}

	*out = ledger;
	return 0;
}

int ledger_save(const struct ledger *ledger, const char *path, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t length = 0;
	int rc = ledger_format(ledger, &text, &length, err);
	return rc < 0 ? rc : file_write_atomic(path, text, length, 0600, err);
}

int ledger_load(const char *path, struct ledger **out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, LEDGER_FILE_MAX);

	int rc = file_read(path, &text, err);
	if (rc == -ENOENT) {
		struct ledger *empty = ledger_new();
		if (!empty)
			return err_set(err, -ENOMEM, "%s: out of memory", path);
		*out = empty;
		return 0;
	}

	if (rc < 0)
		return rc;

	return ledger_parse(buf_text(&text), text.length, path, out, err);
}
