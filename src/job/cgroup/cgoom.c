/* SPDX-License-Identifier: Apache-2.0 */
#include "job/cgroup/cgoom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"

enum { CGOOM_TEXT_MAX = 32 };

static int cgoom_open(const char *group, const char *file, int flags, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s/%s", group, file);
	if (rc < 0)
		return rc;
	int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 ? fd : err_set(err, -errno, "opening '%s': %s", path, err_describe(-errno));
}

int cgoom_watch(const char *group, struct err *err)
{
	_cleanup_close_ int control_fd = cgoom_open(group, "memory.oom_control", O_RDONLY, err);
	if (control_fd < 0)
		return control_fd;

	_cleanup_close_ int register_fd = cgoom_open(group, "cgroup.event_control", O_WRONLY, err);
	if (register_fd < 0)
		return register_fd;

	_cleanup_close_ int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (event_fd < 0)
		return err_set(err, -errno, "making an eventfd: %s", err_describe(-errno));

	char text[CGOOM_TEXT_MAX];
	(void)snprintf(text, sizeof(text), "%d %d", event_fd, control_fd); /* fits */

	if (write(register_fd, text, strlen(text)) < 0)
		return err_set(err, -errno, "watching the memory of '%s': %s", group,
			       err_describe(-errno));

	return take_fd(&event_fd);
}

bool cgoom_has_run_out(int fd)
{
	uint64_t count;
	return fd >= 0 && read(fd, &count, sizeof(count)) == sizeof(count);
}
