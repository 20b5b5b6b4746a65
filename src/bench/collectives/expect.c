/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/expect.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/parse.h"
#include "bench/collectives/request.h"
#include "bench/collectives/sheet.h"

enum {
	EXPECT_WORDS = 6,
	EXPECT_FIRST_LINES = 16,
};

#define EXPECT_VALUE_MAX 1e12
#define EXPECT_US	 1e6

static const char *const metric_names[] = {
    [EXPECT_PEAK_BUSBW] = "peak_busbw",
    [EXPECT_LATENCY_US] = "latency_us",
};

/* Cuts `line` into words; their number, at most one more than are wanted. */
static size_t expect_split(char *line, char *words[EXPECT_WORDS + 1])
{
	static const char blanks[] = " \t\r";
	size_t count = 0;

	line[strcspn(line, "#")] = '\0';

	for (char *at = line + strspn(line, blanks); *at && count <= EXPECT_WORDS;) {
		size_t length = strcspn(at, blanks);

		words[count++] = at;
		bool is_last = at[length] == '\0';

		at[length] = '\0';
		at += length + !is_last;
		at += strspn(at, blanks);
	}

	return count;
}

static int expect_words(char *words[EXPECT_WORDS + 1], struct expect_line *out, struct err *err)
{
	if (collective_op_parse(words[0], &out->op) < 0)
		return err_set(err, -EINVAL, "'%.40s' is no operation", words[0]);
	if (collective_type_parse(words[1], &out->type) < 0)
		return err_set(err, -EINVAL, "'%.40s' is no type", words[1]);

	out->size = EXPECT_ANY_SIZE;
	if (strcmp(words[2], "any") != 0 && request_size_parse(words[2], &out->size) < 0)
		return err_set(err, -EINVAL, "'%.40s' is no size such as 8 or 256M, nor any",
			       words[2]);

	if (strcmp(words[3], metric_names[EXPECT_PEAK_BUSBW]) == 0)
		out->metric = EXPECT_PEAK_BUSBW;
	else if (strcmp(words[3], metric_names[EXPECT_LATENCY_US]) == 0)
		out->metric = EXPECT_LATENCY_US;
	else
		return err_set(err, -EINVAL, "'%.40s' is neither peak_busbw nor latency_us",
			       words[3]);

	out->is_at_least = strcmp(words[4], ">=") == 0;
	if (!out->is_at_least && strcmp(words[4], "<=") != 0)
		return err_set(err, -EINVAL, "'%.40s' is neither >= nor <=", words[4]);
	if (parse_fraction(words[5], 0, EXPECT_VALUE_MAX, &out->limit) < 0)
		return err_set(err, -EINVAL, "'%.40s' is no number such as 230 or 12.5", words[5]);

	out->value = NAN;
	return 0;
}

/* 1: a line was read into `out`; 0: it is empty. */
static int expect_line(const char *text, size_t length, struct expect_line *out, struct err *err)
{
	char line[EXPECT_LINE_MAX];
	char *words[EXPECT_WORDS + 1];

	if (length >= sizeof(line))
		return err_set(err, -EINVAL, "%zu bytes are too long for a line", length);
	if (memchr(text, '\0', length))
		return err_set(err, -EINVAL, "there is a NUL in it");

	memcpy(line, text, length);
	line[length] = '\0';

	size_t count = expect_split(line, words);
	if (count == 0)
		return 0;
	if (count != EXPECT_WORDS)
		return err_set(err, -EINVAL,
			       "OP TYPE SIZE peak_busbw|latency_us >=|<= VALUE is wanted");

	int rc = expect_words(words, out, err);
	return rc < 0 ? rc : 1;
}

static int expect_add(struct expect *expect, size_t *capacity, const struct expect_line *line,
		      struct err *err)
{
	if (expect->count == EXPECT_LINES_MAX)
		return err_set(err, -E2BIG, "more than %d expectations", EXPECT_LINES_MAX);

