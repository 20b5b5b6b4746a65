/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"

static int notify_connect(const char *name, int *out_fd, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(name);

	if (text_starts_with(name, "vsock:"))
		return err_set(err, -EAFNOSUPPORT,
			       "NOTIFY_SOCKET is '%s': only unix sockets are known here", name);
	if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof(address.sun_path))
		return err_set(err, -EINVAL, "NOTIFY_SOCKET is no path of a socket: '%.108s'",
			       name);

	memcpy(address.sun_path, name, length);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);

	if (name[0] == '@')
		address.sun_path[0] = '\0'; /* abstract: its length says where the name ends */
	else
		size++;

	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, size) < 0)
		return err_set(err, -errno, "cannot reach the service manager at '%s': %s", name,
			       err_describe(-errno));

	*out_fd = take_fd(&fd);
	return 0;
}

int notify_init(struct notify *out, const struct notify_environment *environment, struct err *err)
{
	uint64_t usec = 0, pid = 0;

	*out = NOTIFY_NONE;
	if (!environment->socket || !*environment->socket)
		return 0;
	if (environment->watchdog_usec &&
	    parse_u64(environment->watchdog_usec, 1, UINT64_MAX / 1000, &usec) < 0)
		return err_set(err, -EINVAL, "WATCHDOG_USEC is no number: '%.32s'",
			       environment->watchdog_usec);

	if (environment->watchdog_pid &&
	    parse_u64(environment->watchdog_pid, 1, INT32_MAX, &pid) < 0)
		return err_set(err, -EINVAL, "WATCHDOG_PID is no process: '%.32s'",
			       environment->watchdog_pid);

	int rc = notify_connect(environment->socket, &out->fd, err);
	if (rc == 0 && (pid == 0 || pid == (uint64_t)getpid()))
		out->watchdog_ns = usec * CLOCK_NS_PER_US;

	return rc;
}

int notify_take_environment(struct notify *out, struct err *err)
{
	const struct notify_environment environment = {
	    .socket = getenv("NOTIFY_SOCKET"),
	    .watchdog_usec = getenv("WATCHDOG_USEC"),
	    .watchdog_pid = getenv("WATCHDOG_PID"),
	};
	int rc = notify_init(out, &environment, err);

	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");

	return rc;
}

void notify_done(struct notify *notify)
{
	cleanup_close_fn(&notify->fd);
	*notify = NOTIFY_NONE;
}

/* A manager that does not read must not stop us: what does not fit now is not sent. */
static int notify_send(const struct notify *notify, const char *text)
{
	if (notify->fd < 0)
		return 0;
	ssize_t sent = send(notify->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent < 0 ? -errno : 0;
}

int notify_ready(const struct notify *notify)
{
	return notify_send(notify, "READY=1");
}

int notify_reloading(const struct notify *notify, uint64_t now_ns)
{
	char text[NOTIFY_TEXT_MAX];
	(void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		       now_ns / CLOCK_NS_PER_US);
	return notify_send(notify, text);
}

int notify_stopping(const struct notify *notify)
{
	return notify_send(notify, "STOPPING=1");
}

int notify_status(const struct notify *notify, const char *text)
{
	char line[NOTIFY_TEXT_MAX];
	(void)snprintf(line, sizeof(line), "STATUS=%s", text);
	for (char *at = line; *at; at++) {
		if (*at == '\n')
			*at = ' '; /* the next line would be another variable */
	}
	return notify_send(notify, line);
}

int notify_watchdog(const struct notify *notify)
{
	return notify_send(notify, "WATCHDOG=1");
}
