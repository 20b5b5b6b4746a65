/* SPDX-License-Identifier: Apache-2.0 */
#include "job/moment.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"

enum {
	MOMENT_YEAR_MIN = 1970,
	MOMENT_YEAR_MAX = 9999,
	MOMENT_OFFSET_MAX = 14, /* hours of a zone from UTC */
	MOMENT_DAY_S = 86400,
	MOMENT_YEAR_DAYS = 366,
	MOMENT_MINUTES = 2, /* digits at the end of a zone's offset */
};

#define MOMENT_SPAN_MAX_S ((uint64_t)MOMENT_YEARS_MAX * MOMENT_YEAR_DAYS * MOMENT_DAY_S)

/* What is left to be read. */
struct moment_reader {
	const char *at;
	size_t left;
};

/* --- pieces ----------------------------------------------------------------------------------- */

static bool moment_take(struct moment_reader *reader, char wanted)
{
	if (reader->left == 0 || *reader->at != wanted)
		return false;
	reader->at++;
	reader->left--;
	return true;
}

/* A word, in any case, that no letter follows. */
static bool moment_take_word(struct moment_reader *reader, const char *word)
{
	size_t length = strlen(word);
	if (reader->left < length || strncasecmp(reader->at, word, length) != 0 ||
	    (reader->left > length && isalpha((unsigned char)reader->at[length])))
		return false;

	reader->at += length;
	reader->left -= length;
	return true;
}

static size_t moment_digits(const struct moment_reader *reader)
{
	size_t count = 0;
	while (count < reader->left && isdigit((unsigned char)reader->at[count]))
		count++;
	return count;
}

/* A number of `least` to `most` digits. */
static bool moment_take_number(struct moment_reader *reader, size_t least, size_t most, int min,
			       int max, int *out)
{
	size_t count = moment_digits(reader);
	uint64_t value;
	if (count < least || count > most ||
	    parse_u64_span(reader->at, count, (uint64_t)min, (uint64_t)max, &value) < 0)
		return false;

	reader->at += count;
	reader->left -= count;
	*out = (int)value;
	return true;
}

/* --- spans ------------------------------------------------------------------------------------ */

static const struct moment_unit {
	const char *word; /* and its plural */
	uint64_t seconds;
} moment_units[] = {
    {"s", 1},
    {"sec", 1},
    {"second", 1},
    {"m", 60},
    {"min", 60},
    {"minute", 60},
    {"h", 3600},
    {"hour", 3600},
    {"d", MOMENT_DAY_S},
    {"day", MOMENT_DAY_S},
    {"w", 7 * MOMENT_DAY_S},
    {"week", 7 * MOMENT_DAY_S},
};

/* 0: there is no such unit. */
static uint64_t moment_unit_of(const char *at, size_t length)
{
	for (size_t i = 0; i < array_length(moment_units); i++) {
		const char *word = moment_units[i].word;
		size_t own = strlen(word);
		bool is_plural = own > 1 && length == own + 1 && tolower(at[own]) == 's';
		if ((length == own || is_plural) && strncasecmp(at, word, own) == 0)
			return moment_units[i].seconds;
	}
	return 0;
}

/* "2h30m", "90", "2days", all that is left. */
static bool moment_take_span(struct moment_reader *reader, uint64_t *out_s)
{
	uint64_t total = 0;
	bool is_first = true;

	while (reader->left > 0) {
		size_t digits = moment_digits(reader), letters = 0;
		uint64_t value, unit = 1;
		if (parse_u64_span(reader->at, digits, 0, MOMENT_SPAN_MAX_S, &value) < 0)
			return false;

		reader->at += digits;
		reader->left -= digits;
		while (letters < reader->left && isalpha((unsigned char)reader->at[letters]))
			letters++;

		if (letters > 0)
			unit = moment_unit_of(reader->at, letters);
		else if (!is_first || reader->left > 0)
			return false;

		if (unit == 0 || value > MOMENT_SPAN_MAX_S / unit)
			return false;

		total += value * unit;
		reader->at += letters;
		reader->left -= letters;
		is_first = false;
		if (total > MOMENT_SPAN_MAX_S)
			return false;
	}

	*out_s = total;
	return !is_first;
}

