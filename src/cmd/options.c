/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/longopt.h"
#include "base/parse.h"
#include "base/suggest.h"

enum option_internals {
	OPTION_FIRST_CODE = 256, /* getopt's value of row 0; above every letter. --help is after the
				    last row */
	OPTION_HELP_CODE = 'h',
	OPTION_DURATION_MAX = 32, /* bytes of a limit as text */
};

#define OPTION_DAY_NS UINT64_C(86400000000000)

struct option_kind_facts {
	const char *name;
	const char *value; /* word for it in the help */
	size_t size;	   /* of the field */
};

static const struct option_kind_facts kind_facts[] = {
    [OPTION_FLAG] = {"flag", NULL, sizeof(bool)},
    [OPTION_TEXT] = {"text", "TEXT", sizeof(const char *)},
    [OPTION_PATH] = {"path", "FILE", sizeof(const char *)},
    [OPTION_U32] = {"u32", "N", sizeof(uint32_t)},
    [OPTION_U64] = {"u64", "N", sizeof(uint64_t)},
    [OPTION_I64] = {"i64", "N", sizeof(int64_t)},
    [OPTION_HEX] = {"hex", "HEX", sizeof(uint64_t)},
    [OPTION_SIZE] = {"size", "SIZE", sizeof(uint64_t)},
    [OPTION_DURATION] = {"duration", "TIME", sizeof(uint64_t)},
    [OPTION_FRACTION] = {"fraction", "X", sizeof(double)},
    [OPTION_CHOICE] = {"choice", NULL, sizeof(uint32_t)},
    [OPTION_LIST] = {"list", "TEXT", sizeof(struct option_list)},
};

const char *option_kind_to_string(enum option_kind kind)
{
	return kind_facts[kind].name;
}

const char *options_value_name(const struct option_row *row)
{
	if (row->kind == OPTION_FLAG)
		return NULL;
	if (row->value)
		return row->value;
	return row->kind == OPTION_CHOICE ? row->words : kind_facts[row->kind].value;
}

bool options_word(const char *words, size_t index, char out[OPTION_WORD_SIZE])
{
	for (; words && index > 0; index--) {
		words = strchr(words, '|');
		words = words ? words + 1 : NULL;
	}

	if (!words)
		return false;

	size_t length = strcspn(words, "|");
	if (length >= OPTION_WORD_SIZE)
		length = OPTION_WORD_SIZE - 1;
	memcpy(out, words, length);
	out[length] = '\0';

	return true;
}

static int option_choice(const struct option_row *row, const char *text, uint32_t *out,
			 struct err *err)
{
	char words[OPTION_WORDS_MAX][OPTION_WORD_SIZE];
	struct suggest suggest;

	suggest_init(&suggest, text);

	for (uint32_t i = 0; i < OPTION_WORDS_MAX && options_word(row->words, i, words[i]); i++) {
		if (strcmp(words[i], text) == 0) {
			*out = i;
			return 0;
		}
		suggest_offer(&suggest, words[i]);
	}

	const char *best = suggest_best(&suggest);
	return err_set(err, -EINVAL, "option '--%s' takes %s, not '%s'%s%s%s", row->name,
		       row->words, text, best ? "; did you mean '" : "", best ? best : "",
		       best ? "'?" : "");
}

/* "250ms", "90s", "2h": a limit as somebody would have typed it. */
static const char *option_duration(uint64_t ns, char out[OPTION_DURATION_MAX])
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"h", UINT64_C(3600000000000)},
		     {"m", UINT64_C(60000000000)},
		     {"s", UINT64_C(1000000000)},
		     {"ms", UINT64_C(1000000)},
		     {"us", UINT64_C(1000)}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (ns == 0 || ns % units[i].ns != 0)
			continue;
		(void)snprintf(out, OPTION_DURATION_MAX, "%" PRIu64 "%s", ns / units[i].ns,
			       units[i].name);
		return out;
	}

	(void)snprintf(out, OPTION_DURATION_MAX, "%" PRIu64 "%s", ns, ns ? "ns" : "");
	return out;
}

static int option_refuse_duration(const struct option_row *row, const char *text, struct err *err)
{
	char least[OPTION_DURATION_MAX], most[OPTION_DURATION_MAX];
	uint64_t ns;
	bool fits = parse_duration(text, 0, UINT64_MAX, &ns) == 0;

	if (row->max == 0 && !fits)
		return err_set(err, -EINVAL,
			       "option '--%s': %s is too long a time, the longest is "
			       "%" PRIu64 "d",
			       row->name, text, UINT64_MAX / OPTION_DAY_NS);

	if (row->max == 0 && row->min == 1)
		return err_set(err, -EINVAL, "option '--%s': %s is too short a time", row->name,
			       text);

	(void)option_duration(row->min > 0 ? (uint64_t)row->min : 0, least);
	if (row->max == 0)
		return err_set(err, -EINVAL, "option '--%s': %s is outside the range, from %s",
			       row->name, text, least);

	return err_set(err, -EINVAL, "option '--%s': %s is outside the range %s to %s", row->name,
		       text, least, option_duration(row->max, most));
}

