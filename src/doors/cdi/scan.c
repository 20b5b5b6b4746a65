/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/cdi/scan.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/file.h"

static const char *const scan_directories[] = {"/etc/cdi", "/var/run/cdi"};
/* Nobody else writes these. */
static const char *const scan_own_kinds[] = {"sluice.dev/gpu", "sluice.sim/gpu"};

static int scan_add(struct scan *scan, const char *path, uint32_t priority, struct scan_file **out,
		    struct err *err)
{
	if (scan->count == SCAN_FILES_MAX)
		return err_set(err, -E2BIG, "'%s': more than %d CDI files", path, SCAN_FILES_MAX);
	if (!scan->files)
		scan->files = calloc(SCAN_FILES_MAX, sizeof(*scan->files));
	char *own = strdup(path);
	if (!scan->files || !own) {
		free(own);
		return err_set(err, -ENOMEM, "out of memory for '%s'", path);
	}
	*out = &scan->files[scan->count++];
	(*out)->path = own;
	(*out)->priority = priority;
	return 0;
}

/* The kind of a file that is of no use otherwise. -ENOMEM. */
static int scan_kind(const struct buf *text, struct scan_file *file)
{
	struct yaml *yaml = NULL;
	int rc = yaml_parse(buf_text(text), text->length, file->path, &yaml, NULL);
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	const struct yaml_node *kind = yaml_get(yaml_root(yaml), "kind");
	if (kind && kind->kind == YAML_SCALAR && document_is_kind(kind->text) &&
	    kind->length < sizeof(file->kind))
		memcpy(file->kind, kind->text, kind->length + 1);
	(void)yaml_free(yaml);
	return 0;
}

static int scan_file_read(struct scan *scan, const char *path, uint32_t priority, struct err *err)
{
	struct scan_file *file;
	int rc = scan_add(scan, path, priority, &file, err);
	if (rc < 0)
		return rc;
	_cleanup_buf_ struct buf text;
	buf_init(&text, YAML_TEXT_MAX);
	struct err why = {0};
	rc = file_read(path, &text, &why);
	if (rc == 0) {
		rc = document_parse(buf_text(&text), text.length, path, &file->document, &why);
		if (rc == 0)
			memcpy(file->kind, file->document.kind, strlen(file->document.kind) + 1);
		else if (rc != -ENOMEM && scan_kind(&text, file) < 0)
			rc = err_set(&why, -ENOMEM, "out of memory for '%.256s'", path);
	}
	if (rc == -ENOMEM)
		return err_set(err, rc, "%s", why.text);
	if (rc < 0)
		memcpy(file->why, why.text, sizeof(file->why));
	return 0;
}

static bool scan_is_name(const char *name)
{
	const char *dot = strrchr(name, '.');
	return dot && dot != name && (strcmp(dot, ".json") == 0 || strcmp(dot, ".yaml") == 0);
}

