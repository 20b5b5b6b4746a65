/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer made by hand: it writes any HTTP/2 frame, right or wrong, and tells what it is sent as
 * text, one line a frame:
 *
 *     SETTINGS | SETTINGS ack | PING ack | WINDOW 0 | GOAWAY 0 code 1 | RST 3 code 8
 *     HEADERS 1 :status=200 content-type=application/grpc grpc-status=0 end
 *     DATA 1 15
 */
#ifndef TESTS_UNIT_WIRE_RAW_H
#define TESTS_UNIT_WIRE_RAW_H

#include <nghttp2/nghttp2.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct raw {
	struct buf out;	  /* to be sent */
	struct buf in;	  /* what came and is no whole frame yet */
	struct buf trace; /* what came, as text */
	struct buf body;  /* contents of all DATA frames that came */
	nghttp2_hd_inflater *inflater;
};

struct raw_field {
	const char *name, *value;
};

enum raw_flags { RAW_END_STREAM = 1, RAW_ACK = 1, RAW_END_HEADERS = 4 };

void raw_init(struct raw *raw);
void raw_done(struct raw *raw);

/* Magic and empty SETTINGS. */
void raw_preface(struct raw *raw);
void raw_frame(struct raw *raw, uint8_t type, uint8_t flags, int32_t id, const void *payload,
	       size_t length);
/* Ends with a field without a name. */
void raw_headers(struct raw *raw, uint8_t flags, int32_t id, const struct raw_field *fields);
/* The usual headers of a call. */
void raw_call(struct raw *raw, int32_t id, const char *path);
/* A DATA frame with a message in its gRPC frame. */
void raw_message(struct raw *raw, uint8_t flags, int32_t id, const ProtobufCMessage *message);
void raw_data(struct raw *raw, uint8_t flags, int32_t id, const void *data, size_t length);
void raw_reset(struct raw *raw, int32_t id, uint32_t code);

/* Takes what was sent to it. */
void raw_read(struct raw *raw, const void *data, size_t length);
bool raw_saw(const struct raw *raw, const char *text);
/* How often the text stands in the trace. */
size_t raw_count(const struct raw *raw, const char *text);

#endif