/* --- times of a day --------------------------------------------------------------------------- */

/* "16:00", "16:00:30", "4pm", "4:30 pm", "noon". */
static bool moment_take_time(struct moment_reader *reader, struct tm *out)
{
	int hour, minute = 0, second = 0;

	if (moment_take_word(reader, "midnight")) {
		hour = 0;
	} else if (moment_take_word(reader, "noon")) {
		hour = 12;
	} else if (moment_take_word(reader, "teatime")) {
		hour = 16;
	} else {
		if (!moment_take_number(reader, 1, 2, 0, 23, &hour))
			return false;

		bool has_minutes = moment_take(reader, ':');
		if (has_minutes && !moment_take_number(reader, 2, 2, 0, 59, &minute))
			return false;
		if (has_minutes && moment_take(reader, ':') &&
		    !moment_take_number(reader, 2, 2, 0, 59, &second))
			return false;

		(void)moment_take(reader, ' ');
		bool is_am = moment_take_word(reader, "am");
		bool is_pm = !is_am && moment_take_word(reader, "pm");
		bool has_half = is_am || is_pm;

		if ((has_half && (hour < 1 || hour > 12)) || (!has_half && !has_minutes))
			return false;
		if (has_half)
			hour = hour % 12 + (is_pm ? 12 : 0);
	}

	out->tm_hour = hour;
	out->tm_min = minute;
	out->tm_sec = second;
	return true;
}

/* So many days after today, at the time that is in `tm`. */
static bool moment_on_day(struct tm tm, int days, time_t *out)
{
	tm.tm_mday += days;
	tm.tm_isdst = -1;
	time_t made = mktime(&tm);
	*out = made;
	return made != (time_t)-1;
}

/* "tomorrow", "today 18:00", "16:00": false where it is none of these. */
static bool moment_take_day(struct moment_reader *reader, time_t now, time_t *out)
{
	struct tm tm;
	if (!localtime_r(&now, &tm))
		return false;

	bool is_tomorrow = moment_take_word(reader, "tomorrow");
	bool is_today = !is_tomorrow && moment_take_word(reader, "today");
	bool is_named = is_tomorrow || is_today;

	if (is_named && reader->left == 0) {
		tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	} else {
		if (is_named && !moment_take(reader, ' '))
			return false;
		if (!moment_take_time(reader, &tm) || reader->left > 0)
			return false;
	}

	if (!moment_on_day(tm, is_tomorrow ? 1 : 0, out))
		return false;

	/* Without a day it is the next one. */
	return is_named || *out > now || moment_on_day(tm, 1, out);
}

/* --- dates ------------------------------------------------------------------------------------ */

/* "Z", "+01:00", "-0330": the seconds that it is before UTC. */
static bool moment_take_zone(struct moment_reader *reader, int *out_s)
{
	int hours, minutes;

	*out_s = 0;
	if (moment_take(reader, 'Z') || moment_take(reader, 'z'))
		return true;

	bool is_east = moment_take(reader, '+');
	if (!is_east && !moment_take(reader, '-'))
		return false;

	struct moment_reader head = {.at = reader->at, .left = reader->left < 2 ? 0 : 2};
	if (!moment_take_number(&head, 2, 2, 0, MOMENT_OFFSET_MAX, &hours))
		return false;

	reader->at += 2;
	reader->left -= 2;
	(void)moment_take(reader, ':');
	if (!moment_take_number(reader, 2, 2, 0, 59, &minutes))
		return false;

	*out_s = (hours * 60 + minutes) * 60 * (is_east ? 1 : -1);
	return true;
}

