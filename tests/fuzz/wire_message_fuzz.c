/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What arrives on the agent's socket behind HTTP/2: frames in pieces of any size, and in them
 * messages of every type that proto/sluice.proto has. The first byte chooses the type, the second
 * the size of the pieces, the third how much memory the message may take.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/text.h"
#include "sluice.pb-c.h"
#include "wire/arena.h"
#include "wire/message.h"
#include "wire/status.h"

enum { FUZZ_FRAME_MAX = 1 << 16, FUZZ_TYPES_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCServiceDescriptor *const services[] = {
    &sluice__v1__queue__descriptor,
    &sluice__v1__node__descriptor,
};

struct types {
	const ProtobufCMessageDescriptor *type[FUZZ_TYPES_MAX];
	size_t count;
};

static void types_add(struct types *types, const ProtobufCMessageDescriptor *type)
{
	for (size_t i = 0; i < types->count; i++) {
		if (types->type[i] == type)
			return;
	}
	if (types->count == FUZZ_TYPES_MAX)
		abort();
	types->type[types->count++] = type;
}

/* Every message that a method takes or gives, and those within them. */
static void types_collect(struct types *types)
{
	for (size_t i = 0; i < array_length(services); i++) {
		for (unsigned m = 0; m < services[i]->n_methods; m++) {
			types_add(types, services[i]->methods[m].input);
			types_add(types, services[i]->methods[m].output);
		}
	}
	for (size_t i = 0; i < types->count; i++) {
		for (unsigned f = 0; f < types->type[i]->n_fields; f++) {
			const ProtobufCFieldDescriptor *field = &types->type[i]->fields[f];
			if (field->type == PROTOBUF_C_TYPE_MESSAGE)
				types_add(types, field->descriptor);
		}
	}
}

static void see_text(const char *text)
{
	size_t length = strlen(text), size;
	for (size_t at = 0; at < length; at += size) {
		if (text_decode(text + at, length - at, &size) == TEXT_INVALID)
			abort();
	}
}

/* All that was decoded is there: text is UTF-8, bytes can be read. */
static void see_message(const ProtobufCMessage *message, unsigned depth)
{
	if (depth > WIRE_DEPTH_MAX)
		abort();
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		const char *base = (const char *)message;
		const void *member = base + field->offset;
		size_t count = 1;
		bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
		if (repeated) {
			memcpy(&count, base + field->quantifier_offset, sizeof(count));
			if (count > 0)
				memcpy(&member, base + field->offset, sizeof(member));
		}
		for (size_t n = 0; n < count; n++) {
			if (field->type == PROTOBUF_C_TYPE_STRING) {
				see_text(((char *const *)member)[n]);
			} else if (field->type == PROTOBUF_C_TYPE_BYTES) {
				const ProtobufCBinaryData *bytes =
				    &((const ProtobufCBinaryData *)member)[n];
				unsigned char sum = 0;
				for (size_t at = 0; at < bytes->len; at++)
					sum ^= bytes->data[at];
				if (sum == 255 && bytes->len == 0)
					abort(); /* so that the reads are not left out */
			} else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
				const ProtobufCMessage *inner =
				    ((ProtobufCMessage *const *)member)[n];
				if (inner)
					see_message(inner, depth + 1);
			}
		}
	}
}

static void decode(const ProtobufCMessageDescriptor *type, const void *data, size_t length,
		   size_t max)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, max);
	ProtobufCMessage *message = NULL;
	int rc = wire_message_decode(type, data, length, &arena, &message, NULL);
	if (arena.held > max)
		abort();
	if (rc < 0)
		return;
	see_message(message, 0);

	/* What was taken can be given, and taken again. */
	_cleanup_buf_ struct buf out;
	buf_init(&out, SIZE_MAX / 2);
	if (wire_message_encode(message, &out, NULL) < 0)
		abort();
	if (wire_message_check(type, out.data + WIRE_FRAME_HEADER, out.length - WIRE_FRAME_HEADER,
			       NULL) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct types types = {.count = 0};
	types_collect(&types);
	if (size < 3)
		return 0;
	const ProtobufCMessageDescriptor *type = types.type[data[0] % types.count];
	size_t step = (size_t)data[1] + 1, max = (size_t)data[2] << 10;
	data += 3;
	size -= 3;
	decode(type, data, size, max);

	_cleanup_buf_ struct buf body;
	buf_init(&body, FUZZ_FRAME_MAX);
	struct wire_frames frames;
	wire_frames_init(&frames, FUZZ_FRAME_MAX, &body);
	for (size_t at = 0; at < size;) {
		size_t piece = size - at < step ? size - at : step;
		bool whole;
		ssize_t taken = wire_frames_feed(&frames, data + at, piece, &whole, NULL);
		if (taken < 0)
			break;
		if (taken == 0 || (size_t)taken > piece || body.length > FUZZ_FRAME_MAX)
			abort();
		at += (size_t)taken;
		if (whole)
			decode(type, body.data, body.length, max);
	}

	char plain[WIRE_MESSAGE_MAX], encoded[WIRE_MESSAGE_ENCODED_MAX], again[WIRE_MESSAGE_MAX];
	size_t length = wire_status_decode((const char *)data, size, plain);
	see_text(plain);
	size_t encoded_length = wire_status_encode(plain, encoded);
	if (wire_status_decode(encoded, encoded_length, again) != length ||
	    strcmp(plain, again) != 0)
		abort();
	return 0;
}
