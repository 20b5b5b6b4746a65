/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mlnotation.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"

struct mlnotation {
	const char *text;
	size_t at, length;
	struct buf *out;
	bool is_python;
};

static bool mlnotation_is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool mlnotation_is_number(char c)
{
	return (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-';
}

static bool mlnotation_is_inside_word(char c)
{
	return mlnotation_is_word(c) || mlnotation_is_number(c) || c == '/';
}

/* --- strings ---------------------------------------------------------------------------------- */

/* How many hexadecimal digits follow the backslash and `c`; 0: none. */
static size_t mlnotation_digits(char c)
{
	return c == 'x' ? 2 : c == 'u' ? 4 : 0;
}

static bool mlnotation_has_digits(const struct mlnotation *self, size_t count)
{
	if (count > self->length - self->at)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!memchr("0123456789abcdefABCDEF", self->text[self->at + i], 22))
			return false;
	return true;
}

/* Behind a backslash. An escape that Python does not know stands for both its characters. */
static int mlnotation_escape(struct mlnotation *self)
{
	char c = self->text[self->at++];
	size_t digits = mlnotation_digits(c);
	if (digits > 0) {
		if (!mlnotation_has_digits(self, digits))
			return -EINVAL;

		int rc = buf_printf(self->out, "\\u%s%.*s", digits == 2 ? "00" : "", (int)digits,
				    self->text + self->at);
		self->at += digits;
		return rc;
	}

	if (c == '\'')
		return buf_add_text(self->out, "'");
	if (memchr("\"\\/bfnrt", c, 8))
		return buf_printf(self->out, "\\%c", c);

	int rc = buf_add_text(self->out, "\\\\");
	if (rc == 0)
		self->at--; /* the next round copies it */

	return rc;
}

static int mlnotation_string(struct mlnotation *self)
{
	char quote = self->text[self->at++];
	self->is_python = self->is_python || quote == '\'';
	int rc = buf_add_text(self->out, "\"");

	while (rc == 0 && self->at < self->length && self->text[self->at] != quote) {
		char c = self->text[self->at];
		if (c == '\\' && self->at + 1 < self->length) {
			self->at++;
			rc = mlnotation_escape(self);
			continue;
		}
		self->at++;
		rc = c == '"' ? buf_add_text(self->out, "\\\"") : buf_add(self->out, &c, 1);
	}
	if (rc == 0 && self->at == self->length)
		return -EINVAL; /* the closing quote is missing */
	self->at++;
	return rc == 0 ? buf_add_text(self->out, "\"") : rc;
}

/* --- words and numbers ------------------------------------------------------------------------ */

struct mlnotation_word {
	const char *word, *json;
	bool is_python; /* else JSON has it, or Python's own writer of JSON */
};

static const struct mlnotation_word mlnotation_words[] = {
    {"true", "true", false},	   {"false", "false", false}, {"null", "null", false},
    {"True", "true", true},	   {"False", "false", true},  {"None", "null", true},
    {"NaN", "\"NaN\"", false},	   {"nan", "\"NaN\"", true},  {"Infinity", "\"Infinity\"", false},
    {"inf", "\"Infinity\"", true},
};

static int mlnotation_take_word(struct mlnotation *self)
{
	size_t start = self->at;

	while (self->at < self->length && mlnotation_is_inside_word(self->text[self->at]))
		self->at++;

	const char *word = self->text + start;
	size_t span = self->at - start;

	for (size_t i = 0; i < array_length(mlnotation_words); i++) {
		const struct mlnotation_word *row = &mlnotation_words[i];
		if (strlen(row->word) == span && memcmp(word, row->word, span) == 0) {
			self->is_python = self->is_python || row->is_python;
			return buf_add_text(self->out, row->json);
		}
	}

	self->is_python = true;
	bool is_prefix = span == 1 && (*word == 'u' || *word == 'b') && self->at < self->length &&
			 (self->text[self->at] == '\'' || self->text[self->at] == '"');
	if (is_prefix)
		return 0; /* u'text', as Python 2 writes it */

	return buf_printf(self->out, "\"%.*s\"", (int)span, word);
}

/* Digits as they are; what JSON wants around the point, and Python does not. */
static int mlnotation_take_number(struct mlnotation *self)
{
	size_t start = self->at;
	bool is_negative = self->text[start] == '-';

	while (self->at < self->length &&
	       (mlnotation_is_number(self->text[self->at]) || self->text[self->at] == 'e' ||
		self->text[self->at] == 'E'))
		self->at++;

	const char *number = self->text + start + is_negative;
	size_t span = self->at - start - is_negative;
	size_t rest = self->length - self->at;

	if (is_negative && span == 0 && rest >= 8 &&
	    memcmp(self->text + self->at, "Infinity", 8) == 0) {
		self->at += 8;
		return buf_add_text(self->out, "\"-Infinity\"");
	}

	if (is_negative && span == 0 && rest >= 3 && memcmp(self->text + self->at, "inf", 3) == 0) {
		self->at += 3;
		self->is_python = true;
		return buf_add_text(self->out, "\"-Infinity\"");
	}

	bool begins = span > 0 && number[0] == '.', ends = span > 0 && number[span - 1] == '.';
	self->is_python = self->is_python || begins || ends;
	return buf_printf(self->out, "%s%s%.*s%s", is_negative ? "-" : "", begins ? "0" : "",
			  (int)span, number, ends ? "0" : "");
}

/* --- all -------------------------------------------------------------------------------------- */

/* A comma before a closing bracket: Python takes it. */
static bool mlnotation_is_last(const struct mlnotation *self)
{
	size_t at = self->at + 1;
	while (at < self->length && strchr(" \t\r\n", self->text[at]) && self->text[at])
		at++;
	return at < self->length &&
	       (self->text[at] == ')' || self->text[at] == ']' || self->text[at] == '}');
}

static int mlnotation_mark(struct mlnotation *self)
{
	char c = self->text[self->at];
	bool is_tuple = c == '(' || c == ')', is_last = c == ',' && mlnotation_is_last(self);
	if (!is_tuple && (c == '\0' || !strchr("{}[]:, \t\r\n", c)))
		return -EINVAL;

	self->is_python = self->is_python || is_tuple || is_last;
	self->at++;

	char mark = c == '(' ? '[' : c == ')' ? ']' : c;
	return is_last ? 0 : buf_add(self->out, &mark, 1);
}

int mlnotation_to_json(const char *text, size_t length, struct buf *out, bool *out_is_python,
		       struct err *err)
{
	struct mlnotation self = {.text = text, .length = length, .out = out};
	int rc = 0;

	while (rc == 0 && self.at < length) {
		char c = text[self.at];
		if (c == '\'' || c == '"')
			rc = mlnotation_string(&self);
		else if (mlnotation_is_word(c))
			rc = mlnotation_take_word(&self);
		else if (mlnotation_is_number(c))
			rc = mlnotation_take_number(&self);
		else
			rc = mlnotation_mark(&self);
	}

	if (rc == -EINVAL)
		return err_set(err, rc, "byte %zu: no value has this there, in Python or in JSON",
			       self.at);
	if (rc < 0)
		return err_set(err, rc, "no memory for a line");

	*out_is_python = self.is_python;
	return 0;
}
