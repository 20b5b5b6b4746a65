/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

static int listen_at(const struct address *address)
{
	const int one = 1, both = address->is_every ? 0 : 1;
	int family = address->any.sa_family;
	_cleanup_close_ int fd =
	    socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;

	if (family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both)) < 0)
		return -errno;
	if (bind(fd, &address->any, address->length) < 0 || listen(fd, WEB_LISTEN_BACKLOG) < 0)
		return -errno;

	return take_fd(&fd);
}

int web_listen(const struct address *address, struct err *err)
{
	char text[ADDRESS_TEXT_MAX];
	int fd = listen_at(address);
	if (fd < 0 && address->is_every) { /* a kernel without IPv6 */
		struct address v4 = {.length = sizeof(v4.v4)};
		v4.v4.sin_family = AF_INET;
		v4.v4.sin_port = address->v6.sin6_port;
		int second = fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL ? listen_at(&v4) : fd;
		fd = second;
	}

	if (fd < 0)
		return err_set(err, fd, "listening on %s: %s%s",
			       address_to_string(&address->any, text), err_describe(fd),
			       fd == -EADDRINUSE ? ": sluice.web.address or --web-address names "
						   "another"
						 : "");

	return fd;
}

void web_listen_name(int fd, char out[ADDRESS_TEXT_MAX])
{
	struct address address = {.length = sizeof(address.v6)};
	(void)snprintf(out, ADDRESS_TEXT_MAX, "?");
	if (getsockname(fd, &address.any, &address.length) == 0)
		(void)address_to_string(&address.any, out);
}

bool web_listen_is_well(int fd)
{
	int listens = 0;
	socklen_t length = sizeof(listens);
	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens;
}
