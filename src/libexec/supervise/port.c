/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/port.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"

/* The abstract socket of that port's name, or -errno. */
static int port_claim(int port)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "sluice/port/%d",
			      port); /* fits */
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;

	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	if (bind(fd, (struct sockaddr *)&address, size) < 0)
		return -errno;

	return take_fd(&fd);
}

/* Whether somebody could listen there now. Connections that are just ending do not matter. */
static int port_try(int port)
{
	int yes = 1;
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0)
		return -errno;

	return 0;
}

static int port_take_one(int port, int *out_fd)
{
	_cleanup_close_ int fd = port_claim(port);
	int rc = fd < 0 ? fd : port_try(port);
	if (rc == 0)
		*out_fd = take_fd(&fd);
	return rc;
}

int port_take(const char *text, uint64_t seed, int *out_fd, struct err *err)
{
	uint64_t wanted;
	int rc = parse_u64_span(text, strcspn(text, ":"), 0, UINT16_MAX, &wanted);
	if (rc < 0)
		return err_set(err, -EINVAL, "'%.32s' is no TCP port", text);

	if (wanted > 0) {
		rc = port_take_one((int)wanted, out_fd);
		return rc < 0 ? err_set(err, rc,
					"port %d of 127.0.0.1, which --port names, is not "
					"free: %s (--port 0 takes any)",
					(int)wanted, err_describe(rc))
			      : (int)wanted;
	}

	for (uint64_t i = 0; i < PORT_COUNT; i++) {
		int port = PORT_FIRST + (int)((seed + i) % PORT_COUNT);
		rc = port_take_one(port, out_fd);
		if (rc == 0)
			return port;
		if (rc != -EADDRINUSE)
			break;
	}

	return err_set(err, rc, "no port of 127.0.0.1 is to be had: %s", err_describe(rc));
}

int port_find(uint16_t *out, struct err *err)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof(address);
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return err_set(err, -errno, "looking for a free port for the ranks: %s",
			       err_describe(errno));

	*out = ntohs(address.sin_port);
	return 0;
}

int port_tell(int port, char ***environment)
{
	size_t count = 0;
	while ((*environment)[count])
		count++;

	char **more = reallocarray(*environment, count + 2, sizeof(*more));
	if (!more)
		return -ENOMEM;

	*environment = more;
	more[count + 1] = NULL;
	if (asprintf(&more[count], "SLUICE_PORT=%d", port) >= 0)
		return 0;

	more[count] = NULL;
	return -ENOMEM;
}
