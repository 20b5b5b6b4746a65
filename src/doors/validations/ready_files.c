/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/validations/ready_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "doors/validations/ready_record.h"

#define READY_FILES_TEMPORARY ".sluice-%s.tmp" /* a dot: who looks for *-ready skips it */

/* What one run carries. */
struct ready_files_pass {
	const struct ready_files_wish *wish;
	struct ready_files_report *out;
	struct err *err;
	char path[FILE_PATH_MAX]; /* of the directory */
	int directory;
	struct ready_record record, next; /* as it was, and as it will be */
};

static int ready_files_fail(const struct ready_files_pass *pass, const char *what, const char *name)
{
	int code = -errno;
	return err_set(pass->err, code, "cannot %s '%s/%s': %s", what, pass->path, name,
		       err_describe(code));
}

/* --- whose they are -------------------------------------------------------------------------- */

static int ready_files_load(struct ready_files_pass *pass)
{
	_cleanup_buf_ struct buf text;
	struct err why = {0};

	buf_init(&text, READY_RECORD_SIZE_MAX);
	int rc = file_read(pass->wish->state_path, &text, &why);
	if (rc == 0)
		rc = ready_record_parse(buf_text(&text), text.length, &pass->record, &why);
	pass->out->record_was_damaged = rc == -EINVAL || rc == -E2BIG || rc == -EFBIG;
	if (rc == 0 || rc == -ENOENT || pass->out->record_was_damaged)
		return 0;

	return err_set(pass->err, rc, "%s", why.text);
}

/* Ours as it is now: written by us, and by nobody since. */
static bool ready_files_is_ours(const struct ready_files_pass *pass, const char *name,
				struct stat *status)
{
	return fstatat(pass->directory, name, status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(status->st_mode) && ready_record_has(&pass->record, name, status);
}

static bool ready_files_is_validation(const char *name)
{
	static const char end[] = "-ready";
	size_t length = strlen(name);
	return name[0] != '.' && length >= sizeof(end) - 1 &&
	       strcmp(name + length - (sizeof(end) - 1), end) == 0;
}

/* The first name in the order of bytes, so that it is the same one each time. */
static int ready_files_find_foreign(struct ready_files_pass *pass)
{
	char *first = pass->out->foreign;
	int copy = dup(pass->directory);
	_cleanup_closedir_ DIR *entries = copy < 0 ? NULL : fdopendir(copy);
	if (!entries) {
		if (copy >= 0)
			(void)close(copy);
		return ready_files_fail(pass, "read", "");
	}

	rewinddir(entries);
	const struct dirent *entry;

	for (int i = 0; i < READY_ENTRIES_MAX && (entry = readdir(entries)); i++) {
		struct stat status;
		const char *name = entry->d_name;
		if (ready_files_is_validation(name) && !ready_files_is_ours(pass, name, &status) &&
		    (*first == '\0' || strncmp(name, first, READY_NAME_MAX - 1) < 0))
			(void)snprintf(first, READY_NAME_MAX, "%.*s", READY_NAME_MAX - 1, name);
	}

	return 0;
}

/* --- what is to be --------------------------------------------------------------------------- */

static size_t ready_files_text(const struct ready_files_pass *pass, enum ready_what what,
			       char out[READY_TEXT_MAX])
{
	out[0] = '\0';
	return what == READY_DRIVER ? ready_driver_text(&pass->wish->driver, out) : 0;
}

static bool ready_files_has_text(const struct ready_files_pass *pass, enum ready_what what)
{
	char path[FILE_PATH_MAX], wanted[READY_TEXT_MAX];
	size_t length = ready_files_text(pass, what, wanted);
	_cleanup_buf_ struct buf text;
	buf_init(&text, READY_TEXT_MAX);
	return file_path(path, NULL, "%s/%s", pass->path, ready_name(what)) == 0 &&
	       file_read(path, &text, NULL) == 0 && text.length == length &&
	       memcmp(buf_text(&text), wanted, length) == 0;
}

static void ready_files_temporary(enum ready_what what, char out[READY_NAME_MAX])
{
	(void)snprintf(out, READY_NAME_MAX, READY_FILES_TEMPORARY, ready_name(what));
}

/* The file as it will be, and in the record before it has its name: whoever finds it knows whose
 * it is, even when we die between the two. */
static int ready_files_prepare(struct ready_files_pass *pass, enum ready_what what)
{
	char name[READY_NAME_MAX], text[READY_TEXT_MAX];
	struct stat status;
	size_t length = ready_files_text(pass, what, text);

	ready_files_temporary(what, name);
	(void)unlinkat(pass->directory, name, 0); /* of one who died there */

	_cleanup_close_ int fd = openat(pass->directory, name,
					O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, length) != (ssize_t)length || fchmod(fd, 0644) < 0 ||
	    fstat(fd, &status) < 0)
		return ready_files_fail(pass, "write", name);

	return ready_record_add(&pass->next, ready_name(what), &status, pass->err);
}

