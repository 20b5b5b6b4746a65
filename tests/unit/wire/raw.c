/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/wire/raw.h"

#include <string.h>

#include "unit/unit.h"

enum { RAW_HEADER = 9, RAW_MAX = 64 << 20 };

void raw_init(struct raw *raw)
{
	*raw = (struct raw){.inflater = NULL};
	buf_init(&raw->out, RAW_MAX);
	buf_init(&raw->in, RAW_MAX);
	buf_init(&raw->trace, RAW_MAX);
	buf_init(&raw->body, RAW_MAX);
	assert_int_equal(nghttp2_hd_inflate_new(&raw->inflater), 0);
}

void raw_done(struct raw *raw)
{
	buf_done(&raw->out);
	buf_done(&raw->in);
	buf_done(&raw->trace);
	buf_done(&raw->body);
	nghttp2_hd_inflate_del(raw->inflater);
	raw->inflater = NULL;
}

static void raw_add(struct buf *buf, const void *data, size_t length)
{
	assert_int_equal(buf_add(buf, data, length), 0);
}

void raw_frame(struct raw *raw, uint8_t type, uint8_t flags, int32_t id, const void *payload,
	       size_t length)
{
	const uint8_t header[RAW_HEADER] = {
	    (uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length,	 type,	     flags,
	    (uint8_t)(id >> 24),     (uint8_t)(id >> 16),    (uint8_t)(id >> 8), (uint8_t)id};
	raw_add(&raw->out, header, sizeof(header));
	raw_add(&raw->out, payload, length);
}

void raw_preface(struct raw *raw)
{
	raw_add(&raw->out, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
	raw_frame(raw, NGHTTP2_SETTINGS, 0, 0, "", 0);
}

/* An integer of HPACK with a prefix of 7 bits. */
static void raw_add_length(struct buf *buf, size_t length)
{
	uint8_t byte = (uint8_t)(length < 127 ? length : 127);
	raw_add(buf, &byte, 1);
	if (length < 127)
		return;
	for (length -= 127; length >= 128; length >>= 7) {
		byte = (uint8_t)(length | 128);
		raw_add(buf, &byte, 1);
	}
	byte = (uint8_t)length;
	raw_add(buf, &byte, 1);
}

void raw_headers(struct raw *raw, uint8_t flags, int32_t id, const struct raw_field *fields)
{
	_cleanup_buf_ struct buf block;
	buf_init(&block, RAW_MAX);
	for (; fields->name; fields++) {
		raw_add(&block, "\0", 1); /* literal, not indexed, new name */
		raw_add_length(&block, strlen(fields->name));
		raw_add(&block, fields->name, strlen(fields->name));
		raw_add_length(&block, strlen(fields->value));
		raw_add(&block, fields->value, strlen(fields->value));
	}
	raw_frame(raw, NGHTTP2_HEADERS, flags, id, block.data, block.length);
}

void raw_call(struct raw *raw, int32_t id, const char *path)
{
	const struct raw_field fields[] = {
	    {":method", "POST"},
	    {":scheme", "http"},
	    {":path", path},
	    {":authority", "localhost"},
	    {"content-type", "application/grpc"},
	    {"te", "trailers"},
	    {NULL, NULL},
	};
	raw_headers(raw, RAW_END_HEADERS, id, fields);
}

void raw_data(struct raw *raw, uint8_t flags, int32_t id, const void *data, size_t length)
{
	raw_frame(raw, NGHTTP2_DATA, flags, id, data, length);
}

void raw_message(struct raw *raw, uint8_t flags, int32_t id, const ProtobufCMessage *message)
{
	uint8_t data[4096] = {0};
	size_t length = protobuf_c_message_get_packed_size(message);
	assert_true(length + 5 <= sizeof(data));
	data[3] = (uint8_t)(length >> 8);
	data[4] = (uint8_t)length;
	(void)protobuf_c_message_pack(message, data + 5);
	raw_data(raw, flags, id, data, length + 5);
}

void raw_reset(struct raw *raw, int32_t id, uint32_t code)
{
	const uint8_t payload[4] = {(uint8_t)(code >> 24), (uint8_t)(code >> 16),
				    (uint8_t)(code >> 8), (uint8_t)code};
	raw_frame(raw, NGHTTP2_RST_STREAM, 0, id, payload, sizeof(payload));
}

static uint32_t raw_number(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void raw_tell_headers(struct raw *raw, const uint8_t *payload, size_t length)
{
	for (;;) {
		nghttp2_nv field;
		int flags = 0;
		ssize_t taken =
		    nghttp2_hd_inflate_hd2(raw->inflater, &field, &flags, payload, length, 1);
		assert_true(taken >= 0);
		payload += taken;
		length -= (size_t)taken;
		if (flags & NGHTTP2_HD_INFLATE_EMIT)
			assert_int_equal(buf_printf(&raw->trace, " %s=%s", (char *)field.name,
						    (char *)field.value),
					 0);
		if (flags & NGHTTP2_HD_INFLATE_FINAL)
			break;
	}
	assert_int_equal(nghttp2_hd_inflate_end_headers(raw->inflater), 0);
}

static void raw_tell(struct raw *raw, uint8_t type, uint8_t flags, uint32_t id,
		     const uint8_t *payload, size_t length)
{
	struct buf *trace = &raw->trace;
	const char *ack = flags & RAW_ACK ? " ack" : "",
		   *end = flags & RAW_END_STREAM ? " end" : "";
	int rc = 0;
	switch (type) {
	case NGHTTP2_HEADERS:
		rc = buf_printf(trace, "HEADERS %u", id);
		raw_tell_headers(raw, payload, length);
		rc |= buf_printf(trace, "%s\n", end);
		break;
	case NGHTTP2_DATA:
		rc = buf_printf(trace, "DATA %u %zu%s\n", id, length, end);
		raw_add(&raw->body, payload, length);
		break;
	case NGHTTP2_RST_STREAM:
		rc = buf_printf(trace, "RST %u code %u\n", id, raw_number(payload));
		break;
	case NGHTTP2_GOAWAY:
		rc = buf_printf(trace, "GOAWAY %u code %u\n", raw_number(payload),
				raw_number(payload + 4));
		break;
	case NGHTTP2_SETTINGS:
		rc = buf_printf(trace, "SETTINGS%s\n", ack);
		break;
	case NGHTTP2_PING:
		rc = buf_printf(trace, "PING%s\n", ack);
		break;
	case NGHTTP2_WINDOW_UPDATE:
		rc = buf_printf(trace, "WINDOW %u\n", id);
		break;
	default:
		rc = buf_printf(trace, "FRAME %u\n", type);
	}
	assert_int_equal(rc, 0);
}

void raw_read(struct raw *raw, const void *data, size_t length)
{
	raw_add(&raw->in, data, length);
	for (;;) {
		const uint8_t *at = (const uint8_t *)raw->in.data;
		if (raw->in.length >= NGHTTP2_CLIENT_MAGIC_LEN &&
		    memcmp(at, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN) == 0) {
			buf_consume(&raw->in, NGHTTP2_CLIENT_MAGIC_LEN);
			continue;
		}
		if (raw->in.length < RAW_HEADER)
			return;
		size_t size = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
		if (raw->in.length < RAW_HEADER + size)
			return;
		raw_tell(raw, at[3], at[4], raw_number(at + 5), at + RAW_HEADER, size);
		buf_consume(&raw->in, RAW_HEADER + size);
	}
}

bool raw_saw(const struct raw *raw, const char *text)
{
	return strstr(buf_text(&raw->trace), text) != NULL;
}

size_t raw_count(const struct raw *raw, const char *text)
{
	size_t count = 0;
	for (const char *at = buf_text(&raw->trace); (at = strstr(at, text)) != NULL; at++)
		count++;
	return count;
}
