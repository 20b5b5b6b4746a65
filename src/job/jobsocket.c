/* SPDX-License-Identifier: Apache-2.0 */
#include "job/jobsocket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

static int jobsocket_make(int job_fd, const char *name, struct sockaddr_un *address,
			  struct err *err)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	(void)snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%s", job_fd,
		       name); /* always fits */
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "making a job's socket '%s': %s", name,
			       err_describe(errno));
	return fd;
}

int jobsocket_listen(int job_fd, const char *name, uid_t uid, gid_t gid, int backlog,
		     struct err *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = jobsocket_make(job_fd, name, &address, err);
	if (fd < 0)
		return fd;

	if (unlinkat(job_fd, name, 0) < 0 && errno != ENOENT)
		return err_set(err, -errno, "removing a job's old socket '%s': %s", name,
			       err_describe(errno));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, -errno, "binding a job's socket '%s': %s", name,
			       err_describe(errno));

	/* Before it listens, so nobody else got in meanwhile. */
	bool is_given = uid != JOBSOCKET_OURS && geteuid() == 0;
	if (fchmodat(job_fd, name, 0600, 0) < 0 ||
	    (is_given && fchownat(job_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0) ||
	    listen(fd, backlog) < 0)
		return err_set(err, -errno, "opening a job's socket '%s': %s", name,
			       err_describe(errno));

	return take_fd(&fd);
}

void jobsocket_remove(int job_fd, const char *name)
{
	(void)unlinkat(job_fd, name, 0); /* most often it is not there */
}

int jobsocket_connect(int job_fd, const char *name, struct err *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = jobsocket_make(job_fd, name, &address, err);
	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, -errno, "connecting to a job's socket '%s': %s", name,
			       err_describe(errno));

	return take_fd(&fd);
}
