/* SPDX-License-Identifier: Apache-2.0 */
/* The change of a runtime's file, and the way back. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cdi/runtime/daemon_json.h"
#include "cdi/runtime/runtime_internal.h"

/* What the copy says when there was no file: neither JSON nor TOML, so it cannot be one. */
static const char was_not_there[] = "There was no such file before sluice runtime configure.\n";

/* Links followed; -ENOENT when there is nothing. */
static int real_path(const char *path, char out[FILE_PATH_MAX])
{
	_cleanup_free_ char *real = realpath(path, NULL);
	return real ? file_path(out, NULL, "%s", real) : -errno;
}

/* Whether `path`, or the nearest directory above it that is there, lies below `root`. */
static bool is_inside(const char *root, const char *path)
{
	char part[FILE_PATH_MAX], real[FILE_PATH_MAX], real_root[FILE_PATH_MAX];
	if (real_path(root, real_root) < 0 || file_path(part, NULL, "%s", path) < 0)
		return false;

	while (real_path(part, real) < 0) {
		char *slash = strrchr(part, '/');
		if (!slash || slash == part)
			return false;
		*slash = '\0';
	}

	size_t length = strlen(real_root);
	return strncmp(real, real_root, length) == 0 &&
	       (real[length] == '/' || real[length] == '\0');
}

int runtime_resolve(const struct runtime_machine *machine, const char *path,
		    char out[FILE_PATH_MAX], struct err *err)
{
	char full[FILE_PATH_MAX], real[FILE_PATH_MAX];
	struct stat status;
	int rc = file_path(full, err, "%s%s", machine->root, path);
	if (rc < 0)
		return rc;

	if (machine->root[0] != '\0' && !file_exists(machine->root))
		return err_set(err, -ENOENT, "there is no directory '%s'", machine->root);
	if (machine->root[0] != '\0' && !is_inside(machine->root, full))
		return err_set(err, -EINVAL, "'%s': leads out of '%s' by a link", full,
			       machine->root);

	rc = real_path(full, real);
	if (rc < 0 && lstat(full, &status) == 0)
		return err_set(err, -EINVAL, "'%s': is a link that leads to nothing", full);
	if (rc < 0 && rc != -ENOENT)
		return err_set(err, rc, "'%s': %s", full, err_describe(rc));

	/* What is changed is replaced by a file: never a device or a pipe. */
	if (rc == 0 && (lstat(real, &status) < 0 || !S_ISREG(status.st_mode)))
		return err_set(err, -EINVAL, "'%s': is no regular file", full);
	if (rc < 0 && (full[0] == '\0' || full[strlen(full) - 1] == '/'))
		return err_set(err, -EINVAL, "'%s': is no name of a file", full);

	memcpy(out, rc < 0 ? full : real, FILE_PATH_MAX);
	return 0;
}

/* --- apply ----------------------------------------------------------------------------------- */

/* The directory of a file that is not there yet. */
static int make_directory(const char *path, struct err *err)
{
	char directory[FILE_PATH_MAX];
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path)
		return 0;
	int rc = file_path(directory, err, "%.*s", (int)(slash - path), path);
	return rc < 0 ? rc : file_mkdirs(directory, 0755, err);
}

int runtime_apply(const struct runtime_plan *plan, struct err *err)
{
	char backup[FILE_PATH_MAX];
	struct stat like = {.st_mode = S_IFREG | 0644, .st_uid = geteuid(), .st_gid = getegid()};
	int rc = file_path(backup, err, "%s%s", plan->path, RUNTIME_BACKUP);
	if (rc == 0 && plan->is_new)
		rc = make_directory(plan->path, err);
	else if (rc == 0 && stat(plan->path, &like) < 0)
		rc = err_set(err, -errno, "cannot read '%s': %s", plan->path, err_describe(-errno));

	if (rc < 0)
		return rc;

	const char *before = plan->is_new ? was_not_there : buf_text(&plan->before);
	size_t length = plan->is_new ? strlen(was_not_there) : plan->before.length;

	if (plan->needs_backup)
		rc = file_write_like(backup, before, length, &like, err);

	return rc < 0 ? rc
		      : file_write_like(plan->path, buf_text(&plan->after), plan->after.length,
					&like, err);
}

/* --- undo ------------------------------------------------------------------------------------ */

static int take_away(const char *path, struct err *err)
{
	return unlink(path) == 0 || errno == ENOENT
		   ? 0
		   : err_set(err, -errno, "cannot remove '%s': %s", path, err_describe(-errno));
}

static bool is_same(const struct buf *a, const struct buf *b)
{
	return a->length == b->length && memcmp(buf_text(a), buf_text(b), a->length) == 0;
}

/* Reads a file of this machine. 1, 0: it is not there, or what reading gave. */
static int read_here(const char *path, struct buf *out, struct err *err)
{
	static const struct runtime_machine here = {.root = ""};
	return runtime_read(&here, path, out, err);
}

