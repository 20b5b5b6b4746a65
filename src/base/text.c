/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"

struct range {
	uint32_t first, last;
};

/* Directional and line-breaking characters: harmless in a name, harmful on a terminal. */
static const struct range unsafe_ranges[] = {
    {0x061c, 0x061c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff},
};

/* Combining marks and other characters without a width of their own: the common ones. */
static const struct range zero_ranges[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x064b, 0x065f}, {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff}, {0x200b, 0x200d}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
};

/* Wide and fullwidth characters, https://www.unicode.org/reports/tr11/, by blocks. */
static const struct range wide_ranges[] = {
    {0x1100, 0x115f},	{0x2e80, 0x303e},   {0x3041, 0xa4cf},	{0xac00, 0xd7a3},
    {0xf900, 0xfaff},	{0xfe30, 0xfe6f},   {0xff00, 0xff60},	{0xffe0, 0xffe6},
    {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd},
};

static bool range_has(const struct range *ranges, size_t count, uint32_t character)
{
	for (size_t i = 0; i < count; i++) {
		if (character >= ranges[i].first && character <= ranges[i].last)
			return true;
	}
	return false;
}

size_t text_plain(const char *text, size_t length)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	size_t plain = 0;
	for (uint64_t word; plain + sizeof(word) <= length; plain += sizeof(word)) {
		memcpy(&word, text + plain, sizeof(word));
		/* A byte's top bit is set where it is not ASCII, or 0x7f, or below 0x20. */
		if (((word | (word + ones) | (word - 0x20 * ones)) & 0x80 * ones) != 0)
			break;
	}

	while (plain < length && text[plain] >= 0x20 && text[plain] < 0x7f)
		plain++;

	return plain;
}

size_t text_u64(char out[TEXT_U64_MAX], uint64_t number)
{
	char digits[TEXT_U64_MAX];
	size_t at = sizeof(digits) - 1;

	digits[at] = '\0';
	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	memcpy(out, digits + at, sizeof(digits) - at);

	return sizeof(digits) - 1 - at;
}

char *text_copy(const void *bytes, size_t length)
{
	char *copy = malloc(length + 1);
	if (!copy)
		return NULL;

	if (length > 0)
		memcpy(copy, bytes, length);
	copy[length] = '\0';
	return copy;
}

uint32_t text_decode(const char *text, size_t length, size_t *out_size)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *bytes = (const unsigned char *)text;
	size_t size = 0;
	uint32_t value = bytes[0];

	*out_size = 1;
	if (value < 0x80)
		return value;

	if (value >= 0xc2 && value <= 0xdf) {
		size = 2;
		value &= 0x1f;
	} else if (value >= 0xe0 && value <= 0xef) {
		size = 3;
		value &= 0x0f;
	} else if (value >= 0xf0 && value <= 0xf4) {
		size = 4;
		value &= 0x07;
	}

	if (size == 0 || size > length)
		return TEXT_INVALID;

	for (size_t i = 1; i < size; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return TEXT_INVALID;
		value = value << 6 | (bytes[i] & 0x3f);
	}

	bool surrogate = value >= 0xd800 && value <= 0xdfff;
	if (value < smallest[size] || value > 0x10ffff || surrogate)
		return TEXT_INVALID;

	*out_size = size;
	return value;
}

bool text_is_cut(const char *text, size_t length)
{
	unsigned char first = (unsigned char)text[0];
	size_t size = first >= 0xf0 && first <= 0xf4 ? 4 : first >= 0xe0 ? 3 : 2;

	if (first < 0xc2 || first > 0xf4 || length >= size)
		return false;

	for (size_t i = 1; i < length; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return false;

	return true;
}

bool text_is_unsafe(uint32_t character)
{
	return character < 0x20 || (character >= 0x7f && character < 0xa0) ||
	       range_has(unsafe_ranges, array_length(unsafe_ranges), character);
}

int text_escape(struct buf *out, const char *text, size_t length)
{
	int rc = 0;

	for (size_t at = 0; at < length && rc == 0;) {
		size_t size = text_plain(text + at, length - at);
		if (size > 0) {
			rc = buf_add(out, text + at, size);
			if (rc == -ENOSPC && buf_add(out, text + at, out->max - out->length) < 0)
				rc = -ENOMEM;
			at += size;
			continue;
		}

		uint32_t c = text_decode(text + at, length - at, &size);
		if (c == TEXT_INVALID || c < 0x20 || c == 0x7f)
			rc = buf_printf(out, "\\x%02x", (unsigned char)text[at]);
		else if (text_is_unsafe(c))
			rc = buf_printf(out, "\\u%04x", (unsigned)c);
		else
			rc = buf_add(out, text + at, size);

		at += size;
	}

	return rc;
}

int text_escape_json(struct buf *out, const char *text, size_t length)
{
	size_t begin = 0;
	int rc = 0;

	for (size_t at = 0; at < length && rc == 0;) {
		size_t size = 1;
		uint32_t c = text_decode(text + at, length - at, &size);
		/* Between its values are blanks and ends of lines. */
		if (c >= 0x20 && text_is_unsafe(c)) {
			rc = buf_add(out, text + begin, at - begin);
			if (rc == 0)
				rc = buf_printf(out, "\\u%04x", (unsigned)c);
			begin = at + size;
		}

		at += size;
	}

	return rc == 0 ? buf_add(out, text + begin, length - begin) : rc;
}

int text_make_valid(struct buf *out, const char *text, size_t length)
{
	static const char replacement[] = "\xef\xbf\xbd";
	int rc = 0;

	for (size_t at = 0; at < length && rc == 0;) {
		size_t size;
		if (text_decode(text + at, length - at, &size) == TEXT_INVALID)
			rc = buf_add(out, replacement, sizeof(replacement) - 1);
		else
			rc = buf_add(out, text + at, size);

		at += size;
	}

	return rc;
}

static size_t text_character_width(uint32_t c)
{
	if (c < 0x300)
		return 1;
	if (range_has(zero_ranges, array_length(zero_ranges), c))
		return 0;
	return range_has(wide_ranges, array_length(wide_ranges), c) ? 2 : 1;
}

size_t text_width(const char *text, size_t length)
{
	size_t width = text_plain(text, length);
	for (size_t at = width; at < length;) {
		size_t size;
		width += text_character_width(text_decode(text + at, length - at, &size));
		at += size;
	}
	return width;
}

size_t text_fit(const char *text, size_t length, size_t columns)
{
	size_t width = 0;
	size_t at = 0;

	while (at < length) {
		size_t size;
		width += text_character_width(text_decode(text + at, length - at, &size));
		if (width > columns)
			break;
		at += size;
	}

	return at;
}
