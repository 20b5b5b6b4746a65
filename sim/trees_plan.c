/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trees_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "sim/error.h"

enum plan_limits {
	PLAN_ENTRY_MAX = 65536,
	PLAN_CONTENT_MAX = 1 << 20,
};

void sim_plan_done(struct sim_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		free(plan->entry[i].path);
		free(plan->entry[i].content);
	}
	free(plan->entry);
	*plan = (struct sim_plan){0};
}

/* Takes `path` ("given"), also on failure. */
static struct sim_plan_entry *plan_add(struct sim_plan *plan, enum sim_plan_kind kind, mode_t mode,
				       char *path)
{
	if (plan->failed || !path)
		goto fail;

	if (plan->count == plan->capacity) {
		size_t capacity = plan->capacity ? plan->capacity * 2 : 256;
		if (capacity > PLAN_ENTRY_MAX)
			goto fail;

		struct sim_plan_entry *entry = reallocarray(plan->entry, capacity, sizeof(*entry));
		if (!entry)
			goto fail;

		plan->entry = entry;
		plan->capacity = capacity;
	}

	struct sim_plan_entry *added = &plan->entry[plan->count++];
	*added = (struct sim_plan_entry){.path = path, .kind = kind, .mode = mode};
	return added;
fail:
	free(path);
	plan->failed = true;

	return NULL;
}

static char *plan_path(const char *format, va_list arguments)
{
	char path[SIM_PATH_MAX];
	int length = vsnprintf(path, sizeof(path), format, arguments);
	if (length < 0 || (size_t)length >= sizeof(path))
		return NULL;
	return strdup(path);
}

#define PLAN_PATH(path, format)                                                                    \
	do {                                                                                       \
		va_list arguments_;                                                                \
		va_start(arguments_, format);                                                      \
		(path) = plan_path((format), arguments_);                                          \
		va_end(arguments_);                                                                \
	} while (0)

void sim_plan_dir(struct sim_plan *plan, const char *format, ...)
{
	char *path;
	PLAN_PATH(path, format);
	(void)plan_add(plan, SIM_PLAN_DIR, 0755, path);
}

void sim_plan_file(struct sim_plan *plan, mode_t mode, const char *format, ...)
{
	char *path;
	PLAN_PATH(path, format);
	(void)plan_add(plan, SIM_PLAN_FILE, mode, path);
}

void sim_plan_stream(struct sim_plan *plan, const char *format, ...)
{
	char *path;
	PLAN_PATH(path, format);
	(void)plan_add(plan, SIM_PLAN_STREAM, 0644, path);
}

void sim_plan_node(struct sim_plan *plan, mode_t mode, uint32_t major_number, uint32_t minor_number,
		   const char *format, ...)
{
	char *path;
	PLAN_PATH(path, format);
	struct sim_plan_entry *entry = plan_add(plan, SIM_PLAN_NODE, mode, path);
	if (entry)
		entry->device = makedev(major_number, minor_number);
}

void sim_plan_bytes(struct sim_plan *plan, const void *bytes, size_t length)
{
	if (plan->failed || plan->count == 0)
		return;

	struct sim_plan_entry *entry = &plan->entry[plan->count - 1];
	if (length > PLAN_CONTENT_MAX - entry->length) {
		plan->failed = true;
		return;
	}

	if (entry->length + length > entry->capacity) {
		size_t capacity = (entry->length + length) * 2;
		char *content = realloc(entry->content, capacity);
		if (!content) {
			plan->failed = true;
			return;
		}

		entry->content = content;
		entry->capacity = capacity;
	}

	if (length > 0)
		memcpy(entry->content + entry->length, bytes, length);
	entry->length += length;
}

void sim_plan_text(struct sim_plan *plan, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(text, sizeof(text), format, arguments);

	va_end(arguments);
	if (length < 0 || (size_t)length >= sizeof(text)) {
		plan->failed = true;
		return;
	}

	sim_plan_bytes(plan, text, (size_t)length);
}

void sim_plan_link(struct sim_plan *plan, const char *target, const char *format, ...)
{
	char *path;
	PLAN_PATH(path, format);
	if (plan_add(plan, SIM_PLAN_LINK, 0777, path))
		sim_plan_bytes(plan, target, strlen(target));
}

static int plan_compare(const void *a, const void *b)
{
	const struct sim_plan_entry *left = a, *right = b;
	int order = strcmp(left->path, right->path);
	return order ? order : (int)left->kind - (int)right->kind;
}

static bool plan_has(const struct sim_plan *plan, size_t count, const char *path)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(plan->entry[middle].path, path);
		if (order == 0)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}

	return false;
}

/* The first `count` entries are sorted; parents that they lack are added behind them. */
static void plan_add_parents(struct sim_plan *plan, size_t count)
{
	char previous[SIM_PATH_MAX] = "";

	for (size_t i = 0; i < count; i++) {
		char path[SIM_PATH_MAX];
		(void)snprintf(path, sizeof(path), "%s", plan->entry[i].path);

		char *slash = strrchr(path, '/');
		if (!slash)
			continue;

		*slash = '\0';
		if (strcmp(path, previous) == 0)
			continue;

		(void)snprintf(previous, sizeof(previous), "%s", path);

		for (;;) {
			if (plan_has(plan, count, path))
				break;

			(void)plan_add(plan, SIM_PLAN_DIR, 0755, strdup(path));
			slash = strrchr(path, '/');
			if (!slash || plan->failed)
				break;

			*slash = '\0';
		}
	}
}

int sim_plan_finish(struct sim_plan *plan, struct sim_error *error)
{
	if (plan->failed)
		return sim_fail(
		    error, SIM_EXIT_FAILED,
		    "the simulated trees need more memory, or a longer path, than there is");

	qsort(plan->entry, plan->count, sizeof(*plan->entry), plan_compare);
	plan_add_parents(plan, plan->count);
	if (plan->failed)
		return sim_fail(error, SIM_EXIT_FAILED, "no memory for the simulated trees");

	qsort(plan->entry, plan->count, sizeof(*plan->entry), plan_compare);
	size_t kept = 0;

	for (size_t i = 0; i < plan->count; i++) {
		struct sim_plan_entry *entry = &plan->entry[i];
		if (kept > 0 && strcmp(plan->entry[kept - 1].path, entry->path) == 0) {
			if (plan->entry[kept - 1].kind != SIM_PLAN_DIR ||
			    entry->kind != SIM_PLAN_DIR)
				return sim_fail(
				    error, SIM_EXIT_INPUT,
				    "two things of the simulated machine would be '%s': "
				    "give them different addresses in the profile",
				    entry->path);

			free(entry->path);
			free(entry->content);
		} else {
			struct sim_plan_entry moved = *entry;

			*entry = (struct sim_plan_entry){0};
			plan->entry[kept++] = moved;
			continue;
		}

		*entry = (struct sim_plan_entry){0};
	}

	plan->count = kept;
	return 0;
}

const char *sim_plan_relative(char out[SIM_PATH_MAX], const char *from, const char *to)
{
	size_t common = 0; /* bytes of the directories that both share */
	for (size_t i = 0; from[i] && from[i] == to[i]; i++) {
		if (from[i] == '/')
			common = i + 1;
	}

	size_t length = 0;
	for (const char *rest = from + common; (rest = strchr(rest, '/')); rest++)
		length += (size_t)snprintf(out + length, SIM_PATH_MAX - length, "../");

	(void)snprintf(out + length, SIM_PATH_MAX - length, "%s", to + common);
	return out;
}
