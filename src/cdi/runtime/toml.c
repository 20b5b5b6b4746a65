/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/runtime/toml.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

/* A pass over the text. `part` holds the name of what is being read: that of the table, then the
 * key's, then those of inline tables. */
struct pass {
	const struct toml *toml;
	struct err *err;
	size_t at;
	uint32_t line;
	char part[TOML_PARTS_MAX][TOML_PART_MAX];
	size_t count;	    /* parts in use */
	size_t table_count; /* of those, the header's */
	uint32_t nameless;  /* arrays around us: what is in them has no name */
	bool in_wanted;	    /* the last header was that of the wanted table */
	const struct toml_path *wanted;
	struct toml_look *look;
};

static int fail(const struct pass *pass, const char *what)
{
	return err_set(pass->err, -EINVAL, "%s:%u: %s", pass->toml->name, pass->line, what);
}

static bool at_end(const struct pass *pass)
{
	return pass->at >= pass->toml->length;
}

/* The byte at `ahead` from here; 0 beyond the end (no byte of the text is 0). */
static char peek(const struct pass *pass, size_t ahead)
{
	return ahead < pass->toml->length - pass->at ? pass->toml->text[pass->at + ahead] : '\0';
}

static bool is_blank(char byte)
{
	return byte == ' ' || byte == '\t';
}

static void skip_blanks(struct pass *pass)
{
	while (is_blank(peek(pass, 0)))
		pass->at++;
}

static void skip_comment(struct pass *pass)
{
	if (peek(pass, 0) != '#')
		return;

	while (!at_end(pass) && peek(pass, 0) != '\n')
		pass->at++;

	if (at_end(pass))
		return;
	if (pass->toml->text[pass->at - 1] == '\r')
		pass->at--;
}

static bool skip_newline(struct pass *pass)
{
	if (peek(pass, 0) == '\r')
		pass->at++;
	if (peek(pass, 0) != '\n')
		return false;
	pass->at++;
	pass->line++;
	return true;
}

/* Every byte is of a kind that TOML allows somewhere: UTF-8 without control characters. */
static int check_bytes(struct pass *pass)
{
	const struct toml *toml = pass->toml;

	for (size_t at = 0, size; at < toml->length; at += size) {
		uint32_t character = text_decode(toml->text + at, toml->length - at, &size);
		bool ends_line =
		    character == '\r' && at + 1 < toml->length && toml->text[at + 1] == '\n';

		if (character == TEXT_INVALID)
			return fail(pass, "is not UTF-8");
		if (character == 0xfeff)
			return fail(pass, "has a byte order mark");
		if ((character < ' ' && character != '\t' && character != '\n' && !ends_line) ||
		    character == 0x7f)
			return fail(pass, "has a control character");
		if (character == '\n')
			pass->line++;
	}

	pass->line = 1;
	return 0;
}

/* --- strings --------------------------------------------------------------------------------- */

/* Where the bytes of a string go; none when `text` is NULL. */
struct sink {
	char *text;
	size_t size, length;
	bool is_full;
};

static void sink_add(struct sink *sink, const char *bytes, size_t length)
{
	if (!sink->text)
		return;
	if (sink->is_full || length >= sink->size - sink->length) {
		sink->is_full = true;
		return;
	}

	memcpy(sink->text + sink->length, bytes, length);
	sink->length += length;
	sink->text[sink->length] = '\0';
}

/* The character of \u and \U. */
static int take_code(struct pass *pass, size_t digits, struct sink *sink)
{
	uint32_t code = 0;

	for (size_t i = 0; i < digits; i++, pass->at++) {
		char byte = peek(pass, 0);
		uint32_t digit;

		if (byte >= '0' && byte <= '9')
			digit = (uint32_t)(byte - '0');
		else if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f')
			digit = (uint32_t)((byte | 0x20) - 'a') + 10;
		else
			return fail(pass, "has an escape that is not understood");

		code = code << 4 | digit;
	}

	if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return fail(pass, "has an escape that is no character");

	char out[4];
	size_t length;

	if (code < 0x80) {
		out[0] = (char)code;
		length = 1;
	} else {
		length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
		for (size_t i = length; i-- > 1; code >>= 6)
			out[i] = (char)(0x80 | (code & 0x3f));

		out[0] = (char)(code | (0xf00u >> length & 0xff));
	}

	sink_add(sink, out, length);
	return 0;
}

