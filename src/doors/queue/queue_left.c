/* SPDX-License-Identifier: Apache-2.0 */
/* What a killed supervisor leaves: found by its cgroup, and by the attempt's instance in the
 * environment of its processes. On the storage thread. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "job/cgroup/cgroup.h"
#include "job/jobmemory.h"
#include "doors/queue/queue_internal.h"
#include "job/tree.h"

enum {
	LEFT_ENVIRON_MAX = 4 << 20,
	LEFT_LOOKS = 4, /* at one process that is executing a program */
};

enum left_is { LEFT_OTHER, LEFT_OURS, LEFT_UNKNOWN };

static enum left_is left_look(pid_t pid, const char *entry, struct buf *environ_)
{
	char path[64];
	struct tree_process process = {.is_executing = true};

	(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid); /* always fits */
	buf_clear(environ_);

	for (int i = 0; i < LEFT_LOOKS && environ_->length == 0; i++) {
		if (file_read(path, environ_, NULL) < 0)
			return LEFT_OTHER;

		/* Empty, too, between the moment in which execve(2) takes the old program away, and
		 * closes the job's lock, and that in which the new one has its environment. */
		if (environ_->length == 0 && (tree_read(pid, &process, NULL) < 0 ||
					      process.state == 'Z' || process.state == 'X'))
			return LEFT_OTHER;
	}

	/* One that has an environment by now was between two programs each time. */
	if (environ_->length == 0)
		return process.is_executing || process.has_environment ? LEFT_UNKNOWN : LEFT_OTHER;

	const char *at = buf_text(environ_), *end = at + environ_->length;
	while (at < end) {
		if (strcmp(at, entry) == 0)
			return LEFT_OURS;
		at += strnlen(at, (size_t)(end - at)) + 1;
	}

	return LEFT_OTHER;
}

/* The pidfd is opened before the look, so that the signal goes to the process that was looked at.
 */
static enum left_is left_kill_one(pid_t pid, const char *entry, struct buf *environ_)
{
	_cleanup_close_ int fd = pidfd_open(pid, 0);
	int errno_of_open = errno;
	enum left_is is = left_look(pid, entry, environ_);
	if (is != LEFT_OURS)
		return is;

	bool has_none = fd < 0 ? errno_of_open == ENOSYS || errno_of_open == EPERM : false;

	if (fd >= 0 && pidfd_send_signal(fd, SIGKILL, NULL, 0) < 0)
		has_none = errno == ENOSYS || errno == EPERM;

	/* Without pidfds by its number, right after the look. */
	if (has_none)
		(void)kill(pid, SIGKILL);

	return is;
}

/* Whoever was killed counts, dead by now or not: it may have forked before, and the child may have
 * a number that was looked at already. */
static int left_kill_instance(const char *instance, bool is_patient, size_t *out_left,
			      struct err *err)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	if (!proc)
		return err_set(err, -errno, "opening '/proc': %s", err_describe(errno));

	char entry[64];
	(void)snprintf(entry, sizeof(entry), "SLUICE_JOB_INSTANCE=%s", instance); /* a UUID */

	_cleanup_buf_ struct buf environ_;
	buf_init(&environ_, LEFT_ENVIRON_MAX);

	struct dirent *item;

	*out_left = 0;
	while ((item = readdir(proc))) {
		uint64_t pid;
		if (parse_u64(item->d_name, 1, INT32_MAX, &pid) < 0)
			continue;
		enum left_is is = left_kill_one((pid_t)pid, entry, &environ_);
		*out_left += is == LEFT_OURS || (is == LEFT_UNKNOWN && is_patient);
	}

	return 0;
}

void queue_remove_cgroup(const struct queue *queue, const struct queue_run *run)
{
	char path[JOBDIR_TEXT_MAX];
	_cleanup_cgroup_ struct cgroup group = CGROUP_NONE;
	if (queue_cgroup_path(queue, run, path) && cgroup_open(path, &group, NULL) == 0)
		(void)cgroup_remove(&group, NULL); /* an empty one is in nobody's way */
	if (path[0])
		cgroup_remove_v1(path, true);
}

