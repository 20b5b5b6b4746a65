/* SPDX-License-Identifier: Apache-2.0 */
/* Header fields of a call, in both directions. nghttp2's own check of them is off (see
 * session_init()), so what gRPC needs of them is checked here. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/err.h"
#include "base/text.h"
#include "wire/server.h"
#include "wire/session_internal.h"

enum session_header_limits {
	SESSION_FIELD_OVERHEAD = 32, /* of a field in the size of a header list, RFC 9113 6.5.2 */
	SESSION_TIMEOUT_DIGITS = 8,  /* of grpc-timeout */
	SESSION_HTTP_OK = 200,
	SESSION_HTTP_METHOD = 405,
	SESSION_HTTP_TYPE = 415,
};

#define SESSION_TYPE "application/grpc"

void session_headers_init(struct session_headers *headers)
{
	*headers = (struct session_headers){.timeout_ns = UINT64_MAX, .grpc_status = -1};
}

static bool session_equal(const uint8_t *bytes, size_t length, const char *text)
{
	return length == strlen(text) && memcmp(bytes, text, length) == 0;
}

/* "application/grpc", alone or with "+proto", and parameters. */
static bool session_is_grpc_type(const uint8_t *value, size_t length)
{
	size_t prefix = strlen(SESSION_TYPE), proto = strlen("+proto");
	if (length < prefix || memcmp(value, SESSION_TYPE, prefix) != 0)
		return false;

	value += prefix;
	length -= prefix;
	if (length >= proto && memcmp(value, "+proto", proto) == 0) {
		value += proto;
		length -= proto;
	}

	return length == 0 || *value == ';';
}

/* 1 to 8 digits and a unit. */
static bool session_read_timeout(const uint8_t *value, size_t length, uint64_t *out_ns)
{
	static const struct {
		char letter;
		uint64_t ns;
	} units[] = {{'H', 3600 * CLOCK_NS_PER_S}, {'M', 60 * CLOCK_NS_PER_S},
		     {'S', CLOCK_NS_PER_S},	   {'m', CLOCK_NS_PER_MS},
		     {'u', CLOCK_NS_PER_US},	   {'n', 1}};
	uint64_t count;
	if (length < 2 || length > SESSION_TIMEOUT_DIGITS + 1 ||
	    parse_u64_span((const char *)value, length - 1, 0, UINT32_MAX, &count) < 0)
		return false;

	for (size_t i = 0; i < array_length(units); i++) {
		if (value[length - 1] != (uint8_t)units[i].letter)
			continue;
		if (__builtin_mul_overflow(count, units[i].ns, out_ns))
			*out_ns = UINT64_MAX - 1; /* hundreds of years; only none is longer */
		return true;
	}

	return false;
}

static void session_see(struct session_headers *headers, enum session_seen what)
{
	if (headers->seen & what)
		headers->malformed = true; /* twice */
	headers->seen |= what;
}

static const struct wire_method *session_find_method(const struct session *session,
						     const uint8_t *path, size_t length)
{
	for (const struct wire_method *method = session->methods; method->path; method++)
		if (session_equal(path, length, method->path))
			return method;
	return NULL;
}

static void session_headers_add_request(struct session_stream *stream, const uint8_t *name,
					size_t name_length, const uint8_t *value, size_t length)
{
	struct session_headers *headers = &stream->headers;

	if (session_equal(name, name_length, ":method")) {
		session_see(headers, SESSION_SEEN_METHOD);
		headers->is_post = session_equal(value, length, "POST");
	} else if (session_equal(name, name_length, ":path")) {
		session_see(headers, SESSION_SEEN_PATH);
		if (!stream->method) {
			stream->method = session_find_method(stream->session, value, length);
		}
	} else if (session_equal(name, name_length, "te")) {
		headers->malformed |= !session_equal(value, length, "trailers");
	} else if (session_equal(name, name_length, "grpc-timeout")) {
		headers->bad_timeout |= !session_read_timeout(value, length, &headers->timeout_ns);
	}
}

/* Keeps what came as grpc-message, as far as it can have meaning. */
static void session_keep_text(struct session_stream *stream, const uint8_t *value, size_t length)
{
	free(stream->text);
	stream->text =
	    text_copy(value, length < WIRE_MESSAGE_ENCODED_MAX ? length : WIRE_MESSAGE_ENCODED_MAX);
	/* without memory the status is told without its text */
}

static void session_headers_add_reply(struct session_stream *stream, const uint8_t *name,
				      size_t name_length, const uint8_t *value, size_t length)
{
	struct session_headers *headers = &stream->headers;
	uint64_t number;

	if (session_equal(name, name_length, ":status")) {
		if (parse_u64_span((const char *)value, length, 100, 599, &number) < 0)
			headers->malformed = true;
		else
			headers->http_status = (unsigned)number;
	} else if (session_equal(name, name_length, "grpc-status")) {
		if (parse_u64_span((const char *)value, length, 0, WIRE_UNAUTHENTICATED, &number) <
		    0)
			number = WIRE_UNKNOWN;

		headers->grpc_status = (int)number;
	} else if (session_equal(name, name_length, "grpc-message")) {
		session_keep_text(stream, value, length);
	}
}