/* Behind a backslash. */
static int take_escape(struct pass *pass, bool lines, struct sink *sink)
{
	static const char escapes[] = "btnfr\"\\", bytes[] = "\b\t\n\f\r\"\\";
	char byte = peek(pass, 0);
	const char *escape = byte != '\0' ? strchr(escapes, byte) : NULL;
	if (escape) {
		pass->at++;
		sink_add(sink, bytes + (escape - escapes), 1);
		return 0;
	}

	if (byte == 'u' || byte == 'U') {
		pass->at++;
		return take_code(pass, byte == 'u' ? 4 : 8, sink);
	}

	if (!lines)
		return fail(pass, "has an escape that is not understood");

	/* The end of a line: it and all white space behind it are left out. */
	skip_blanks(pass);
	if (!skip_newline(pass))
		return fail(pass, "has an escape that is not understood");

	do {
		skip_blanks(pass);
	} while (skip_newline(pass));
	return 0;
}

/* """ or ''': up to two quotes may stand before the closing three. */
static bool closes_lines(struct pass *pass, char quote, struct sink *sink)
{
	if (peek(pass, 0) != quote || peek(pass, 1) != quote || peek(pass, 2) != quote)
		return false;
	for (int i = 0; i < 2 && peek(pass, 3) == quote; i++, pass->at++)
		sink_add(sink, &quote, 1);
	pass->at += 3;
	return true;
}

/* At a quote. */
static int take_string(struct pass *pass, bool may_have_lines, struct sink *sink)
{
	char quote = peek(pass, 0);
	uint32_t line = pass->line;

	pass->at++;
	bool lines = peek(pass, 0) == quote && peek(pass, 1) == quote;
	if (lines && !may_have_lines)
		return fail(pass, "has a name over several lines");
	if (lines) {
		pass->at += 2;
		(void)skip_newline(pass);
	}

	while (!at_end(pass)) {
		char byte = peek(pass, 0);

		if (lines && closes_lines(pass, quote, sink))
			return 0;
		if (!lines && byte == quote) {
			pass->at++;
			return 0;
		}

		if (byte == '\n') {
			if (!lines)
				break;
			pass->line++;
		}

		pass->at++;
		if (byte == '\\' && quote == '"') {
			int rc = take_escape(pass, lines, sink);
			if (rc < 0)
				return rc;
			continue;
		}

		sink_add(sink, &byte, 1);
	}

	pass->line = line;
	return fail(pass, "has a string without an end");
}

/* --- names ----------------------------------------------------------------------------------- */

static bool is_bare(char byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
	       (byte >= '0' && byte <= '9') || byte == '_' || byte == '-';
}

/* One part of a dotted name, behind those that are there. */
static int take_part(struct pass *pass)
{
	if (pass->count == TOML_PARTS_MAX)
		return fail(pass, "has a name of too many parts");

	struct sink sink = {.text = pass->part[pass->count], .size = TOML_PART_MAX};
	sink.text[0] = '\0';

	char byte = peek(pass, 0);
	if (byte == '"' || byte == '\'') {
		int rc = take_string(pass, false, &sink);
		if (rc < 0)
			return rc;
	} else if (is_bare(byte)) {
		for (; is_bare(peek(pass, 0)); pass->at++)
			sink_add(&sink, pass->toml->text + pass->at, 1);
	} else {
		return fail(pass, "has no name where one is expected");
	}

	if (sink.is_full)
		return fail(pass, "has a name that is too long");

	pass->count++;
	return 0;
}

static int take_name(struct pass *pass)
{
	for (;;) {
		skip_blanks(pass);
		int rc = take_part(pass);
		if (rc < 0)
			return rc;

		skip_blanks(pass);
		if (peek(pass, 0) != '.')
			return 0;

		pass->at++;
	}
}

/* How many parts from the front are those of the wanted name. */
static size_t common_parts(const struct pass *pass)
{
	size_t i = 0;
	while (i < pass->count && i < pass->wanted->count &&
	       strcmp(pass->part[i], pass->wanted->part[i]) == 0)
		i++;
	return i;
}

