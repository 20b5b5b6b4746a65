/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mlrules.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/names.h"
#include "base/parse.h"
#include "bench/mllog.h"

#define MLRULES_WHOLE 0.00001 /* what is nearer to a whole number than this is one */

/* --- rounds ------------------------------------------------------------------------------------
 */

static const char *const mlrules_rounds[MLRULES_ROUNDS] = {"0.6.0", "0.7.0", "1.0.0", "1.1.0"};

int mlrules_from_string(const char *text, enum mlrules_round *out)
{
	text += *text == 'v';
	for (size_t i = 0; i < MLRULES_ROUNDS; i++) {
		const char *name = mlrules_rounds[i];
		if (strcmp(text, name) == 0 || (strlen(text) == 3 && strncmp(text, name, 3) == 0)) {
			*out = (enum mlrules_round)i;
			return 0;
		}
	}

	return -EINVAL;
}

const char *mlrules_to_string(enum mlrules_round round)
{
	return names_at(mlrules_rounds, round, "?");
}

bool mlrules_has(enum mlrules_round round, const char *benchmark)
{
	static const struct {
		const char *name;
		enum mlrules_round since, until;
	} rows[] = {
	    {"resnet", MLRULES_06, MLRULES_11},	     {"ssd", MLRULES_06, MLRULES_11},
	    {"maskrcnn", MLRULES_06, MLRULES_11},    {"minigo", MLRULES_06, MLRULES_11},
	    {"transformer", MLRULES_06, MLRULES_07}, {"gnmt", MLRULES_06, MLRULES_07},
	    {"dlrm", MLRULES_07, MLRULES_11},	     {"bert", MLRULES_07, MLRULES_11},
	    {"rnnt", MLRULES_10, MLRULES_11},	     {"unet3d", MLRULES_10, MLRULES_11},
	};

	for (size_t i = 0; i < array_length(rows); i++)
		if (strcmp(benchmark, rows[i].name) == 0)
			return round >= rows[i].since && round <= rows[i].until;

	return false;
}

/* --- the table ---------------------------------------------------------------------------------
 */

enum mlrules_need { NEED_ONE, NEED_EXACT, NEED_SOME, NEED_NONE, NEED_ANY };

enum mlrules_check {
	CHECK_NOTHING,
	CHECK_FILLED,	/* anything but "" */
	CHECK_ABOVE,	/* `number` */
	CHECK_FROM,	/* `number` on */
	CHECK_EQUAL,	/* to `number` */
	CHECK_MULTIPLE, /* of `number` */
	CHECK_DOUBLING, /* `number`, doubled or halved some times */
	CHECK_NUMBERS,	/* one of `words` */
	CHECK_WORDS,	/* one of `words` */
	CHECK_NUMBER,
	CHECK_BOOLEAN,
	CHECK_INTEGER,
	CHECK_LENGTH,	/* of `number` items */
	CHECK_LONG,	/* of an item or more */
	CHECK_METHOD,	/* above `number`, with a metadata `method` that is one of `words` */
	CHECK_BOUNDARY, /* a list whose second item is `number` and some tenths of it */
};

struct mlrules_row {
	enum mlrules_round since, until;
	const char *division, *benchmark, *optimiser, *key;
	enum mlrules_need need;
	enum mlrules_check check;
	double number;
	const char *words;
};

#define ROW(since_, until_, division_, benchmark_, optimiser_, key_, need_, check_, number_,       \
	    words_)                                                                                \
	{.since = MLRULES_##since_,                                                                \
	 .until = MLRULES_##until_,                                                                \
	 .division = (division_),                                                                  \
	 .benchmark = (benchmark_),                                                                \
	 .optimiser = (optimiser_),                                                                \
	 .key = (key_),                                                                            \
	 .need = NEED_##need_,                                                                     \
	 .check = CHECK_##check_,                                                                  \
	 .number = (number_),                                                                      \
	 .words = (words_)},

static const struct mlrules_row mlrules_rows[] = {
#include "bench/mlrules.def"
};

static bool mlrules_is_of(const struct mlrules_row *row, enum mlrules_round round)
{
	return round >= row->since && round <= row->until;
}

size_t mlrules_count(enum mlrules_round round)
{
	size_t count = 0;
	for (size_t i = 0; i < array_length(mlrules_rows); i++)
		count += mlrules_is_of(&mlrules_rows[i], round);
	return count;
}

