/* SPDX-License-Identifier: Apache-2.0 */
#include "job/control.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"

enum {
	CONTROL_HEAD = 24, /* version, kind: 4 bytes each; value, extra: 8 each */
	CONTROL_BACKLOG = 16,
};

static bool control_kind_is_known(uint32_t kind)
{
	return (kind >= CONTROL_HELLO && kind <= CONTROL_PORT) ||
	       (kind >= CONTROL_SIGNAL && kind <= CONTROL_LIMIT);
}

size_t control_format(const struct control_message *message, char out[CONTROL_PACKET_MAX])
{
	uint32_t words[2] = {htole32(message->version), htole32(message->kind)};
	uint64_t values[2] = {htole64((uint64_t)message->value), htole64(message->extra)};
	size_t length = strnlen(message->text, CONTROL_TEXT_MAX - 1);
	memcpy(out, words, sizeof(words));
	memcpy(out + sizeof(words), values, sizeof(values));
	memcpy(out + CONTROL_HEAD, message->text, length);
	return CONTROL_HEAD + length;
}

int control_parse(const void *packet, size_t length, struct control_message *out, struct err *err)
{
	uint32_t words[2];
	uint64_t values[2];
	const char *bytes = packet;

	if (length < CONTROL_HEAD || length >= CONTROL_HEAD + CONTROL_TEXT_MAX ||
	    memchr(bytes + CONTROL_HEAD, '\0', length - CONTROL_HEAD))
		return err_set(err, -EBADMSG, "a packet of %zu bytes is not one of ours", length);

	memcpy(words, bytes, sizeof(words));
	memcpy(values, bytes + sizeof(words), sizeof(values));

	uint32_t version = le32toh(words[0]), kind = le32toh(words[1]);
	if (version != CONTROL_VERSION)
		return err_set(err, -EPROTONOSUPPORT,
			       "version %u of the control protocol; this program knows %d", version,
			       CONTROL_VERSION);

	if (!control_kind_is_known(kind))
		return err_set(err, -EBADMSG, "a control message of unknown kind %u", kind);

	*out = (struct control_message){.version = version,
					.kind = kind,
					.value = (int64_t)le64toh(values[0]),
					.extra = le64toh(values[1])};
	memcpy(out->text, bytes + CONTROL_HEAD, length - CONTROL_HEAD);
	return 0;
}

/* The address by way of the directory's descriptor: a socket's path has room for 107 bytes. */
static int control_socket(int job_fd, struct sockaddr_un *address, struct err *err)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	(void)snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/control",
		       job_fd); /* always fits */
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "making a control socket: %s", err_describe(errno));
	return fd;
}

int control_listen(int job_fd, struct err *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = control_socket(job_fd, &address, err);
	if (fd < 0)
		return fd;

	/* Of a supervisor that is dead: we have the job's lock. */
	if (unlinkat(job_fd, "control", 0) < 0 && errno != ENOENT)
		return err_set(err, -errno, "removing the old control socket: %s",
			       err_describe(errno));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, -errno, "binding the job's control socket: %s",
			       err_describe(errno));

	/* Before it listens, so nobody else got in meanwhile. */
	if (fchmodat(job_fd, "control", 0600, 0) < 0)
		return err_set(err, -errno, "closing the job's control socket to others: %s",
			       err_describe(errno));
	if (listen(fd, CONTROL_BACKLOG) < 0)
		return err_set(err, -errno, "listening on the job's control socket: %s",
			       err_describe(errno));

	return take_fd(&fd);
}

void control_remove(int job_fd)
{
	(void)unlinkat(job_fd, "control", 0); /* most often it is not there */
}

int control_connect(int job_fd, struct err *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = control_socket(job_fd, &address, err);
	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, -errno, "connecting to the job's supervisor: %s",
			       err_describe(errno));

	return take_fd(&fd);
}