bool queue_cgroup_path(const struct queue *queue, const struct queue_run *run,
		       char out[JOBDIR_TEXT_MAX])
{
	char name[LAUNCH_CGROUP_MAX];

	out[0] = '\0';
	if (!queue->cgroup_root || !run->instance[0])
		return false;

	launch_cgroup_name(run->owner->job.id, run->instance, name);
	int length = snprintf(out, JOBDIR_TEXT_MAX, "%s/%s", queue->cgroup_root, name);
	if (length > 0 && length < JOBDIR_TEXT_MAX)
		return true;

	out[0] = '\0';
	return false;
}

/* --- containers ------------------------------------------------------------------------------- */

int queue_remove_launch(struct queue_run *run, struct err *err)
{
	uint64_t id = run->owner->job.id;
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;
	int rc = store_spec(run->owner->queue->store, id, &bytes, &length, err);
	if (rc < 0)
		return rc;

	_cleanup_spec_ struct spec spec;
	rc = spec_parse(bytes, length, &spec, err);
	if (rc < 0)
		return err_wrap(err, "what is stored of job %" PRIu64, id);
	if (spec.image[0] == '\0')
		return 0;

	rc = queue_make_launch(run, err);
	return rc < 0 ? rc : 1;
}

static void queue_removed(struct child *child, const struct child_end *end, void *context)
{
	struct queue_run *run = context;
	run->remover = child_free(run->remover);
	queue_look(run);
}

/* A supervisor that does nothing else: the removal is podman's, as the job's user. It ends itself
 * if that takes too long. What cannot be removed is left: the processes are gone. */
void queue_remove(struct queue_run *run)
{
	struct queue *queue = run->owner->queue;
	struct err err = {.code = 0};

	char *const argv[] = {queue->supervisor, (char[]){"--remove"}, NULL};
	/* Nothing is locked or told: the first one only has to be there. */
	struct child_fd fds[] = {{run->dir_fd, LAUNCH_FD_LOCK},
				 {run->dir_fd, LAUNCH_FD_DIRECTORY},
				 {run->launch_fd, LAUNCH_FD_LAUNCH}};
	const struct child_spec spec = {
	    .path = queue->supervisor,
	    .argv = argv,
	    .fds = fds,
	    .fd_count = array_length(fds),
	    .new_session = true,
	};

	run->has_removed = true;
	run->remover = child_start(queue->options.children, &spec, queue_removed, run, &err);
	(void)close(take_fd(&run->launch_fd));

	if (run->remover)
		return;

	log_write(queue->options.log, LOG_LEVEL_WARNING, NULL,
		  "the container of job %" PRIu64 " was not removed: %s", run->owner->job.id,
		  err.text);
	queue_look(run);
}

int queue_kill_left(const char *instance, const char *cgroup, bool is_patient, struct err *err)
{
	size_t left = 0;

	if (cgroup[0]) {
		_cleanup_cgroup_ struct cgroup group = CGROUP_NONE;
		int rc = cgroup_open(cgroup, &group, err);
		if (rc == 0 && cgroup_is_populated(&group, NULL) > 0) {
			rc = cgroup_kill(&group, err);
			if (rc < 0)
				return rc;
			left += cgroup_is_populated(&group, NULL) > 0;
		}

		if (rc == 0 && left == 0)
			(void)cgroup_remove(&group, NULL); /* the next job of that name does */
		if (left == 0)
			cgroup_remove_v1(cgroup, true);
	}

	if (instance[0]) {
		size_t found = 0;
		int rc = left_kill_instance(instance, is_patient, &found, err);
		if (rc < 0)
			return rc;
		left += found;
	}

	/* A step at a time: whoever calls has others to serve, and calls again. */
	if (left == 0)
		left += !jobmemory_remove_step(instance);

	return left > 0;
}
