/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/validations/ready_record.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"

static void ready_record_free(json_t **json)
{
	json_decref(*json);
}

static int64_t ready_record_mtime_ns(const struct stat *status)
{
	return (int64_t)status->st_mtim.tv_sec * (int64_t)CLOCK_NS_PER_S + status->st_mtim.tv_nsec;
}

int ready_record_add(struct ready_record *record, const char *name, const struct stat *status,
		     struct err *err)
{
	if (record->count == READY_RECORD_MAX)
		return err_set(err, -E2BIG, "more than %d validation files", READY_RECORD_MAX);
	struct ready_record_file *file = &record->files[record->count++];
	(void)snprintf(file->name, sizeof(file->name), "%s", name);
	file->inode = status->st_ino;
	file->mtime_ns = ready_record_mtime_ns(status);
	return 0;
}

bool ready_record_has(const struct ready_record *record, const char *name,
		      const struct stat *status)
{
	for (uint32_t i = 0; i < record->count; i++) {
		const struct ready_record_file *file = &record->files[i];
		if (strcmp(file->name, name) == 0 && file->inode == status->st_ino &&
		    file->mtime_ns == ready_record_mtime_ns(status))
			return true;
	}
	return false;
}

int ready_record_format(const struct ready_record *record, struct buf *out, struct err *err)
{
	_cleanup_(ready_record_free) json_t *root = json_pack("{s:[]}", "files");
	json_t *files = json_object_get(root, "files");
	int rc = root ? 0 : -ENOMEM;

	for (uint32_t i = 0; rc == 0 && i < record->count; i++) {
		const struct ready_record_file *file = &record->files[i];
		/* A number of JSON has 63 bits here: inodes of every file system have fewer. */
		json_t *entry =
		    json_pack("{s:s, s:I, s:I}", "name", file->name, "inode",
			      (json_int_t)file->inode, "mtime_ns", (json_int_t)file->mtime_ns);

		rc = json_array_append_new(files, entry) == 0 ? 0 : -ENOMEM;
	}

	_cleanup_free_ char *text = rc == 0 ? json_dumps(root, JSON_INDENT(1)) : NULL;
	if (!text || buf_add_text(out, text) < 0 || buf_add_text(out, "\n") < 0)
		return err_set(err, -ENOMEM, "out of memory for the record of validation files");

	return 0;
}

static int ready_record_take(const json_t *entry, struct ready_record *out)
{
	const char *name = json_string_value(json_object_get(entry, "name"));
	const json_t *inode = json_object_get(entry, "inode");
	const json_t *mtime = json_object_get(entry, "mtime_ns");
	if (!name || !*name || strlen(name) >= READY_RECORD_NAME_MAX || strchr(name, '/') ||
	    !json_is_integer(inode) || !json_is_integer(mtime) || json_integer_value(inode) < 0)
		return -EINVAL;

	struct ready_record_file *file = &out->files[out->count++];
	(void)snprintf(file->name, sizeof(file->name), "%s", name);
	file->inode = (uint64_t)json_integer_value(inode);
	file->mtime_ns = json_integer_value(mtime);

	return 0;
}

int ready_record_parse(const char *text, size_t length, struct ready_record *out, struct err *err)
{
	struct ready_record record = {.count = 0};
	json_error_t why;

	if (length > READY_RECORD_SIZE_MAX)
		return err_set(err, -E2BIG, "more than %d bytes", READY_RECORD_SIZE_MAX);

	_cleanup_(ready_record_free) json_t *root = json_loadb(text, length, 0, &why);
	if (!root && (json_error_code(&why) == json_error_out_of_memory || !*why.text))
		return err_set(err, -ENOMEM, "out of memory");

	const json_t *files = json_object_get(root, "files");
	if (!json_is_array(files))
		return err_set(err, -EINVAL, "no record of validation files: %.120s",
			       root ? "no list 'files'" : why.text);
	if (json_array_size(files) > READY_RECORD_MAX)
		return err_set(err, -E2BIG, "more than %d validation files", READY_RECORD_MAX);

	for (size_t i = 0; i < json_array_size(files); i++) {
		if (ready_record_take(json_array_get(files, i), &record) < 0)
			return err_set(err, -EINVAL,
				       "no record of validation files: entry %zu has no name, "
				       "inode and mtime_ns",
				       i + 1);
	}

	*out = record;
	return 0;
}