/* --- values ------------------------------------------------------------------------------------
 */

static bool mlrules_is_whole(double number)
{
	return isfinite(number) && fabs(round(number) - number) < MLRULES_WHOLE;
}

/* One of "a|b". */
static bool mlrules_is_word(const char *words, const char *text)
{
	size_t length = strlen(text);
	while (*words) {
		size_t span = strcspn(words, "|");
		if (span == length && memcmp(words, text, span) == 0)
			return true;
		words += span + (words[span] == '|');
	}

	return false;
}

static bool mlrules_is_number(const char *words, double number)
{
	while (*words) {
		char word[32];
		double wanted = INFINITY; /* of "Infinity" */
		size_t span = strcspn(words, "|");

		(void)snprintf(word, sizeof(word), "%.*s", (int)span, words); /* fits */
		(void)parse_fraction(word, 0, 1e9, &wanted);
		if (number == wanted)
			return true;

		words += span + (words[span] == '|');
	}

	return false;
}

static bool mlrules_is_right(const struct mlrules_row *row, const struct mllog *log)
{
	bool is_number = log->kind == MLLOG_NUMBER || log->kind == MLLOG_BOOL;
	double value = is_number ? log->number : NAN;

	switch (row->check) {
	case CHECK_FILLED:
		return log->kind != MLLOG_STRING || log->length > 0;
	case CHECK_ABOVE:
		return value > row->number;
	case CHECK_FROM:
		return value >= row->number;
	case CHECK_EQUAL:
		return value == row->number;
	case CHECK_MULTIPLE:
		return mlrules_is_whole(value / row->number);
	case CHECK_DOUBLING:
		return value > 0 && mlrules_is_whole(log2(value / row->number));
	case CHECK_NUMBERS:
		return is_number && mlrules_is_number(row->words, value);
	case CHECK_WORDS:
		return log->kind == MLLOG_STRING && mlrules_is_word(row->words, log->text);
	case CHECK_NUMBER:
		return is_number;
	case CHECK_BOOLEAN:
		return log->kind == MLLOG_BOOL;
	case CHECK_INTEGER:
		return log->kind == MLLOG_BOOL || log->is_integer;
	case CHECK_LENGTH:
		return log->has_length && (double)log->length == row->number;
	case CHECK_LONG:
		return log->has_length && log->length > 0;
	case CHECK_METHOD:
		return value > row->number && mlrules_is_word(row->words, log->method);
	case CHECK_BOUNDARY:
		return mlrules_is_whole(10 * (log->items[1] / row->number - 1));
	default:
		return true;
	}
}

/* What the row wants, for people. */
static void mlrules_want(const struct mlrules_row *row, char out[MLRULES_WANT_MAX])
{
	static const char *const words[] = {
	    [CHECK_NOTHING] = "anything",
	    [CHECK_FILLED] = "anything but no text",
	    [CHECK_ABOVE] = "a number above %g",
	    [CHECK_FROM] = "a number from %g on",
	    [CHECK_EQUAL] = "%g",
	    [CHECK_MULTIPLE] = "a multiple of %g",
	    [CHECK_DOUBLING] = "%g, doubled or halved some times",
	    [CHECK_LENGTH] = "a list of %g",
	    [CHECK_BOUNDARY] = "a list whose second item is %g and some tenths of it",
	};
	static const char *const others[] = {
	    [CHECK_NUMBER] = "a number",
	    [CHECK_BOOLEAN] = "true or false",
	    [CHECK_INTEGER] = "a whole number",
	    [CHECK_LONG] = "a list that is not empty",
	    [CHECK_METHOD] = "a number above 0, with the method truncate or discard",
	};

	const char *format = (size_t)row->check < array_length(words) ? words[row->check] : NULL;
	const char *other = (size_t)row->check < array_length(others) ? others[row->check] : NULL;

	if (format)
		(void)snprintf(out, MLRULES_WANT_MAX, format, row->number); /* fits */
	else
		(void)snprintf(out, MLRULES_WANT_MAX, "%s%s", other ? "" : "one of ",
			       other ? other : row->words); /* fits */
}

/* --- a log -------------------------------------------------------------------------------------
 */

void mlrules_init(struct mlrules *rules, enum mlrules_round round)
{
	*rules = (struct mlrules){.round = round};
}

