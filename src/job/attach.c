/* SPDX-License-Identifier: Apache-2.0 */
#include "job/attach.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "job/jobsocket.h"

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

int attach_listen(int job_fd, uid_t uid, gid_t gid, struct err *err)
{
	return jobsocket_listen(job_fd, "terminal", uid, gid, ATTACH_BACKLOG, err);
}

void attach_remove(int job_fd)
{
	jobsocket_remove(job_fd, "terminal");
}

int attach_connect(int job_fd, struct err *err)
{
	return jobsocket_connect(job_fd, "terminal", err);
}
