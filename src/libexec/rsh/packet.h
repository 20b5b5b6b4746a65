/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sluice-rsh and the supervisor of a job say to each other, on a SOCK_SEQPACKET socket with an
 * abstract name: one packet there, with three descriptors (stdin, stdout, stderr of what is to be
 * run), and one packet back when that has ended. Pure, and without a C library.
 *
 * A packet is four little endian numbers of 32 bits (magic, kind, value, 0) and texts, each with
 * its NUL: of a request the worker and the command, of an answer the reason of a refusal. Of
 * PACKET_ENTERED: the variables to be set, "NAME=VALUE".
 */
#ifndef SLUICE_LIBEXEC_RSH_PACKET_H
#define SLUICE_LIBEXEC_RSH_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACKET_MAGIC UINT32_C(0x31485352) /* "RSH1" */

enum packet_limits {
	PACKET_HEAD = 16,
	PACKET_HOST_MAX = 255,
	PACKET_TEXT_MAX = 128 << 10, /* of a command, with its NUL */
	PACKET_REASON_MAX = 512,
	PACKET_FDS = 3,
	PACKET_MAX = PACKET_HEAD + PACKET_HOST_MAX + 1 + PACKET_TEXT_MAX,
	PACKET_ANSWER_MAX = 64 << 10,
	PACKET_NAME_MAX = 100, /* of the socket, without the first NUL */
};

enum packet_kind {
	/* To the supervisor. */
	PACKET_RUN = 1, /* host, command; the descriptors */
	PACKET_RANKS,	/* the descriptors: of rank 0; the command once in each worker */
	PACKET_ENTER,	/* value: rank on this machine; the caller becomes one of a worker's */
	/* From it. */
	PACKET_ENDED = 64, /* value: exit code, 128 + n for a signal */
	PACKET_REFUSED,	   /* text: why nothing was started */
	PACKET_ENTERED,	   /* texts: variables */
};

struct packet {
	uint32_t kind, value;
	/* Borrowed of the bytes; "" where there is none. */
	const char *host;   /* of PACKET_RUN alone */
	const char *text;   /* command, or reason; of PACKET_ENTERED the first variable */
	size_t text_length; /* of PACKET_ENTERED: of all, with their NULs */
};

/* Writes it to `out`. 0: it does not fit into `size` bytes. */
size_t packet_format(const struct packet *packet, char *out, size_t size);
/* False: it is none of ours. Takes anything. */
bool packet_parse(const char *bytes, size_t length, struct packet *out);

#endif