/* A message for a number that parse.h refused. */
static int option_refuse(const struct option_row *row, const char *text, int rc, const char *what,
			 struct err *err)
{
	if (rc == -EINVAL)
		return err_set(err, -EINVAL, "option '--%s' takes %s, not '%s'", row->name, what,
			       text);
	if (row->kind == OPTION_DURATION)
		return option_refuse_duration(row, text, err);
	if (row->kind == OPTION_FRACTION && row->max == 0)
		return err_set(err, -EINVAL,
			       "option '--%s': %s is outside the range, from %" PRId64, row->name,
			       text, row->min);

	uint64_t bytes;
	if (row->kind == OPTION_SIZE && row->min >= 1000000 &&
	    parse_u64(text, 1, (uint64_t)row->min - 1, &bytes) == 0)
		return err_set(
		    err, -EINVAL,
		    "option '--%s': %s is %s bytes, which is too little; write %sM or %sG",
		    row->name, text, text, text, text);

	const char *unit = row->kind == OPTION_SIZE ? " bytes" : "";
	uint64_t most = row->max		  ? row->max
			: row->kind == OPTION_U32 ? UINT32_MAX
			: row->kind == OPTION_I64 ? INT64_MAX
						  : UINT64_MAX;
	int64_t least =
	    row->kind == OPTION_I64 && row->min == 0 && row->max == 0 ? INT64_MIN : row->min;

	return err_set(err, -EINVAL,
		       "option '--%s': %s is outside the range %" PRId64 " to %" PRIu64 "%s",
		       row->name, text, least, most, unit);
}

static int option_number(const struct option_row *row, const char *text, void *field,
			 struct err *err)
{
	uint64_t min = row->min > 0 ? (uint64_t)row->min : 0;
	uint64_t max = row->max > 0 ? row->max : UINT64_MAX;
	uint64_t value = 0;
	const char *what = "a whole number";
	int rc;

	switch (row->kind) {
	case OPTION_HEX:
		what = "a hexadecimal number";
		rc = parse_hex(text, max, &value);
		break;
	case OPTION_SIZE:
		what = "a size such as 512M or 16Gi";
		rc = parse_size(text, min, max, &value);
		break;
	case OPTION_DURATION:
		what = "a time such as 250ms, 90s or 1h30m";
		rc = parse_duration(text, min, max, &value);
		break;
	case OPTION_U32:
		rc = parse_u64(text, min, max < UINT32_MAX ? max : UINT32_MAX, &value);
		break;
	default:
		rc = parse_u64(text, min, max, &value);
		break;
	}

	if (rc < 0)
		return option_refuse(row, text, rc, what, err);
	if (row->kind == OPTION_U32)
		*(uint32_t *)field = (uint32_t)value;
	else
		*(uint64_t *)field = value;

	return 0;
}

static int option_signed(const struct option_row *row, const char *text, void *field,
			 struct err *err)
{
	int64_t max = row->max > 0 ? (int64_t)row->max : INT64_MAX;
	int64_t min = row->min == 0 && row->max == 0 ? INT64_MIN : row->min;
	int rc = parse_i64(text, min, max, field);
	return rc < 0 ? option_refuse(row, text, rc, "a whole number", err) : 0;
}

static int option_list_add(struct option_list *list, const char *text, int most, struct err *err)
{
	if (!list->items)
		list->items = calloc((size_t)most, sizeof(*list->items));
	if (!list->items)
		return err_set(err, -ENOMEM, "out of memory while reading the command line");
	list->items[list->count++] = text;
	return 0;
}

/* Stores one value. `most` bounds how often an option can be given. */
static int option_store(const struct option_row *row, const char *text, int most, void *values,
			struct err *err)
{
	assert(row->size ==
	       kind_facts[row->kind].size); /* the table names a field of another type */
	void *field = (char *)values + row->offset;
	double max = row->max > 0 ? (double)row->max : 1e300;
	int rc;

	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)field = true;
		return 0;
	case OPTION_TEXT:
	case OPTION_PATH:
		*(const char **)field = text;
		return 0;
	case OPTION_CHOICE:
		return option_choice(row, text, field, err);
	case OPTION_LIST:
		return option_list_add(field, text, most, err);
	case OPTION_FRACTION:
		rc = parse_fraction(text, (double)row->min, max, field);
		return rc < 0 ? option_refuse(row, text, rc, "a number such as 0.75", err) : 0;
	case OPTION_I64:
		return option_signed(row, text, field, err);
	case OPTION_U32:
	case OPTION_U64:
	case OPTION_HEX:
	case OPTION_SIZE:
	case OPTION_DURATION:
		return option_number(row, text, field, err);
	}

	return -EINVAL;
}

