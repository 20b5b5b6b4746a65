/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/scan.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/domain.h"
#include "base/file.h"
#include "base/names.h"
#include "base/text.h"
#include "hardware/gpu.h"

static const char *const scan_directories[] = {"/etc/cdi", "/var/run/cdi"};
/* Nobody else writes these. */
static const char *const scan_own_kinds[] = {SLUICE_DOMAIN "/gpu", "sluice.sim/gpu"};

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
	int rc = yaml_parse_large(buf_text(text), text->length, DOCUMENT_TEXT_MAX, file->path,
				  &yaml, NULL);
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;

	const struct yaml_node *kind = yaml_get(yaml_root(yaml), "kind");
	if (kind && kind->kind == YAML_SCALAR && document_is_kind(kind->text) &&
	    kind->length < sizeof(file->kind))
		memcpy(file->kind, kind->text, kind->length + 1);

	(void)yaml_free(yaml);
	return 0;
}

static bool scan_file_is_simulated(const struct scan_file *file)
{
	if (text_starts_with(file->kind, "sluice.sim/"))
		return true;
	for (size_t i = 0; i < file->document.devices->entry_count; i++)
		if (gpu_uuid_is_simulated(
			yaml_get(file->document.devices->entries[i].value, "name")->text))
			return true;
	return false;
}

