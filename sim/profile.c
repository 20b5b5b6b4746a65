/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/profile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/profile_parse.h"

#ifndef SIM_PROFILE_DIR
#define SIM_PROFILE_DIR "/usr/share/sluice/profiles"
#endif

enum { PROFILE_NAMES_MAX = 64 };

int profile_fail(const struct profile_parser *parser, const char *at, const char *format, ...)
{
	char text[400];
	va_list arguments;
	size_t line = 1, column = 1;

	for (const char *p = parser->text; p < at; p++) {
		column++;
		if (*p == '\n') {
			line++;
			column = 1;
		}
	}

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);

	return sim_fail(parser->error, SIM_EXIT_INPUT, "%.100s:%zu:%zu: %s", parser->file, line,
			column, text);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

struct profile_slice profile_trim(struct profile_slice slice)
{
	while (slice.length > 0 && is_blank(slice.at[0])) {
		slice.at++;
		slice.length--;
	}
	while (slice.length > 0 && is_blank(slice.at[slice.length - 1]))
		slice.length--;
	return slice;
}

static bool is_separator(char c, const char *separators)
{
	return is_blank(c) || (c != '\0' && strchr(separators, c));
}

struct profile_slice profile_word(struct profile_slice *rest, const char *separators)
{
	struct profile_slice word;

	while (rest->length > 0 && is_separator(rest->at[0], separators)) {
		rest->at++;
		rest->length--;
	}

	word.at = rest->at;
	word.length = 0;
	while (rest->length > 0 && !is_separator(rest->at[0], separators)) {
		rest->at++;
		rest->length--;
		word.length++;
	}

	return word;
}

