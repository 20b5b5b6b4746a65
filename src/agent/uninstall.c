/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/uninstall.h"

#include "agent/jobs/enforce.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/jobs/jobgroup.h"
#include "agent/jobs/jobscope.h"
#include "agent/lock.h"
#include "agent/paths.h"
#include "agent/socket_record.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/text.h"
#include "doors/cdi/keep.h"
#include "doors/labels/feature_file.h"
#include "doors/validations/ready_files.h"
#include "doors/validations/ready_record.h"

enum { UNINSTALL_TEXT_MAX = 2 * FILE_PATH_MAX };

struct uninstall {
	const struct uninstall_options *options;
	int result; /* the first failure */
	struct err *err;
};

static void uninstall_tell(const struct uninstall *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void uninstall_tell(const struct uninstall *job, const char *format, ...)
{
	char text[UNINSTALL_TEXT_MAX];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	job->options->tell(text, job->options->context);
}

static void uninstall_fail(struct uninstall *job, int code, const struct err *why)
{
	if (job->result == 0)
		job->result = err_set(job->err, code, "%s", why->text);
}

/* --- nobody else may be at work -------------------------------------------------------------- */

/* Whether somebody holds the lock of this file; one that is not there nobody does. */
static bool uninstall_is_locked(int directory, const char *path)
{
	_cleanup_close_ int fd = openat(directory, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static int uninstall_check_jobs(const char *state_dir, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s/j", state_dir);
	_cleanup_closedir_ DIR *jobs = rc == 0 ? opendir(path) : NULL;

	for (const struct dirent *entry; rc == 0 && jobs && (entry = readdir(jobs));) {
		char lock[FILE_PATH_MAX];
		if (entry->d_name[0] != '.' &&
		    file_path(lock, NULL, "%s/lock", entry->d_name) == 0 &&
		    uninstall_is_locked(dirfd(jobs), lock))
			rc = err_set(err, -EBUSY,
				     "job %s runs: end it first ('sluice cancel', with an agent)",
				     entry->d_name);
	}

	return rc;
}

/* Takes the locks of the agent and of its state (owned; -1: there is no state): none begins
 * meanwhile, in this container or another. */
static int uninstall_lock(const struct uninstall_options *options, int *out_agent, int *out_state,
			  struct err *err)
{
	const struct agent_paths *paths = options->paths;
	char path[FILE_PATH_MAX];
	int rc = agent_lock_check_socket(paths->socket, err);
	if (rc == 0)
		rc = file_path(path, err, "%s/queue.lock", paths->state_dir);

	if (rc < 0)
		return rc;

	*out_state = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (*out_state >= 0 && flock(*out_state, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, -EBUSY, "an agent runs with the state in '%s': end it first",
			       paths->state_dir);
	if (options->purges)
		rc = uninstall_check_jobs(paths->state_dir, err);
	*out_agent = rc < 0 ? rc : agent_lock_take(paths, err);

	return *out_agent < 0 ? *out_agent : 0;
}

/* --- what is removed ------------------------------------------------------------------------- */

static void uninstall_validations(struct uninstall *job)
{
	const struct uninstall_options *options = job->options;
	char path[FILE_PATH_MAX];
	const struct ready_files_wish wish = {
	    .root = options->root, .state_path = path, .withdraws = true};
	struct ready_files_report report;
	struct err why = {0};
	int rc = file_path(path, &why, "%s/" READY_RECORD_NAME, options->paths->state_dir);
	if (rc == 0)
		rc = ready_files_run(&wish, &report, &why);

	if (rc < 0 && rc != -ELOOP && rc != -ENOTDIR) {
		uninstall_fail(job, rc, &why);
		return;
	}

	if (rc == 0 && report.removed > 0)
		uninstall_tell(job, "removed: %u validation file%s in '%s" READY_DIRECTORY "'",
			       report.removed, report.removed == 1 ? "" : "s", options->root);

	(void)unlink(path); /* it may never have been there */
}

/* GPU nodes that sluice.jobs.enforce has closed. */
static void uninstall_nodes(struct uninstall *job)
{
	const struct uninstall_options *options = job->options;
	struct enforce_wish wish = {.is_on = false};
	struct enforce_report report = {0};
	struct err why = {0};
	int rc = file_path(wish.root, &why, "%s", options->root ? options->root : "");
	if (rc == 0)
		rc = file_path(wish.memory, &why, "%s/" ENFORCE_MEMORY_NAME,
			       options->paths->state_dir);

	if (rc == 0)
		rc = enforce_run(&wish, &report, &why);
	if (rc < 0)
		uninstall_fail(job, rc, &why);
	if (report.restored > 0)
		uninstall_tell(job, "%u GPU nodes are open again as they were", report.restored);
}

/* The agent has noted by which way its labels went (door_labels.c). */
static void uninstall_labels(struct uninstall *job)
{
	static const char file[] = "file ";
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;
	struct err why = {0};

	buf_init(&text, FILE_PATH_MAX + sizeof(file));
	if (file_path(path, NULL, "%s/labels", job->options->paths->state_dir) < 0 ||
	    file_read(path, &text, NULL) < 0 || text.length == 0)
		return;

	text.data[strcspn(text.data, "\n")] = '\0';
	const char *named = text.data + sizeof(file) - 1;

	if (strcmp(text.data, "direct") == 0 && job->options->withdraws)
		return;

	if (strncmp(text.data, "file /", sizeof(file)) != 0) {
		uninstall_tell(job,
			       "not removed: labels that were published through the cluster's API "
			       "(%s): see LEAVING in sluice-agent(1)",
			       text.data);
		return; /* the note stays with them: another agent may take them away */
	}

	if (file_exists(named)) {
		int rc = feature_file_remove(named, &why);
		if (rc < 0) {
			uninstall_fail(job, rc, &why);
			return;
		}

		uninstall_tell(job, "removed: '%s'", named);
	}

	(void)unlink(path);
}

static void uninstall_tell_socket(const char *path, void *context)
{
	uninstall_tell(context, "removed: '%s'", path);
}

/* Those of an agent that was killed: one that ends removes them. */
static void uninstall_sockets(struct uninstall *job)
{
	struct err why = {0};
	char path[FILE_PATH_MAX];
	const char *state_dir = job->options->paths->state_dir;
	int rc = socket_record_clean(state_dir, NULL, uninstall_tell_socket, job, &why);
	if (rc < 0)
		uninstall_fail(job, rc, &why);
	else if (file_path(path, NULL, "%s/" SOCKET_RECORD_NAME, state_dir) == 0)
		(void)unlink(path); /* it may never have been there */
}

static bool uninstall_is_specification(int directory, const char *name)
{
	static const char begin[] = "sluice", end[] = ".json";
	size_t length = strlen(name);
	struct stat status;
	return text_starts_with(name, begin) && length > sizeof(end) - 1 &&
	       strcmp(name + length - (sizeof(end) - 1), end) == 0 &&
	       fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

/* By their names, which are the agent's alone: the note of what was written lies in the runtime
 * directory, which a pod takes with it. */
static void uninstall_cdi(struct uninstall *job)
{
	char path[FILE_PATH_MAX];
	struct err why = {0};

	if (file_path(path, NULL, "%s" KEEP_DIRECTORY, job->options->root) < 0)
		return;

	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	if (!entries) {
		if (fd >= 0)
			(void)close(fd);
		return; /* there is none of ours in it */
	}

	for (const struct dirent *entry; (entry = readdir(entries));) {
		if (!uninstall_is_specification(dirfd(entries), entry->d_name))
			continue;
		if (unlinkat(dirfd(entries), entry->d_name, 0) == 0) {
			uninstall_tell(job, "removed: '%s/%s'", path, entry->d_name);
			continue;
		}

		int code = -errno;
		(void)err_set(&why, code, "cannot remove '%s/%s': %s", path, entry->d_name,
			      err_describe(code));
		uninstall_fail(job, code, &why);
	}

	(void)unlinkat(dirfd(entries), KEEP_LOCK, 0); /* it may not be there */
}

/* Removes what is in an open directory (given). Follows no link. */
static int uninstall_empty(int directory, int depth)
{
	DIR *entries = fdopendir(directory);
	int result = entries ? 0 : -errno;

	if (!entries) {
		(void)close(directory);
		return result;
	}

	for (const struct dirent *entry; (entry = readdir(entries));) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;

		int inner =
		    openat(dirfd(entries), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		bool is_directory = inner >= 0;
		int rc = is_directory && depth == 0 ? -ELOOP : 0;

		if (is_directory && rc < 0)
			(void)close(inner);
		else if (is_directory)
			rc = uninstall_empty(inner, depth - 1);

		if (rc == 0 && unlinkat(dirfd(entries), name, is_directory ? AT_REMOVEDIR : 0) < 0)
			rc = -errno;
		if (result == 0)
			result = rc;
	}

	(void)closedir(entries);
	return result;
}

/* The directory stays: it may be a mount. */
static void uninstall_state(struct uninstall *job)
{
	const char *path = job->options->paths->state_dir;
	struct err why = {0};
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int rc = fd >= 0 ? uninstall_empty(fd, UNINSTALL_DEPTH_MAX) : -errno;
	if (rc == -ENOENT)
		return;

	(void)err_set(&why, rc, "cannot empty '%s': %s", path, err_describe(rc));
	if (rc < 0)
		uninstall_fail(job, rc, &why);
	else
		uninstall_tell(job, "removed: all that was in '%s', jobs and their output", path);
}

int uninstall_run(const struct uninstall_options *options, struct err *err)
{
	struct uninstall job = {.options = options, .err = err};
	_cleanup_close_ int agent = -1;
	_cleanup_close_ int state = -1;
	int rc = uninstall_lock(options, &agent, &state, err);
	if (rc < 0)
		return rc;

	if (jobgroup_end_scope(options->paths))
		uninstall_tell(&job, "ended: '" JOBSCOPE_UNIT "' of systemd, in which no job was");
	uninstall_nodes(&job);
	uninstall_validations(&job);
	uninstall_labels(&job);
	uninstall_cdi(&job);
	uninstall_sockets(&job);

	if (options->purges)
		uninstall_state(&job);

	return job.result;
}
