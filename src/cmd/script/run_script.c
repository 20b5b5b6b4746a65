/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/script/run_script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"

static const char script_own[] = "#SLUICE", script_slurm[] = "#SBATCH";

/* One line of the script. */
struct script_line {
	const char *path, *text;
	size_t length, number;
};

bool run_script_is(const char *bytes, size_t length)
{
	return length >= 2 && bytes[0] == '#' && bytes[1] == '!';
}

static bool script_is_blank(char character)
{
	return character == ' ' || character == '\t' || character == '\r';
}

/* Where the word behind `at` begins, and `*out_end` where it ends. */
static size_t script_word_at(const char *text, size_t length, size_t at, size_t *out_end)
{
	while (at < length && script_is_blank(text[at]))
		at++;

	size_t end = at;
	while (end < length && !script_is_blank(text[end]))
		end++;
	*out_end = end;

	return at;
}

static size_t script_line_length(const char *bytes, size_t length)
{
	const char *end = length > 0 ? memchr(bytes, '\n', length) : NULL;
	return end ? (size_t)(end - bytes) : length;
}

size_t run_script_interpreter(const char *bytes, size_t length, char *out[2])
{
	size_t end, line = script_line_length(bytes, length);

	out[0] = out[1] = NULL;
	if (!run_script_is(bytes, length))
		return 0;

	size_t at = script_word_at(bytes, line, 2, &end);
	if (at == end || !(out[0] = text_copy(bytes + at, end - at)))
		return 0;

	at = script_word_at(bytes, line, end, &end); /* all the rest is one argument */
	while (line > at && script_is_blank(bytes[line - 1]))
		line--;
	if (at < line)
		out[1] = text_copy(bytes + at, line - at);

	return out[1] ? 2 : 1;
}

/* Whether the line is "#SLUICE" and nothing or a blank behind it. */
static bool script_has_mark(const struct script_line *line, const char *mark)
{
	size_t length = strlen(mark);
	return line->length >= length && memcmp(line->text, mark, length) == 0 &&
	       (line->length == length || script_is_blank(line->text[length]));
}

static bool script_is_command(const struct script_line *line)
{
	size_t at = 0;
	while (at < line->length && script_is_blank(line->text[at]))
		at++;
	return at < line->length && line->text[at] != '#';
}

static int script_refuse(const struct script_line *line, size_t at, const char *what,
			 struct err *err)
{
	return err_set(err, -EINVAL, "%s:%zu:%zu: %s", line->path, line->number, at + 1, what);
}

/* The word at `*at`, which moves behind it, to `*to`, which moves behind its NUL. */
static int script_copy_word(const struct script_line *line, size_t *at, char **to, struct err *err)
{
	size_t i = *at, opened = 0;
	char quote = '\0', *out = *to;

	for (; i < line->length && (quote || !script_is_blank(line->text[i])); i++) {
		char character = line->text[i];
		if (character == '\0')
			return script_refuse(line, i, "a NUL byte", err);

		if (quote && character == quote) {
			quote = '\0';
		} else if (!quote && (character == '\'' || character == '"')) {
			quote = character;
			opened = i;
		} else if (character == '\\' && quote != '\'') {
			if (++i == line->length)
				return script_refuse(line, i - 1, "nothing behind the backslash",
						     err);
			*out++ = line->text[i];
		} else {
			*out++ = character;
		}
	}

	if (quote)
		return script_refuse(line, opened, "the quote is not closed", err);

	*out++ = '\0';
	*at = i;
	*to = out;

	return 0;
}

static int script_add_words(struct run_script *script, const struct script_line *line, char **to,
			    struct err *err)
{
	size_t at = strlen(script_own);

	for (;;) {
		while (at < line->length && script_is_blank(line->text[at]))
			at++;
		if (at == line->length || line->text[at] == '#')
			return 0;

		if (script->count == RUN_SCRIPT_WORDS_MAX)
			return err_set(err, -E2BIG, "%s:%zu:%zu: more than %d words of #SLUICE",
				       line->path, line->number, at + 1, RUN_SCRIPT_WORDS_MAX);

		char *word = *to;
		int rc = script_copy_word(line, &at, to, err);
		if (rc < 0)
			return rc;

		script->lines[script->count] = line->number;
		script->words[script->count++] = word;
	}
}

static void script_note(struct run_script *script, const struct script_line *line, bool is_late)
{
	size_t length = line->length, at = strlen(script_slurm);
	if (script->note_count == RUN_SCRIPT_NOTES_MAX)
		return;

	while (at < length && script_is_blank(line->text[at]))
		at++;
	while (length > at && script_is_blank(line->text[length - 1]))
		length--;

	script->notes[script->note_count++] = (struct run_script_note){.line = line->number,
								       .is_late = is_late,
								       .text = line->text + at,
								       .length = length - at};
}

int run_script_read(const char *path, const char *bytes, size_t length, struct run_script *out,
		    struct err *err)
{
	*out = (struct run_script){.count = 0};
	if (length > RUN_SCRIPT_BYTES_MAX)
		length = RUN_SCRIPT_BYTES_MAX;

	/* Each word has at least a blank before it, where its NUL finds room. */
	out->bytes = malloc(length + 1);
	out->words = calloc(RUN_SCRIPT_WORDS_MAX + 1, sizeof(*out->words));
	out->lines = calloc(RUN_SCRIPT_WORDS_MAX + 1, sizeof(*out->lines));
	out->notes = calloc(RUN_SCRIPT_NOTES_MAX, sizeof(*out->notes));
	if (!out->bytes || !out->words || !out->lines || !out->notes)
		return err_set(err, -ENOMEM, "no memory to read '%s'", path);

	bool is_head = true;
	char *to = out->bytes;
	struct script_line line = {.path = path};

	for (size_t at = 0; at < length; at += line.length + 1) {
		line.text = bytes + at;
		line.length = script_line_length(line.text, length - at);
		line.number++;
		is_head = is_head && !script_is_command(&line);

		int rc = is_head && script_has_mark(&line, script_own)
			     ? script_add_words(out, &line, &to, err)
			     : 0;
		if (rc < 0)
			return rc;

		if (!is_head && script_has_mark(&line, script_own))
			script_note(out, &line, true);
		else if (is_head && script_has_mark(&line, script_slurm))
			script_note(out, &line, false);
	}

	return 0;
}

void run_script_done(struct run_script *script)
{
	free(take_ptr(script->bytes));
	free(take_ptr(script->words));
	free(take_ptr(script->lines));
	free(take_ptr(script->notes));
	script->count = script->note_count = 0;
}
