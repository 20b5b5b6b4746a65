/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody who sits at a job's terminal and the job's supervisor say to each other, on the
 * SOCK_SEQPACKET socket j/<id>/terminal, which is there while a job with a terminal runs and
 * belongs to the job's user. A packet is a kind and what follows it. Pure, but for making the
 * sockets.
 */
#ifndef SLUICE_JOB_ATTACH_H
#define SLUICE_JOB_ATTACH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum attach_limits {
	ATTACH_DATA_MAX = 4096,
	ATTACH_PACKET_MAX = ATTACH_DATA_MAX + 1,
};

enum attach_kind {
	/* To the supervisor: what is typed. From it: what the terminal shows; a new visitor gets
	 * the end of what it has shown first. */
	ATTACH_DATA = 'd',
	/* To the supervisor: how large the visitor's terminal is; the last one's counts. */
	ATTACH_SIZE = 's',
};

struct attach_message {
	enum attach_kind kind;
	const char *data; /* of ATTACH_DATA; borrowed: within the packet */
	size_t length;
	uint16_t rows, columns; /* of ATTACH_SIZE */
};

/* Returns the packet's length. At most ATTACH_DATA_MAX of data. */
size_t attach_format(const struct attach_message *message, char out[ATTACH_PACKET_MAX]);
/* -EBADMSG: not one of ours. Takes anything. */
int attach_parse(const void *packet, size_t length, struct attach_message *out, struct err *err);

/* Listens on DIR/terminal, which belongs to that user; non-blocking, O_CLOEXEC. */
int attach_listen(int job_fd, uid_t uid, gid_t gid, struct err *err);
/* Removes the socket that a dead supervisor has left: the caller has the job's lock. */
void attach_remove(int job_fd);
/* -ENOENT: that job has no terminal; -ECONNREFUSED: its supervisor is gone; -EACCES. */
int attach_connect(int job_fd, struct err *err);

#endif
