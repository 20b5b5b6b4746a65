/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/names.h"

enum parse_limits {
	PARSE_FRACTION_DIGITS = 9, /* of sizes and durations; further digits are cut off */
};

/* A decimal number as it was read, before its unit is known. */
struct decimal {
	uint64_t whole;
	uint64_t billionths;
	bool overflow; /* `whole` did not fit: a number, but out of every range */
	bool has_fraction;
};

struct unit_name {
	const char *name;
	uint64_t factor;
};

/* Longest names first, so that "Gi" is not taken for "G". */
static const struct unit_name size_units[] = {
    {"Ki", UINT64_C(1) << 10},	 {"Mi", UINT64_C(1) << 20},	 {"Gi", UINT64_C(1) << 30},
    {"Ti", UINT64_C(1) << 40},	 {"k", UINT64_C(1000)},		 {"M", UINT64_C(1000000)},
    {"G", UINT64_C(1000000000)}, {"T", UINT64_C(1000000000000)},
};

/* In falling order: a duration names each at most once, the larger first. */
static const struct unit_name duration_units[] = {
    {"d", UINT64_C(86400000000000)},
    {"h", UINT64_C(3600000000000)},
    {"m", UINT64_C(60000000000)},
    {"s", UINT64_C(1000000000)},
    {"ms", UINT64_C(1000000)},
    {"us", UINT64_C(1000)},
    {"ns", UINT64_C(1)},
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* All of `text` in `base`; a number that does not fit 64 bits is -ERANGE, not -EINVAL. */
static int parse_digits(const char *text, size_t length, unsigned base, uint64_t *out)
{
	if (length == 0)
		return -EINVAL;

	uint64_t value = 0;
	bool overflow = false;

	for (size_t i = 0; i < length; i++) {
		int digit = hex_value(text[i]);
		if (digit < 0 || (unsigned)digit >= base)
			return -EINVAL;
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit, &value))
			overflow = true;
	}

	if (overflow)
		return -ERANGE;

	*out = value;
	return 0;
}

int parse_u64_span(const char *text, size_t length, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t value;
	int rc = parse_digits(text, length, 10, &value);
	if (rc < 0)
		return rc;
	if (value < min || value > max)
		return -ERANGE;

	*out = value;
	return 0;
}

int parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	return parse_u64_span(text, strlen(text), min, max, out);
}

int parse_i64(const char *text, int64_t min, int64_t max, int64_t *out)
{
	bool negative = text[0] == '-';
	uint64_t magnitude;
	int rc = parse_digits(text + negative, strlen(text + negative), 10, &magnitude);
	if (rc < 0)
		return rc;

	if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0))
		return -ERANGE;

	int64_t value;

	if (!negative)
		value = (int64_t)magnitude;
	else if (magnitude == 0)
		value = 0;
	else
		value = -(int64_t)(magnitude - 1) - 1; /* INT64_MIN has no positive twin */

	if (value < min || value > max)
		return -ERANGE;

	*out = value;
	return 0;
}

int parse_hex_span(const char *text, size_t length, uint64_t max, uint64_t *out)
{
	if (length >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		text += 2;
		length -= 2;
	}

	uint64_t value;
	int rc = parse_digits(text, length, 16, &value);
	if (rc < 0)
		return rc;
	if (value > max)
		return -ERANGE;

	*out = value;
	return 0;
}

int parse_hex(const char *text, uint64_t max, uint64_t *out)
{
	return parse_hex_span(text, strlen(text), max, out);
}

/* Reads digits [. digits] from the front of *text and moves it behind them. */
static int decimal_read(const char **text, struct decimal *out)
{
	const char *at = *text;
	if (!is_digit(*at))
		return -EINVAL;

	struct decimal value = {0};
	for (; is_digit(*at); at++) {
		if (__builtin_mul_overflow(value.whole, UINT64_C(10), &value.whole) ||
		    __builtin_add_overflow(value.whole, (uint64_t)(*at - '0'), &value.whole))
			value.overflow = true;
	}

	if (*at == '.') {
		at++;
		if (!is_digit(*at))
			return -EINVAL;

		value.has_fraction = true;
		int digits = 0;
		for (; is_digit(*at); at++) {
			if (digits == PARSE_FRACTION_DIGITS)
				continue;
			value.billionths = value.billionths * 10 + (uint64_t)(*at - '0');
			digits++;
		}

		for (; digits < PARSE_FRACTION_DIGITS; digits++)
			value.billionths *= 10;
	}

	*text = at;
	*out = value;
	return 0;
}

