/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/oci.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"

/* In front of a number that travels as a text; the same as JSON spells it. */
#define OCI_MARK      "\001number:"
#define OCI_MARK_JSON "\"\\u0001number:"

enum {
	OCI_DIGITS_MAX = 18, /* always fit into json_int_t */
	OCI_MARKED_MAX = 16, /* bytes that the mark adds to a number */
};

struct oci_reader {
	const char *text;
	size_t length, at;
	struct buf *out;
	size_t depth, values, marked;
	struct err *err;
};

static int oci_add(const struct oci_reader *reader, const char *bytes, size_t length)
{
	int rc = buf_add(reader->out, bytes, length);
	return rc < 0 ? err_set(reader->err, -ENOMEM, "out of memory for an OCI configuration") : 0;
}

/* A text with its quotes, whatever is in it: jansson judges that. */
static int oci_read_text(struct oci_reader *reader)
{
	size_t from = reader->at++;
	while (reader->at < reader->length && reader->text[reader->at] != '"')
		reader->at += reader->text[reader->at] == '\\' ? 2 : 1;
	reader->at = reader->at < reader->length ? reader->at + 1 : reader->length;
	return oci_add(reader, reader->text + from, reader->at - from);
}

static size_t oci_digits(const char *text, size_t length)
{
	size_t count = 0;
	while (count < length && text[count] >= '0' && text[count] <= '9')
		count++;
	return count;
}

/* The bytes of a number as JSON has them; 0: it is none. */
static size_t oci_number(const char *text, size_t length, bool *out_is_plain)
{
	size_t at = length > 0 && text[0] == '-';
	size_t digits = oci_digits(text + at, length - at);
	if (digits == 0 || (digits > 1 && text[at] == '0'))
		return 0;

	*out_is_plain = digits <= OCI_DIGITS_MAX;
	at += digits;
	if (at < length && text[at] == '.') {
		digits = oci_digits(text + at + 1, length - at - 1);
		if (digits == 0)
			return 0;
		*out_is_plain = false;
		at += digits + 1;
	}

	if (at < length && (text[at] == 'e' || text[at] == 'E')) {
		size_t sign = at + 1 < length && (text[at + 1] == '+' || text[at + 1] == '-');
		digits = oci_digits(text + at + 1 + sign, length - at - 1 - sign);
		if (digits == 0)
			return 0;

		*out_is_plain = false;
		at += digits + 1 + sign;
	}

	return at;
}

static int oci_read_number(struct oci_reader *reader)
{
	bool is_plain;
	const char *text = reader->text + reader->at;
	size_t length = oci_number(text, reader->length - reader->at, &is_plain);
	if (length == 0)
		return err_set(reader->err, -EINVAL, "it has no valid number at byte %zu",
			       reader->at);

	reader->at += length;
	if (is_plain)
		return oci_add(reader, text, length);

	reader->marked++;
	int rc = oci_add(reader, OCI_MARK_JSON, strlen(OCI_MARK_JSON));
	if (rc == 0)
		rc = oci_add(reader, text, length);

	return rc < 0 ? rc : oci_add(reader, "\"", 1);
}

/* Copies the text with its odd numbers as texts. What jansson finds out is not looked at. */
static int oci_read(struct oci_reader *reader)
{
	int rc = 0;

	while (rc == 0 && reader->at < reader->length) {
		char next = reader->text[reader->at];
		reader->values += next == ',' || next == '[' || next == '{';

		if (next == '[' || next == '{')
			reader->depth++;
		else if ((next == ']' || next == '}') && reader->depth > 0)
			reader->depth--;

		if (reader->depth > OCI_DEPTH_MAX)
			return err_set(reader->err, -E2BIG, "it is nested deeper than %d levels",
				       OCI_DEPTH_MAX);
		if (reader->values > OCI_VALUES_MAX)
			return err_set(reader->err, -E2BIG, "it has more than %d values",
				       OCI_VALUES_MAX);

		if (next == '"') {
			rc = oci_read_text(reader);
		} else if (next == '-' || (next >= '0' && next <= '9')) {
			rc = oci_read_number(reader);
		} else {
			reader->at++;
			rc = oci_add(reader, &next, 1);
		}
	}

	return rc;
}