/* getopt's tables, made from ours. */
struct option_tables {
	struct option longs[OPTION_ROWS_MAX + 2];
	char shorts[3 * OPTION_ROWS_MAX + 4];
	size_t count;
};

static void option_tables_make(const struct option_row *rows, bool posix, struct option_tables *out)
{
	char *letter = out->shorts;
	size_t count = 0;

	if (posix)
		*letter++ = '+';
	*letter++ = ':'; /* tell a missing value from an unknown option */

	for (; rows && rows[count].name; count++) {
		const struct option_row *row = &rows[count];

		assert(count < OPTION_ROWS_MAX);
		bool takes = row->kind != OPTION_FLAG;
		out->longs[count] = (struct option){
		    .name = row->name,
		    .has_arg = !takes	   ? no_argument
			       : row->bare ? optional_argument
					   : required_argument,
		    .val = OPTION_FIRST_CODE + (int)count,
		};

		if (row->letter) {
			*letter++ = row->letter;
			if (takes)
				*letter++ = ':';
			if (takes && row->bare)
				*letter++ = ':';
		}
	}

	*letter++ = OPTION_HELP_CODE;
	*letter = '\0';
	out->longs[count] = (struct option){.name = "help", .val = OPTION_FIRST_CODE + (int)count};
	out->longs[count + 1] = (struct option){0};
	out->count = count;
}

static bool option_is_help(const struct option_tables *tables, int code)
{
	return code == OPTION_HELP_CODE || code == OPTION_FIRST_CODE + (int)tables->count;
}

static const struct option_row *option_by_code(const struct option_row *rows, size_t count,
					       int code)
{
	if (code >= OPTION_FIRST_CODE)
		return code - OPTION_FIRST_CODE < (int)count ? &rows[code - OPTION_FIRST_CODE]
							     : NULL;
	for (size_t i = 0; i < count; i++) {
		if (code != 0 && rows[i].letter == code)
			return &rows[i];
	}
	return NULL;
}

/* Refuses a beginning of a name. `code` is what getopt said. */
static int option_check_whole(const struct option_row *rows, const struct option_tables *tables,
			      int code, char **argv, struct err *err)
{
	int value = code == '?' || code == ':' ? optopt : code;
	if (value < OPTION_FIRST_CODE)
		return 0; /* a letter, or a name that no option begins with */

	const struct option_row *row = option_by_code(rows, tables->count, value);
	const char *name = row ? row->name : "help";
	if (longopt_is_whole(argv, name))
		return 0;

	size_t length;
	const char *word = longopt_word(argv, &length);
	if (row && row->hidden)
		return err_set(err, -EINVAL, "unknown option '--%.*s'", (int)length, word);

	return err_set(err, -EINVAL, "--%.*s is not an option; did you mean --%s?", (int)length,
		       word, name);
}

/* getopt said '?': an unknown name, an unknown letter, an ambiguous beginning, or a flag's value.
 */
static int option_unknown(const struct option_row *rows, const struct option_tables *tables,
			  char **argv, struct err *err)
{
	const char *text = argv[optind - 1];
	const struct option_row *row = option_by_code(rows, tables->count, optopt);

	if (option_is_help(tables, optopt))
		return err_set(err, -EINVAL, "option '--help' takes no value");
	if (row)
		return err_set(err, -EINVAL, "option '--%s' takes no value", row->name);
	if (optopt != 0)
		return err_set(err, -EINVAL, "unknown option '-%c'", optopt);

	char name[OPTION_WORD_SIZE];
	size_t length = strcspn(text + 2, "=");
	if (length >= sizeof(name))
		return err_set(err, -EINVAL, "unknown option '%.64s...'", text);

	memcpy(name, text + 2, length);
	name[length] = '\0';

	struct suggest suggest;
	suggest_init(&suggest, name);

	for (size_t i = 0; i < tables->count; i++) {
		if (!rows[i].hidden)
			suggest_offer(&suggest, rows[i].name);
	}

	suggest_offer(&suggest, "help");
	const char *best = suggest_best(&suggest);
	return err_set(err, -EINVAL, "unknown option '--%s'%s%s%s", name,
		       best ? "; did you mean '--" : "", best ? best : "", best ? "'?" : "");
}

static int option_check_required(const struct option_row *rows, size_t count, const bool *given,
				 struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		if (rows[i].required && !given[i])
			return err_set(err, -EINVAL, "option '--%s' is missing", rows[i].name);
	}
	return 0;
}