/* value x factor, rounded down. -ERANGE when it does not fit. */
static int decimal_scale(const struct decimal *value, uint64_t factor, uint64_t *out)
{
	uint64_t whole;
	if (value->overflow || __builtin_mul_overflow(value->whole, factor, &whole))
		return -ERANGE;

	/* billionths x factor may need more than 64 bits; its parts below and above 10^9 do not. */
	uint64_t fraction =
	    value->billionths * (factor / UINT64_C(1000000000)) +
	    value->billionths * (factor % UINT64_C(1000000000)) / UINT64_C(1000000000);
	if (__builtin_add_overflow(whole, fraction, out))
		return -ERANGE;

	return 0;
}

int parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *out_bytes)
{
	struct decimal number;
	if (decimal_read(&text, &number) < 0)
		return -EINVAL;

	uint64_t factor = 1;

	for (size_t i = 0; i < array_length(size_units); i++) {
		size_t length = strlen(size_units[i].name);
		if (strncmp(text, size_units[i].name, length) == 0) {
			factor = size_units[i].factor;
			text += length;
			break;
		}
	}

	if (*text == 'B')
		text++;
	if (*text != '\0' || (number.has_fraction && factor == 1))
		return -EINVAL;

	uint64_t bytes;
	int rc = decimal_scale(&number, factor, &bytes);
	if (rc < 0)
		return rc;
	if (bytes < min || bytes > max)
		return -ERANGE;

	*out_bytes = bytes;
	return 0;
}

/* The unit at the front of *text that comes after unit number `*next`; moves both on. */
static int duration_unit(const char **text, size_t *next, uint64_t *out_factor)
{
	size_t length = strspn(*text, "abcdefghijklmnopqrstuvwxyz");

	for (size_t i = *next; i < array_length(duration_units); i++) {
		const char *name = duration_units[i].name;
		if (strlen(name) == length && strncmp(*text, name, length) == 0) {
			*out_factor = duration_units[i].factor;
			*text += length;
			*next = i + 1;
			return 0;
		}
	}

	return -EINVAL;
}

int parse_duration(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *out_ns)
{
	const uint64_t second = UINT64_C(1000000000);
	uint64_t total = 0;
	size_t next = 0;
	bool range = false;
	bool first = true;

	do {
		struct decimal number;
		if (decimal_read(&text, &number) < 0)
			return -EINVAL;

		uint64_t factor = second;
		bool bare = first && *text == '\0';

		if (!bare && duration_unit(&text, &next, &factor) < 0)
			return -EINVAL;
		if (number.has_fraction && *text != '\0')
			return -EINVAL; /* "1.5h30m": only the last part may have a fraction */

		uint64_t part;
		if (decimal_scale(&number, factor, &part) < 0 ||
		    __builtin_add_overflow(total, part, &total))
			range = true;

		first = false;
	} while (*text != '\0');

	if (range || total < min_ns || total > max_ns)

		return -ERANGE;
	*out_ns = total;
	return 0;
}

int parse_fraction(const char *text, double min, double max, double *out)
{
	bool negative = *text == '-';
	if (negative)
		text++;

	struct decimal number;
	if (decimal_read(&text, &number) < 0 || *text != '\0')
		return -EINVAL;
	if (number.overflow)
		return -ERANGE;

	double value = (double)number.whole;

	if (number.whole < UINT64_C(1000000)) /* one division: rounded once, as the text says */
		value = (double)(number.whole * UINT64_C(1000000000) + number.billionths) / 1e9;
	else
		value += (double)number.billionths / 1e9;

	if (negative)
		value = -value;
	if (!(value >= min && value <= max))
		return -ERANGE;

	*out = value;
	return 0;
}

int parse_bool(const char *text, bool *out)
{
	static const char *const yes[] = {"true", "yes", "on", "1"};
	static const char *const no[] = {"false", "no", "off", "0"};

	bool is_yes = names_find(yes, text) >= 0;

	if (!is_yes && names_find(no, text) < 0)
		return -EINVAL;

	*out = is_yes;
	return 0;
}