bool profile_is(struct profile_slice slice, const char *text)
{
	return slice.length == strlen(text) && memcmp(slice.at, text, slice.length) == 0;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

int profile_number(const struct profile_parser *parser, struct profile_slice slice, uint32_t base,
		   uint64_t min, uint64_t max, uint64_t *out)
{
	const char *at = slice.at;
	uint64_t value = 0;

	if (base == 16 && slice.length > 2 && slice.at[0] == '0' &&
	    (slice.at[1] == 'x' || slice.at[1] == 'X')) {
		slice.at += 2;
		slice.length -= 2;
	}

	if (slice.length == 0)
		return profile_fail(parser, at, "a number is missing here");

	for (size_t i = 0; i < slice.length; i++) {
		int digit = digit_of(slice.at[i]);

		if (digit >= (int)base)
			return profile_fail(parser, slice.at + i, "'%.*s' is not a %s number",
					    (int)slice.length, slice.at,
					    base == 16 ? "hexadecimal" : "whole");

		if (value > (UINT64_MAX - (uint64_t)digit) / base)
			return profile_fail(parser, at, "this number is too large");

		value = value * base + (uint64_t)digit;
	}

	if (value < min || value > max)
		return profile_fail(parser, at,
				    base == 16 ? "must lie between %#llx and %#llx"
					       : "must lie between %llu and %llu",
				    (unsigned long long)min, (unsigned long long)max);

	*out = value;
	return 0;
}

/* Index of the [model NAME] with this name; a new one when there is none. -1 with the error. */
static int model_index(struct profile_parser *parser, struct profile_slice name)
{
	struct profile_draft *draft = &parser->draft;
	uint32_t count = parser->machine->model_count;

	if (name.length == 0 || name.length >= PROFILE_KEY_NAME_MAX)
		return profile_fail(parser, name.at, "a model needs a name of 1 to %d characters",
				    PROFILE_KEY_NAME_MAX - 1);

	for (uint32_t i = 0; i < count; i++) {
		if (profile_is(name, draft->model_key[i]))
			return (int)i;
	}

	if (count == SIM_MODEL_MAX)
		return profile_fail(parser, name.at, "a machine has at most %d models",
				    SIM_MODEL_MAX);

	memcpy(draft->model_key[count], name.at, name.length);
	parser->machine->model_count = count + 1;
	return (int)count;
}

static int section_gpu(struct profile_parser *parser, struct profile_slice word)
{
	struct profile_draft *draft = &parser->draft;
	uint64_t index;

	if (profile_number(parser, word, 10, 0, SIM_GPU_MAX - 1, &index) < 0)
		return -1;
	if (draft->gpu_at[index])
		return profile_fail(parser, word.at, "[gpu %u] is there twice", (unsigned)index);

	draft->gpu_at[index] = word.at;
	draft->section = PROFILE_GPU;
	draft->section_index = (uint32_t)index;

	return 0;
}

static int section_of_model(struct profile_parser *parser, struct profile_slice word,
			    enum profile_section section)
{
	struct profile_draft *draft = &parser->draft;
	int index = model_index(parser, word);
	const char **seen;

	if (index < 0)
		return -1;

	seen = section == PROFILE_MODEL ? &draft->model_at[index] : &draft->mig_at[index];
	if (*seen)
		return profile_fail(parser, word.at, "this section is there twice");

	*seen = word.at;
	draft->section = section;
	draft->section_index = (uint32_t)index;

	return 0;
}

/* `inside` is what stands between the brackets. */
static int section(struct profile_parser *parser, struct profile_slice inside)
{
	static const char *const names[] = {"machine", "model", "gpu", "links", "mig"};
	struct profile_slice rest = inside;
	struct profile_slice kind = profile_word(&rest, "");
	struct profile_slice word = profile_word(&rest, "");
	const char *nearest;

	if (profile_trim(rest).length > 0)
		return profile_fail(parser, rest.at, "']' is expected here");
	if (profile_is(kind, "model"))
		return section_of_model(parser, word, PROFILE_MODEL);
	if (profile_is(kind, "mig"))
		return section_of_model(parser, word, PROFILE_MIG);
	if (profile_is(kind, "gpu"))
		return section_gpu(parser, word);

	if (word.length > 0 && (profile_is(kind, "machine") || profile_is(kind, "links")))
		return profile_fail(parser, word.at, "']' is expected here");
	if (profile_is(kind, "machine")) {
		parser->draft.section = PROFILE_MACHINE;
		return 0;
	}

	if (profile_is(kind, "links")) {
		parser->draft.section = PROFILE_LINKS;
		parser->draft.links_at = kind.at;
		return 0;
	}

	nearest = sim_nearest(kind.at, kind.length, names, sizeof(names) / sizeof(names[0]));
	return profile_fail(parser, kind.at, "unknown section [%.*s]%s%s%s", (int)kind.length,
			    kind.at, nearest ? "; did you mean [" : "", nearest ? nearest : "",
			    nearest ? "]?" : "");
}

/* A comment starts with '#' at the start of the line or after a blank. */
static struct profile_slice without_comment(struct profile_slice line)
{
	for (size_t i = 0; i < line.length; i++) {
		if (line.at[i] == '#' && (i == 0 || is_blank(line.at[i - 1])))
			line.length = i;
	}
	return profile_trim(line);
}

static int check_characters(const struct profile_parser *parser, struct profile_slice line)
{
	if (line.length > PROFILE_LINE_MAX)
		return profile_fail(parser, line.at + PROFILE_LINE_MAX,
				    "a line has at most %d characters", PROFILE_LINE_MAX);

	for (size_t i = 0; i < line.length; i++) {
		unsigned char c = (unsigned char)line.at[i];

		if ((c < 0x20 && !is_blank(line.at[i])) || c == 0x7f)
			return profile_fail(parser, line.at + i,
					    "byte 0x%02x does not belong in a text file", c);
	}

	return 0;
}

static int one_line(struct profile_parser *parser, struct profile_slice line)
{
	struct profile_slice key, value;
	const char *equals;

	if (check_characters(parser, line) < 0)
		return -1;

	line = without_comment(line);
	if (line.length == 0)
		return 0;

	if (line.at[0] == '[') {
		if (line.at[line.length - 1] != ']')
			return profile_fail(parser, line.at + line.length,
					    "']' is missing at the end of the section's name");

		line.at++;
		line.length -= 2;
		return section(parser, line);
	}

	equals = memchr(line.at, '=', line.length);
	if (!equals)
		return profile_fail(parser, line.at, "'key = value' or '[section]' is expected");

	key = profile_trim((struct profile_slice){line.at, (size_t)(equals - line.at)});
	value = profile_trim(
	    (struct profile_slice){equals + 1, line.length - (size_t)(equals + 1 - line.at)});
	if (key.length == 0)
		return profile_fail(parser, line.at, "a key is missing before '='");
	if (value.length == 0)
		return profile_fail(parser, equals, "a value is missing after '='");

	return profile_key(parser, key, value);
}

static int all_lines(struct profile_parser *parser)
{
	const char *at = parser->text, *end = parser->text + parser->length;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;

		if (one_line(parser, (struct profile_slice){at, (size_t)(stop - at)}) < 0)
			return -1;

		at = stop + 1;
	}

	return 0;
}

int sim_profile_parse(const char *text, size_t length, const char *file,
		      const struct sim_options *options, struct sim_machine *out,
		      struct sim_error *error)
{
	static const struct sim_options no_options;
	struct profile_parser *parser;
	int rc = -1;

	if (length > PROFILE_BYTES_MAX)
		return sim_fail(error, SIM_EXIT_INPUT, "%s: a profile has at most %d bytes", file,
				PROFILE_BYTES_MAX);

	parser = calloc(1, sizeof(*parser));
	if (!parser)
		return sim_fail(error, SIM_EXIT_FAILED, "%s: out of memory", file);

