/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/since.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"

enum { SINCE_DAY_S = 86400, SINCE_DAYS_MAX = 36500, SINCE_YEAR_MAX = 9999 };

/* Two digits at `at`. */
static bool two_digits(const char *at, uint64_t min, uint64_t max, int *out)
{
	uint64_t value;
	if (parse_u64_span(at, 2, min, max, &value) < 0)
		return false;
	*out = (int)value;
	return true;
}

static bool read_date(const char *text, int64_t *out_unix_ns)
{
	struct tm tm = {.tm_isdst = -1};
	size_t length = strlen(text);
	uint64_t year;

	if ((length != 10 && length != 16 && length != 19) || text[4] != '-' || text[7] != '-' ||
	    parse_u64_span(text, 4, 1970, SINCE_YEAR_MAX, &year) < 0 ||
	    !two_digits(text + 5, 1, 12, &tm.tm_mon) || !two_digits(text + 8, 1, 31, &tm.tm_mday))
		return false;

	if (length > 10 &&
	    (text[10] != 'T' || text[13] != ':' || !two_digits(text + 11, 0, 23, &tm.tm_hour) ||
	     !two_digits(text + 14, 0, 59, &tm.tm_min)))
		return false;

	if (length > 16 && (text[16] != ':' || !two_digits(text + 17, 0, 60, &tm.tm_sec)))
		return false;

	int day = tm.tm_mday;

	tm.tm_mon--;
	tm.tm_year = (int)year - 1900;

	time_t time = mktime(&tm);
	/* "2026-02-31" would be a day in March. */
	if (time == (time_t)-1 || tm.tm_mday != day)
		return false;

	*out_unix_ns = time > 0 ? (int64_t)time * CLOCK_NS_PER_S : 1;
	return true;
}

static bool read_ago(const char *text, int64_t now_unix_ns, int64_t *out_unix_ns)
{
	size_t length = strlen(text);
	uint64_t days, ns;
	uint64_t unit = length > 0 && text[length - 1] == 'w' ? 7 : 1;

	if (length > 1 && strchr("dw", text[length - 1]) &&
	    parse_u64_span(text, length - 1, 0, SINCE_DAYS_MAX, &days) == 0)
		ns = days * unit * SINCE_DAY_S * CLOCK_NS_PER_S;
	else if (parse_duration(text, 0, INT64_MAX, &ns) < 0)
		return false;

	int64_t at = (int64_t)ns < now_unix_ns ? now_unix_ns - (int64_t)ns : 1;
	*out_unix_ns = at > 0 ? at : 1;
	return true;
}

int since_read(const char *text, int64_t now_unix_ns, int64_t *out_unix_ns, struct err *err)
{
	if (read_date(text, out_unix_ns) || read_ago(text, now_unix_ns, out_unix_ns))
		return 0;
	return err_set(err, -EINVAL, "'%.40s' is no time: expected " SINCE_FORMS, text);
}