void session_headers_add(struct session_stream *stream, const uint8_t *name, size_t name_length,
			 const uint8_t *value, size_t value_length)
{
	struct session_headers *headers = &stream->headers;

	if (stream->over || (stream->has_headers && stream->session->role == SESSION_SERVER))
		return; /* trailers of a request mean nothing */

	headers->bytes += name_length + value_length + SESSION_FIELD_OVERHEAD;
	if (headers->bytes > WIRE_HEADERS_MAX)
		return;

	if (session_equal(name, name_length, "content-type")) {
		session_see(headers, SESSION_SEEN_TYPE);
		headers->is_grpc = session_is_grpc_type(value, value_length);
	} else if (session_equal(name, name_length, "grpc-encoding")) {
		headers->other_encoding = !session_equal(value, value_length, "identity");
	} else if (stream->session->role == SESSION_SERVER) {
		session_headers_add_request(stream, name, name_length, value, value_length);
	} else {
		session_headers_add_reply(stream, name, name_length, value, value_length);
	}
}

/* The call can begin: its memory, its frames, and the user's word. */
static void session_headers_open(struct session_stream *stream)
{
	struct session *session = stream->session;
	size_t max = stream->method->request_max ? stream->method->request_max : WIRE_REQUEST_MAX;
	size_t arena =
	    stream->method->arena_max ? stream->method->arena_max : WIRE_ARENA_FACTOR * max;
	struct err err = {0};

	if (session_charge(session, ACCOUNT_STREAMS, 1, &err) < 0) {
		session_stream_finish(stream, WIRE_RESOURCE_EXHAUSTED, err.text);
		return;
	}

	stream->counted = true;
	arena_init(&stream->arena, arena < WIRE_ARENA_MIN ? WIRE_ARENA_MIN : arena);
	arena_init(&stream->scratch, stream->arena.max);
	buf_init(&stream->body, max);
	wire_frames_init(&stream->frames, max, &stream->body);
	buf_init(&stream->output, WIRE_REQUEST_MAX + 2 * WIRE_STREAM_OUTPUT_MAX);
	stream->begun = true;
	if (session->events->open(stream, session->context) < 0)
		session_stream_finish(stream, WIRE_RESOURCE_EXHAUSTED, "out of memory");
}

static nghttp2_nv session_field(const char *name, const char *value, uint8_t flags)
{
	/* nghttp2 copies both; its structure only lacks the const. */
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
			    strlen(value), flags};
}

static int session_headers_send_http(struct session_stream *stream, unsigned http_status)
{
	char number[12];
	(void)snprintf(number, sizeof(number), "%u", http_status);
	nghttp2_nv field = session_field(":status", number, NGHTTP2_NV_FLAG_NONE);
	return nghttp2_submit_response(stream->session->h2, stream->id, &field, 1, NULL);
}

void session_headers_request(struct session_stream *stream)
{
	const struct session_headers *headers = &stream->headers;
	const unsigned needed = SESSION_SEEN_METHOD | SESSION_SEEN_PATH;

	stream->has_headers = true;
	bool too_large = headers->bytes > WIRE_HEADERS_MAX;
	if (headers->malformed || (!too_large && (headers->seen & needed) != needed)) {
		stream->over = true;
		session_reset(stream, NGHTTP2_PROTOCOL_ERROR);
	} else if (too_large) {
		session_stream_finish(stream, WIRE_RESOURCE_EXHAUSTED,
				      "the header fields are larger than 8 KiB");
	} else if (!headers->is_post || !headers->is_grpc) {
		stream->over = true;

		if (session_headers_send_http(stream, headers->is_post ? SESSION_HTTP_TYPE
								       : SESSION_HTTP_METHOD) != 0)
			session_reset(stream, NGHTTP2_INTERNAL_ERROR);
	} else if (!stream->method) {
		session_stream_finish(stream, WIRE_UNIMPLEMENTED, "no such method here");
	} else if (headers->bad_timeout) {
		session_stream_finish(stream, WIRE_INTERNAL, "grpc-timeout cannot be read");
	} else {
		session_headers_open(stream);
	}
}

/* https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md */
static enum wire_status session_status_of_http(unsigned http_status)
{
	switch (http_status) {
	case 400:
		return WIRE_INTERNAL;
	case 401:
		return WIRE_UNAUTHENTICATED;
	case 403:
		return WIRE_PERMISSION_DENIED;
	case 404:
		return WIRE_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return WIRE_UNAVAILABLE;
	default:
		return WIRE_UNKNOWN;
	}
}

