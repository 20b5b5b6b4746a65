/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/memlock/scan.h"

void scan_start(struct memlock_scan *scan, const char *bytes, size_t length)
{
	*scan = (struct memlock_scan){.bytes = bytes, .length = length};
}

static bool scan_is_end(const struct memlock_scan *scan)
{
	return scan->at == scan->length;
}

static void scan_blanks(struct memlock_scan *scan)
{
	for (; scan->at < scan->length; scan->at++) {
		char c = scan->bytes[scan->at];
		if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
			return;
	}
}

static bool scan_take(struct memlock_scan *scan, char c)
{
	if (scan_is_end(scan) || scan->bytes[scan->at] != c)
		return false;
	scan->at++;
	return true;
}

/* Behind the opening quote, up to and with the closing one. */
static bool scan_string(struct memlock_scan *scan, const char **out_text, size_t *out_length)
{
	size_t start = scan->at;

	for (; scan->at < scan->length; scan->at++) {
		unsigned char c = (unsigned char)scan->bytes[scan->at];
		if (c == '"') {
			*out_text = scan->bytes + start;
			*out_length = scan->at++ - start;
			return true;
		}

		if (c < 0x20)
			return false;
		if (c == '\\' && ++scan->at == scan->length)
			return false;
	}

	return false;
}

static bool scan_is_array(const struct memlock_scan *scan)
{
	return scan->arrays >> (scan->depth - 1) & 1;
}

static struct scan_token scan_fail(struct memlock_scan *scan)
{
	scan->has_failed = true;
	return (struct scan_token){.kind = SCAN_BAD};
}

static bool scan_open(struct memlock_scan *scan, bool is_array)
{
	if (scan->depth == SCAN_DEPTH_MAX)
		return false;
	uint64_t bit = UINT64_C(1) << scan->depth++;
	scan->arrays = is_array ? scan->arrays | bit : scan->arrays & ~bit;
	scan->has_value = false;
	return true;
}

/* Numbers and words: whatever stands until something that ends a value. */
static void scan_plain(struct memlock_scan *scan, struct scan_token *token)
{
	size_t start = scan->at;

	for (; scan->at < scan->length; scan->at++) {
		char c = scan->bytes[scan->at];
		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '.' ||
		      c == '+' || c == '-'))
			break;
	}

	token->text = scan->bytes + start;
	token->length = scan->at - start;

	char first = token->length ? *token->text : 0;
	if ((first >= '0' && first <= '9') || first == '-')
		token->kind = SCAN_NUMBER;
	else if (first == 't' || first == 'f' || first == 'n')
		token->kind = SCAN_WORD;
	else
		token->kind = SCAN_BAD;
}

static bool scan_value(struct memlock_scan *scan, struct scan_token *token)
{
	scan->has_value = true;
	if (scan_take(scan, '"')) {
		token->kind = SCAN_STRING;
		return scan_string(scan, &token->text, &token->length);
	}

	if (scan_take(scan, '{')) {
		token->kind = SCAN_OBJECT;
		return scan_open(scan, false);
	}

	if (scan_take(scan, '[')) {
		token->kind = SCAN_ARRAY;
		return scan_open(scan, true);
	}

	scan_plain(scan, token);
	return token->kind != SCAN_BAD;
}

struct scan_token scan_next(struct memlock_scan *scan)
{
	struct scan_token token = {.kind = SCAN_END, .depth = scan->depth};

	if (scan->has_failed)
		return scan_fail(scan);

	scan_blanks(scan);
	if (scan->depth == 0) {
		if (scan->has_value)
			return scan_is_end(scan) ? token : scan_fail(scan);
		return scan_value(scan, &token) ? token : scan_fail(scan);
	}

	bool is_array = scan_is_array(scan);
	if (scan_take(scan, is_array ? ']' : '}')) {
		token.kind = SCAN_CLOSE;
		token.depth = --scan->depth;
		scan->has_value = true;
		return token;
	}

	if (scan->has_value) {
		if (!scan_take(scan, ','))
			return scan_fail(scan);
		scan_blanks(scan);
	}

	if (!is_array) {
		if (!scan_take(scan, '"') || !scan_string(scan, &token.key, &token.key_length))
			return scan_fail(scan);

		scan_blanks(scan);
		if (!scan_take(scan, ':'))
			return scan_fail(scan);

		scan_blanks(scan);
	}

	return scan_value(scan, &token) ? token : scan_fail(scan);
}

static bool scan_equal(const char *bytes, size_t length, const char *text)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\0' || bytes[i] != text[i])
			return false;
	}
	return text[length] == '\0';
}

bool scan_is_key(const struct scan_token *token, const char *name)
{
	return token->key && scan_equal(token->key, token->key_length, name);
}

bool scan_is_text(const struct scan_token *token, const char *text)
{
	return token->kind == SCAN_STRING && scan_equal(token->text, token->length, text);
}

bool scan_number(const struct scan_token *token, uint64_t *out)
{
	uint64_t value = 0;

	if (token->kind != SCAN_NUMBER)
		return false;

	for (size_t i = 0; i < token->length; i++) {
		char c = token->text[i];
		if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(c - '0'), &value))
			return false;
	}

	*out = value;
	return true;
}