/* Our drop-in goes if it is as we wrote it. 1: it is gone; 0: there is none. */
static int undo_drop_in(const struct runtime_machine *machine, struct runtime_undone *out,
			struct err *err)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, RUNTIME_TEXT_MAX);
	int rc = runtime_resolve(machine, RUNTIME_DROP_IN, path, err);
	if (rc == 0)
		rc = read_here(path, &text, err);
	if (rc <= 0)
		return rc;

	for (uint64_t version = 2; version <= 3; version++) {
		_cleanup_buf_ struct buf ours;
		buf_init(&ours, RUNTIME_TEXT_MAX);

		rc = runtime_containerd_drop_in(version, &ours);
		if (rc < 0)
			return err_set(err, rc, "'%s': %s", path, err_describe(rc));
		if (!is_same(&text, &ours))
			continue;

		rc = take_away(path, err);
		memcpy(out->path, path, sizeof(path));
		out->is_removed = true;

		return rc < 0 ? rc : 1;
	}

	return err_set(err, -EINVAL,
		       "'%s' was changed since sluice wrote it, so it is left alone; remove it "
		       "yourself if nothing in it is needed",
		       path);
}

/* What apply made of the text before it, by the kind of runtime. */
static int edit_again(const struct runtime_machine *machine, const char *path,
		      const struct buf *before, struct buf *out, struct err *err)
{
	if (machine->kind == RUNTIME_DOCKER)
		return daemon_json_set_cdi(buf_text(before), before->length, path, out, err);
	const struct toml toml = {path, buf_text(before), before->length};
	return runtime_containerd_edit(&toml, out, err);
}

/* The file is not as we left it: which line is ours. */
static int say_line(const struct runtime_machine *machine, const char *path, const char *backup,
		    const struct buf *now, struct err *err)
{
	uint32_t line = 0;
	struct daemon_json config;
	const struct toml toml = {path, buf_text(now), now->length};

	if (machine->kind != RUNTIME_DOCKER)
		line = runtime_containerd_line(&toml);
	else if (daemon_json_parse(buf_text(now), now->length, path, &config, NULL) == 0)
		line = config.cdi_line;

	if (line == 0)
		return err_set(err, -EINVAL,
			       "'%s' was changed since sluice wrote it, so it is left alone; what "
			       "it was before is in '%s'",
			       path, backup);

	return err_set(err, -EINVAL,
		       "'%s' was changed since sluice wrote it, so it is left alone: take '%s' in "
		       "its line %u out yourself; what the file was before is in '%s'",
		       path,
		       machine->kind == RUNTIME_DOCKER ? "\"cdi\": true" : "enable_cdi = true",
		       line, backup);
}

/* Puts `before` back, or nothing where nothing was. */
static int put_back(const char *path, const char *backup, const struct buf *before, bool was_there,
		    struct err *err)
{
	struct stat like;
	int rc;

	if (!was_there)
		rc = take_away(path, err);
	else if (stat(path, &like) < 0)
		rc = err_set(err, -errno, "cannot read '%s': %s", path, err_describe(-errno));
	else
		rc = file_write_like(path, buf_text(before), before->length, &like, err);

	return rc < 0 ? rc : take_away(backup, err);
}

static int undo_main(const struct runtime_machine *machine, struct runtime_undone *out,
		     struct err *err)
{
	char path[FILE_PATH_MAX], backup[FILE_PATH_MAX];
	_cleanup_buf_ struct buf before, now, ours;

	buf_init(&before, RUNTIME_TEXT_MAX);
	buf_init(&now, RUNTIME_TEXT_MAX + FILE_PATH_MAX);
	buf_init(&ours, RUNTIME_TEXT_MAX + FILE_PATH_MAX);

	int rc = runtime_resolve(machine, runtime_config(machine), path, err);
	if (rc == 0)
		rc = file_path(backup, err, "%s%s", path, RUNTIME_BACKUP);
	if (rc == 0)
		rc = read_here(backup, &before, err);
	if (rc <= 0)
		return rc;

	bool was_there = strcmp(buf_text(&before), was_not_there) != 0;
	if (!was_there)
		buf_clear(&before);

	int is_there = read_here(path, &now, err);
	if (is_there < 0)
		return is_there;

	/* An apply that was cut short between the copy and the file, or an undo before the end. */
	if (is_there == was_there && is_same(&now, &before))
		return take_away(backup, err);

	rc = edit_again(machine, path, &before, &ours, err);
	if (rc < 0)
		return rc;
	if (!is_there || !is_same(&now, &ours))
		return say_line(machine, path, backup, &now, err);

	rc = put_back(path, backup, &before, was_there, err);
	if (rc < 0)
		return rc;

	memcpy(out->path, path, sizeof(path));
	out->is_removed = !was_there;
	return 1;
}

int runtime_undo(const struct runtime_machine *machine, struct runtime_undone *out, struct err *err)
{
	memset(out, 0, sizeof(*out));
	if (machine->kind != RUNTIME_DOCKER && machine->kind != RUNTIME_CONTAINERD)
		return 0;
	int rc = undo_main(machine, out, err);
	if (rc == 0 && machine->kind == RUNTIME_CONTAINERD)
		rc = undo_drop_in(machine, out, err);
	return rc < 0 ? rc : 0;
}
