/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What agent and supervisor say to each other, on the SOCK_SEQPACKET socket j/<id>/control. The
 * supervisor listens from before its claim to its end, so that a new agent can take over; the end
 * of the connection tells that it is gone. Nothing here is needed for correctness: what is true
 * lies in the job's files. It is for speed, signals and progress. Pure.
 *
 * A message is one packet: version, kind, and two values, little endian, and a text. An agent
 * understands the two versions before its own.
 */
#ifndef SLUICE_JOB_CONTROL_H
#define SLUICE_JOB_CONTROL_H

#include <stddef.h>
#include <stdint.h>

struct err;

#define CONTROL_GRACE_OWN UINT64_MAX /* of CONTROL_CANCEL: the spec's grace_ns */

enum control_limits {
	CONTROL_VERSION = 1,
	CONTROL_TEXT_MAX = 768,			    /* with its NUL */
	CONTROL_PACKET_MAX = 24 + CONTROL_TEXT_MAX, /* larger than any: a longer one shows */
	CONTROL_AGENTS_MAX = 4,			    /* connected to one supervisor at a time */
};

enum control_kind {
	/* From the supervisor. What is still true is repeated to each new connection, in order. */
	CONTROL_HELLO = 1, /* value: pid of the supervisor; extra: enum control_can; text: isolation
			      reached, and after ": " why not more */
	CONTROL_TOKENS_BUSY, /* somebody else has a token: ends without a claim; text: which, who */
	CONTROL_CLAIMED,     /* text: cgroup */
	CONTROL_STARTED,     /* value: pid of the command; extra: CLOCK_REALTIME ns */
	CONTROL_ENDED,	     /* value: status as of waitpid(2) */
	CONTROL_LEFTOVERS,   /* value: processes that are left and have the grace time */
	CONTROL_STUCK,	     /* value: processes that do not die */
	CONTROL_RESULT,	     /* result.<n> is written; nothing of the job lives */
	CONTROL_NO_ROOM,     /* the result cannot be written; text: why; it tries again */
	CONTROL_USED,	     /* something was typed or shown at its terminal, not long ago */
	CONTROL_PORT,	     /* value: the TCP port of the loopback that the job has */
	/* To the supervisor. */
	CONTROL_SIGNAL = 64, /* value: to the command's process group */
	CONTROL_CANCEL, /* value: signal to everything, 0: SIGTERM; extra: grace in ns, then SIGKILL
			 */
	CONTROL_IDLE,	/* its GPUs have done nothing for too long: as at its deadline */
	CONTROL_LIMIT,	/* value: ns that all its attempts may run together, from now on; to those
			   alone that say CONTROL_CAN_LIMIT: others hang up */
};

/* Bits: what a supervisor understands beside what all do; one of an earlier release says 0. */
enum control_can { CONTROL_CAN_LIMIT = 1 << 0 };

struct control_message {
	uint32_t version, kind;
	int64_t value;
	uint64_t extra;
	char text[CONTROL_TEXT_MAX];
};

/* Returns the packet's length. */
size_t control_format(const struct control_message *message, char out[CONTROL_PACKET_MAX]);
/* -EBADMSG: not one of ours; -EPROTONOSUPPORT: a version we do not know. Takes anything. */
int control_parse(const void *packet, size_t length, struct control_message *out, struct err *err);

/* Removes the socket of a supervisor that is dead: the caller has the job's lock. */
void control_remove(int job_fd);
/* Listens on / connects to DIR/control, whatever the length of the path to it (by way of
 * /proc/self/fd). Non-blocking, O_CLOEXEC. */
int control_listen(int job_fd, struct err *err);
int control_connect(int job_fd, struct err *err);

#endif