/* getopt said '?' where that is no error: whether it is a name or letter that nobody knows. */
static bool option_leave_out(const struct option_row *rows, const struct option_tables *tables,
			     char **argv, struct option_result *result)
{
	const char *text = argv[optind - 1];
	bool is_letter = optopt != 0;

	if (option_is_help(tables, optopt) || option_by_code(rows, tables->count, optopt))
		return false; /* a flag's value */
	if (result->unknown_count == OPTION_UNKNOWN_MAX)
		return true;

	char *word = result->unknown[result->unknown_count++];

	if (is_letter)
		(void)snprintf(word, OPTION_WORD_SIZE, "-%c", optopt);
	else
		(void)snprintf(word, OPTION_WORD_SIZE, "%.*s", (int)strcspn(text, "="), text);

	return true;
}

int options_parse(const struct option_row *rows, enum option_manner manner, int argc, char **argv,
		  void *values, struct option_result *out, struct err *err)
{
	struct option_tables tables;
	struct option_result result = {0};
	bool given[OPTION_ROWS_MAX] = {false};

	option_tables_make(rows, manner == OPTION_MANNER_POSIX, &tables);

	optind = 0; /* glibc: start anew */
	opterr = 0;

	for (;;) {
		int code = getopt_long(argc, argv, tables.shorts, tables.longs, NULL);
		if (code == -1)
			break;

		int rc = option_check_whole(rows, &tables, code, argv, err);
		if (rc < 0)
			return rc;

		if (option_is_help(&tables, code)) {
			*out = (struct option_result){.help = true};
			return 0;
		}

		if (code == '?' && manner == OPTION_MANNER_LENIENT &&
		    option_leave_out(rows, &tables, argv, &result))
			continue;
		if (code == '?')
			return option_unknown(rows, &tables, argv, err);

		const struct option_row *row =
		    option_by_code(rows, tables.count, code == ':' ? optopt : code);
		if (!row)
			return err_set(err, -EINVAL, "unknown option '%s'", argv[optind - 1]);
		if (code == ':')
			return err_set(err, -EINVAL, "option '--%s' needs a value: %s", row->name,
				       options_value_name(row));

		const char *text = row->bare && !optarg ? row->bare : optarg;
		rc = option_store(row, text, argc, values, err);
		if (rc < 0)
			return rc;

		if (row->renamed && !given[row - rows] && result.renamed_count < OPTION_RENAMED_MAX)
			result.renamed[result.renamed_count++] = row;
		given[row - rows] = true;
	}

	result.first = optind;
	*out = result;
	return option_check_required(rows, tables.count, given, err);
}

void options_done(const struct option_row *rows, void *values)
{
	for (; rows && rows->name; rows++) {
		if (rows->kind != OPTION_LIST)
			continue;
		struct option_list *list = (struct option_list *)((char *)values + rows->offset);
		free(list->items);
		*list = (struct option_list){0};
	}
}

/* The new name is there, and means the same. */
static bool option_is_renamed(const struct option_row *rows, const struct option_row *old)
{
	for (; rows->name; rows++) {
		if (strcmp(rows->name, old->renamed) == 0)
			return old->hidden && rows->offset == old->offset &&
			       rows->kind == old->kind;
	}
	return false;
}

static int option_check_row(const struct option_row *rows, size_t index, struct err *err)
{
	const struct option_row *row = &rows[index];
	if (row->size != kind_facts[row->kind].size)
		return err_set(err, -EINVAL, "option '--%s' fills %zu bytes, its kind has %zu",
			       row->name, row->size, kind_facts[row->kind].size);
	if (!row->help || !*row->help)
		return err_set(err, -EINVAL, "option '--%s' has no help text", row->name);
	if (row->kind == OPTION_FLAG && row->bare)
		return err_set(err, -EINVAL, "option '--%s' is a flag and has a value", row->name);

	if (row->kind == OPTION_CHOICE && !row->words)
		return err_set(err, -EINVAL, "option '--%s' has no words to choose from",
			       row->name);

	if (row->renamed && !option_is_renamed(rows, row))
		return err_set(err, -EINVAL, "option '--%s' is not an old name of '--%s'",
			       row->name, row->renamed);

	bool twice = strcmp(row->name, "help") == 0 || row->letter == OPTION_HELP_CODE;
	for (size_t i = 0; i < index; i++)
		twice = twice || strcmp(rows[i].name, row->name) == 0 ||
			(row->letter && rows[i].letter == row->letter);

	if (twice)
		return err_set(err, -EINVAL, "option '--%s' or its letter is there twice",
			       row->name);

	return 0;
}

int options_check(const struct option_row *rows, struct err *err)
{
	for (size_t i = 0; rows && rows[i].name; i++) {
		if (i == OPTION_ROWS_MAX)
			return err_set(err, -EINVAL, "more than %d options", OPTION_ROWS_MAX);
		int rc = option_check_row(rows, i, err);
		if (rc < 0)
			return rc;
	}

	return 0;
}
