/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages and their frames: five bytes (compressed, length) and a protobuf. Decoding goes into an
 * arena and checks what protobuf-c does not: that every string is UTF-8 without NUL. Pure.
 */
#ifndef SLUICE_WIRE_MESSAGE_H
#define SLUICE_WIRE_MESSAGE_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct err;

enum wire_message_limits {
	WIRE_FRAME_HEADER = 5,
	WIRE_DEPTH_MAX = 32, /* messages within messages */
	WIRE_REQUEST_MAX = 4 << 20,
};

/*
 * Decodes one message. Borrowed by the arena's life. -EBADMSG: garbage, or a string that is not
 * UTF-8 (the error names the field); -ENOMEM: beyond the arena's cap, too.
 */
int wire_message_decode(const ProtobufCMessageDescriptor *type, const void *data, size_t length,
			struct arena *arena, ProtobufCMessage **out, struct err *err);

/* Appends frame header and message to `out`. -ENOSPC beyond its cap, -ENOMEM. */
int wire_message_encode(const ProtobufCMessage *message, struct buf *out, struct err *err);

/* Reads frames out of bytes as they arrive. */
struct wire_frames {
	size_t max; /* bytes of a message */
	uint8_t header[WIRE_FRAME_HEADER];
	size_t header_length;
	struct buf *body; /* borrowed; its cap is at least max */
	size_t body_length;
};
void wire_frames_init(struct wire_frames *frames, size_t max, struct buf *body);
/*
 * Takes bytes; returns how many of them, and sets *out_whole when `body` holds a whole message (it
 * is cleared with the next call). -EMSGSIZE: a message over the cap; -EOPNOTSUPP: compressed;
 * -ENOMEM. For the statuses that this means see design trap 7: too large RESOURCE_EXHAUSTED,
 * compressed without a known encoding UNIMPLEMENTED (INTERNAL if grpc-encoding was identity).
 */
int wire_frames_feed(struct wire_frames *frames, const uint8_t *data, size_t length, int *out_whole,
		     struct err *err);

#endif