/* --- what is looked for ---------------------------------------------------------------------- */

static void see_line(struct toml_look *look, uint32_t line)
{
	if (look->line == 0)
		look->line = line;
}

static int see_header(struct pass *pass, bool is_array)
{
	struct toml_look *look = pass->look;
	size_t common = common_parts(pass);

	pass->in_wanted = false;
	if (is_array) {
		if (common == pass->count)
			return fail(pass, "has an array of tables, which is not understood here");
		if (common == pass->wanted->count)
			see_line(look, pass->line);
		return 0;
	}

	if (common < pass->wanted->count)
		return 0;

	see_line(look, pass->line);
	if (pass->count > common)
		return 0;
	if (look->header_line != 0)
		return fail(pass, "has a table for the second time");

	look->header_line = pass->line;
	pass->in_wanted = true;
	return 0;
}

static int see_value(struct pass *pass, enum toml_kind kind, size_t start, uint32_t line)
{
	struct toml_look *look = pass->look;
	size_t common = common_parts(pass);
	if (pass->nameless > 0 || (common < pass->count && common < pass->wanted->count))
		return 0;
	if (common == pass->wanted->count)
		see_line(look, line);

	if (common == pass->count && common == pass->wanted->count) {
		if (look->kind != TOML_NONE) {
			pass->line = line;
			return fail(pass, "has a key for the second time");
		}

		look->kind = kind;
		look->value_line = line;
		look->start = start;
		look->end = pass->at;
	}

	/* A value instead of the table, or one around it, or a table that dotted keys have made. */
	if ((common == pass->count || pass->table_count < common) && look->closed_line == 0)
		look->closed_line = line;

	return 0;
}

/* --- values ---------------------------------------------------------------------------------- */

static int take_value(struct pass *pass, uint32_t depth, enum toml_kind *out);

/* NAME = VALUE */
static int take_pair(struct pass *pass, uint32_t depth)
{
	size_t count = pass->count;
	int rc = take_name(pass);
	if (rc < 0)
		return rc;
	if (peek(pass, 0) != '=')
		return fail(pass, "has a name without '='");

	pass->at++;
	skip_blanks(pass);

	size_t start = pass->at;
	uint32_t line = pass->line;
	enum toml_kind kind = TOML_NONE;

	rc = take_value(pass, depth, &kind);
	if (rc == 0)
		rc = see_value(pass, kind, start, line);
	pass->count = count;

	return rc;
}

static void skip_lines(struct pass *pass)
{
	do {
		skip_blanks(pass);
		skip_comment(pass);
	} while (skip_newline(pass));
}

static int take_array(struct pass *pass, uint32_t depth)
{
	pass->at++;

	for (;;) {
		skip_lines(pass);
		if (peek(pass, 0) == ']')
			break;

		enum toml_kind kind;
		int rc = take_value(pass, depth + 1, &kind);
		if (rc < 0)
			return rc;

		skip_lines(pass);
		if (peek(pass, 0) == ']')
			break;
		if (peek(pass, 0) != ',')
			return fail(pass, "has an array that is not understood");

		pass->at++;
	}

	pass->at++;
	return 0;
}

static int take_inline(struct pass *pass, uint32_t depth)
{
	pass->at++;
	skip_blanks(pass);

	if (peek(pass, 0) == '}') {
		pass->at++;
		return 0;
	}

	for (;;) {
		int rc = take_pair(pass, depth + 1);
		if (rc < 0)
			return rc;

		skip_blanks(pass);
		char byte = peek(pass, 0);

		pass->at++;
		if (byte == '}')
			return 0;
		if (byte != ',')
			return fail(pass, "has an inline table that is not understood");
	}
}

