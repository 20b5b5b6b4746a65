/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/message.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/text.h"
#include "wire/arena.h"

enum message_wire_type {
	MESSAGE_VARINT = 0,
	MESSAGE_64BIT = 1,
	MESSAGE_LENGTH = 2,
	MESSAGE_32BIT = 5,
};

enum message_limits {
	MESSAGE_TAG_BYTES = 5, /* protobuf-c reads no longer tags and lengths */
	MESSAGE_VARINT_BYTES = 10,
	MESSAGE_FIELD_MAX = (1 << 29) - 1,
	MESSAGE_PATH_MAX = 256,
};

/* A message that is being looked at, and those around it. */
struct scan_level {
	const ProtobufCMessageDescriptor *type;
	const ProtobufCFieldDescriptor *field; /* of the level outside, that this one is */
	const uint8_t *end;
	unsigned next; /* place of the field that is most likely to come */
};

struct message_scan {
	struct scan_level level[WIRE_DEPTH_MAX + 1];
	size_t depth; /* of the level in use */
	const uint8_t *at, *start;
	struct err *err;
};

/* "spec.name of sluice.v1.SubmitRequest, at byte 12". */
static int scan_refuse(const struct message_scan *scan, const ProtobufCFieldDescriptor *field,
		       const char *what)
{
	char path[MESSAGE_PATH_MAX];
	struct buf text;

	buf_init(&text, sizeof(path) - 1);
	int rc = 0;
	for (size_t i = 1; i <= scan->depth && rc == 0; i++)
		rc = buf_printf(&text, "%s.", scan->level[i].field->name);

	if (field && rc == 0)
		rc = buf_add_text(&text, field->name);
	else if (text.length > 0)
		text.data[text.length - 1] = '\0';

	(void)rc; /* a path that is cut is good enough */
	memcpy(path, buf_text(&text), strlen(buf_text(&text)) + 1);
	buf_done(&text);

	size_t offset = (size_t)(scan->at - scan->start);
	const char *type = scan->level[0].type->name;

	if (path[0] == '\0')
		return err_set(scan->err, -EBADMSG, "message '%s', byte %zu: %s", type, offset,
			       what);

	return err_set(scan->err, -EBADMSG, "message '%s', field '%s', byte %zu: %s", type, path,
		       offset, what);
}

/* Reads a number of at most `bytes` bytes; false when it does not end before `end`. */
static bool scan_varint(struct message_scan *scan, const uint8_t *end, unsigned bytes,
			uint64_t *out)
{
	uint64_t value = 0;
	const uint8_t *at = scan->at;

	for (unsigned i = 0; i < bytes && at < end; i++) {
		uint8_t byte = *at++;
		value |= (uint64_t)(byte & 0x7f) << (7 * i);

		if (!(byte & 0x80)) {
			scan->at = at;
			*out = value;
			return true;
		}
	}

	return false;
}

/* Fields stand in the order of their numbers, and mostly come so. NULL: not one of ours. */
static const ProtobufCFieldDescriptor *scan_field(struct scan_level *level, uint64_t number)
{
	const ProtobufCMessageDescriptor *type = level->type;
	for (unsigned i = level->next; i < type->n_fields && type->fields[i].id <= number; i++) {
		if (type->fields[i].id == number) {
			level->next = i;
			return &type->fields[i];
		}
	}

	unsigned low = 0, high = type->n_fields;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;
		if (type->fields[middle].id == number) {
			level->next = middle;
			return &type->fields[middle];
		}

		if (type->fields[middle].id < number)
			low = middle + 1;
		else
			high = middle;
	}

	return NULL;
}

static int scan_string(struct message_scan *scan, const ProtobufCFieldDescriptor *field,
		       size_t length)
{
	const char *text = (const char *)scan->at;
	size_t size;

	for (size_t at = text_plain(text, length); at < length; at += size) {
		uint32_t c = text_decode(text + at, length - at, &size);

		scan->at = (const uint8_t *)text + at; /* for the message */
		if (c == TEXT_INVALID)
			return scan_refuse(scan, field, "the text is not UTF-8");
		if (c == 0)
			return scan_refuse(scan, field, "the text holds a NUL");
	}

	scan->at = (const uint8_t *)text + length;
	return 0;
}