	parser->file = file;
	parser->text = text;
	parser->length = length;
	parser->error = error;
	parser->options = options ? options : &no_options;
	parser->machine = calloc(1, sizeof(*parser->machine));
	if (!parser->machine)
		(void)sim_fail(error, SIM_EXIT_FAILED, "%s: out of memory", file);
	else if (all_lines(parser) == 0 && profile_build(parser) == 0)
		rc = 0;

	if (rc == 0)
		*out = *parser->machine;
	free(parser->machine);
	free(parser);

	return rc;
}

static const char *profile_directory(void)
{
	const char *directory = secure_getenv("SLUICE_PROFILES");

	return directory && directory[0] ? directory : SIM_PROFILE_DIR;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Says which profiles there are, and the nearest one. Returns -1. */
static int unknown_profile(const char *name, struct sim_error *error)
{
	const char *directory = profile_directory(), *nearest;
	char names[PROFILE_NAMES_MAX][64];
	const char *pointers[PROFILE_NAMES_MAX];
	char list[256] = "";
	size_t count = 0, used = 0;
	DIR *stream = opendir(directory);
	struct dirent *entry;

	while (stream && count < PROFILE_NAMES_MAX && (entry = readdir(stream))) {
		size_t length = strlen(entry->d_name);

		if (length <= 8 || length - 8 >= sizeof(names[0]) ||
		    memcmp(entry->d_name + length - 8, ".profile", 8) != 0)
			continue;

		memcpy(names[count], entry->d_name, length - 8);
		names[count][length - 8] = '\0';
		count++;
	}

	if (stream)
		(void)closedir(stream);
	qsort(names, count, sizeof(names[0]), compare_names);

	for (size_t i = 0; i < count; i++) {
		pointers[i] = names[i];
		if (used + strlen(names[i]) + 2 <= sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", names[i]);
	}

	if (count == 0)
		return sim_fail(error, SIM_EXIT_INPUT,
				"no profile '%.64s': there are no profiles in %.128s (set "
				"SLUICE_PROFILES, or give a file as ./NAME.profile)",
				name, directory);

	nearest = sim_nearest(name, strlen(name), pointers, count);
	return sim_fail(error, SIM_EXIT_INPUT, "no profile '%.64s'%s%s%s in %.128s; there is:%s",
			name, nearest ? " (did you mean " : "", nearest ? nearest : "",
			nearest ? "?)" : "", directory, list);
}

/* The whole of a regular file of at most PROFILE_BYTES_MAX bytes, to be freed; NULL with the error.
 */
static char *read_profile(const char *path, size_t *out_length, struct sim_error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = NULL;
	size_t length = 0;
	struct stat status;

	if (fd < 0) {
		(void)sim_fail(error, SIM_EXIT_INPUT, "cannot open profile '%s': %s", path,
			       strerror(errno));
		return NULL;
	}

	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
		(void)sim_fail(error, SIM_EXIT_INPUT, "profile '%s' is not a plain file", path);
		goto fail;
	}

	text = malloc(PROFILE_BYTES_MAX + 1);
	if (!text) {
		(void)sim_fail(error, SIM_EXIT_FAILED, "profile '%s': out of memory", path);
		goto fail;
	}

	while (length < PROFILE_BYTES_MAX + 1) {
		ssize_t got = read(fd, text + length, PROFILE_BYTES_MAX + 1 - length);

		if (got < 0 && errno == EINTR)
			continue;

		if (got < 0) {
			(void)sim_fail(error, SIM_EXIT_INPUT, "cannot read profile '%s': %s", path,
				       strerror(errno));
			goto fail;
		}

		if (got == 0)
			break;

		length += (size_t)got;
	}

	(void)close(fd);
	*out_length = length;
	return text;
fail:
	free(text);
	(void)close(fd);

	return NULL;
}

int sim_profile_load(const char *name_or_path, const struct sim_options *options,
		     struct sim_machine *out, struct sim_error *error)
{
	char path[SIM_PATH_MAX];
	size_t length = 0;
	char *text;
	int rc, written;

	if (strchr(name_or_path, '/'))
		written = snprintf(path, sizeof(path), "%s", name_or_path);
	else
		written = snprintf(path, sizeof(path), "%s/%s.profile", profile_directory(),
				   name_or_path);

	if (written < 0 || (size_t)written >= sizeof(path))
		return sim_fail(error, SIM_EXIT_INPUT, "the profile's path is too long: %.64s...",
				name_or_path);
	if (!strchr(name_or_path, '/') && access(path, F_OK) < 0)
		return unknown_profile(name_or_path, error);

	text = read_profile(path, &length, error);
	if (!text)
		return -1;

	rc = sim_profile_parse(text, length, path, options, out, error);
	free(text);
	return rc;
}