static void mlrules_take(const struct mlrules_row *row, struct mlrules_seen *seen, uint64_t number,
			 const struct mllog *log)
{
	if (seen->count == 0)
		seen->first_id = log->value_id;
	else
		seen->differing += seen->first_id != log->value_id;
	seen->count++;
	if (seen->wrong_line == 0 && !mlrules_is_right(row, log))
		seen->wrong_line = number;
}

void mlrules_line(struct mlrules *rules, uint64_t number, const struct mllog *log)
{
	if (strcmp(log->key, "opt_name") == 0)
		(void)snprintf(rules->optimiser, sizeof(rules->optimiser), "%.31s", log->text);
	if (strcmp(log->key, "weights_initialization") == 0)
		mltensors_line(&rules->tensors, number, log->has_tensor ? log->tensor : NULL);

	size_t at = 0;

	for (size_t i = 0; i < array_length(mlrules_rows) && at < MLRULES_ROWS_MAX; i++) {
		if (!mlrules_is_of(&mlrules_rows[i], rules->round))
			continue;
		if (strcmp(log->key, mlrules_rows[i].key) == 0)
			mlrules_take(&mlrules_rows[i], &rules->rows[at], number, log);
		at++;
	}
}

/* --- the end -----------------------------------------------------------------------------------
 */

struct mlrules_report {
	mlrules_found found;
	void *data;
};

static void mlrules_say(const struct mlrules_report *report, bool is_repeat, const char *format,
			...) __attribute__((format(printf, 3, 4)));

static void mlrules_say(const struct mlrules_report *report, bool is_repeat, const char *format,
			...)
{
	char text[256];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments); /* cut */
	va_end(arguments);
	report->found(report->data, is_repeat, text);
}

static void mlrules_judge(const struct mlrules_row *row, const struct mlrules_seen *seen,
			  const struct mlrules_report *report)
{
	bool is_single = row->need == NEED_ONE || row->need == NEED_EXACT;
	if (seen->count == 0 && (is_single || row->need == NEED_SOME))
		mlrules_say(report, false, "'%s' is missing", row->key);
	else if (seen->count > 0 && row->need == NEED_NONE)
		mlrules_say(report, false, "'%s' does not belong to the optimiser '%s'", row->key,
			    row->optimiser);
	else if (is_single && seen->differing > 0)
		mlrules_say(report, false, "'%s' is there %u times, with different values",
			    row->key, seen->count);
	else if (is_single && seen->count > 1)
		mlrules_say(report, row->need == NEED_ONE,
			    "'%s' is there %u times, and belongs there once", row->key,
			    seen->count);

	if (seen->wrong_line == 0)
		return;

	char want[MLRULES_WANT_MAX];
	mlrules_want(row, want);
	mlrules_say(report, false, "line %" PRIu64 ": '%s' is not what the rules want: %s",
		    seen->wrong_line, row->key, want);
}

/* MiniGo makes its samples itself. */
static bool mlrules_is_waived(const struct mlrules_row *row, const char *division,
			      const char *benchmark)
{
	return row->check == CHECK_FILLED && strcmp(division, "closed") == 0 &&
	       strcmp(benchmark, "minigo") == 0;
}

void mlrules_end(const struct mlrules *rules, const char *division, const char *benchmark,
		 mlrules_found found, void *data)
{
	struct mlrules_report report = {.found = found, .data = data};
	size_t at = 0;

	for (size_t i = 0; i < array_length(mlrules_rows) && at < MLRULES_ROWS_MAX; i++) {
		const struct mlrules_row *row = &mlrules_rows[i];
		if (!mlrules_is_of(row, rules->round))
			continue;

		const struct mlrules_seen *seen = &rules->rows[at++];
		bool is_meant =
		    (row->division[0] == '\0' || strcmp(row->division, division) == 0) &&
		    (row->benchmark[0] == '\0' || strcmp(row->benchmark, benchmark) == 0) &&
		    (row->optimiser[0] == '\0' || strcmp(row->optimiser, rules->optimiser) == 0);
		if (is_meant && !mlrules_is_waived(row, division, benchmark))
			mlrules_judge(row, seen, &report);
	}

	char wrong[256];
	enum mlrules_round since = strcmp(benchmark, "rnnt") == 0 ? MLRULES_10 : MLRULES_11;
	if (rules->round >= since && strcmp(division, "closed") == 0 &&
	    mltensors_are_wrong(&rules->tensors, benchmark, wrong, sizeof(wrong)))
		mlrules_say(&report, false, "%s", wrong);
}
