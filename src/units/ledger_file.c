/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger's file. */
#include "units/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
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

/* What a line says. */
struct ledger_line {
	char unit[POLICY_ID_MAX], resource[CONFIG_NAME_MAX], holder[LEDGER_HOLDER_MAX];
	enum policy_door door;
	int64_t since_unix_ns;
};

int ledger_format(const struct ledger *ledger, enum policy_door door, char **out_text,
		  size_t *out_length, struct err *err)
{
	_cleanup_buf_ struct buf text;
	size_t count = 0;

	buf_init(&text, LEDGER_FILE_MAX);

	int rc = buf_printf(&text, "%s\n", LEDGER_HEADER);
	for (size_t i = 0; rc == 0 && i < ledger_count(ledger); i++) {
		const struct ledger_lease *lease = ledger_at(ledger, i);
		bool has_amount = false;
		for (int a = 0; a < LEDGER_AMOUNTS; a++)
			has_amount |= lease->amount[a] > 0;

		if (lease->door != door || has_amount)
			continue;

		count++;
		rc =
		    buf_printf(&text, "%s\t%s\t%s\t%" PRId64 "\t%s\n", lease->unit, lease->resource,
			       policy_door_to_string(door), lease->since_unix_ns, lease->holder);
	}

	if (rc == 0)
		rc = buf_printf(&text, "end %zu\n", count);

	size_t length = text.length;
	char *taken = rc == 0 ? buf_take(&text) : NULL;
	if (!taken)
		return err_set(err, rc < 0 ? rc : -ENOMEM, "no room to write %zu leases", count);

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

static bool parse_lease(struct span line, struct ledger_line *out)
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
	for (int door = 0; door < POLICY_DOOR_NONE; door++) {
		if (span_is(field[LEDGER_DOOR], policy_door_to_string((enum policy_door)door)))
			out->door = (enum policy_door)door;
	}

	return span_copy(field[LEDGER_UNIT], out->unit, sizeof(out->unit)) &&
	       span_copy(field[LEDGER_RESOURCE], out->resource, sizeof(out->resource)) &&
	       span_copy(field[LEDGER_HOLDER], out->holder, sizeof(out->holder));
}

/* A unit twice is an error; what merely excludes each other by now is left out: the file may be of
 * a release that allowed it. */
static int parse_enter(struct ledger *ledger, const struct ledger_line *line, struct err *err)
{
	const struct ledger_lease lease = {.unit = line->unit,
					   .resource = line->resource,
					   .holder = line->holder,
					   .door = line->door,
					   .since_unix_ns = line->since_unix_ns};
	int rc = ledger_take(ledger, &lease, err);
	return rc == -EBUSY && !ledger_find(ledger, line->unit) ? 0 : rc;
}

/* The lines between header and end, then the end itself. */
static int parse_lines(struct ledger *ledger, struct span rest, const char *name, struct err *err)
{
	static const char end[] = "end ";
	struct span line;

	for (size_t number = 2; span_next(&rest, '\n', &line); number++) {
		struct ledger_line lease = {.unit = ""};
		uint64_t count;

		if (line.length > sizeof(end) - 1 &&
		    memcmp(line.start, end, sizeof(end) - 1) == 0) {
			int rc =
			    parse_u64_span(line.start + sizeof(end) - 1,
					   line.length - (sizeof(end) - 1), 0, SIZE_MAX, &count);
			if (rc == 0 && count == number - 2 && rest.length == 0)
				return 0;

			return err_set(
			    err, -EINVAL,
			    "%s:%zu: the last line does not count the %zu leases before it", name,
			    number, number - 2);
		}

		if (!parse_lease(line, &lease))
			return err_set(err, -EINVAL, "%s:%zu: not a lease", name, number);

		struct err inner = {0};
		int rc = parse_enter(ledger, &lease, &inner);
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
