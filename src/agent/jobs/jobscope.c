/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/jobscope.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "job/cgroup/cgroup.h"

enum jobscope_internals {
	JOBSCOPE_TEXT_MAX = 4096, /* of cgroup.events, and of what systemd-run says */
	JOBSCOPE_SAID_MAX = 160,  /* of that, which is passed on */
	JOBSCOPE_WORDS_MAX = 24,  /* of systemd-run's command line, with the NULL */
	JOBSCOPE_LOOK_NS = 5000000,
};

#define JOBSCOPE_PATIENCE_NS UINT64_C(10000000000)

static const struct clock jobscope_clock; /* the real one */

/* --- where it is ------------------------------------------------------------------------------ */

/* How much of `own` is the group of the user's systemd, "/user.slice/.../user@1000.service". */
static size_t jobscope_manager(const char *own)
{
	static const char begin[] = "user@", end[] = ".service";

	for (const char *at = own; *at == '/';) {
		size_t length = strcspn(at + 1, "/");
		const char *stop = at + 1 + length;

		if (length >= sizeof(begin) + sizeof(end) - 2 &&
		    memcmp(at + 1, begin, sizeof(begin) - 1) == 0 &&
		    memcmp(stop - (sizeof(end) - 1), end, sizeof(end) - 1) == 0)
			return (size_t)(stop - own);

		at = stop;
	}

	return 0;
}

int jobscope_path(const struct jobscope_options *options, char *out, size_t size, struct err *err)
{
	size_t manager = options->is_system ? 0 : jobscope_manager(options->own);
	if (!options->is_system && manager == 0)
		return err_set(err, -ENOENT, "this agent is no unit of the user's systemd");

	int length = snprintf(out, size, "%s%.*s/%s/%s", options->mount, (int)manager, options->own,
			      JOBSCOPE_SLICE, JOBSCOPE_UNIT);
	return length > 0 && (size_t)length < size
		   ? 0
		   : err_set(err, -ENAMETOOLONG, "the path of '%s' is too long", JOBSCOPE_UNIT);
}

/* With a process in it: one without is about to go. */
static bool jobscope_lives(const char *path)
{
	char name[FILE_PATH_MAX];
	struct cgroup_events events;
	_cleanup_buf_ struct buf text;

	buf_init(&text, JOBSCOPE_TEXT_MAX);
	return file_path(name, NULL, "%s/cgroup.events", path) == 0 &&
	       file_read(name, &text, NULL) == 0 &&
	       cgroup_parse_events(buf_text(&text), text.length, &events, NULL) == 0 &&
	       events.populated;
}

/* --- making it -------------------------------------------------------------------------------- */

static void jobscope_words(const char **argv, size_t *count, const char *const *words, size_t add)
{
	assert(*count + add < JOBSCOPE_WORDS_MAX);
	memcpy(&argv[*count], words, add * sizeof(*words));
	*count += add;
}

static int jobscope_start(const struct jobscope_options *options, const char *leaf, int said_fd,
			  pid_t *out, struct err *err)
{
	static const char *const both[] = {
	    "--quiet",
	    "--scope",
	    "--collect",
	    "--unit=" JOBSCOPE_UNIT,
	    "--slice=" JOBSCOPE_SLICE,
	    "--description=Jobs of sluice",
	    "--property=Delegate=yes",
	    "--property=TasksMax=infinity", /* each job has a limit of its own */
	    /* At a shutdown it ends after the service, which else would take what systemd does to
	     * jobs then for their own ends; its successor knows that the machine was rebooted. */
	    "--property=Before=sluice.service",
	};

	/* Jobs end before what they write to is unmounted. */
	static const char *const of_system[] = {"--no-ask-password",
						"--property=After=local-fs.target",
						"--property=After=remote-fs.target"};
	static const char *const of_user[] = {"--user"};
	const char *const keeper[] = {"--", options->supervisor, "--keep", leaf};

	const char *argv[JOBSCOPE_WORDS_MAX] = {options->systemd_run};
	size_t count = 1;

	jobscope_words(argv, &count, both, array_length(both));
	if (options->is_system)
		jobscope_words(argv, &count, of_system, array_length(of_system));
	else
		jobscope_words(argv, &count, of_user, array_length(of_user));

	jobscope_words(argv, &count, keeper, array_length(keeper)); /* NULL follows */

	const struct child_fd fds[] = {{said_fd, STDERR_FILENO}};
	const struct child_spec spec = {
	    .path = options->systemd_run,
	    .argv = (char *const *)argv,
	    .directory = "/",
	    .fds = fds,
	    .fd_count = 1,
	    .new_session = true,
	};

	return child_spawn(&spec, out, err);
}

/* 0 and how it ended; -ETIMEDOUT: it is killed. */
static int jobscope_wait(pid_t pid, int *out_status)
{
	static const struct timespec moment = {.tv_nsec = JOBSCOPE_LOOK_NS};
	uint64_t deadline_ns = clock_now_ns(&jobscope_clock) + JOBSCOPE_PATIENCE_NS;

	for (;;) {
		pid_t got = waitpid(pid, out_status, WNOHANG);
		if (got == pid)
			return 0;
		if (got < 0 && errno != EINTR)
			return -errno;

		if (clock_now_ns(&jobscope_clock) >= deadline_ns)
			break;

		(void)nanosleep(&moment, NULL);
	}

	(void)kill(-pid, SIGKILL); /* not reaped: the number is its own */
	(void)waitpid(pid, out_status, 0);
	return -ETIMEDOUT;
}

/* The first line of what it said. */
static void jobscope_said(int fd, char out[JOBSCOPE_SAID_MAX])
{
	ssize_t length = pread(fd, out, JOBSCOPE_SAID_MAX - 1, 0);
	out[length > 0 ? length : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

int jobscope_make(const struct jobscope_options *options, const char *path, struct err *err)
{
	char leaf[FILE_PATH_MAX], said[JOBSCOPE_SAID_MAX];
	pid_t pid;
	int status = 0;

	if (jobscope_lives(path))
		return 0;

	int rc = file_path(leaf, err, "%s/%s", path, CGROUP_SUPERVISORS);
	if (rc < 0)
		return rc;

	_cleanup_close_ int said_fd = memfd_create("systemd-run", MFD_CLOEXEC);
	if (said_fd < 0)
		return err_set(err, -errno, "making a file in memory: %s", err_describe(errno));

	rc = jobscope_start(options, leaf, said_fd, &pid, err);
	if (rc < 0)
		return err_wrap(err, "asking systemd for '%s'", JOBSCOPE_UNIT);

	rc = jobscope_wait(pid, &status);
	if (rc == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !jobscope_lives(path)))
		rc = -EIO;
	if (rc == 0)
		return 0;

	jobscope_said(said_fd, said);
	return err_set(err, rc, "asking systemd for '%s': %s", JOBSCOPE_UNIT,
		       said[0] ? said : err_describe(rc));
}
