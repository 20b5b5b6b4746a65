/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages and their frames: five bytes (compressed, length) and a protobuf. Decoding goes into an
 * arena and checks what protobuf-c does not: that every string is UTF-8 without NUL. Pure.
 */
#ifndef SLUICE_WIRE_MESSAGE_H
#define SLUICE_WIRE_MESSAGE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct arena;
struct buf;
struct err;

enum wire_message_limits {
	WIRE_FRAME_HEADER = 5,
	WIRE_DEPTH_MAX = 32, /* messages within messages */
	WIRE_REQUEST_MAX = 4 << 20,
};

/*
 * Looks at the bytes of a message without decoding them, and without recursion: whole fields, known
 * wire types, no more than WIRE_DEPTH_MAX messages within each other (protobuf-c recurses and has
 * no limit of its own), every string UTF-8 without NUL. 0 or -EBADMSG; the error names the field.
 * https://protobuf.dev/programming-guides/encoding/
 */
int wire_message_check(const ProtobufCMessageDescriptor *type, const void *data, size_t length,
		       struct err *err);
/*
 * Checks and decodes one message. Borrowed: valid as long as the arena. -EBADMSG: garbage, or a
 * string that is not UTF-8 (the error names the field); -ENOMEM: also beyond the arena's cap.
 */
int wire_message_decode(const ProtobufCMessageDescriptor *type, const void *data, size_t length,
			struct arena *arena, ProtobufCMessage **out, struct err *err);

/*
 * Appends frame header and message to `out`. -ENOSPC beyond its cap, -ENOMEM; -EILSEQ for a string
 * that is not UTF-8, which the other side would refuse (arena_copy_valid() makes one). Fields that
 * protobuf-c does not know are passed on as they are: whoever put them there has made them or
 * checked them. On failure `out` is as it was.
 */
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
 * is cleared with the next call). `body` grows with what arrives, not with what the header
 * announces. -EMSGSIZE: a message over the cap; -EOPNOTSUPP: compressed; -EBADMSG: no gRPC frame;
 * -ENOMEM. For the statuses that this means see design trap 7: too large RESOURCE_EXHAUSTED,
 * compressed without a known encoding UNIMPLEMENTED (INTERNAL if grpc-encoding was identity).
 */
ssize_t wire_frames_feed(struct wire_frames *frames, const uint8_t *data, size_t length,
			 bool *out_whole, struct err *err);
/* Bytes of a message that is not whole have arrived: where the stream ends, it was cut. */
bool wire_frames_are_cut(const struct wire_frames *frames);

#endif
