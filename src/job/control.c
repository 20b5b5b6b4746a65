/* SPDX-License-Identifier: Apache-2.0 */
#include "job/control.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "job/jobsocket.h"

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

int control_listen(int job_fd, struct err *err)
{
	/* There may be one of a supervisor that is dead: we have the job's lock. */
	return jobsocket_listen(job_fd, "control", JOBSOCKET_OURS, 0, CONTROL_BACKLOG, err);
}

void control_remove(int job_fd)
{
	jobsocket_remove(job_fd, "control");
}

int control_connect(int job_fd, struct err *err)
{
	return jobsocket_connect(job_fd, "control", err);
}
