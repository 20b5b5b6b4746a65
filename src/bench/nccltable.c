/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/nccltable.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"

enum {
	NCCLTABLE_EXPONENT_MAX = 300,
	NCCLTABLE_NUMBER_MAX = 40,			  /* bytes */
	NCCLTABLE_TOKENS_MAX = NCCLTABLE_COLUMNS_MAX + 1, /* a timestamp is two */
};

static const char nccltable_footer[] = "# Out of bounds values :";

static const struct {
	const char *name;
	enum nccltable_column column;
} nccltable_names[] = {
    {"size", NCCLTABLE_SIZE},		{"count", NCCLTABLE_COUNT},  {"type", NCCLTABLE_TYPE},
    {"redop", NCCLTABLE_REDOP},		{"root", NCCLTABLE_ROOT},    {"time", NCCLTABLE_TIME},
    {"cputime", NCCLTABLE_TIME},	{"algbw", NCCLTABLE_ALGBW},  {"busbw", NCCLTABLE_BUSBW},
    {"error", NCCLTABLE_ERROR},		{"#wrong", NCCLTABLE_WRONG}, {"i_min", NCCLTABLE_MIN},
    {"i_max", NCCLTABLE_MAX},		{"i_p99", NCCLTABLE_P99},    {"i_cv%", NCCLTABLE_CV},
    {"timestamp", NCCLTABLE_TIMESTAMP},
};

struct nccltable_token {
	const char *text; /* not ended by NUL */
	size_t length;
};

void nccltable_init(struct nccltable *table)
{
	*table = (struct nccltable){.peak_busbw = NAN};
}

/* The words of a line; what `mpirun --tag-output` puts before it is left out. At most one more than
 * there can be. */
static size_t nccltable_split(const char *line, size_t length,
			      struct nccltable_token tokens[NCCLTABLE_TOKENS_MAX])
{
	static const char tag[] = "<stdout>:";
	const char *at = line, *end = line + length;
	const char *behind =
	    length > 0 && *line == '[' ? memmem(line, length, tag, strlen(tag)) : NULL;
	size_t count = 0;

	if (behind)
		at = behind + strlen(tag);

	while (count < NCCLTABLE_TOKENS_MAX) {
		while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
			at++;

		if (at == end)
			break;

		const char *start = at;

		while (at < end && *at != ' ' && *at != '\t' && *at != '\r')
			at++;

		tokens[count++] = (struct nccltable_token){start, (size_t)(at - start)};
	}

	return count;
}

static bool nccltable_is(const struct nccltable_token *token, const char *text)
{
	return token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}

/* "#  size  count  type ...": false if it is no header. */
static bool nccltable_header(struct nccltable *table, const struct nccltable_token *tokens,
			     size_t count)
{
	enum nccltable_column columns[NCCLTABLE_COLUMNS_MAX];
	size_t column_count = 0;

	if (count < 4 || count > NCCLTABLE_COLUMNS_MAX || !nccltable_is(&tokens[0], "#") ||
	    !nccltable_is(&tokens[1], "size"))
		return false;

	for (size_t i = 1; i < count; i++) {
		size_t j = 0;
		const size_t names = sizeof(nccltable_names) / sizeof(nccltable_names[0]);
		while (j < names && !nccltable_is(&tokens[i], nccltable_names[j].name))
			j++;

		if (j == names)
			return false; /* a column that nobody knows: its rows would be misread */

		columns[column_count++] = nccltable_names[j].column;
	}

	memcpy(table->columns, columns, sizeof(columns[0]) * column_count);
	table->column_count = column_count;
	return true;
}

/* "12.5", "1e+06", "6e-08", "N/A". */
static int nccltable_number(const struct nccltable_token *token, double *out)
{
	char text[NCCLTABLE_NUMBER_MAX];
	int64_t exponent = 0;
	double value;

	if (nccltable_is(token, "N/A")) {
		*out = NAN;
		return 0;
	}

	if (token->length >= sizeof(text))
		return -EINVAL;

	memcpy(text, token->text, token->length);
	text[token->length] = '\0';

	char *power = strchr(text, 'e');
	if (power) {
		*power++ = '\0';
		power += *power == '+';
		if (parse_i64(power, -NCCLTABLE_EXPONENT_MAX, NCCLTABLE_EXPONENT_MAX, &exponent) <
		    0)
			return -EINVAL;
	}

	if (parse_fraction(text, 0, 1e18, &value) < 0)
		return -EINVAL;

	*out = value * pow(10, (double)exponent);
	return isfinite(*out) ? 0 : -EINVAL;
}

static int nccltable_name(const struct nccltable_token *token, char out[NCCLTABLE_NAME_MAX])
{
	if (token->length >= NCCLTABLE_NAME_MAX || memchr(token->text, '\0', token->length))
		return -EINVAL;
	memcpy(out, token->text, token->length);
	out[token->length] = '\0';
	return 0;
}