/* true, 42, 1.5e3, inf, 1979-05-27 07:32:00Z */
static int take_bare(struct pass *pass, enum toml_kind *out)
{
	const char *text = pass->toml->text + pass->at;
	size_t length = 0;
	char byte;

	while ((byte = peek(pass, length)) &&
	       (is_bare(byte) || byte == '+' || byte == '.' || byte == ':'))
		length++;

	bool is_date = length == 10 && text[4] == '-' && text[7] == '-';
	if (is_date && peek(pass, length) == ' ' && peek(pass, length + 1) >= '0' &&
	    peek(pass, length + 1) <= '9')
		for (length++; (byte = peek(pass, length)) &&
			       (is_bare(byte) || byte == '+' || byte == '.' || byte == ':');)
			length++;

	*out = TOML_OTHER;
	if (length == 4 && memcmp(text, "true", 4) == 0)
		*out = TOML_TRUE;
	else if (length == 5 && memcmp(text, "false", 5) == 0)
		*out = TOML_FALSE;
	else if (length == 0 ||
		 !(strchr("+-0123456789", *text) ||
		   (length == 3 && (memcmp(text, "inf", 3) == 0 || memcmp(text, "nan", 3) == 0))))
		return fail(pass, "has a value that is not understood");

	pass->at += length;
	return 0;
}

static int take_value(struct pass *pass, uint32_t depth, enum toml_kind *out)
{
	if (depth > TOML_DEPTH_MAX)
		return fail(pass, "has values too deep within values");

	struct sink none = {.text = NULL};
	int rc;

	switch (peek(pass, 0)) {
	case '"':
	case '\'':
		*out = TOML_STRING;
		return take_string(pass, true, &none);
	case '[':
		*out = TOML_ARRAY;
		pass->nameless++;
		rc = take_array(pass, depth);
		pass->nameless--;
		return rc;
	case '{':
		*out = TOML_INLINE;
		return take_inline(pass, depth);
	default:
		return take_bare(pass, out);
	}
}

/* --- the whole text -------------------------------------------------------------------------- */

static int take_header(struct pass *pass)
{
	bool is_array = peek(pass, 1) == '[';
	pass->at += is_array ? 2 : 1;
	pass->count = 0;

	int rc = take_name(pass);
	if (rc < 0)
		return rc;
	if (peek(pass, 0) != ']' || (is_array && peek(pass, 1) != ']'))
		return fail(pass, "has a table's name without its end");

	pass->at += is_array ? 2 : 1;
	pass->table_count = pass->count;
	return see_header(pass, is_array);
}

/* What stands on one line, and on those after it that belong to it. */
static int take_line(struct pass *pass)
{
	size_t begin = pass->at;

	skip_blanks(pass);
	bool is_header = peek(pass, 0) == '[';
	int rc = 0;

	if (is_header) {
		rc = take_header(pass);
	} else if (peek(pass, 0) != '#' && peek(pass, 0) != '\r' && peek(pass, 0) != '\n' &&
		   !at_end(pass)) {
		if (pass->in_wanted && pass->look->indent_end == 0) {
			pass->look->indent = begin;
			pass->look->indent_end = pass->at;
		}

		rc = take_pair(pass, 0);
	}

	if (rc < 0)
		return rc;

	skip_blanks(pass);
	skip_comment(pass);
	if (!at_end(pass) && !skip_newline(pass))
		return fail(pass, "has something behind its value that is not understood");
	if (is_header && pass->in_wanted)
		pass->look->header_end = pass->at;

	return 0;
}

int toml_find(const struct toml *toml, const struct toml_path *path, struct toml_look *out,
	      struct err *err)
{
	if (toml->length > TOML_TEXT_MAX)
		return err_set(err, -E2BIG, "%s: is longer than the %d bytes that are allowed",
			       toml->name, TOML_TEXT_MAX);

	struct toml_look look = {.kind = TOML_NONE};
	struct pass pass = {.toml = toml, .err = err, .line = 1, .wanted = path, .look = &look};
	int rc = check_bytes(&pass);

	while (rc == 0 && !at_end(&pass))
		rc = take_line(&pass);

	if (rc == 0)
		*out = look;

	return rc;
}

bool toml_next_string(const struct toml *toml, size_t *at, size_t end, char *out, size_t size)
{
	const struct toml part = {.name = toml->name, .text = toml->text, .length = end};
	struct pass pass = {.toml = &part, .at = *at, .line = 1};
	for (;;) {
		skip_lines(&pass);
		if (peek(&pass, 0) != '[' && peek(&pass, 0) != ',')
			break;
		pass.at++;
	}

	if (peek(&pass, 0) != '"' && peek(&pass, 0) != '\'')
		return false;

	struct sink sink = {.text = out, .size = size};

	out[0] = '\0';
	if (take_string(&pass, true, &sink) < 0 || sink.is_full)
		return false;

	*at = pass.at;
	return true;
}

