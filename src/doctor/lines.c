/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/lines.h"

#include <string.h>

#include "base/check.h"

/* Copies what a person can read. */
static bool copy_printable(const char *text, size_t length, char *out, size_t size)
{
	if (length >= size)
		return false;

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;

	memcpy(out, text, length);
	out[length] = '\0';
	return true;
}

bool lines_assignment(const char *text, size_t length, const char *key, char *out, size_t size)
{
	size_t start = strlen(key);
	if (length <= start || memcmp(text, key, start) != 0 || text[start] != '=')
		return false;

	const char *value = text + start + 1;
	size_t left = length - start - 1;
	while (left > 0 && (value[left - 1] == ' ' || value[left - 1] == '\r'))
		left--;

	if (left >= 2 && (value[0] == '"' || value[0] == '\'') && value[left - 1] == value[0]) {
		value++;
		left -= 2;
	}

	return copy_printable(value, left, out, size);
}

bool lines_field(const char *text, size_t length, const char *key, char *out, size_t size)
{
	size_t at = strlen(key);
	if (length <= at || memcmp(text, key, at) != 0 || text[at] != ':')
		return false;

	at++;

	while (at < length && (text[at] == ' ' || text[at] == '\t'))
		at++;

	while (length > at && (text[length - 1] == ' ' || text[length - 1] == '\t'))
		length--;

	return copy_printable(text + at, length - at, out, size);
}

/* --- modules --------------------------------------------------------------------------------- */

struct text_span {
	const char *text;
	size_t length;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0';
}

/* The next word, which quotation marks hold together. Empty at the end. */
static struct text_span next_word(const char *text, size_t length, size_t *at)
{
	while (*at < length && is_blank(text[*at]))
		(*at)++;

	struct text_span word = {.text = text + *at};
	bool is_quoted = false;
	while (*at < length && (is_quoted || !is_blank(text[*at]))) {
		is_quoted ^= text[*at] == '"';
		(*at)++;
	}

	word.length = (size_t)(text + *at - word.text);
	return word;
}

static bool span_is(struct text_span span, const char *text)
{
	return span.length == strlen(text) && memcmp(span.text, text, span.length) == 0;
}

/* Module names: - and _ are one. */
static bool span_is_module(struct text_span span, const char *module)
{
	if (span.length != strlen(module))
		return false;

	for (size_t i = 0; i < span.length; i++) {
		char a = span.text[i] == '-' ? '_' : span.text[i];
		if (a != (module[i] == '-' ? '_' : module[i]))
			return false;
	}

	return true;
}

static bool span_ends_in(struct text_span span, const char *end)
{
	size_t length = strlen(end);
	return span.length >= length && memcmp(span.text + span.length - length, end, length) == 0;
}

enum lines_block lines_modprobe(const char *text, size_t length, const char *module)
{
	size_t at = 0;
	struct text_span command = next_word(text, length, &at);
	struct text_span name = next_word(text, length, &at);
	if (command.length == 0 || command.text[0] == '#' || !span_is_module(name, module))
		return LINES_NOTHING;

	if (span_is(command, "blacklist"))
		return LINES_BLACKLIST;

	struct text_span next = next_word(text, length, &at);
	if (span_is(command, "install") &&
	    (span_ends_in(next, "/false") || span_ends_in(next, "/true") || span_is(next, ":") ||
	     span_is(next, "false") || span_is(next, "true")))
		return LINES_INSTALL;

	for (; span_is(command, "options") && next.length > 0; next = next_word(text, length, &at))
		if (span_is(next, "modeset=0"))
			return LINES_MODESET;

	return LINES_NOTHING;
}

/* Whether a list with commas has the module. */
static bool list_has(struct text_span list, const char *module)
{
	for (size_t at = 0; at <= list.length;) {
		const char *start = list.text + at;
		const char *comma = memchr(start, ',', list.length - at);
		struct text_span item = {start, comma ? (size_t)(comma - start) : list.length - at};
		if (span_is_module(item, module))
			return true;

		at += item.length + 1;
	}

	return false;
}

/* One word of the command line: Documentation/admin-guide/kernel-parameters.txt, dracut.cmdline(7),
 * modprobe.d(5). */
static enum lines_block argument_blocks(struct text_span argument, const char *module)
{
	static const char *const lists[] = {"modprobe.blacklist", "module_blacklist",
					    "rd.driver.blacklist", "rdblacklist"};
	if (argument.length >= 2 && argument.text[0] == '"' &&
	    argument.text[argument.length - 1] == '"') {
		argument.text++;
		argument.length -= 2;
	}

	const char *equals = memchr(argument.text, '=', argument.length);
	if (!equals)
		return LINES_NOTHING;

	struct text_span key = {argument.text, (size_t)(equals - argument.text)};
	struct text_span value = {equals + 1, argument.length - key.length - 1};

	if (value.length >= 2 && value.text[0] == '"' && value.text[value.length - 1] == '"') {
		value.text++;
		value.length -= 2;
	}

	for (size_t i = 0; i < array_length(lists); i++)
		if (span_is(key, lists[i]) && list_has(value, module))
			return LINES_BLACKLIST;

	if (!span_ends_in(key, ".modeset") || !span_is(value, "0"))
		return LINES_NOTHING;

	key.length -= strlen(".modeset");
	return span_is_module(key, module) ? LINES_MODESET : LINES_NOTHING;
}

enum lines_block lines_cmdline(const char *text, size_t length, const char *module, char *word,
			       size_t size)
{
	size_t at = 0;

	for (;;) {
		struct text_span argument = next_word(text, length, &at);
		if (argument.length == 0)
			return LINES_NOTHING;

		enum lines_block blocks = argument_blocks(argument, module);
		if (blocks == LINES_NOTHING)
			continue;
		if (!copy_printable(argument.text, argument.length, word, size))
			word[0] = '\0';

		return blocks;
	}
}
