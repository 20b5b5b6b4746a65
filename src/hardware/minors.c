/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/minors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"

struct minor {
	uint32_t gpu, gi, ci, cap;
};

struct minors {
	struct minor *items; /* owned; ordered by gpu, gi, ci */
	size_t count;
	uint32_t machine[MINORS_MACHINE_COUNT]; /* UINT32_MAX: not named */
};

const char *minors_machine_to_string(enum minors_machine which)
{
	static const char *const names[MINORS_MACHINE_COUNT] = {"config", "monitor"};
	return names_at(names, which, "unknown");
}

static int minor_compare(const void *left, const void *right)
{
	const struct minor *a = left, *b = right;
	if (a->gpu != b->gpu)
		return a->gpu < b->gpu ? -1 : 1;
	if (a->gi != b->gi)
		return a->gi < b->gi ? -1 : 1;

	/* MINORS_GPU_INSTANCE becomes 0: before its compute instances, as in the file. */
	uint32_t a_ci = a->ci + 1, b_ci = b->ci + 1;
	if (a_ci != b_ci)
		return a_ci < b_ci ? -1 : 1;

	return 0;
}

/* Takes WORD and a number up to `end` off the front of the line. */
static bool take_number(const char **at, const char *line_end, const char *word, char end,
			uint32_t *out)
{
	size_t length = strlen(word);
	if ((size_t)(line_end - *at) < length || memcmp(*at, word, length) != 0)
		return false;

	const char *digits = *at + length;
	const char *stop = memchr(digits, end, (size_t)(line_end - digits));
	uint64_t value;

	/* UINT32_MAX stands for "none" everywhere. */
	if (!stop || parse_u64_span(digits, (size_t)(stop - digits), 0, UINT32_MAX - 1, &value) < 0)
		return false;

	*out = (uint32_t)value;
	*at = stop + 1;
	return true;
}

static bool minor_parse(const char *line, const char *end, struct minor *out)
{
	static const char access_word[] = "access ";
	struct minor minor = {.ci = MINORS_GPU_INSTANCE};
	uint64_t cap;

	if (!take_number(&line, end, "gpu", '/', &minor.gpu) ||
	    !take_number(&line, end, "gi", '/', &minor.gi))
		return false;

	(void)take_number(&line, end, "ci", '/', &minor.ci);
	size_t length = strlen(access_word);
	if ((size_t)(end - line) <= length || memcmp(line, access_word, length) != 0 ||
	    parse_u64_span(line + length, (size_t)(end - line) - length, 0, UINT32_MAX - 1, &cap) <
		0)
		return false;

	minor.cap = (uint32_t)cap;
	*out = minor;
	return true;
}

/* "config 1" */
static void minor_parse_machine(const char *line, const char *end, struct minors *minors)
{
	for (size_t i = 0; i < MINORS_MACHINE_COUNT; i++) {
		const char *name = minors_machine_to_string((enum minors_machine)i);
		size_t length = strlen(name);
		uint64_t cap;

		if ((size_t)(end - line) > length && memcmp(line, name, length) == 0 &&
		    line[length] == ' ' &&
		    parse_u64_span(line + length + 1, (size_t)(end - line) - length - 1, 0,
				   UINT32_MAX - 1, &cap) == 0)
			minors->machine[i] = (uint32_t)cap;
	}
}

int minors_parse(const char *text, size_t length, struct minors **out, struct err *err)
{
	if (length > MINORS_SIZE_MAX)
		return err_set(err, -EFBIG, "%s: more than %d bytes", MINORS_PATH, MINORS_SIZE_MAX);

	size_t lines = 1;
	for (size_t i = 0; i < length; i++)
		lines += text[i] == '\n';

	if (lines > MINORS_COUNT_MAX)
		return err_set(err, -EFBIG, "%s: more than %d lines", MINORS_PATH,
			       MINORS_COUNT_MAX);

	struct minors *minors = calloc(1, sizeof(*minors));
	struct minor *items = calloc(lines, sizeof(*items));
	if (!minors || !items) {
		free(minors);
		free(items);
		return err_set(err, -ENOMEM, "%s: out of memory for %zu lines", MINORS_PATH, lines);
	}

	for (size_t i = 0; i < MINORS_MACHINE_COUNT; i++)
		minors->machine[i] = UINT32_MAX;

	const char *end = text + length;

	for (const char *line = text; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		stop = stop ? stop : end;
		minors->count += minor_parse(line, stop, &items[minors->count]);
		minor_parse_machine(line, stop, minors);
		line = stop < end ? stop + 1 : end;
	}

	qsort(items, minors->count, sizeof(*items), minor_compare);
	minors->items = items;
	*out = minors;

	return 0;
}

struct minors *minors_free(struct minors *minors)
{
	if (minors) {
		free(minors->items);
		free(minors);
	}
	return NULL;
}

size_t minors_count(const struct minors *minors)
{
	return minors ? minors->count : 0;
}

int minors_find(const struct minors *minors, uint32_t gpu_minor, uint32_t gi, uint32_t ci,
		uint32_t *out_cap)
{
	const struct minor key = {.gpu = gpu_minor, .gi = gi, .ci = ci};
	const struct minor *found = NULL;

	if (minors && minors->count > 0)
		found = bsearch(&key, minors->items, minors->count, sizeof(key), minor_compare);
	if (!found)
		return -ENOENT;

	*out_cap = found->cap;
	return 0;
}

int minors_find_machine(const struct minors *minors, enum minors_machine which, uint32_t *out_cap)
{
	if (!minors || which >= MINORS_MACHINE_COUNT || minors->machine[which] == UINT32_MAX)
		return -ENOENT;
	*out_cap = minors->machine[which];
	return 0;
}

bool minors_next(const struct minors *minors, uint32_t gpu_minor, size_t *at, uint32_t *out_cap)
{
	while (*at < minors_count(minors)) {
		const struct minor *item = &minors->items[(*at)++];
		if (item->gpu != gpu_minor)
			continue;
		*out_cap = item->cap;
		return true;
	}

	return false;
}
