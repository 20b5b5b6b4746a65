/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/quantity.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/parse.h"

enum { QUANTITY_EXPONENT_MAX = 30 };

/* Wide enough for 18 digits times 1024^6, before what is behind the point is cut off. */
__extension__ typedef unsigned __int128 quantity_wide;

struct quantity_decimal {
	uint64_t digits; /* times 10^exponent, times 1024^kibi */
	int exponent, kibi;
};

static const struct {
	char suffix[3];
	int exponent, kibi;
} quantity_suffixes[] = {
    {"", 0, 0},	  {"n", -9, 0}, {"u", -6, 0}, {"m", -3, 0}, {"k", 3, 0},  {"M", 6, 0},
    {"G", 9, 0},  {"T", 12, 0}, {"P", 15, 0}, {"E", 18, 0}, {"Ki", 0, 1}, {"Mi", 0, 2},
    {"Gi", 0, 3}, {"Ti", 0, 4}, {"Pi", 0, 5}, {"Ei", 0, 6},
};

/* The digits with at most one point in them; `text` moves behind them. */
static int quantity_digits(const char **text, struct quantity_decimal *out)
{
	const char *at = *text;
	bool has_digit = false, has_point = false;
	int significant = 0;

	for (;; at++) {
		if (*at == '.' && !has_point) {
			has_point = true;
			continue;
		}

		if (*at < '0' || *at > '9')
			break;

		has_digit = true;
		if (out->digits > 0 || *at != '0')
			significant++;
		if (significant > QUANTITY_DIGITS_MAX ||
		    (has_point && --out->exponent < -QUANTITY_EXPONENT_MAX))
			return -ERANGE;

		out->digits = out->digits * 10 + (uint64_t)(*at - '0');
	}

	*text = at;
	return has_digit ? 0 : -EINVAL;
}

/* What follows the digits: a suffix, or an exponent ("e3", "E-2"). */
static int quantity_suffix(const char *text, struct quantity_decimal *out)
{
	for (size_t i = 0; i < array_length(quantity_suffixes); i++) {
		if (strcmp(text, quantity_suffixes[i].suffix) != 0)
			continue;
		out->exponent += quantity_suffixes[i].exponent;
		out->kibi = quantity_suffixes[i].kibi;
		return 0;
	}

	int64_t exponent;

	if (text[0] != 'e' && text[0] != 'E')
		return -EINVAL;

	int rc = parse_i64(text[1] == '+' ? text + 2 : text + 1, -QUANTITY_EXPONENT_MAX,
			   QUANTITY_EXPONENT_MAX, &exponent);
	if (rc < 0 || (text[1] == '+' && text[2] == '-'))
		return rc < 0 ? rc : -EINVAL;

	out->exponent += (int)exponent;
	return 0;
}

static bool quantity_multiply(quantity_wide *value, unsigned factor)
{
	return !__builtin_mul_overflow(*value, (quantity_wide)factor, value);
}

int quantity_parse(const char *text, uint32_t scale, uint64_t *out)
{
	struct quantity_decimal decimal = {0};
	bool is_negative = *text == '-';

	if (*text == '-' || *text == '+')
		text++;

	int rc = quantity_digits(&text, &decimal);
	if (rc == 0)
		rc = quantity_suffix(text, &decimal);
	if (rc < 0)
		return rc;
	if (is_negative && decimal.digits > 0)
		return -ERANGE;

	quantity_wide value = decimal.digits;
	bool fits = quantity_multiply(&value, scale);
	for (int i = 0; fits && i < decimal.kibi; i++)
		fits = quantity_multiply(&value, 1024);

	for (int i = 0; fits && value > 0 && i < decimal.exponent; i++)
		fits = quantity_multiply(&value, 10);

	bool has_rest = false;
	for (int i = 0; i > decimal.exponent && value > 0; i--) {
		has_rest = has_rest || value % 10 != 0;
		value /= 10;
	}

	if (!fits || value > INT64_MAX - 1)
		return -ERANGE;

	*out = (uint64_t)value + (has_rest ? 1 : 0);
	return 0;
}
