/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "job/cgroup/cgroup.h"

/* Until somebody ends it: with the scope, or at the end of the machine. */
static void keep_stay(void)
{
	(void)setsid();
	(void)chdir("/");

	int fd = open("/dev/null", O_RDWR);
	for (int target = 0; fd >= 0 && target <= STDERR_FILENO; target++)
		(void)dup2(fd, target);

	(void)close_range(STDERR_FILENO + 1, ~0U, 0); /* not before Linux 5.9 */

	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGHUP, SIG_IGN);

	for (;;)
		(void)pause();
}

int keep_start(const char *group, struct err *err)
{
	struct cgroup cgroup _cleanup_cgroup_ = CGROUP_NONE;

	if (mkdir(group, 0755) < 0 && errno != EEXIST)
		return err_set(err, -errno, "making the cgroup '%s': %s", group,
			       err_describe(errno));

	int rc = cgroup_open(group, &cgroup, err);
	if (rc < 0)
		return rc;

	rc = cgroup_join(&cgroup);
	if (rc < 0)
		return err_set(err, rc, "joining the cgroup '%s': %s", group, err_describe(rc));

	pid_t pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "starting the keeper of '%s': %s", group,
			       err_describe(errno));
	if (pid == 0)
		keep_stay();

	return 0;
}