	if (array_room(&expect->lines, expect->count, capacity, EXPECT_FIRST_LINES) < 0)
		return err_set(err, -ENOMEM, "no memory for expectations");

	expect->lines[expect->count++] = *line;
	return 0;
}

int expect_parse(const char *text, size_t length, struct expect *out, struct err *err)
{
	struct expect expect = {0};
	size_t capacity = 0;
	uint32_t number = 0;
	int rc = 0;

	if (length > EXPECT_BYTES_MAX)
		rc = err_set(err, -E2BIG,
			     "%zu bytes are too many for expectations: %d are "
			     "possible",
			     length, EXPECT_BYTES_MAX);

	for (size_t at = 0; rc >= 0 && at < length;) {
		const char *newline = memchr(text + at, '\n', length - at);
		size_t end = newline ? (size_t)(newline - text) : length;
		struct expect_line line = {.number = ++number};

		rc = expect_line(text + at, end - at, &line, err);
		if (rc > 0)
			rc = expect_add(&expect, &capacity, &line, err);
		if (rc < 0)
			(void)err_wrap(err, "line %u", number);
		at = end + 1;
	}

	if (rc < 0)
		expect_done(&expect);
	*out = expect;
	return rc < 0 ? rc : 0;
}

void expect_done(struct expect *expect)
{
	free(expect->lines);
	*expect = (struct expect){0};
}

static void expect_side(struct expect_line *line, const struct measure_row *row,
			const struct measure_side *side, uint32_t ranks)
{
	const struct measure_plan *plan = &row->plan;

	if (!side->is_there)
		return;

	if (line->metric == EXPECT_PEAK_BUSBW) {
		double busbw = collective_busbw(plan->op, &plan->shape, ranks, sheet_time(side));
		line->value = fmax(line->value, busbw); /* of a number and NAN the number */
	} else {
		double alone = isfinite(side->isolated) ? side->isolated : side->stream;
		line->value = fmin(line->value, alone * EXPECT_US);
	}
}

/* Both as it is printed and as -b and -e ask for it: that is rounded down to what all ranks share.
 */
static bool expect_is_size(const struct expect_line *line, const struct measure_plan *plan,
			   uint32_t ranks)
{
	struct collective_shape asked;
	if (line->size == EXPECT_ANY_SIZE || line->size == plan->shape.bytes)
		return true;
	collective_shape(plan->op, plan->type, line->size, ranks, &asked);
	return asked.bytes > 0 && asked.bytes == plan->shape.bytes;
}

void expect_row(struct expect *expect, const struct measure_row *row, uint32_t ranks)
{
	const struct measure_plan *plan = &row->plan;

	for (size_t i = 0; i < expect->count; i++) {
		struct expect_line *line = &expect->lines[i];
		if (line->op != plan->op || line->type != plan->type ||
		    !expect_is_size(line, plan, ranks))
			continue;

		expect_side(line, row, &row->out_of_place, ranks);
		expect_side(line, row, &row->in_place, ranks);
	}
}

enum expect_status expect_status(const struct expect_line *line)
{
	if (!isfinite(line->value))
		return EXPECT_SKIP;
	bool is_right = line->is_at_least ? line->value >= line->limit : line->value <= line->limit;
	return is_right ? EXPECT_PASS : EXPECT_SLOW;
}

void expect_text(const struct expect_line *line, char out[EXPECT_TEXT_MAX])
{
	char size[SHEET_NUMBER_MAX] = "any";
	if (line->size != EXPECT_ANY_SIZE)
		(void)snprintf(size, sizeof(size), "%" PRIu64, line->size);
	(void)snprintf(out, EXPECT_TEXT_MAX, "%s %s %s %s %s %g", collective_op_to_string(line->op),
		       collective_type_to_string(line->type), size, metric_names[line->metric],
		       line->is_at_least ? ">=" : "<=", line->limit); /* fits */
}