static int ready_files_save(struct ready_files_pass *pass)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, READY_RECORD_SIZE_MAX);
	int rc = ready_record_format(&pass->next, &text, pass->err);
	return rc < 0 ? rc
		      : file_write_atomic(pass->wish->state_path, buf_text(&text), text.length,
					  0600, pass->err);
}

static int ready_files_remove(struct ready_files_pass *pass, const char *name)
{
	if (unlinkat(pass->directory, name, 0) < 0 && errno != ENOENT)
		return ready_files_fail(pass, "remove", name);
	pass->out->removed++;
	return 0;
}

static bool ready_files_is_wanted(const struct ready_files_pass *pass, enum ready_what what,
				  bool is_ours)
{
	if (pass->wish->withdraws || (*pass->out->foreign && !pass->wish->insists))
		return false;
	enum ready_state state = pass->wish->facts[what].state;
	return state == READY_YES || (state == READY_UNKNOWN && is_ours);
}

/* Which are to be written; those of ours that stay go into the next record, the rest goes. */
static int ready_files_sort(struct ready_files_pass *pass, bool writes[READY_COUNT])
{
	int rc = 0;

	for (enum ready_what what = 0; what < READY_COUNT && rc == 0; what++) {
		struct stat status;
		const char *name = ready_name(what);
		bool is_ours = ready_files_is_ours(pass, name, &status);
		bool is_wanted = ready_files_is_wanted(pass, what, is_ours);

		/* What driver-ready says may be another; what is not known stays as it is. */
		bool is_right =
		    is_ours &&
		    (pass->wish->facts[what].state == READY_UNKNOWN ||
		     (ready_files_has_text(pass, what) && (status.st_mode & 07777) == 0644));
		writes[what] = is_wanted && !is_right;
		pass->out->is_there[what] = is_wanted && is_right;

		if (is_ours && is_wanted) /* also of one that is replaced: until then it is ours */
			rc = ready_record_add(&pass->next, name, &status, pass->err);
		else if (is_ours)
			rc = ready_files_remove(pass, name);
	}

	return rc;
}

static int ready_files_put(struct ready_files_pass *pass, const bool writes[READY_COUNT])
{
	int rc = 0;
	uint32_t count = 0;
	for (enum ready_what what = 0; what < READY_COUNT && rc == 0; what++) {
		if (writes[what]) {
			rc = ready_files_prepare(pass, what);
			count++;
		}
	}

	if (rc == 0 && (count > 0 || pass->out->removed > 0))
		rc = ready_files_save(pass);

	for (enum ready_what what = 0; what < READY_COUNT; what++) {
		char name[READY_NAME_MAX];

		if (!writes[what])
			continue;

		ready_files_temporary(what, name);
		if (rc == 0 &&
		    renameat(pass->directory, name, pass->directory, ready_name(what)) < 0)
			rc = ready_files_fail(pass, "write", ready_name(what));
		if (rc < 0) {
			(void)unlinkat(pass->directory, name, 0); /* it may not be there */
			continue;
		}

		pass->out->is_there[what] = true;
		pass->out->written++;
	}

	return rc;
}

/* --- the directory --------------------------------------------------------------------------- */

static bool ready_files_wants_any(const struct ready_files_wish *wish)
{
	for (enum ready_what what = 0; what < READY_COUNT && !wish->withdraws; what++) {
		if (wish->facts[what].state == READY_YES)
			return true;
	}
	return false;
}

/* 0; 1: it is not there, and nothing is to be written. */
static int ready_files_open(struct ready_files_pass *pass)
{
	struct stat status;
	bool is_there = lstat(pass->path, &status) == 0;
	if (!is_there && errno != ENOENT)
		return ready_files_fail(pass, "look at", "");
	if (is_there && S_ISLNK(status.st_mode))
		return err_set(pass->err, -ELOOP, "'%s' is a symlink, not writing", pass->path);

	if (is_there && !S_ISDIR(status.st_mode))
		return err_set(pass->err, -ENOTDIR, "'%s' is no directory, not writing",
			       pass->path);
	if (!is_there && !ready_files_wants_any(pass->wish))
		return 1;

	int rc = is_there ? 0 : file_mkdirs(pass->path, 0755, pass->err);
	if (rc < 0)
		return rc;

	pass->directory = open(pass->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return pass->directory >= 0 ? 0 : ready_files_fail(pass, "open", "");
}

int ready_files_run(const struct ready_files_wish *wish, struct ready_files_report *out,
		    struct err *err)
{
	struct ready_files_pass pass = {.wish = wish, .out = out, .err = err, .directory = -1};
	bool writes[READY_COUNT] = {false};

	*out = (struct ready_files_report){.written = 0};
	int rc = file_path(pass.path, err, "%s" READY_DIRECTORY, wish->root);
	if (rc == 0)
		rc = ready_files_load(&pass);
	if (rc == 0)
		rc = ready_files_open(&pass);

	if (rc == 0)
		rc = ready_files_find_foreign(&pass);
	if (rc == 0)
		rc = ready_files_sort(&pass, writes);
	if (rc == 0)
		rc = ready_files_put(&pass, writes);
	cleanup_close_fn(&pass.directory);

	return rc < 0 ? rc : 0;
}
