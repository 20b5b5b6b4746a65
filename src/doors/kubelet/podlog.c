/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/podlog.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"

enum { PODLOG_ID_DIGITS = PODLOG_ID_MAX - 1 };

/* One of the two directories. */
struct podlog_list {
	struct podlog_entry *at; /* owned; in the order of id */
	size_t *by_name;	 /* owned; places in `at`, by namespace, pod, container */
	size_t count, room;
	bool is_there;
};

struct podlog {
	struct podlog_list containers, pods;
};

/* --- names -------------------------------------------------------------------------------------
 */

static bool is_lower_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* A label of DNS, or several with dots between. */
static bool podlog_take(const char *text, size_t length, bool dots, char *out, size_t size)
{
	if (length == 0 || length >= size)
		return false;

	for (size_t i = 0; i < length; i++) {
		char c = text[i];
		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' &&
		    !(dots && c == '.'))
			return false;
	}

	memcpy(out, text, length);
	out[length] = '\0';
	return true;
}

int podlog_parse_container(const char *text, size_t length, struct podlog_name *out)
{
	static const char ending[] = ".log";
	enum { ENDING = sizeof(ending) - 1, TAIL = 1 + PODLOG_ID_DIGITS + ENDING };

	struct podlog_name name = {.pod = ""};

	if (length <= TAIL || memcmp(text + length - ENDING, ending, ENDING) != 0)
		return -EINVAL;

	const char *tail = text + length - TAIL;
	const char *first = memchr(text, '_', (size_t)(tail - text));
	const char *second = first ? memchr(first + 1, '_', (size_t)(tail - first - 1)) : NULL;
	if (!second || *tail != '-')
		return -EINVAL;

	for (size_t i = 0; i < PODLOG_ID_DIGITS; i++)
		if (!is_lower_hex(tail[1 + i]))
			return -EINVAL;

	memcpy(name.id, tail + 1, PODLOG_ID_DIGITS);
	if (!podlog_take(text, (size_t)(first - text), true, name.pod, sizeof(name.pod)) ||
	    !podlog_take(first + 1, (size_t)(second - first - 1), false, name.name_space,
			 sizeof(name.name_space)) ||
	    !podlog_take(second + 1, (size_t)(tail - second - 1), false, name.container,
			 sizeof(name.container)))
		return -EINVAL;

	*out = name;
	return 0;
}

static bool podlog_is_uid(const char *text, size_t length)
{
	enum { HASH = 32, UUID = 36 };
	if (length != HASH && length != UUID)
		return false;

	for (size_t i = 0; i < length; i++) {
		bool is_dash = length == UUID && (i == 8 || i == 13 || i == 18 || i == 23);
		if (is_dash ? text[i] != '-' : !is_lower_hex(text[i]))
			return false;
	}

	return true;
}

int podlog_parse_pod(const char *text, size_t length, struct podlog_name *out)
{
	struct podlog_name name = {.pod = ""};
	const char *end = text + length;
	const char *first = memchr(text, '_', length);
	const char *second = first ? memchr(first + 1, '_', (size_t)(end - first - 1)) : NULL;
	if (!second || !podlog_is_uid(second + 1, (size_t)(end - second - 1)) ||
	    !podlog_take(text, (size_t)(first - text), false, name.name_space,
			 sizeof(name.name_space)) ||
	    !podlog_take(first + 1, (size_t)(second - first - 1), true, name.pod, sizeof(name.pod)))
		return -EINVAL;

	memcpy(name.id, second + 1, (size_t)(end - second - 1));
	*out = name;
	return 0;
}

/* --- directories -------------------------------------------------------------------------------
 */

/* All four texts in one piece of memory; entry.id owns it. */
static int podlog_add(struct podlog_list *list, const struct podlog_name *name)
{
	if (array_room(&list->at, list->count, &list->room, 64) < 0)
		return -ENOMEM;

	size_t id = strlen(name->id) + 1, name_space = strlen(name->name_space) + 1,
	       pod = strlen(name->pod) + 1, container = strlen(name->container) + 1;
	char *text = malloc(id + name_space + pod + container);
	if (!text)
		return -ENOMEM;

	struct podlog_entry *entry = &list->at[list->count++];
	entry->id = memcpy(text, name->id, id);
	entry->name_space = memcpy(text + id, name->name_space, name_space);
	entry->pod = memcpy(text + id + name_space, name->pod, pod);
	entry->container = memcpy(text + id + name_space + pod, name->container, container);

	return 0;
}