/* What has a length: text, bytes, numbers in a row, or a message, which becomes the level in use.
 */
static int scan_counted(struct message_scan *scan, const ProtobufCFieldDescriptor *field)
{
	const uint8_t *end = scan->level[scan->depth].end;
	uint64_t length;

	if (!scan_varint(scan, end, MESSAGE_TAG_BYTES, &length))
		return scan_refuse(scan, field, "the length is cut or no number");
	if (length > (uint64_t)(end - scan->at))
		return scan_refuse(scan, field, "longer than what is around it");
	if (field && field->type == PROTOBUF_C_TYPE_STRING)
		return scan_string(scan, field, (size_t)length);
	if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE) {
		scan->at += length;
		return 0;
	}

	if (scan->depth == WIRE_DEPTH_MAX)
		return scan_refuse(scan, field, "messages are nested too deeply");

	scan->level[++scan->depth] = (struct scan_level){
	    .type = field->descriptor, .field = field, .end = scan->at + length};
	return 0;
}

static int scan_skip(struct message_scan *scan, const ProtobufCFieldDescriptor *field, size_t bytes)
{
	if (bytes > (size_t)(scan->level[scan->depth].end - scan->at))
		return scan_refuse(scan, field, "the value is cut");
	scan->at += bytes;
	return 0;
}

static int scan_one(struct message_scan *scan)
{
	struct scan_level *level = &scan->level[scan->depth];
	uint64_t tag, ignored;

	if (!scan_varint(scan, level->end, MESSAGE_TAG_BYTES, &tag) || tag >> 3 == 0 ||
	    tag >> 3 > MESSAGE_FIELD_MAX)
		return scan_refuse(scan, NULL, "no field begins here");

	const ProtobufCFieldDescriptor *field = scan_field(level, tag >> 3);

	switch ((enum message_wire_type)(tag & 7)) {
	case MESSAGE_VARINT:
		if (!scan_varint(scan, level->end, MESSAGE_VARINT_BYTES, &ignored))
			return scan_refuse(scan, field, "the number is cut or too long");

		return 0;
	case MESSAGE_64BIT:
		return scan_skip(scan, field, 8);
	case MESSAGE_32BIT:
		return scan_skip(scan, field, 4);
	case MESSAGE_LENGTH:
		return scan_counted(scan, field);
	}

	return scan_refuse(scan, field, "unknown wire type");
}

int wire_message_check(const ProtobufCMessageDescriptor *type, const void *data, size_t length,
		       struct err *err)
{
	static const uint8_t nothing[1];
	const uint8_t *start = length > 0 ? data : nothing;
	struct message_scan scan = {.at = start, .start = start, .err = err};

	scan.level[0] = (struct scan_level){.type = type, .end = start + length};
	for (;;) {
		while (scan.at == scan.level[scan.depth].end) {
			if (scan.depth == 0)
				return 0;
			scan.depth--;
		}

		int rc = scan_one(&scan);
		if (rc < 0)
			return rc;
	}
}

int wire_message_decode(const ProtobufCMessageDescriptor *type, const void *data, size_t length,
			struct arena *arena, ProtobufCMessage **out, struct err *err)
{
	int rc = wire_message_check(type, data, length, err);
	if (rc < 0)
		return rc;

	arena->exhausted = false;
	ProtobufCMessage *message =
	    protobuf_c_message_unpack(type, arena_allocator(arena), length, data);
	if (message) {
		*out = message;
		return 0;
	}

	if (arena->exhausted)
		return err_set(err, -ENOMEM,
			       "message '%s' of %zu bytes needs more than the %zu bytes of memory "
			       "that it may take",
			       type->name, length, arena->max);

	return err_set(err, -EBADMSG, "message '%s' of %zu bytes cannot be decoded", type->name,
		       length);
}

/* Bytes of what is passed on as it is; it stands behind all that is known. */
static size_t message_unknown_bytes(const ProtobufCMessage *message)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < message->n_unknown_fields; i++) {
		uint64_t tag = (uint64_t)message->unknown_fields[i].tag << 3;
		do {
			bytes++;
			tag >>= 7;
		} while (tag > 0);
		bytes += message->unknown_fields[i].len;
	}

	return bytes;
}

