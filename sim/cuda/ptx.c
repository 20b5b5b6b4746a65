/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/ptx.h"

#include <stdio.h>
#include <string.h>

struct reader {
	const char *at, *end;
	uint32_t line;
	char *log;
	uint32_t log_bytes;
};

static int fail(const struct reader *reader, const char *what)
{
	(void)snprintf(reader->log, reader->log_bytes,
		       "ptxas (simulated) application ptx input, line %u; fatal   : %s\n",
		       reader->line, what);
	return -1;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '.' || c == '%';
}

static void step(struct reader *reader)
{
	reader->line += *reader->at == '\n';
	reader->at++;
}

/* Over blanks and comments. False: a comment that does not end. */
static bool skip(struct reader *reader)
{
	while (reader->at < reader->end) {
		const char *at = reader->at;

		if (is_space(*at)) {
			step(reader);
		} else if (reader->end - at > 1 && at[0] == '/' && at[1] == '/') {
			while (reader->at < reader->end && *reader->at != '\n')
				step(reader);
		} else if (reader->end - at > 1 && at[0] == '/' && at[1] == '*') {
			while (reader->end - reader->at > 1 &&
			       !(reader->at[0] == '*' && reader->at[1] == '/'))
				step(reader);

			if (reader->end - reader->at < 2)
				return false;

			reader->at += 2;
		} else {
			return true;
		}
	}

	return true;
}

/* The next word, or one other character. "" at the end. False: it is too long, or a comment does
 * not end. */
static bool next(struct reader *reader, char out[PTX_NAME_MAX])
{
	uint32_t length = 0;

	if (!skip(reader))
		return false;
	if (reader->at < reader->end && !is_word(*reader->at)) {
		out[length++] = *reader->at;
		step(reader);
	}

	while (length == 0 || is_word(out[0])) {
		if (reader->at >= reader->end || !is_word(*reader->at))
			break;
		if (length + 1 >= PTX_NAME_MAX)
			return false;

		out[length++] = *reader->at;
		step(reader);
	}

	out[length] = '\0';
	return true;
}

/* A decimal number at `*text`, which moves behind it; at most 9999. */
static bool number(const char **text, uint32_t *out)
{
	uint32_t value = 0, digits = 0;

	for (; **text >= '0' && **text <= '9' && digits < 4; digits++, (*text)++)
		value = value * 10 + (uint32_t)(**text - '0');
	*out = value;
	return digits > 0;
}

static int read_version(struct reader *reader, struct ptx *out)
{
	char word[PTX_NAME_MAX];
	const char *at = word;
	uint32_t major, minor;

	if (!next(reader, word) || !number(&at, &major) || *at++ != '.' || !number(&at, &minor) ||
	    *at || major == 0 || minor > 9)
		return fail(reader, "Parsing error near '.version': syntax error");

	out->version = major * 10 + minor;
	return 0;
}

static int read_target(struct reader *reader, struct ptx *out)
{
	char word[PTX_NAME_MAX];
	const char *at = word + 3;

	if (!next(reader, word) || strncmp(word, "sm_", 3) != 0 || !number(&at, &out->target))
		return fail(reader, "Parsing error near '.target': syntax error");

	out->is_exact = strcmp(at, "a") == 0;
	if (*at && !out->is_exact && strcmp(at, "f") != 0)
		return fail(reader, "Unknown .target");

	return 0;
}

static int read_entry(struct reader *reader, struct ptx *out)
{
	if (out->entry_count == PTX_ENTRY_MAX)
		return fail(reader, "more kernels than the simulated driver keeps");

	char *name = out->entry[out->entry_count];

	if (!next(reader, name) || !is_word(name[0]) || name[0] == '.')
		return fail(reader, "Parsing error near '.entry': syntax error");

	for (uint32_t i = 0; i < out->entry_count; i++) {
		if (strcmp(out->entry[i], name) == 0)
			return fail(reader, "Duplicate definition of function");
	}

	out->entry_count++;
	return 0;
}

int ptx_parse(const char *text, uint64_t bytes, struct ptx *out, char *log, uint32_t log_bytes)
{
	struct reader reader = {text, text + bytes, 1, log, log_bytes};
	char word[PTX_NAME_MAX];
	uint32_t braces = 0, brackets = 0;
	bool wants_body = false;

	*out = (struct ptx){0};
	log[0] = '\0';
	if (bytes > PTX_TEXT_MAX)
		return fail(&reader, "the text is too long");

	while (true) {
		int rc = 0;

		if (!next(&reader, word))
			return fail(&reader, "Parsing error: syntax error");
		if (!word[0])
			break;
		if (word[0] < ' ' || word[0] > '~')
			return fail(&reader, "Unexpected non-ASCII character encountered");
		if (out->version == 0 && strcmp(word, ".version") != 0)
			return fail(&reader, "Missing .version directive at start of file");

		if (strcmp(word, ".version") == 0)
			rc = read_version(&reader, out);
		else if (strcmp(word, ".target") == 0)
			rc = read_target(&reader, out);
		else if (out->target == 0)
			return fail(&reader, "Missing .target directive");
		else if (strcmp(word, ".entry") == 0 && braces == 0) {
			rc = read_entry(&reader, out);
			wants_body = true;
		}

		if (rc != 0)
			return rc;

		wants_body = wants_body && word[0] != '{';
		braces += word[0] == '{';
		brackets += word[0] == '(';
		if ((word[0] == '}' && braces-- == 0) || (word[0] == ')' && brackets-- == 0))
			return fail(&reader, "Parsing error near '}': syntax error");
	}

	if (out->target == 0)
		return fail(&reader, "Missing .version or .target directive");
	if (braces != 0 || brackets != 0 || wants_body)
		return fail(&reader, "Parsing error near end of file: syntax error");

	return 0;
}