static int podlog_compare_ids(const void *a, const void *b)
{
	return strcmp(((const struct podlog_entry *)a)->id, ((const struct podlog_entry *)b)->id);
}

static int podlog_compare_entries(const struct podlog_entry *a, const struct podlog_entry *b)
{
	int order = strcmp(a->name_space, b->name_space);
	if (order == 0)
		order = strcmp(a->pod, b->pod);
	return order == 0 ? strcmp(a->container, b->container) : order;
}

static int podlog_compare_places(const void *a, const void *b, void *entries)
{
	const struct podlog_entry *at = entries;
	return podlog_compare_entries(&at[*(const size_t *)a], &at[*(const size_t *)b]);
}

static int podlog_sort(struct podlog_list *list)
{
	if (list->count == 0)
		return 0;

	list->by_name = calloc(list->count, sizeof(*list->by_name));
	if (!list->by_name)
		return -ENOMEM;

	qsort(list->at, list->count, sizeof(*list->at), podlog_compare_ids);

	for (size_t i = 0; i < list->count; i++)
		list->by_name[i] = i;

	qsort_r(list->by_name, list->count, sizeof(*list->by_name), podlog_compare_places,
		list->at);
	return 0;
}

static int podlog_read_directory(const char *root, const char *directory,
				 int (*parse)(const char *text, size_t length,
					      struct podlog_name *out),
				 struct podlog_list *list)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, NULL, "%s%s", root, directory);
	_cleanup_closedir_ DIR *dir = rc == 0 ? opendir(path) : NULL;
	const struct dirent *entry;

	list->is_there = dir != NULL;
	while (dir && list->count < PODLOG_MAX && (entry = readdir(dir))) {
		struct podlog_name name;
		if (parse(entry->d_name, strlen(entry->d_name), &name) == 0 &&
		    podlog_add(list, &name) < 0)
			return -ENOMEM;
	}

	return podlog_sort(list);
}

int podlog_read(const char *root, struct podlog **out, struct err *err)
{
	struct podlog *log = calloc(1, sizeof(*log));
	if (!log ||
	    podlog_read_directory(root, PODLOG_CONTAINERS, podlog_parse_container,
				  &log->containers) < 0 ||
	    podlog_read_directory(root, PODLOG_PODS, podlog_parse_pod, &log->pods) < 0) {
		(void)podlog_free(log);
		return err_set(err, -ENOMEM, "no memory for the names of containers");
	}

	*out = log;
	return 0;
}

static void podlog_list_done(struct podlog_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free((char *)list->at[i].id);
	free(list->at);
	free(list->by_name);
}

struct podlog *podlog_free(struct podlog *log)
{
	if (log) {
		podlog_list_done(&log->containers);
		podlog_list_done(&log->pods);
	}
	free(log);
	return NULL;
}

/* --- questions ---------------------------------------------------------------------------------
 */

static const struct podlog_entry *podlog_find(const struct podlog_list *list, const char *id)
{
	const struct podlog_entry key = {.id = id};
	return list->count ? bsearch(&key, list->at, list->count, sizeof(key), podlog_compare_ids)
			   : NULL;
}

const struct podlog_entry *podlog_find_container(const struct podlog *log, const char *id)
{
	return log ? podlog_find(&log->containers, id) : NULL;
}

const struct podlog_entry *podlog_find_pod(const struct podlog *log, const char *uid)
{
	return log ? podlog_find(&log->pods, uid) : NULL;
}

static bool podlog_list_has(const struct podlog_list *list, const struct podlog_entry *key)
{
	size_t low = 0, high = list->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = podlog_compare_entries(&list->at[list->by_name[middle]], key);
		if (order == 0)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}

	return false;
}

bool podlog_has(const struct podlog *log, const char *name_space, const char *pod,
		const char *container)
{
	const struct podlog_entry key = {
	    .name_space = name_space, .pod = pod, .container = container};
	const struct podlog_entry pod_key = {.name_space = name_space, .pod = pod, .container = ""};
	return log &&
	       (podlog_list_has(&log->containers, &key) || podlog_list_has(&log->pods, &pod_key));
}

bool podlog_is_known(const struct podlog *log)
{
	return log && (log->containers.is_there || log->pods.is_there);
}

size_t podlog_count(const struct podlog *log)
{
	return log ? log->containers.count + log->pods.count : 0;
}
