/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/exposition.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct piece {
	const char *at;
	size_t length;
};

struct reader {
	struct exposition *out;
	struct piece family; /* of the last HELP line */
	bool typed;
	struct piece *names; /* of all families so far */
	struct piece *series;
	size_t series_room;
};

static bool piece_equals(struct piece a, struct piece b)
{
	return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

static int piece_compare(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	size_t shorter = x->length < y->length ? x->length : y->length;
	int order = memcmp(x->at, y->at, shorter);
	return order ? order : (x->length > y->length) - (x->length < y->length);
}

static size_t name_length(const char *at, const char *end)
{
	const char *from = at;
	while (at < end && (isalpha((unsigned char)*at) || *at == '_' ||
			    (at > from && isdigit((unsigned char)*at))))
		at++;
	return (size_t)(at - from);
}

/* One character of UTF-8, strictly; 0: it is none. */
static size_t utf8_length(const unsigned char *at, size_t left)
{
	unsigned c = at[0], low = 0x80, high = 0xbf;
	size_t more;
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		more = 1;
	else if (c >= 0xe0 && c <= 0xef)
		more = 2;
	else if (c >= 0xf0 && c <= 0xf4)
		more = 3;
	else
		return 0;
	if (c == 0xe0)
		low = 0xa0;
	if (c == 0xed)
		high = 0x9f;
	if (c == 0xf0)
		low = 0x90;
	if (c == 0xf4)
		high = 0x8f;
	if (more >= left)
		return 0;
	for (size_t i = 1; i <= more; i++) {
		if (at[i] < low || at[i] > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return more + 1;
}

/* Behind the closing quote of a label's value, or NULL. */
static const char *read_value(const char *at, const char *end)
{
	while (at < end && *at != '"') {
		if (*at == '\\') {
			if (end - at < 2 || !strchr("\\\"n", at[1]) || at[1] == '\0')
				return NULL;
			at += 2;
			continue;
		}
		size_t size = utf8_length((const unsigned char *)at, (size_t)(end - at));
		if (size == 0 || *at == '\n' || *at == '\0')
			return NULL;
		at += size;
	}
	return at < end ? at + 1 : NULL;
}

/* Behind the closing brace, or NULL. */
static const char *read_labels(struct reader *reader, const char *at, const char *end,
			       size_t *out_count)
{
	struct piece seen[64];
	size_t count = 0;
	(void)reader;
	for (;;) {
		size_t length = name_length(at, end);
		if (length == 0 || count == 64 || (size_t)(end - at) < length + 2 ||
		    at[length] != '=' || at[length + 1] != '"')
			return NULL;
		seen[count] = (struct piece){at, length};
		for (size_t i = 0; i < count; i++)
			if (piece_equals(seen[i], seen[count]))
				return NULL;
		count++;
		at = read_value(at + length + 2, end);
		if (!at || at >= end)
			return NULL;
		if (*at == '}')
			break;
		if (*at++ != ',')
			return NULL;
	}
	*out_count = count;
	return at + 1;
}

static bool number_is_plain(const char *at, const char *end)
{
	const char *from;
	if (at < end && *at == '-')
		at++;
	for (from = at; at < end && isdigit((unsigned char)*at);)
		at++;
	if (at == from || (*from == '0' && at - from > 1))
		return false;
	if (at == end)
		return true;
	if (*at++ != '.')
		return false;
	for (from = at; at < end && isdigit((unsigned char)*at);)
		at++;
	return at > from && at == end && at[-1] != '0';
}

static bool read_sample(struct reader *reader, const char *at, const char *end)
{
	const char *from = at;
	size_t length = name_length(at, end), labels = 0;
	struct piece name = {at, length};
	if (length == 0 || !reader->typed || !piece_equals(name, reader->family))
		return false;
	at += length;
	if (at < end && *at == '{') {
		at = read_labels(reader, at + 1, end, &labels);
		if (!at)
			return false;
	}
	struct piece series = {from, (size_t)(at - from)};
	if (at >= end || *at++ != ' ' || !number_is_plain(at, end))
		return false;
	if (length > 7 && memcmp(name.at, "sluice_", 7) == 0 && labels > reader->out->most_labels)
		reader->out->most_labels = labels;
	if (reader->out->series == reader->series_room) {
		reader->series_room = reader->series_room ? 2 * reader->series_room : 256;
		reader->series =
		    realloc(reader->series, reader->series_room * sizeof(*reader->series));
		if (!reader->series)
			abort();
	}
	reader->series[reader->out->series++] = series;
	return true;
}

static bool read_head(struct reader *reader, const char *at, const char *end)
{
	bool help = end - at > 7 && memcmp(at, "# HELP ", 7) == 0;
	bool type = end - at > 7 && memcmp(at, "# TYPE ", 7) == 0;
	if (!help && !type)
		return false;
	struct piece name = {at + 7, name_length(at + 7, end)};
	at += 7 + name.length;
	if (name.length == 0 || at + 1 >= end || *at++ != ' ')
		return false;
	if (type) {
		struct piece word = {at, (size_t)(end - at)};
		reader->typed = true;
		return piece_equals(name, reader->family) &&
		       (piece_equals(word, (struct piece){"gauge", 5}) ||
			piece_equals(word, (struct piece){"counter", 7}));
	}
	for (size_t i = 0; i < reader->out->families; i++)
		if (piece_equals(reader->names[i], name))
			return false;
	reader->names =
	    realloc(reader->names, (reader->out->families + 1) * sizeof(*reader->names));
	if (!reader->names)
		abort();
	reader->names[reader->out->families++] = name;
	reader->family = name;
	reader->typed = false;
	return true;
}

static void find_twice(struct reader *reader)
{
	size_t count = reader->out->series;
	if (count > 0)
		qsort(reader->series, count, sizeof(*reader->series), piece_compare);
	for (size_t i = 1; i < count; i++) {
		if (piece_equals(reader->series[i - 1], reader->series[i]))
			(void)snprintf(reader->out->problem, sizeof(reader->out->problem),
				       "twice: %.*s", (int)reader->series[i].length,
				       reader->series[i].at);
	}
}

void exposition_read(const char *text, size_t length, struct exposition *out)
{
	struct reader reader = {.out = out};
	const char *end = text + length;
	*out = (struct exposition){0};
	for (const char *at = text; at < end && !out->problem[0];) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		bool good = stop && (*at == '#' ? read_head(&reader, at, stop)
						: read_sample(&reader, at, stop));
		if (!stop)
			stop = end;
		if (!good)
			(void)snprintf(out->problem, sizeof(out->problem), "line: %.*s",
				       (int)(stop - at), at);
		at = stop + 1;
	}
	if (!out->problem[0])
		find_twice(&reader);
	free(reader.names);
	free(reader.series);
}