static int scan_name_compare(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* The names of the files in the directory, ordered; each owned by the caller. How many; -errno. */
static int scan_names(DIR *directory, const char *path, char *names[SCAN_FILES_MAX],
		      struct err *err)
{
	int count = 0;
	const struct dirent *entry;
	for (int i = 0; i < SCAN_ENTRIES_MAX && (entry = readdir(directory)); i++) {
		struct stat status;
		if (!scan_is_name(entry->d_name) ||
		    (fstatat(dirfd(directory), entry->d_name, &status, 0) == 0 &&
		     !S_ISREG(status.st_mode)))
			continue;
		char *name = count < SCAN_FILES_MAX ? strdup(entry->d_name) : NULL;
		if (!name) {
			int rc = count < SCAN_FILES_MAX ? -ENOMEM : -E2BIG;
			while (count > 0)
				free(names[--count]);
			return err_set(err, rc, "'%s': %s", path,
				       rc == -E2BIG ? "too many CDI files" : "out of memory");
		}
		names[count++] = name;
	}
	qsort(names, (size_t)count, sizeof(names[0]), scan_name_compare);
	return count;
}

static int scan_directory(struct scan *scan, const char *path, uint32_t priority, struct err *err)
{
	_cleanup_closedir_ DIR *directory = opendir(path);
	if (!directory && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (!directory) {
		struct scan_file *file;
		int code = errno;
		int rc = scan_add(scan, path, priority, &file, err);
		if (rc == 0)
			(void)snprintf(file->why, sizeof(file->why),
				       "cannot read directory '%.256s': %s", path,
				       err_describe(code)); /* may be cut */
		return rc;
	}
	char *names[SCAN_FILES_MAX];
	int count = scan_names(directory, path, names, err);
	if (count < 0)
		return count;
	int rc = 0;
	for (int i = 0; i < count; i++) {
		char file[FILE_PATH_MAX];
		if (rc == 0)
			rc = file_path(file, err, "%s/%s", path, names[i]);
		if (rc == 0)
			rc = scan_file_read(scan, file, priority, err);
		free(names[i]);
	}
	return rc;
}

int scan_read(const char *root, struct scan *out, struct err *err)
{
	_cleanup_scan_ struct scan scan = {0};
	for (uint32_t i = 0; i < array_length(scan_directories); i++) {
		char path[FILE_PATH_MAX];
		int rc = file_path(path, err, "%s%s", root, scan_directories[i]);
		if (rc == 0)
			rc = scan_directory(&scan, path, i, err);
		if (rc < 0)
			return rc;
	}
	*out = scan;
	scan = (struct scan){0};
	return 0;
}

void scan_done(struct scan *scan)
{
	for (uint32_t i = 0; i < scan->count; i++) {
		free(scan->files[i].path);
		document_done(&scan->files[i].document);
	}
	free(scan->files);
	*scan = (struct scan){0};
}

enum scan_state scan_find(const struct scan *scan, const char *name,
			  const struct scan_file **out_file, const struct scan_file **out_other)
{
	const struct scan_file *found = NULL, *other = NULL;
	const char *equals = strchr(name, '=');
	char kind[SCAN_KIND_MAX] = "";
	if (out_file)
		*out_file = NULL;
	if (out_other)
		*out_other = NULL;
	if (!equals || (size_t)(equals - name) >= sizeof(kind))
		return SCAN_NO_NAME;
	memcpy(kind, name, (size_t)(equals - name));
	if (!document_is_kind(kind) || !document_is_device(equals + 1))
		return SCAN_NO_NAME;
	bool has_kind = false;
	for (uint32_t i = 0; i < scan->count; i++) {
		const struct scan_file *file = &scan->files[i];
		if (!file->document.yaml || strcmp(file->kind, kind) != 0)
			continue;
		has_kind = true;
		if (!document_find(&file->document, equals + 1))
			continue;
		/* They come by priority: a later one is higher, or a second claim. */
		other = found && found->priority == file->priority ? found : NULL;
		found = file;
	}
	if (out_file)
		*out_file = found;
	if (out_other)
		*out_other = other;
	if (!has_kind)
		return SCAN_NO_KIND;
	return !found ? SCAN_NO_DEVICE : other ? SCAN_CONFLICT : SCAN_FOUND;
}

bool scan_may_write(const struct scan *scan, const char *kind, const char *own,
		    const struct scan_file **out_foreign)
{
	if (out_foreign)
		*out_foreign = NULL;
	for (size_t i = 0; i < array_length(scan_own_kinds); i++)
		if (strcmp(scan_own_kinds[i], kind) == 0)
			return true;
	for (uint32_t i = 0; i < scan->count; i++) {
		const struct scan_file *file = &scan->files[i];
		if (strcmp(file->kind, kind) != 0 || strcmp(file->path, own) == 0)
			continue;
		if (out_foreign)
			*out_foreign = file;
		return false;
	}
	return true;
}

const char *scan_state_to_string(enum scan_state state)
{
	static const char *const names[] = {"found", "not VENDOR/CLASS=NAME", "no such kind",
					    "no such device", "claimed by two files"};
	return (size_t)state < array_length(names) ? names[state] : "unknown";
}
