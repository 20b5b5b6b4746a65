/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonw.h"

#include <string.h>

#include "base/buf.h"
#include "base/text.h"

enum {
	DECIMAL_PLACES_MAX = 9,
};

void jsonw_init(struct jsonw *json, struct buf *out)
{
	*json = (struct jsonw){.out = out};
}

static void put(struct jsonw *json, const char *bytes, size_t length)
{
	if (json->rc == 0)
		json->rc = buf_add(json->out, bytes, length);
}

/* What stands before a value. */
static void put_key(struct jsonw *json, const char *key)
{
	if (json->follows)
		put(json, ",", 1);
	json->follows = true;
	if (!key)
		return;

	put(json, "\"", 1);
	put(json, key, strlen(key));
	put(json, "\":", 2);
}

static void put_open(struct jsonw *json, const char *key, const char *bracket)
{
	put_key(json, key);
	put(json, bracket, 1);
	json->follows = false;
}

static void put_close(struct jsonw *json, const char *bracket)
{
	put(json, bracket, 1);
	json->follows = true;
}

void jsonw_object(struct jsonw *json, const char *key)
{
	put_open(json, key, "{");
}

void jsonw_end_object(struct jsonw *json)
{
	put_close(json, "}");
}

void jsonw_array(struct jsonw *json, const char *key)
{
	put_open(json, key, "[");
}

void jsonw_end_array(struct jsonw *json)
{
	put_close(json, "]");
}

void jsonw_raw(struct jsonw *json, const char *key, const char *text, size_t length)
{
	put_key(json, key);
	put(json, text, length);
}

void jsonw_u64(struct jsonw *json, const char *key, uint64_t number)
{
	char digits[TEXT_U64_MAX];
	size_t length = text_u64(digits, number);
	jsonw_raw(json, key, digits, length);
}

void jsonw_i64(struct jsonw *json, const char *key, int64_t number)
{
	jsonw_decimal(json, key, number, 0);
}

void jsonw_decimal(struct jsonw *json, const char *key, int64_t number, unsigned places)
{
	char digits[TEXT_U64_MAX], text[2 * TEXT_U64_MAX];
	uint64_t magnitude = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
	size_t at = 0;

	while (places > 0 && magnitude % 10 == 0) {
		magnitude /= 10;
		places--;
	}

	if (places > DECIMAL_PLACES_MAX)
		places = DECIMAL_PLACES_MAX; /* a mistake of ours: a wrong number, not a crash */

	size_t length = text_u64(digits, magnitude);

	if (number < 0)
		text[at++] = '-';

	size_t whole = length > places ? length - places : 0;
	if (whole == 0)
		text[at++] = '0';
	memcpy(text + at, digits, whole);
	at += whole;

	if (places > 0) {
		text[at++] = '.';
		for (size_t i = length - whole; i < places; i++)
			text[at++] = '0';
		memcpy(text + at, digits + whole, length - whole);
		at += length - whole;
	}

	jsonw_raw(json, key, text, at);
}

void jsonw_bool(struct jsonw *json, const char *key, bool value)
{
	jsonw_raw(json, key, value ? "true" : "false", value ? 4 : 5);
}

void jsonw_null(struct jsonw *json, const char *key)
{
	jsonw_raw(json, key, "null", 4);
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_unit(struct jsonw *json, uint32_t unit)
{
	static const char digits[] = "0123456789abcdef";
	char text[6] = {'\\',
			'u',
			digits[unit >> 12 & 0xf],
			digits[unit >> 8 & 0xf],
			digits[unit >> 4 & 0xf],
			digits[unit & 0xf]};

	put(json, text, sizeof(text));
}

static bool is_plain(char c)
{
	return c != '"' && c != '\\' && c != '<';
}

static void put_character(struct jsonw *json, const char *text, size_t size, uint32_t c)
{
	if (c == TEXT_INVALID)
		put(json, "\xef\xbf\xbd", 3);
	else if (c == '"' || c == '\\')
		put(json, c == '"' ? "\\\"" : "\\\\", 2);
	else if (c == '<' || text_is_unsafe(c))
		put_unit(json, c);
	else
		put(json, text, size);
}

void jsonw_text(struct jsonw *json, const char *key, const char *text)
{
	size_t length = strlen(text);

	put_key(json, key);
	put(json, "\"", 1);

	for (size_t at = 0; at < length && json->rc == 0;) {
		size_t plain = text_plain(text + at, length - at), size = 0;
		while (size < plain && is_plain(text[at + size]))
			size++;

		if (size > 0) {
			put(json, text + at, size);
		} else {
			uint32_t c = text_decode(text + at, length - at, &size);
			put_character(json, text + at, size, c);
		}

		at += size;
	}

	put(json, "\"", 1);
}

void jsonw_word(struct jsonw *json, const char *key, const char *text)
{
	if (text[0] != '\0')
		jsonw_text(json, key, text);
}