static bool moment_take_date(struct moment_reader *reader, time_t *out)
{
	struct tm tm = {.tm_isdst = -1};
	int year, month, offset_s;

	if (!moment_take_number(reader, 4, 4, MOMENT_YEAR_MIN, MOMENT_YEAR_MAX, &year) ||
	    !moment_take(reader, '-') || !moment_take_number(reader, 2, 2, 1, 12, &month) ||
	    !moment_take(reader, '-') || !moment_take_number(reader, 2, 2, 1, 31, &tm.tm_mday))
		return false;

	if (reader->left > 0 &&
	    ((!moment_take(reader, 'T') && !moment_take(reader, ' ')) ||
	     !moment_take_number(reader, 2, 2, 0, 23, &tm.tm_hour) || !moment_take(reader, ':') ||
	     !moment_take_number(reader, 2, 2, 0, 59, &tm.tm_min) ||
	     (moment_take(reader, ':') && !moment_take_number(reader, 2, 2, 0, 59, &tm.tm_sec))))
		return false;

	int day = tm.tm_mday;
	bool has_zone = reader->left > 0;

	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	if (has_zone && (!moment_take_zone(reader, &offset_s) || reader->left > 0))
		return false;

	time_t made = has_zone ? timegm(&tm) : mktime(&tm);
	/* "2026-02-31" would be a day in March. */
	if (made == (time_t)-1 || tm.tm_mday != day)
		return false;

	*out = has_zone ? made - offset_s : made;
	return true;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* "now", "now+2h", "+2h". */
static bool moment_take_now(struct moment_reader *reader, int64_t now_unix_ns, int64_t *out_unix_ns)
{
	uint64_t span_s = 0;
	bool is_now = moment_take_word(reader, "now");
	bool is_later = moment_take(reader, '+');

	if ((!is_now && !is_later) || (is_later && !moment_take_span(reader, &span_s)) ||
	    reader->left > 0)
		return false;

	*out_unix_ns = now_unix_ns + (int64_t)(span_s * CLOCK_NS_PER_S);
	return true;
}

int moment_parse(const char *text, size_t length, int64_t now_unix_ns, int64_t *out_unix_ns,
		 struct err *err)
{
	struct moment_reader reader = {.at = text, .left = length};
	int shown = (int)(length < MOMENT_TEXT_MAX ? length : MOMENT_TEXT_MAX);
	int64_t second_ns = (int64_t)CLOCK_NS_PER_S;
	time_t now = (time_t)(now_unix_ns / second_ns), at = 0;

	if (length > MOMENT_TEXT_MAX)
		return err_set(err, -EINVAL, "'%.*s...' is no time: expected " MOMENT_FORMS, shown,
			       text);
	if (moment_take_now(&reader, now_unix_ns, out_unix_ns))
		return 0;

	reader = (struct moment_reader){.at = text, .left = length};
	bool is_read = moment_take_day(&reader, now, &at);
	if (!is_read) {
		reader = (struct moment_reader){.at = text, .left = length};
		is_read = moment_take_date(&reader, &at);
	}

	if (!is_read)
		return err_set(err, -EINVAL, "'%.*s' is no time: expected " MOMENT_FORMS, shown,
			       text);

	char clock[MOMENT_SHOWN_MAX];
	if (at < now)
		return err_set(err, -EINVAL, "'%.*s' is over: it is %s now", shown, text,
			       moment_format(now_unix_ns, clock));
	if ((uint64_t)(at - now) > MOMENT_SPAN_MAX_S)
		return err_set(err, -EINVAL, "'%.*s' is more than %d years away", shown, text,
			       MOMENT_YEARS_MAX);

	*out_unix_ns = (int64_t)at * second_ns;
	return 0;
}

const char *moment_format(int64_t unix_ns, char out[MOMENT_SHOWN_MAX])
{
	time_t at = (time_t)(unix_ns / (int64_t)CLOCK_NS_PER_S);
	struct tm tm;
	/* Room for the colon that strftime() leaves out of "+0100". */
	size_t length = localtime_r(&at, &tm)
			    ? strftime(out, MOMENT_SHOWN_MAX - 1, "%Y-%m-%dT%H:%M:%S%z", &tm)
			    : 0;

	if (length < MOMENT_MINUTES) { /* a year beyond int */
		(void)snprintf(out, MOMENT_SHOWN_MAX, "@%lld", (long long)at);
		return out;
	}

	memmove(out + length - MOMENT_MINUTES + 1, out + length - MOMENT_MINUTES,
		MOMENT_MINUTES + 1);
	out[length - MOMENT_MINUTES] = ':';
	return out;
}
