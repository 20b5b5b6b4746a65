/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/uevent.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { UEVENT_GROUP_KERNEL = 1 };

int uevent_open(struct err *err)
{
	const struct sockaddr_nl address = {.nl_family = AF_NETLINK,
					    .nl_groups = UEVENT_GROUP_KERNEL};
	_cleanup_close_ int fd =
	    socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		int code = -errno;
		return err_set(err, code, "the kernel's events cannot be heard: %s",
			       err_describe(code));
	}

	return take_fd(&fd);
}

bool uevent_take(int fd, const char *subsystem)
{
	char bytes[UEVENT_MESSAGE_MAX];
	bool matters = false;

	for (;;) {
		struct sockaddr_nl sender = {.nl_pid = 0};
		socklen_t length = sizeof(sender);
		ssize_t got = recvfrom(fd, bytes, sizeof(bytes), MSG_DONTWAIT,
				       (struct sockaddr *)&sender, &length);
		if (got < 0 && errno == EINTR)
			continue;

		if (got < 0)
			return matters || errno == ENOBUFS;
		if (sender.nl_pid == 0 && uevent_is_of(bytes, (size_t)got, subsystem))
			matters = true;
	}
}

bool uevent_is_of(const char *bytes, size_t length, const char *subsystem)
{
	static const char key[] = "SUBSYSTEM=";
	size_t wanted = strlen(subsystem);

	for (size_t at = 0; at < length;) {
		const char *end = memchr(bytes + at, '\0', length - at);
		size_t size = end ? (size_t)(end - (bytes + at)) : length - at;
		if (size == sizeof(key) - 1 + wanted &&
		    memcmp(bytes + at, key, sizeof(key) - 1) == 0 &&
		    memcmp(bytes + at + sizeof(key) - 1, subsystem, wanted) == 0)
			return true;

		at += size + 1;
	}

	return false;
}