int wire_message_encode(const ProtobufCMessage *message, struct buf *out, struct err *err)
{
	const char *name = message->descriptor->name;
	size_t size = protobuf_c_message_get_packed_size(message), whole;
	if (size > UINT32_MAX || !size_add(size, WIRE_FRAME_HEADER, &whole))
		return err_set(err, -ENOSPC, "message '%s' is too large for a frame: %zu bytes",
			       name, size);

	int rc = buf_reserve(out, whole);
	if (rc == -ENOSPC)
		return err_set(err, rc, "message '%s' of %zu bytes does not fit into %zu", name,
			       size, out->max - out->length);
	if (rc < 0)
		return err_set(err, rc, "no memory for message '%s' of %zu bytes", name, size);

	uint8_t *at = (uint8_t *)out->data + out->length;
	at[0] = 0; /* not compressed */
	for (unsigned i = 0; i < 4; i++)
		at[1 + i] = (uint8_t)(size >> (24 - 8 * i));

	(void)protobuf_c_message_pack(message, at + WIRE_FRAME_HEADER); /* writes `size` bytes */
	size_t known = size - message_unknown_bytes(message);
	if (wire_message_check(message->descriptor, at + WIRE_FRAME_HEADER, known, err) < 0) {
		out->data[out->length] = '\0';
		if (err)
			err->code = -EILSEQ;
		return -EILSEQ;
	}

	out->length += whole;
	out->data[out->length] = '\0';
	return 0;
}

void wire_frames_init(struct wire_frames *frames, size_t max, struct buf *body)
{
	*frames = (struct wire_frames){.max = max, .body = body};
	buf_clear(body);
}

static bool frames_hold_whole(const struct wire_frames *frames)
{
	return frames->header_length == WIRE_FRAME_HEADER &&
	       frames->body->length == frames->body_length;
}

static int frames_read_header(struct wire_frames *frames, struct err *err)
{
	const uint8_t *header = frames->header;
	size_t length = 0;
	for (unsigned i = 1; i < WIRE_FRAME_HEADER; i++)
		length = length << 8 | header[i];

	if (header[0] > 1)
		return err_set(err, -EBADMSG, "a gRPC frame cannot begin with byte 0x%02x",
			       header[0]);
	if (length > frames->max)
		return err_set(err, -EMSGSIZE, "a message of %zu bytes; at most %zu are taken",
			       length, frames->max);
	if (header[0] == 1)
		return err_set(err, -EOPNOTSUPP,
			       "the message is compressed; send it with grpc-encoding identity");

	frames->body_length = length;
	return 0;
}

ssize_t wire_frames_feed(struct wire_frames *frames, const uint8_t *data, size_t length,
			 bool *out_whole, struct err *err)
{
	size_t taken = 0;

	*out_whole = false;
	if (frames_hold_whole(frames)) {
		frames->header_length = 0;
		frames->body_length = 0;
		buf_clear(frames->body);
	}

	if (frames->header_length < WIRE_FRAME_HEADER) {
		while (taken < length && frames->header_length < WIRE_FRAME_HEADER)
			frames->header[frames->header_length++] = data[taken++];

		if (frames->header_length < WIRE_FRAME_HEADER)
			return (ssize_t)taken;

		int rc = frames_read_header(frames, err);
		if (rc < 0) {
			frames->header_length = 0; /* the stream is over; say it only once */
			return rc;
		}
	}

	size_t part = frames->body_length - frames->body->length;
	if (part > length - taken)
		part = length - taken;

	int rc = buf_add(frames->body, data + taken, part);
	if (rc < 0)
		return err_set(err, -ENOMEM, "no memory for a message of %zu bytes",
			       frames->body_length);

	*out_whole = frames_hold_whole(frames);
	return (ssize_t)(taken + part);
}

bool wire_frames_are_cut(const struct wire_frames *frames)
{
	return frames->header_length > 0 && !frames_hold_whole(frames);
}