void session_headers_reply(struct session_stream *stream, bool last)
{
	struct session_headers *headers = &stream->headers;
	char text[WIRE_MESSAGE_MAX];

	if (headers->bytes > WIRE_HEADERS_MAX) {
		session_stream_fail(stream, WIRE_RESOURCE_EXHAUSTED,
				    "the server's header fields are larger than 8 KiB");
		return;
	}

	if (headers->malformed) {
		session_stream_fail(stream, WIRE_INTERNAL, "the server's answer is no HTTP");
		return;
	}

	headers->bytes = headers->seen = 0; /* the next block counts for itself */
	if (stream->has_headers)
		return;
	if (headers->http_status >= 100 && headers->http_status < SESSION_HTTP_OK && !last)
		return; /* more is coming */

	if (headers->http_status != SESSION_HTTP_OK) {
		(void)snprintf(text, sizeof(text), "the server answered with HTTP status %u",
			       headers->http_status);
		session_stream_fail(stream, session_status_of_http(headers->http_status), text);
	} else if (!headers->is_grpc && headers->grpc_status < 0) {
		session_stream_fail(stream, WIRE_UNKNOWN, "the server does not speak gRPC");
	}

	stream->has_headers = true;
}

/* --- what is sent --- */

int session_headers_send_reply(struct session_stream *stream, const nghttp2_data_provider *data)
{
	nghttp2_nv fields[] = {
	    session_field(":status", "200", NGHTTP2_NV_FLAG_NONE),
	    session_field("content-type", SESSION_TYPE, NGHTTP2_NV_FLAG_NONE),
	};
	return nghttp2_submit_response(stream->session->h2, stream->id, fields,
				       array_length(fields), data);
}

/* grpc-status and grpc-message, which is in no table: it is hardly ever the same again. */
static size_t session_status_fields(const struct session_stream *stream, char number[12],
				    nghttp2_nv fields[2])
{
	(void)snprintf(number, 12, "%d", (int)stream->status);
	fields[0] = session_field("grpc-status", number, NGHTTP2_NV_FLAG_NONE);
	if (!stream->text)
		return 1;
	fields[1] = session_field("grpc-message", stream->text, NGHTTP2_NV_FLAG_NO_INDEX);
	return 2;
}

int session_headers_send_trailers(struct session_stream *stream)
{
	char number[12];
	nghttp2_nv fields[2];
	size_t count = session_status_fields(stream, number, fields);
	return nghttp2_submit_trailer(stream->session->h2, stream->id, fields, count);
}

int session_headers_send_status_only(struct session_stream *stream)
{
	char number[12];
	nghttp2_nv fields[4] = {
	    session_field(":status", "200", NGHTTP2_NV_FLAG_NONE),
	    session_field("content-type", SESSION_TYPE, NGHTTP2_NV_FLAG_NONE),
	};
	size_t count = 2 + session_status_fields(stream, number, fields + 2);
	return nghttp2_submit_response(stream->session->h2, stream->id, fields, count, NULL);
}

/* The largest unit in which it is exact enough: at most 8 digits, rounded up. */
static void session_write_timeout(uint64_t ns, char *out, size_t size)
{
	static const struct {
		char letter;
		uint64_t ns;
	} units[] = {
	    {'n', 1}, {'u', CLOCK_NS_PER_US}, {'m', CLOCK_NS_PER_MS}, {'S', CLOCK_NS_PER_S}};
	const uint64_t most = 99999999;
	uint64_t count = most;
	char letter = 'H';

	for (size_t i = 0; i < array_length(units); i++) {
		uint64_t rounded = ns / units[i].ns + (ns % units[i].ns != 0);
		if (rounded > most)
			continue;

		count = rounded;
		letter = units[i].letter;
		break;
	}

	(void)snprintf(out, size, "%u%c", (unsigned)count, letter);
}

int32_t session_headers_send_request(struct session_stream *stream, uint64_t timeout_ns,
				     const nghttp2_data_provider *data)
{
	char timeout[16];

	nghttp2_nv fields[7] = {
	    session_field(":method", "POST", NGHTTP2_NV_FLAG_NONE),
	    session_field(":scheme", "http", NGHTTP2_NV_FLAG_NONE),
	    session_field(":path", stream->method->path, NGHTTP2_NV_FLAG_NONE),
	    session_field(":authority", "localhost", NGHTTP2_NV_FLAG_NONE),
	    session_field("content-type", SESSION_TYPE, NGHTTP2_NV_FLAG_NONE),
	    session_field("te", "trailers", NGHTTP2_NV_FLAG_NONE),
	};
	size_t count = 6;

	if (timeout_ns > 0) {
		session_write_timeout(timeout_ns, timeout, sizeof(timeout));
		fields[count++] = session_field("grpc-timeout", timeout, NGHTTP2_NV_FLAG_NO_INDEX);
	}

	return nghttp2_submit_request(stream->session->h2, NULL, fields, count, data, stream);
}
