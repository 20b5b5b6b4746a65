/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/clear.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "job/trash.h"

enum {
	CLEAR_EXIT_FAILED = 1,
	CLEAR_REST_NS = 2000000, /* after each burst, which takes a millisecond or less */
	CLEAR_NICE = 19,
	/* include/uapi/linux/ioprio.h: the class "idle", of one process. */
	CLEAR_IOPRIO_IDLE = 3 << 13,
	CLEAR_IOPRIO_PROCESS = 1,
};

static void clear_rest(void *context)
{
	const struct timespec rest = {.tv_nsec = CLEAR_REST_NS};
	(void)context;
	(void)nanosleep(&rest, NULL);
}

static void clear_be_modest(void)
{
	(void)prctl(PR_SET_NAME, "sluice-clear"); /* for people who look at ps */
	(void)setpriority(PRIO_PROCESS, 0, CLEAR_NICE);
	(void)syscall(SYS_ioprio_set, CLEAR_IOPRIO_PROCESS, 0, CLEAR_IOPRIO_IDLE);
}

static void clear_report(const struct trash_left *left)
{
	if (left->left == 0)
		return;
	(void)dprintf(TRASH_FD_REPORT,
		      "%" PRIu64 " files or directories cannot be removed, and stay: %s",
		      left->left, left->first);
}

int clear_run(void)
{
	struct trash_left left = {0};
	struct err err = {0};

	clear_be_modest();
	/* A description of its own to lock: ours is the agent's as well. One that an agent started
	 * which has died since does the same. */
	_cleanup_close_ int fd = openat(TRASH_FD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return CLEAR_EXIT_FAILED;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? 0 : CLEAR_EXIT_FAILED;

	if (trash_clear(fd, clear_rest, NULL, &left, &err) < 0)
		return CLEAR_EXIT_FAILED;

	clear_report(&left);
	return 0;
}