static int scan_file_read(struct scan *scan, const char *path, uint32_t priority, struct err *err)
{
	struct scan_file *file;
	int rc = scan_add(scan, path, priority, &file, err);
	if (rc < 0)
		return rc;

	_cleanup_buf_ struct buf text;
	buf_init(&text, DOCUMENT_TEXT_MAX);

	struct err why = {0};
	rc = file_read(path, &text, &why);
	if (rc == 0) {
		rc = document_parse(buf_text(&text), text.length, path, &file->document, &why);
		if (rc == 0) {
			memcpy(file->kind, file->document.kind, strlen(file->document.kind) + 1);
			file->is_simulated = scan_file_is_simulated(file);
		} else if (rc != -ENOMEM && scan_kind(&text, file) < 0) {
			rc = err_set(&why, -ENOMEM, "out of memory for '%.256s'", path);
		}
	}

	if (rc == -ENOMEM)
		return err_set(err, rc, "%s", why.text);

	file->code = rc;
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

			return rc == -ENOMEM ? err_set(err, rc, "out of memory for '%s'", path)
					     : err_set(err, rc, "'%s': more than %d CDI files",
						       path, SCAN_FILES_MAX);
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
		if (rc < 0)
			return rc;

		file->code = -code;
		file->is_directory = true;
		(void)snprintf(file->why, sizeof(file->why), "cannot read directory '%.256s': %s",
			       path, err_describe(code)); /* may be cut */

		return 0;
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

int scan_read_directories(const char *const *directories, size_t count, struct scan *out,
			  struct err *err)
{
	_cleanup_scan_ struct scan scan = {0};

	if (count > SCAN_DIRECTORIES_MAX)
		return err_set(err, -E2BIG, "more than %d CDI directories", SCAN_DIRECTORIES_MAX);

	for (size_t i = 0; i < count; i++) {
		char *path = scan.directories[i] = strdup(directories[i]);
		if (!path)
			return err_set(err, -ENOMEM, "out of memory for '%s'", directories[i]);

		scan.directory_count++;
		int rc = scan_directory(&scan, path, (uint32_t)i, err);
		if (rc < 0)
			return rc;
	}

	*out = scan;
	scan = (struct scan){0};
	return 0;
}

int scan_read(const char *root, struct scan *out, struct err *err)
{
	char paths[array_length(scan_directories)][FILE_PATH_MAX];
	const char *directories[array_length(scan_directories)];
	for (size_t i = 0; i < array_length(scan_directories); i++) {
		int rc = file_path(paths[i], err, "%s%s", root, scan_directories[i]);
		if (rc < 0)
			return rc;
		directories[i] = paths[i];
	}

	return scan_read_directories(directories, array_length(directories), out, err);
}

void scan_done(struct scan *scan)
{
	for (uint32_t i = 0; i < scan->count; i++) {
		free(scan->files[i].path);
		document_done(&scan->files[i].document);
	}

	for (uint32_t i = 0; i < scan->directory_count; i++)
		free(scan->directories[i]);

	free(scan->files);
	*scan = (struct scan){0};
}

static int scan_device_name_compare(const struct scan_device *a, const struct scan_device *b)
{
	int order = strcmp(a->file->kind, b->file->kind);
	if (order)
		return order;

	/* UUIDs come last: their hexadecimal parts are no numbers to sort by. */
	bool is_uuid = strchr(a->name, '-'), other = strchr(b->name, '-');
	if (is_uuid != other)
		return is_uuid ? 1 : -1;

	return is_uuid ? strcmp(a->name, b->name) : strverscmp(a->name, b->name);
}

static int scan_device_compare(const void *left, const void *right)
{
	const struct scan_device *a = left, *b = right;
	int order = scan_device_name_compare(a, b);
	if (order == 0 && a->file->priority != b->file->priority)
		return a->file->priority < b->file->priority ? 1 : -1;
	return order ? order : strcmp(a->file->path, b->file->path);
}

/*
 * The claims of one name, those of the highest priority first. Two of one priority make the name
 * unusable even when a file of higher priority has it as well: podman 4.3.1 and the CDI project's
 * package 1.1.1 take none then.
 */
static void scan_device_resolve(struct scan_device *claims, size_t count)
{
	size_t twice = 0, first = 0;
	for (size_t i = 1; i < count && twice == 0; i++)
		if (claims[i].file->priority == claims[i - 1].file->priority)
			twice = i;

	for (size_t i = 0; i < count; i++) {
		if (claims[i].file->priority != claims[first].file->priority)
			first = i;

		bool is_first_of_several = i == first && i + 1 < count &&
					   claims[i + 1].file->priority == claims[i].file->priority;

		if (twice > 0) {
			size_t other = i > first ? first : is_first_of_several ? i + 1 : twice;

			claims[i].state = SCAN_CONFLICT;
			claims[i].other = claims[other].file;
		} else if (i > 0) {
			claims[i].state = SCAN_HIDDEN;
			claims[i].other = claims[0].file;
		}
	}
}

int scan_devices(const struct scan *scan, struct scan_device **out, size_t *out_count,
		 struct err *err)
{
	size_t count = 0;
	for (uint32_t i = 0; i < scan->count; i++)
		if (scan->files[i].document.yaml)
			count += scan->files[i].document.devices->entry_count;

	struct scan_device *devices = count ? calloc(count, sizeof(*devices)) : NULL;
	if (count && !devices)
		return err_set(err, -ENOMEM, "out of memory for %zu CDI devices", count);

	count = 0;
	for (uint32_t i = 0; i < scan->count; i++) {
		const struct scan_file *file = &scan->files[i];
		for (size_t j = 0; file->document.yaml && j < file->document.devices->entry_count;
		     j++) {
			const struct yaml_node *node = file->document.devices->entries[j].value;
			devices[count++] = (struct scan_device){
			    .file = file, .device = node, .name = yaml_get(node, "name")->text};
		}
	}

	if (count)
		qsort(devices, count, sizeof(*devices), scan_device_compare);

	for (size_t first = 0, i = 1; i <= count; i++)
		if (i == count || scan_device_name_compare(&devices[first], &devices[i]) != 0) {
			scan_device_resolve(devices + first, i - first);
			first = i;
		}

	*out = devices;
	*out_count = count;
	return 0;
}

bool scan_is_second(const struct scan_device *device)
{
	return device->state == SCAN_CONFLICT &&
	       device->file->priority == device->other->priority && device->file > device->other;
}

enum scan_state scan_find(const struct scan *scan, const char *name,
			  const struct scan_file **out_file, const struct scan_file **out_other)
{
	const struct scan_file *found = NULL, *other = NULL, *second = NULL;
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
		bool is_second = found && found->priority == file->priority;
		if (is_second && !other) {
			other = found;
			second = file;
		}

		found = file;
	}

	if (other)
		found = second;
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

	if (names_find(scan_own_kinds, kind) >= 0)
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
	static const char *const names[] = {
	    "found",	      "not VENDOR/CLASS=NAME", "no such kind",
	    "no such device", "claimed by two files",  "hidden by a file of higher priority"};
	return names_at(names, state, "unknown");
}