static bool oci_is_marked(const char *text)
{
	return text_starts_with(text, OCI_MARK);
}

/* How many texts in it, keys included, look like a number of ours. */
static size_t oci_count_marked(json_t *value)
{
	size_t count = 0, i;
	const char *key;
	json_t *entry;

	if (json_is_string(value))
		return oci_is_marked(json_string_value(value));

	json_array_foreach(value, i, entry) count += oci_count_marked(entry);

	json_object_foreach(value, key, entry) count +=
	    oci_is_marked(key) + oci_count_marked(entry);

	return count;
}

int oci_parse(const char *text, size_t length, json_t **out, struct err *err)
{
	if (length > OCI_TEXT_MAX)
		return err_set(err, -E2BIG, "it is larger than %d bytes", OCI_TEXT_MAX);

	_cleanup_buf_ struct buf copy;
	buf_init(&copy, length * OCI_MARKED_MAX);

	struct oci_reader reader = {.text = text, .length = length, .out = &copy, .err = err};
	int rc = oci_read(&reader);
	if (rc < 0)
		return rc;

	json_error_t error;
	json_auto_t *value =
	    json_loadb(buf_text(&copy), copy.length, JSON_REJECT_DUPLICATES, &error);
	/* Of some failed allocations jansson says nothing, of others that the text is wrong. */
	if (!value && (!error.text[0] || json_error_code(&error) == json_error_out_of_memory))
		return err_set(err, -ENOMEM, "out of memory for an OCI configuration");
	if (!value && json_error_code(&error) == json_error_duplicate_key)
		return err_set(err, -EINVAL, "line %d: a key is there twice", error.line);

	if (!value)
		return err_set(err, -EINVAL, "line %d: it is not JSON", error.line);
	if (!json_is_object(value))
		return err_set(err, -EINVAL, "it is no object");
	if (oci_count_marked(value) != reader.marked)
		return err_set(err, -EINVAL, "a text in it begins like a number of ours");

	*out = json_incref(value);
	return 0;
}

struct oci_printer {
	struct buf text;
	int rc; /* of what was added last */
};

static int oci_print_add(const char *bytes, size_t length, void *context)
{
	struct oci_printer *printer = context;
	printer->rc = buf_add(&printer->text, bytes, length);
	return printer->rc < 0 ? -1 : 0;
}

static int oci_print_marked(const json_t *value, bool is_indented, struct buf *out)
{
	struct oci_printer printer = {.text = *out};
	size_t flags = JSON_ENCODE_ANY | (is_indented ? JSON_INDENT(2) : JSON_COMPACT);
	int failed = json_dump_callback(value, oci_print_add, &printer, flags);
	*out = printer.text;
	return !failed ? 0 : printer.rc < 0 ? printer.rc : -ENOMEM;
}

int oci_print(const json_t *value, bool is_indented, struct buf *out)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, (size_t)OCI_TEXT_MAX * OCI_MARKED_MAX);

	int rc = oci_print_marked(value, is_indented, &text);
	const char *at = buf_text(&text), *end = at + text.length;

	while (rc == 0 && at < end) {
		const char *quote = memchr(at, '"', (size_t)(end - at));
		if (!quote)
			return buf_add(out, at, (size_t)(end - at));

		rc = buf_add(out, at, (size_t)(quote - at));
		const char *close = quote + 1;
		while (*close != '"')
			close += *close == '\\' ? 2 : 1;

		size_t mark = strlen(OCI_MARK_JSON);
		bool is_number = strncmp(quote, OCI_MARK_JSON, mark) == 0;
		if (rc == 0 && is_number)
			rc = buf_add(out, quote + mark, (size_t)(close - quote) - mark);
		else if (rc == 0)
			rc = buf_add(out, quote, (size_t)(close - quote) + 1);

		at = close + 1;
	}

	return rc;
}

const char *oci_variable(const json_t *env, const char *name, size_t length)
{
	const char *found = NULL;
	size_t i;
	json_t *entry;

	json_array_foreach(env, i, entry)

	{
		const char *text = json_string_value(entry);
		if (text && strncmp(text, name, length) == 0 && text[length] == '=')
			found = text + length + 1;
	}

	return found;
}
