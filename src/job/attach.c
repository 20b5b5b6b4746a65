/* SPDX-License-Identifier: Apache-2.0 */
#include "job/attach.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { ATTACH_SIZE_BYTES = 4, ATTACH_BACKLOG = 4 };

size_t attach_format(const struct attach_message *message, char out[ATTACH_PACKET_MAX])
{
	out[0] = (char)message->kind;
	if (message->kind == ATTACH_SIZE) {
		uint16_t words[2] = {htole16(message->rows), htole16(message->columns)};
		memcpy(out + 1, words, sizeof(words));
		return 1 + sizeof(words);
	}

	memcpy(out + 1, message->data, message->length);
	return 1 + message->length;
}

int attach_parse(const void *packet, size_t length, struct attach_message *out, struct err *err)
{
	const char *bytes = packet;
	if (length > 1 && length <= ATTACH_PACKET_MAX && bytes[0] == ATTACH_DATA) {
		*out = (struct attach_message){
		    .kind = ATTACH_DATA, .data = bytes + 1, .length = length - 1};
		return 0;
	}

	if (length == 1 + ATTACH_SIZE_BYTES && bytes[0] == ATTACH_SIZE) {
		uint16_t words[2];
		memcpy(words, bytes + 1, sizeof(words));
		*out = (struct attach_message){
		    .kind = ATTACH_SIZE, .rows = le16toh(words[0]), .columns = le16toh(words[1])};
		return 0;
	}

	return err_set(err, -EBADMSG,
		       "a packet of %zu bytes on a job's terminal is not one of ours", length);
}

/* The address by way of the directory's descriptor: a socket's path has room for 107 bytes. */
static int attach_socket(int job_fd, struct sockaddr_un *address, struct err *err)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	(void)snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/terminal",
		       job_fd); /* always fits */
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "making a socket: %s", err_describe(errno));
	return fd;
}

int attach_listen(int job_fd, uid_t uid, gid_t gid, struct err *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = attach_socket(job_fd, &address, err);
	if (fd < 0)
		return fd;
	if (unlinkat(job_fd, "terminal", 0) < 0 && errno != ENOENT)
		return err_set(err, -errno, "removing the old socket of the job's terminal: %s",
			       err_describe(errno));

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, -errno, "binding the socket of the job's terminal: %s",
			       err_describe(errno));

	/* Before it listens, so nobody else got in meanwhile. */
	if (fchmodat(job_fd, "terminal", 0600, 0) < 0 ||
	    (geteuid() == 0 && fchownat(job_fd, "terminal", uid, gid, AT_SYMLINK_NOFOLLOW) < 0) ||
	    listen(fd, ATTACH_BACKLOG) < 0)
		return err_set(err, -errno, "opening the socket of the job's terminal: %s",
			       err_describe(errno));

	return take_fd(&fd);
}

void attach_remove(int job_fd)
{
	(void)unlinkat(job_fd, "terminal", 0); /* most often it is not there */
}

int attach_connect(int job_fd, struct err *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = attach_socket(job_fd, &address, err);
	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, -errno, "connecting to the job's terminal: %s",
			       err_describe(errno));

	return take_fd(&fd);
}
