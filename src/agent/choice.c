/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/choice.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/suggest.h"

static bool choice_is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* What a label's value can be, and so what a file must be called to be chosen by one:
 * https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ */
static bool choice_is_name(const char *text, size_t length)
{
	if (length == 0 || length >= CHOICE_NAME_MAX || !choice_is_alnum(text[0]) ||
	    !choice_is_alnum(text[length - 1]))
		return false;

	for (size_t i = 0; i < length; i++) {
		if (!choice_is_alnum(text[i]) && text[i] != '-' && text[i] != '_' && text[i] != '.')
			return false;
	}

	return true;
}

/* The path of a file in the directory; false: there is no such file. */
static bool choice_find(const struct choice_rules *rules, const char *name,
			char path[FILE_PATH_MAX])
{
	struct stat info;
	return file_path(path, NULL, "%s/%s", rules->directory, name) == 0 &&
	       stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool choice_take(const struct choice_rules *rules, const char *name, struct choice *out)
{
	if (!choice_find(rules, name, out->path)) {
		out->path[0] = '\0';
		return false;
	}
	(void)snprintf(out->name, sizeof(out->name), "%s", name);
	return true;
}

/* The names of the directory that count: how many, and one of them. */
static int choice_list(const char *directory, char out_name[CHOICE_NAME_MAX], size_t *out_count,
		       struct err *err)
{
	_cleanup_closedir_ DIR *dir = opendir(directory);
	const struct choice_rules rules = {.directory = directory};
	char path[FILE_PATH_MAX];
	struct dirent *entry;
	size_t count = 0, seen = 0;

	if (!dir)
		return err_set(err, -errno, "cannot read the directory of configurations '%s': %s",
			       directory, err_describe(-errno));

	while (errno = 0, (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);

		if (++seen > CHOICE_FILES_MAX)
			return err_set(err, -E2BIG,
				       "more than %d files in the directory of configurations '%s'",
				       CHOICE_FILES_MAX, directory);

		if (!choice_is_name(entry->d_name, length) ||
		    !choice_find(&rules, entry->d_name, path))
			continue;

		memcpy(out_name, entry->d_name, length + 1);
		count++;
	}

	if (errno != 0)
		return err_set(err, -errno, "cannot read the directory of configurations '%s': %s",
			       directory, err_describe(-errno));

	*out_count = count;
	return 0;
}

/* True: one of them applied. */
static bool choice_fall_back(const struct choice_rules *rules, const char *only, struct choice *out)
{
	if ((rules->fallbacks & CHOICE_NAMED) && choice_take(rules, "default", out))
		return true;
	if ((rules->fallbacks & CHOICE_SINGLE) && *only && choice_take(rules, only, out))
		return true;
	return (rules->fallbacks & CHOICE_EMPTY) != 0;
}

int choice_make(const struct choice_rules *rules, const char *label, const char *running,
		struct choice *out, struct err *err)
{
	struct choice choice = {.name = ""};
	char only[CHOICE_NAME_MAX] = "";
	size_t count = 0;
	bool by_label = label && *label;
	const char *asked = by_label ? label : rules->default_name;

	if (asked && *asked && !choice_is_name(asked, strlen(asked)))
		return err_set(err, -EINVAL,
			       "'%.64s' of the %s can be no configuration in '%s': expected the "
			       "name of a file there, of letters, digits, '-', '_' and '.'",
			       asked, by_label ? "node's label" : "option --default-config",
			       rules->directory);

	int rc = choice_list(rules->directory, only, &count, err);
	if (rc < 0)
		return rc;
	if (count != 1)
		only[0] = '\0';

	bool is_asked = asked && *asked;
	bool is_done = is_asked && choice_take(rules, asked, &choice);
	if (is_asked && !is_done)
		(void)snprintf(choice.missing, sizeof(choice.missing), "%s", asked);

	/* What runs is left alone for a name that is wrong, and not for one that is not there. */
	if (!is_done && !(is_asked && running))
		is_done = choice_fall_back(rules, only, &choice);

	if (!is_done && running && *running && !choice_take(rules, running, &choice)) {
		(void)snprintf(choice.name, sizeof(choice.name), "%s", running);
		if (!is_asked)
			(void)snprintf(choice.missing, sizeof(choice.missing), "%s", running);
	}

	*out = choice;
	return 0;
}

int choice_fallbacks_parse(const char *text, uint32_t *out, struct err *err)
{
	static const char *const words[] = {"named", "single", "empty"};
	uint32_t bits = 0;

	for (bool more = *text != '\0'; more;) {
		size_t length = strcspn(text, ","), i = 0;
		while (i < array_length(words) &&
		       (strlen(words[i]) != length || memcmp(words[i], text, length) != 0))
			i++;

		if (i == array_length(words)) {
			char word[32];
			(void)snprintf(word, sizeof(word), "%.*s", (int)(length < 31 ? length : 31),
				       text);

			const char *near = suggest_nearest(word, words, array_length(words));
			return err_set(err, -EINVAL,
				       "unknown fallback strategy '%s' (expected named, single or "
				       "empty%s%s%s)",
				       word, near ? "; did you mean '" : "", near ? near : "",
				       near ? "'?" : "");
		}

		if (!(bits & CHOICE_EMPTY))
			bits |= 1u << i;
		more = text[length] == ',';
		text += length + more;
	}

	*out = bits;
	return 0;
}

/* --- what is remembered ---------------------------------------------------------------------- */

/* "NAME VALUE\n" at *at; false: something else is there. */
static bool memory_line(const char **at, const char *end, const char *name,
			char out[CHOICE_NAME_MAX])
{
	size_t length = strlen(name);
	const char *line = *at;
	const char *newline = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
	if (!newline || (size_t)(newline - line) < length || memcmp(line, name, length) != 0)
		return false;

	line += length;
	size_t rest = (size_t)(newline - line);
	if (rest > 0 && !choice_is_name(line, rest))
		return false;

	memcpy(out, line, rest);
	out[rest] = '\0';
	*at = newline + 1;

	return true;
}

int choice_memory_parse(const char *data, size_t length, struct choice_memory *out, struct err *err)
{
	struct choice_memory memory = {.is_known = true};
	const char *at = data, *end = data + length;

	if (!memory_line(&at, end, "configuration ", memory.name) ||
	    !memory_line(&at, end, "label ", memory.label) || at != end)
		return err_set(err, -EINVAL,
			       "expected a line 'configuration NAME' and a line 'label VALUE'");

	*out = memory;
	return 0;
}

int choice_memory_format(const struct choice_memory *memory, struct buf *out)
{
	return buf_printf(out, "configuration %s\nlabel %s\n", memory->name, memory->label);
}
