/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/uninstall.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/doors/doors.h"
#include "agent/jobs/jobgroup.h"
#include "agent/jobs/jobscope.h"
#include "agent/lock.h"
#include "agent/paths.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"

enum { UNINSTALL_TEXT_MAX = 2 * FILE_PATH_MAX };

struct uninstall {
	const struct uninstall_options *options;
	int result; /* the first failure */
	struct err *err;
};

void uninstall_tell(const struct uninstall_options *options, const char *format, ...)
{
	char text[UNINSTALL_TEXT_MAX];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	options->tell(text, options->context);
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

/* Removes what is in an open directory (given). Follows no link. */
static int uninstall_empty(int directory, int depth)
{
	DIR *entries = fdopendir(directory);
	int first = entries ? 0 : -errno;

	if (!entries) {
		(void)close(directory);
		return first;
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
		if (first == 0)
			first = rc;
	}

	(void)closedir(entries);
	return first;
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
		uninstall_tell(job->options, "removed: all that was in '%s', jobs and their output",
			       path);
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
		uninstall_tell(options,
			       "ended: '" JOBSCOPE_UNIT "' of systemd, in which no job was");

	struct err why = {0};
	rc = doors_cleanup(options, &why);
	if (rc < 0)
		uninstall_fail(&job, rc, &why);

	if (options->purges)
		uninstall_state(&job);

	return job.result;
}
