/* SPDX-License-Identifier: Apache-2.0 */
#include "job/workdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "job/jobdir.h"
#include "job/trash.h"

enum { WORKDIR_NAME_MAX = 48 }; /* 20 and 10 digits, 8 characters, a dot, a dash, and the NUL */

static void workdir_name(uint64_t id, uint32_t attempt, const char *instance,
			 char out[WORKDIR_NAME_MAX])
{
	(void)snprintf(out, WORKDIR_NAME_MAX, "%" PRIu64 ".%" PRIu32 "-%.8s", id, attempt,
		       instance); /* fits */
}

/* STATE, of whoever has STATE/j/<id> open. */
static int workdir_open_state(int job_fd, struct err *err)
{
	int fd = openat(job_fd, "../..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening the state directory: %s", err_describe(errno));
	return fd;
}

static int workdir_open_place(int state_fd, struct err *err)
{
	/* Others may pass through to what is theirs, and not look around. */
	if (mkdirat(state_fd, "workers", 0711) == 0) {
		if (fchmodat(state_fd, "workers", 0711, 0) < 0) /* whatever our umask */
			return err_set(err, -errno, "setting the mode of 'workers': %s",
				       err_describe(errno));
	} else if (errno != EEXIST) {
		return err_set(err, -errno, "making the directory 'workers': %s",
			       err_describe(errno));
	}

	int fd = openat(state_fd, "workers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening the directory 'workers': %s",
			       err_describe(errno));

	return fd;
}

int workdir_make(int job_fd, uint64_t id, uint32_t attempt, const char *instance,
		 char out_path[FILE_PATH_MAX], struct err *err)
{
	char name[WORKDIR_NAME_MAX], link[64], path[FILE_PATH_MAX];
	workdir_name(id, attempt, instance, name);

	_cleanup_close_ int state_fd = workdir_open_state(job_fd, err);
	if (state_fd < 0)
		return state_fd;

	_cleanup_close_ int place_fd = workdir_open_place(state_fd, err);
	if (place_fd < 0)
		return place_fd;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", place_fd); /* fits */
	ssize_t length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return err_set(err, -errno, "reading the path of the workers' directories: %s",
			       err_describe(errno));

	path[length] = '\0';
	int rc = file_path(out_path, err, "%s/%s", path, name);
	if (rc < 0)
		return rc;

	if (mkdirat(place_fd, name, 0700) < 0)
		return err_set(err, -errno, "making '%s': %s", out_path, err_describe(errno));

	int fd = openat(place_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening '%s': %s", out_path, err_describe(errno));

	return fd;
}

static int workdir_throw(int state_fd, int place_fd, const char *name, uint64_t id, struct err *err)
{
	_cleanup_close_ int trash_fd = trash_open(state_fd, err);
	if (trash_fd < 0)
		return trash_fd;
	int rc = trash_move(trash_fd, place_fd, name, id, err);
	return rc == -ENOENT ? 0 : rc;
}

int workdir_discard(int job_fd, uint64_t id, uint32_t attempt, const char *instance,
		    struct err *err)
{
	char name[WORKDIR_NAME_MAX];
	workdir_name(id, attempt, instance, name);

	_cleanup_close_ int state_fd = workdir_open_state(job_fd, err);
	if (state_fd < 0)
		return state_fd;

	_cleanup_close_ int place_fd = workdir_open_place(state_fd, err);
	if (place_fd < 0)
		return place_fd;

	return workdir_throw(state_fd, place_fd, name, id, err);
}

/* Whether somebody supervises the job: whoever does holds its lock. */
static bool workdir_is_used(int state_fd, uint64_t id)
{
	_cleanup_close_ int job_fd = jobdir_open(state_fd, id, NULL);
	if (job_fd < 0)
		return job_fd != -ENOENT;
	_cleanup_close_ int lock = jobdir_lock(job_fd, NULL);
	return lock < 0;
}

void workdir_sweep(int state_fd, size_t *stays, struct err *err)
{
	_cleanup_close_ int place_fd =
	    openat(state_fd, "workers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int copy = place_fd < 0 ? -1 : openat(place_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *list = copy < 0 ? NULL : fdopendir(copy);
	if (!list && copy >= 0)
		(void)close(copy);

	struct dirent *entry;

	for (int i = 0; list && i < WORKDIR_SWEEP && (entry = readdir(list)); i++) {
		uint64_t id;
		if (parse_u64_span(entry->d_name, strcspn(entry->d_name, "."), 0, UINT64_MAX, &id) <
			0 ||
		    workdir_is_used(state_fd, id))
			continue;

		if (workdir_throw(state_fd, place_fd, entry->d_name, id, *stays == 0 ? err : NULL) <
		    0)
			(*stays)++;
	}
}