static int nccltable_root(const struct nccltable_token *token, int64_t *out)
{
	char text[NCCLTABLE_NAME_MAX];
	int rc = nccltable_name(token, text);
	return rc < 0 ? rc : parse_i64(text, -1, INT32_MAX, out);
}

static double *nccltable_field(struct nccltable_side *side, enum nccltable_column column)
{
	switch (column) {
	case NCCLTABLE_TIME:
		return &side->time_us;
	case NCCLTABLE_ALGBW:
		return &side->algbw;
	case NCCLTABLE_BUSBW:
		return &side->busbw;
	case NCCLTABLE_ERROR:
		return &side->error;
	case NCCLTABLE_WRONG:
		return &side->wrong;
	case NCCLTABLE_MIN:
		return &side->min_us;
	case NCCLTABLE_MAX:
		return &side->max_us;
	case NCCLTABLE_P99:
		return &side->p99_us;
	case NCCLTABLE_CV:
		return &side->cv_percent;
	default:
		return NULL;
	}
}

static int nccltable_value(struct nccltable_row *row, enum nccltable_column column, size_t side,
			   const struct nccltable_token *token)
{
	double *field;

	switch (column) {
	case NCCLTABLE_SIZE:
		return parse_u64_span(token->text, token->length, 0, UINT64_MAX, &row->size);
	case NCCLTABLE_COUNT:
		return parse_u64_span(token->text, token->length, 0, UINT64_MAX, &row->count);
	case NCCLTABLE_TYPE:
		return nccltable_name(token, row->type);
	case NCCLTABLE_REDOP:
		return nccltable_name(token, row->redop);
	case NCCLTABLE_ROOT:
		return nccltable_root(token, &row->root);
	case NCCLTABLE_TIMESTAMP:
		return 0;
	default:
		field = nccltable_field(side < 2 ? &row->out_of_place : &row->in_place, column);
		return field ? nccltable_number(token, field) : -EINVAL;
	}
}

static int nccltable_fill(const struct nccltable *table, const struct nccltable_token *tokens,
			  size_t count, struct nccltable_row *row, struct err *err)
{
	const enum nccltable_column *columns = table->columns;
	size_t wanted = table->column_count, at = 0, side = 0;
	bool has_stamp = columns[wanted - 1] == NCCLTABLE_TIMESTAMP;
	bool has_redop = wanted > 3 && columns[3] == NCCLTABLE_REDOP;
	size_t total = wanted + has_stamp;

	/* Operations without a reduction left the column empty for years. */
	bool is_empty = has_redop && count + 1 == total;
	if (count != total && !is_empty)
		return err_set(err, -EBADMSG, "%zu values, where the header has %zu columns", count,
			       wanted);

	for (size_t i = 0; i < wanted; i++) {
		side += columns[i] == NCCLTABLE_TIME;
		if (is_empty && columns[i] == NCCLTABLE_REDOP)
			continue;

		const struct nccltable_token *token = &tokens[at++];
		if (nccltable_value(row, columns[i], side, token) < 0)
			return err_set(err, -EBADMSG, "'%.*s' is not what column %zu has",
				       (int)(token->length < NCCLTABLE_NUMBER_MAX
						 ? token->length
						 : NCCLTABLE_NUMBER_MAX),
				       token->text, i + 1);
	}

	return 0;
}

static void nccltable_count(struct nccltable *table, const struct nccltable_side *side)
{
	if (isfinite(side->busbw))
		table->peak_busbw =
		    fmax(table->peak_busbw, side->busbw); /* NAN counts for nothing */
	table->has_wrong = table->has_wrong || side->wrong > 0;
}

static bool nccltable_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int nccltable_line(struct nccltable *table, const char *line, size_t length,
		   struct nccltable_row *out, struct err *err)
{
	static const struct nccltable_side none = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
	struct nccltable_token tokens[NCCLTABLE_TOKENS_MAX];

	if (length > NCCLTABLE_LINE_MAX)
		return 0;

	size_t count = nccltable_split(line, length, tokens);
	if (count == 0 || nccltable_header(table, tokens, count))
		return 0;

	const char *footer = memmem(line, length, nccltable_footer, strlen(nccltable_footer));
	if (footer && memmem(footer, (size_t)(line + length - footer), "FAILED", 6))
		table->has_wrong = true;

	/* A row begins with two numbers; a line of a log may begin with one. */
	uint64_t number;
	if (table->column_count == 0 || !nccltable_is_digit(tokens[0].text[0]) ||
	    parse_u64_span(tokens[0].text, tokens[0].length, 0, UINT64_MAX, &number) < 0 ||
	    (count > 1 &&
	     parse_u64_span(tokens[1].text, tokens[1].length, 0, UINT64_MAX, &number) < 0))
		return 0;

	*out = (struct nccltable_row){.root = -1, .out_of_place = none, .in_place = none};
	int rc = nccltable_fill(table, tokens, count, out, err);
	if (rc < 0) {
		table->broken++;
		return rc;
	}

	table->rows++;
	nccltable_count(table, &out->out_of_place);
	nccltable_count(table, &out->in_place);

	return 1;
}