/* --- the edit -------------------------------------------------------------------------------- */

static int refuse(const struct toml *toml, uint32_t line, const char *key, const char *why,
		  struct err *err)
{
	return err_set(err, -EINVAL, "%s:%u: %s; put '%s = true' there yourself", toml->name, line,
		       why, key);
}

/* How this text ends its lines. */
static const char *line_end(const struct toml *toml)
{
	const char *first = memchr(toml->text, '\n', toml->length);
	return first && first > toml->text && first[-1] == '\r' ? "\r\n" : "\n";
}

/* [plugins."io.containerd.grpc.v1.cri"] */
static int add_header(const struct toml_path *table, struct buf *out)
{
	int rc = buf_add_text(out, "[");

	for (size_t i = 0; rc == 0 && i < table->count; i++) {
		const char *part = table->part[i];
		size_t length = 0;
		while (is_bare(part[length]))
			length++;

		bool is_plain = length > 0 && part[length] == '\0';
		rc = buf_printf(out, is_plain ? "%s%s" : "%s\"%s\"", i ? "." : "", part);
	}

	return rc == 0 ? buf_add_text(out, "]") : rc;
}

/* The key as the first of its table. */
static int add_key(const struct toml *toml, const struct toml_look *look, const char *key,
		   struct buf *out)
{
	const char *end = line_end(toml);
	bool cut = toml->text[look->header_end - 1] != '\n';
	int rc = buf_add(out, toml->text, look->header_end);
	if (rc == 0 && cut)
		rc = buf_add_text(out, end);

	if (rc == 0)
		rc = buf_add(out, toml->text + look->indent, look->indent_end - look->indent);
	if (rc == 0)
		rc = buf_printf(out, "%s = true%s", key, cut ? "" : end);
	if (rc == 0)
		rc = buf_add(out, toml->text + look->header_end, toml->length - look->header_end);

	return rc;
}

static int add_table(const struct toml *toml, const struct toml_path *table, const char *key,
		     struct buf *out)
{
	const char *end = line_end(toml);
	bool cut = toml->length > 0 && toml->text[toml->length - 1] != '\n';
	int rc = buf_add(out, toml->text, toml->length);
	if (rc == 0 && cut)
		rc = buf_add_text(out, end);

	if (rc == 0 && toml->length > 0)
		rc = buf_add_text(out, end);
	if (rc == 0)
		rc = add_header(table, out);
	if (rc == 0)
		rc = buf_printf(out, "%s  %s = true%s", end, key, end);

	return rc;
}

int toml_set_true(const struct toml *toml, const struct toml_path *table, const char *key,
		  struct buf *out, struct err *err)
{
	struct toml_path path = *table;
	path.part[path.count++] = key;

	struct toml_look value, look;
	int rc = toml_find(toml, &path, &value, err);
	if (rc == 0)
		rc = toml_find(toml, table, &look, err);
	if (rc < 0)
		return rc;

	if (value.kind == TOML_TRUE)
		return 0;
	if (value.kind != TOML_FALSE && value.line != 0)
		return refuse(toml, value.line, key, "is neither true nor false", err);

	size_t before = out->length;

	if (value.kind == TOML_FALSE) {
		rc = buf_add(out, toml->text, value.start);
		if (rc == 0)
			rc = buf_add_text(out, "true");
		if (rc == 0)
			rc = buf_add(out, toml->text + value.end, toml->length - value.end);
	} else if (look.header_line != 0) {
		rc = add_key(toml, &look, key, out);
	} else if (look.closed_line != 0) {
		return refuse(toml, look.closed_line, key,
			      "the table is not written as one with a [header]", err);
	} else {
		rc = add_table(toml, table, key, out);
	}

	if (rc < 0) {
		out->length = before;
		return err_set(err, rc, "%s: %s", toml->name, err_describe(rc));
	}

	return 1;
}
