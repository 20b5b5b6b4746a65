/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "web/view.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

enum { WEB_PATH_MAX = 48 };

static int memory_seal(int fd)
{
	const int size = F_SEAL_SHRINK | F_SEAL_GROW;
	if (fcntl(fd, F_ADD_SEALS, size | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0)
		return 0;
	return fcntl(fd, F_ADD_SEALS, size | F_SEAL_SEAL) == 0 ? 0 : -errno;
}

/* Valid before anything is known: what is not there yet is 0 of it. */
static void memory_begin(struct view_shared *shared)
{
	view_begin(shared);
	view_init(&shared->view);
	view_end(shared);
}

int web_memory_open(struct web_memory *memory, struct err *err)
{
	_cleanup_close_ int fd = memfd_create("sluice-view", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_set(err, -errno, "memory for the web process: %s", err_describe(-errno));

	/* Another user may open it again by /proc: for reading, then. */
	if (fchmod(fd, 0400) < 0 || ftruncate(fd, sizeof(struct view_shared)) < 0)
		return err_set(err, -errno, "memory for the web process: %s", err_describe(-errno));

	struct view_shared *shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		return err_set(err, -errno, "memory for the web process: %s", err_describe(-errno));

	int rc = memory_seal(fd);
	if (rc < 0) {
		(void)munmap(shared, sizeof(*shared));
		return err_set(err, rc, "memory for the web process: %s", err_describe(rc));
	}

	memory_begin(shared);
	memory->shared = shared;
	memory->fd = take_fd(&fd);

	return 0;
}

void web_memory_close(struct web_memory *memory)
{
	if (memory->shared)
		(void)munmap(memory->shared, sizeof(*memory->shared));
	cleanup_close_fn(&memory->fd);
	*memory = (struct web_memory)WEB_MEMORY_NONE;
}

int web_memory_reader(const struct web_memory *memory, struct err *err)
{
	char path[WEB_PATH_MAX];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", memory->fd);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd
		       : err_set(err, -errno, "opening '%s' for the web process: %s", path,
				 err_describe(-errno));
}

int web_tick_open(int out_fds[2], struct err *err)
{
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, out_fds) < 0)
		return err_set(err, -errno, "a socket pair for the web process: %s",
			       err_describe(-errno));
	return 0;
}

void web_tick(int fd)
{
	const uint64_t one = 1;
	(void)!send(fd, &one, sizeof(one),
		    MSG_DONTWAIT | MSG_NOSIGNAL); /* full: it knows already */
}
